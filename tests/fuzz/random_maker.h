/* random_maker.h: what random_layer.c (inputs, outputs, the text) and random_ops.c (one operation
 * at a time) share: a pool of values, each of which knows its dims, kind and inputs. */
#ifndef RANDOM_MAKER_H
#define RANDOM_MAKER_H

#include <stdbool.h>
#include <stdint.h>

enum { MAX_VALUES = 96, NDIMS = 13 };
enum { /* sets of dims */
       T = 1,
       H = 2,
       E = 4,
       G = 8,
       K = 16,
       HALF = 32,
       F = 64,
       J = 128,
       S = 256,
       N = 512,
       B = 1024,
       P = 2048,
       K2 = 4096,
       OUTER = T | S | N | B | P
};
enum { ROWS = 1, ODD = 2, BLOCKS = 4 }; /* families */
typedef enum kind { REAL, INT, BOOL } kind;

typedef struct node {
  char name[32], text[1000]; /* Lua: its line */
  unsigned dims, inputs;
  kind kind;
  bool smooth;     /* has a gradient that differences can show */
  bool flows;      /* an input with a gradient lies below */
  bool small;      /* an integer from 0 to 15 */
  const char *key; /* of an input that is an index: along which dim */
  int from[3];     /* the values that it is made of, or -1 */
} node;

typedef struct maker {
  uint64_t s;
  node v[MAX_VALUES];
  int n, first; /* values from `first` on are made, not inputs */
  unsigned family;
  unsigned twos; /* dims whose size must be 2 at least */
} maker;

int below(maker *m, int n);
bool fits(unsigned dims); /* values of these dims are made */
const char *dim_name(unsigned dim);
void list_dims(unsigned dims, char *out, unsigned cap); /* {"T", "H"} without the braces */
/* Up to `size` operations, each on values of the pool. */
void grow(maker *m, int size);

#endif
