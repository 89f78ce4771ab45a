-- expect: 3: the file needs more than the 256 MB of memory that it may have
local n = 0
for i = 1, 1000000000 do n = n + #string.rep("x", 100000000) end
return n
