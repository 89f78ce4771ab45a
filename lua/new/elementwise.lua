-- NAME: say here in a line or two what the layer does, and which reference implementation it
-- follows where rounding or a convention could differ.
local gs = require "gradsmith"

return gs.layer "NAME" {
  doc  = "y = tanh(w·x)",
  -- Names of dims, in storage order: the last is contiguous, the first may have any size at launch.
  dims = { "T", "H" },
  x    = gs.input { "T", "H" },  -- a tensor in the layer's storage type: f32, bf16 or f16
  w    = gs.weight { "H" },      -- a parameter; its gradient is f32

  -- p has the parameters by name. Arithmetic broadcasts by the names of dims, in f32.
  forward = function(p)
    return { y = gs.tanh(p.w * p.x) }
  end,

  -- d has the gradients that come in, s what forward returned. A gradient has the dims of its
  -- input: what was broadcast is summed. tanh is computed again, which is cheaper than reading s.y.
  -- `backward = gs.derived` leaves all this to the compiler, and `gradsmith derive ./NAME.lua`
  -- writes it out.
  backward = function(p, d)
    local y = gs.tanh(p.w * p.x)
    local g = d.y * (1 - y^2)
    return { x = g * p.w, w = gs.sum(g * p.x, "T") }
  end,
}
