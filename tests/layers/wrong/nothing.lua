-- expect: 1: the file does not return a layer
local gs = require "gradsmith"
