-- geglu: a gated activation with the exact GELU. Reference: GLU of transformers with "gelu".
local activations = require "layers.lib.activations"

return activations.gated("geglu", "gelu", "y = gelu(gate)·up")
