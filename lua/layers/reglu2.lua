-- reglu2: a gated activation with ReLU squared, rounded before it multiplies.
local activations = require "layers.lib.activations"

return activations.gated("reglu2", "relu2", "y = max(gate, 0)²·up")
