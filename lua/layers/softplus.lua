-- softplus: Reference: torch.nn.functional.softplus, whose shortcut y = x beyond 20 is what f32
-- gives by itself.
local activations = require "layers.lib.activations"

return activations.layer("softplus", "y = log(1 + exp(x))")
