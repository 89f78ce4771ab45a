-- expect: 2: there is no layer 'rmsnrm'
return require "layers.rmsnrm"
