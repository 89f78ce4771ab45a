-- expect: 2: unknown name 'io'
local f = io.open("/etc/hostname")
return f
