-- relu: Reference: torch.nn.functional.relu; the slope at 0 is 0.
local activations = require "layers.lib.activations"

return activations.layer("relu", "y = max(x, 0)")
