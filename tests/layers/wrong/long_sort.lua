-- expect: 4: table.sort: at most 100000 elements
local t = {}
for i = 1, 200000 do t[i] = i * 7919 % 1000003 end
table.sort(t)
return t
