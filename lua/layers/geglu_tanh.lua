-- geglu_tanh: the gated activation of Gemma. Reference: transformers GemmaMLP, which rounds
-- gelu(gate) to the storage type before it multiplies.
local activations = require "layers.lib.activations"

return activations.gated("geglu_tanh", "gelu_tanh", "y = gelu_tanh(gate)·up")
