-- derived: gradients of a layer whose backward is gs.derived: the compiler's adjoint of its
-- forward, simplified; it reads outputs where that is cheaper, and nothing else is saved.
local core = ...

-- p, d, s as backward gets them. Forward is called again on p: equal expressions are one.
return function(layer, p, d, s)
  local out, inputs = layer.forward(p), {}
  if type(out) ~= "table" then return {} end
  for _, param in ipairs(layer.params) do
    if param.grad then inputs[param.name] = p[param.name] end
  end
  return core.derive(out, d, s, inputs, layer.places.backward)
end
