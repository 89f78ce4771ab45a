-- fp8_dequantize_block: numbers from FP8 codes (e4m3) with a scale for each 1x128 block of a row.
-- The product is formed in f32 and rounded once; fp8_quantize is the inverse.
return require("layers.lib.scales").dequantizer("fp8_dequantize_block", 2, "e4m3")
