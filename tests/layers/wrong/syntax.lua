-- expect: 4: '}' expected (to close '{' at line 3) near 'forward'
local gs = require "gradsmith"
return gs.layer "syntax" { dims = { "T" }
  forward = function(p) end }
