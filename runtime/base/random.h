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

#endif
