-- expect: 2: unknown name 'load' || 3: unknown name 'dofile' || 4: unknown name 'debug'
local f = load "return 1"
local g = dofile "x.lua"
local h = debug.getregistry()
return f
