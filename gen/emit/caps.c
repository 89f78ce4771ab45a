/* caps.c: the capability table: what a schedule may know of a machine. One row an architecture. */
#include "emit/compile.h"

#include <string.h>

/* Blocks of persistent kernels are fixed per architecture, so that the text and the order of sums
 * do not depend on the board; the numbers are those of the common full parts. */
static const gs_caps table[] = {
    {.arch = "sm_80",
     .sm_count = 108,
     .shared_per_block = 163 * 1024,
     .max_threads = 1024,
     .row_threads = 256,
     .vector_bytes = 16},
    {.arch = "sm_86",
     .sm_count = 82,
     .shared_per_block = 99 * 1024,
     .max_threads = 1024,
     .row_threads = 256,
     .vector_bytes = 16},
    {.arch = "sm_89",
     .sm_count = 128,
     .shared_per_block = 99 * 1024,
     .max_threads = 1024,
     .row_threads = 256,
     .vector_bytes = 16},
    {.arch = "sm_90a",
     .sm_count = 132,
     .shared_per_block = 227 * 1024,
     .max_threads = 1024,
     .row_threads = 256,
     .vector_bytes = 16,
     .max_cluster = 8,
     .row_registers = 32},
    {.arch = "sm_100a",
     .sm_count = 148,
     .shared_per_block = 227 * 1024,
     .max_threads = 1024,
     .row_threads = 256,
     .vector_bytes = 16,
     .max_cluster = 8,
     .row_registers = 64},
    {.arch = "sm_120a",
     .sm_count = 170,
     .shared_per_block = 99 * 1024,
     .max_threads = 1024,
     .row_threads = 256,
     .vector_bytes = 16},
    /* One thread a row: no barriers, so a kernel is a plain loop that the host compiler vectorises.
     */
    {.arch = "emu",
     .sm_count = 8,
     .shared_per_block = 227 * 1024,
     .max_threads = 1024,
     .row_threads = 1,
     .vector_bytes = 16,
     .is_emulator = true},
};

const gs_caps *gs_caps_find(const char *arch) {
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    const char *have = table[i].arch;
    size_t n = strlen(have);
    if (strcmp(arch, have) == 0) return &table[i];
    if (have[n - 1] == 'a' && strlen(arch) == n - 1 && memcmp(arch, have, n - 1) == 0)
      return &table[i];
  }
  return NULL;
}

int64_t gs_count_value(const gs_count *c, const int64_t *sizes) {
  int64_t n = c->coef;
  for (int d = 0; d < GS_MAX_DIMS; d++)
    if (c->dims >> d & 1)
      n *= c->each > 1 ? sizes[d] / c->each + (sizes[d] % c->each > 0) : sizes[d];
  int64_t div = c->div > 0 ? c->div : 1;
  n = n / div + (n % div > 0);
  int64_t plus = c->plus;
  for (int d = 0; d < GS_MAX_DIMS; d++)
    if (c->plus_dims >> d & 1) plus *= sizes[d];
  n += plus;
  return c->cap > 0 && n > c->cap ? c->cap : n;
}
