-- expect: 2: unknown name 'getmetatable' || 3: unknown name 'pcall' || 4: unknown name 'coroutine'
local m = getmetatable("")
local ok = pcall(error)
local c = coroutine.create(print)
return c
