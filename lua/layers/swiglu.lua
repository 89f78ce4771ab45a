-- swiglu: the gated activation of Llama's MLP. Reference: transformers LlamaMLP, which rounds
-- silu(gate) to the storage type before it multiplies.
local activations = require "layers.lib.activations"

return activations.gated("swiglu", "silu", "y = silu(gate)·up, silu(x) = x·sigmoid(x)")
