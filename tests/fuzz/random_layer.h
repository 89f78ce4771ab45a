/* random_layer.h: a random layer as Lua text: a small set of inputs, and a graph of operations
 * grown on them within what the language allows. One seed gives one layer.
 *
 * Three families of dims: rows (T outer; H = 4*g is split, halved, paired), odd (H of any size, 1
 * and thousands too), blocks (N outer in blocks of 32, packed codes). */
#ifndef RANDOM_LAYER_H
#define RANDOM_LAYER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct random_layer {
  char text[24000];
  char dims[96];     /* "T=5,g=3,..." */
  bool has_gradient; /* a backward that central differences can confirm */
} random_layer;

/* size: how many operations to try. */
void random_layer_write(random_layer *out, uint64_t seed, int size);

#endif
