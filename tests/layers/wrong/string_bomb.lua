-- expect: 3: the file needs more than the 256 MB of memory that it may have
local s = "gradsmith"
for i = 1, 100 do s = s .. s end
return s
