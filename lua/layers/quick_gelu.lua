-- quick_gelu: GELU by a sigmoid, as in CLIP. Reference: transformers QuickGELUActivation; the
-- arithmetic stays in f32 and is rounded once.
local activations = require "layers.lib.activations"

return activations.layer("quick_gelu", "y = x·sigmoid(1.702·x)")
