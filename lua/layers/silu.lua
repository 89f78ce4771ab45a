-- silu: x·sigmoid(x), also called swish. Reference: torch.nn.functional.silu.
local activations = require "layers.lib.activations"

return activations.layer("silu", "y = x·sigmoid(x)")
