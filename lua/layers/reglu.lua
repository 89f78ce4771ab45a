-- reglu: a gated activation with ReLU (Shazeer 2020).
local activations = require "layers.lib.activations"

return activations.gated("reglu", "relu", "y = max(gate, 0)·up")
