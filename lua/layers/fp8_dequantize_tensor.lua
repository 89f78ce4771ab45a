-- fp8_dequantize_tensor: numbers from FP8 codes (e4m3) with one scale.
-- The product is formed in f32 and rounded once; fp8_quantize is the inverse.
return require("layers.lib.scales").dequantizer("fp8_dequantize_tensor", 0, "e4m3")
