-- gelu: x·Φ(x), Φ the normal distribution, exact. Reference: torch.nn.functional.gelu.
local activations = require "layers.lib.activations"

return activations.layer("gelu", "y = x·(1 + erf(x/√2))/2")
