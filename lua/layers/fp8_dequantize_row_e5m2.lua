-- fp8_dequantize_row_e5m2: numbers from FP8 codes (e5m2) with a scale for each row.
-- The product is formed in f32 and rounded once; fp8_quantize is the inverse.
return require("layers.lib.scales").dequantizer("fp8_dequantize_row_e5m2", 1, "e5m2")
