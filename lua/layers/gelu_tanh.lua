-- gelu_tanh: GELU by its tanh approximation. Reference: torch.nn.functional.gelu with
-- approximate = "tanh", which transformers calls gelu_pytorch_tanh and gelu_new.
local activations = require "layers.lib.activations"

return activations.layer("gelu_tanh", "y = x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))/2")
