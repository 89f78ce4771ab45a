-- relu2: ReLU squared. Reference: transformers ReLUSquaredActivation.
local activations = require "layers.lib.activations"

return activations.layer("relu2", "y = max(x, 0)²")
