-- sigmoid: Reference: torch.sigmoid.
local activations = require "layers.lib.activations"

return activations.layer("sigmoid", "y = 1/(1 + exp(-x))")
