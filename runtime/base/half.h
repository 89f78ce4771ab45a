/* half.h: bf16 and f16 to and from f32 and f64, round to nearest even. */
#ifndef GS_HALF_H
#define GS_HALF_H

#include "gradsmith.h"

float gs_bf16_to_f32(uint16_t h);
uint16_t gs_f32_to_bf16(float f);
float gs_f16_to_f32(uint16_t h);
uint16_t gs_f32_to_f16(float f);

/* Element i of an array of storage type t as double, and back (rounded to nearest even). */
double gs_load_f64(const void *p, gs_type t, size_t i);
void gs_store_f64(void *p, gs_type t, size_t i, double v);
/* n elements to f32, whatever the float storage type. */
void gs_to_f32(float *out, const void *p, gs_type t, size_t n);
void gs_from_f32(void *out, gs_type t, const float *p, size_t n);

#endif
