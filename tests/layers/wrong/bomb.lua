-- expect: 4: the file needs more than the 256 MB of memory that it may have
local t = {}
for i = 1, 1000000000 do
  t[i] = { i, i, i, i }
end
return t
