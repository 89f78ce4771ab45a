/* half.h: bf16, f16 and FP8 to and from f32 and f64, round to nearest even; FP8 saturates. E8M0
 * rounds up, and saturates at both ends. */
#ifndef GS_HALF_H
#define GS_HALF_H

#include "gradsmith.h"

float gs_bf16_to_f32(uint16_t h);
uint16_t gs_f32_to_bf16(float f);
float gs_f16_to_f32(uint16_t h);
uint16_t gs_f32_to_f16(float f);
float gs_e4m3_to_f32(uint8_t b);
uint8_t gs_f32_to_e4m3(float f);
float gs_e5m2_to_f32(uint8_t b);
uint8_t gs_f32_to_e5m2(float f);
float gs_e8m0_to_f32(uint8_t b);
uint8_t gs_f32_to_e8m0(float f);

/* Element i of an array of storage type t as double, and back, rounded as above. Integers: toward
 * zero, saturating, 0 for NaN. */
double gs_load_f64(const void *p, gs_type t, size_t i);
void gs_store_f64(void *p, gs_type t, size_t i, double v);
/* n elements to f32, whatever the float storage type. */
void gs_to_f32(float *out, const void *p, gs_type t, size_t n);
void gs_from_f32(void *out, gs_type t, const float *p, size_t n);

#endif
