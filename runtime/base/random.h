/* random.h: splitmix64 (Steele, Lea, Flood 2014), for shuffles, starting values and checks: the
 * same numbers from the same state on every machine. */
#ifndef GS_RANDOM_H
#define GS_RANDOM_H

#include <stdint.h>

#define GS_RANDOM_STEP 0x9e3779b97f4a7c15u

/* A bijection that mixes all bits. */
static inline uint64_t gs_random_mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static inline uint64_t gs_random_next(uint64_t *state) {
  return gs_random_mix(*state += GS_RANDOM_STEP);
}

/* ---- random numbers by place: what gs.rand gives on every machine, whatever the schedule ---- */

/* Two bijections of 32 bits: the shift and multiply constants of triple32 and lowbias32 (Wellons,
 * public domain), found by search for the least bias. */
static inline uint32_t gs_mix3(uint32_t x) {
  x = (x ^ x >> 17) * 0xed5ad4bbu;
  x = (x ^ x >> 11) * 0xac4c1b51u;
  x = (x ^ x >> 15) * 0x31848babu;
  return x ^ x >> 14;
}

static inline uint32_t gs_mix2(uint32_t x) {
  x = (x ^ x >> 16) * 0x21f0aaadu;
  x = (x ^ x >> 15) * 0xd35a2d97u;
  return x ^ x >> 15;
}

/* In [0, 1), a multiple of 2^-24. What depends on site and seed alone is the same for every index.
 * The preludes of templates/ have the same function. */
static inline float gs_random_at(int64_t index, int64_t site, int64_t seed) {
  uint32_t k0 = gs_mix3((uint32_t)seed ^ 0x9e3779b9u), k1 = gs_mix3((uint32_t)site + k0);
  uint32_t low = (uint32_t)(uint64_t)index, high = (uint32_t)((uint64_t)index >> 32);
  uint32_t bits = gs_mix2(gs_mix3(low + k0) ^ (high * 0x9e3779b9u + k1));
  return (float)(bits >> 8) * 0x1p-24f;
}

#endif
