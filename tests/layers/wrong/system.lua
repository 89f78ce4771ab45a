-- expect: 2: unknown name 'os'
os.execute "true"
return 1
