/* gemm.c: matrix products: C in tiles that depend on the shape alone, each computed by one worker
 * from panels converted to f32, so that neither the number of workers nor chance changes a bit. */
#include "base/half.h"
#include "device/emu/internal.h"

#include <stdlib.h>
#include <string.h>

enum { SHORT = 1024, LONG = 512, DEPTH = 2048 }; /* the largest tile, and how deep panels are */
/* Floats of one worker's scratch: the panels of A and B, and the tile of C. */
enum { PANEL_A = SHORT * DEPTH, PANEL_B = SHORT * DEPTH, TILE_C = SHORT * LONG };

typedef struct product {
  emu *e;
  const gs_gemm *g;
  int64_t rows, cols; /* of a tile */
  int64_t across;     /* tiles side by side */
} product;

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* A dimension of n into at least 4 tiles when they are 64 long or more, none over `most`. */
static int64_t tile_length(int64_t n, int64_t most) {
  int64_t tiles = (n + most - 1) / most;
  if (tiles < least(4, n / 64)) tiles = least(4, n / 64);
  int64_t length = (n + tiles - 1) / tiles;
  return least((length + 15) / 16 * 16, most);
}

/* op(X)[r0 + rows, c0 + cols] as f32: X itself, or a copy of its stored form in `out`. */
static const float *panel(float *out, gs_ptr x, gs_type type, int64_t ld, bool trans, int64_t r0,
                          int64_t c0, int64_t rows, int64_t cols, int *ld_out) {
  int64_t first = trans ? c0 * ld + r0 : r0 * ld + c0; /* where it begins as stored */
  int64_t h = trans ? cols : rows, w = trans ? rows : cols;
  const char *p = (const char *)(uintptr_t)x + (size_t)first * gs_type_size(type);
  if (type == GS_F32) {
    *ld_out = (int)ld;
    return (const float *)(const void *)p;
  }
  *ld_out = (int)w;
  for (int64_t r = 0; r < h; r++)
    gs_to_f32(out + r * w, p + (size_t)(r * ld) * gs_type_size(type), type, (size_t)w);
  return out;
}

static void read_c(float *tile, const gs_gemm *g, int64_t i, int64_t j, int64_t rows,
                   int64_t cols) {
  size_t size = gs_type_size(g->c_type);
  const char *c = (const char *)(uintptr_t)g->c;
  for (int64_t r = 0; r < rows; r++)
    gs_to_f32(tile + r * cols, c + (size_t)((i + r) * g->ldc + j) * size, g->c_type, (size_t)cols);
}
static void write_c(const float *tile, const gs_gemm *g, int64_t i, int64_t j, int64_t rows,
                    int64_t cols) {
  size_t size = gs_type_size(g->c_type);
  char *c = (char *)(uintptr_t)g->c;
  for (int64_t r = 0; r < rows; r++)
    gs_from_f32(c + (size_t)((i + r) * g->ldc + j) * size, g->c_type, tile + r * cols,
                (size_t)cols);
}

static void one_tile(void *data, int64_t number, int by) {
  const product *p = data;
  const gs_gemm *g = p->g;
  float *scratch = p->e->gemm_scratch[by];
  int64_t i = number / p->across * p->rows, j = number % p->across * p->cols;
  int64_t rows = least(p->rows, g->m - i), cols = least(p->cols, g->n - j);
  bool direct = g->c_type == GS_F32;
  float *c = direct ? (float *)(uintptr_t)g->c + i * g->ldc + j : scratch + PANEL_A + PANEL_B;
  int ldc = direct ? (int)g->ldc : (int)cols;
  if (!direct && g->beta != 0) read_c(c, g, i, j, rows, cols);
  int64_t d = 0;
  do {
    int64_t depth = least(DEPTH, g->k - d);
    int lda, ldb;
    const float *a = panel(scratch, g->a, g->ab_type, g->lda, g->ta, i, d, rows, depth, &lda);
    const float *b =
        panel(scratch + PANEL_A, g->b, g->ab_type, g->ldb, g->tb, d, j, depth, cols, &ldb);
    gs_blas_sgemm(p->e->blas, g->ta, g->tb, (int)rows, (int)cols, (int)depth, g->alpha, a, lda, b,
                  ldb, d == 0 ? g->beta : 1.0f, c, ldc);
    d += depth;
  } while (d < g->k);
  if (!direct) write_c(c, g, i, j, rows, cols);
}

/* ---- checks ---- */

static size_t extent(int64_t rows, int64_t cols, int64_t ld, gs_type t) {
  return rows <= 0 || cols <= 0 ? 0 : (size_t)((rows - 1) * ld + cols) * gs_type_size(t);
}

static gs_status shape(const gs_gemm *g, gs_error *err) {
  bool ok = g->m >= 0 && g->n >= 0 && g->k >= 0 && g->m <= INT32_MAX && g->n <= INT32_MAX &&
            g->lda <= INT32_MAX && g->ldb <= INT32_MAX && g->ldc <= INT32_MAX &&
            g->lda >= (g->ta ? g->m : g->k) && g->ldb >= (g->tb ? g->k : g->n) && g->ldc >= g->n;
  bool types = (g->ab_type == GS_F32 || g->ab_type == GS_BF16 || g->ab_type == GS_F16) &&
               (g->c_type == g->ab_type || g->c_type == GS_F32);
  if (!types)
    return gs_fail(err, GS_ERR_USE, "gemm: %s times %s into %s is not provided",
                   gs_type_name(g->ab_type), gs_type_name(g->ab_type), gs_type_name(g->c_type));
  if (!ok || (g->beta != 0 && g->beta != 1))
    return gs_fail(err, GS_ERR_USE,
                   "gemm: m=%lld n=%lld k=%lld lda=%lld ldb=%lld ldc=%lld beta=%g is no product",
                   (long long)g->m, (long long)g->n, (long long)g->k, (long long)g->lda,
                   (long long)g->ldb, (long long)g->ldc, (double)g->beta);
  return GS_OK;
}

static gs_status check_read(emu *e, const char *name, gs_ptr p, int64_t rows, int64_t cols,
                            int64_t ld, gs_type t, gs_error *err) {
  if (rows <= 0 || cols <= 0) return GS_OK;
  gs_status s = emu_need(e, p, extent(rows, cols, ld, t), name, err);
  if (s != GS_OK || !e->o.checked) return s;
  size_t size = gs_type_size(t), at;
  for (int64_t r = 0; r < rows; r++)
    if (gs_emu_unwritten(&e->base, p + (size_t)(r * ld) * size, (size_t)cols * size, &at))
      return gs_fail(err, GS_ERR_CHECK,
                     "%s reads an element that nothing wrote: row %lld, column %zu (as stored)",
                     name, (long long)r, at / size);
  return GS_OK;
}

static gs_status check(emu *e, const gs_gemm *g, gs_error *err) {
  gs_status s = check_read(e, "gemm: A", g->a, g->ta ? g->k : g->m, g->ta ? g->m : g->k, g->lda,
                           g->ab_type, err);
  if (s == GS_OK)
    s = check_read(e, "gemm: B", g->b, g->tb ? g->n : g->k, g->tb ? g->k : g->n, g->ldb, g->ab_type,
                   err);
  if (s == GS_OK && g->beta != 0)
    s = check_read(e, "gemm: C", g->c, g->m, g->n, g->ldc, g->c_type, err);
  if (s == GS_OK) s = emu_need(e, g->c, extent(g->m, g->n, g->ldc, g->c_type), "gemm: C", err);
  return s;
}

static gs_status scratch_ready(emu *e, gs_error *err) {
  for (int i = 0; i < e->nworkers; i++) {
    if (e->gemm_scratch[i] != NULL) continue;
    e->gemm_scratch[i] = malloc(sizeof(float) * ((size_t)PANEL_A + PANEL_B + TILE_C));
    if (e->gemm_scratch[i] == NULL)
      return gs_fail(err, GS_ERR_MEMORY, "no memory for gemm's panels");
  }
  return GS_OK;
}

gs_status emu_gemm(gs_device *d, const gs_gemm *g, gs_error *err) {
  emu *e = (emu *)d;
  gs_status s = shape(g, err);
  if (s != GS_OK || g->m == 0 || g->n == 0) return s;
  if (e->capturing != NULL) {
    record r = {.kind = R_GEMM, .gemm = *g};
    return emu_record(e, &r, err);
  }
  s = check(e, g, err);
  if (s == GS_OK) s = scratch_ready(e, err);
  if (s != GS_OK) return s;
  bool wide = g->n >= g->m;
  product p = {.e = e, .g = g};
  p.rows = wide ? least(g->m, SHORT) : tile_length(g->m, LONG);
  p.cols = wide ? tile_length(g->n, LONG) : least(g->n, SHORT);
  p.across = (g->n + p.cols - 1) / p.cols;
  int64_t down = (g->m + p.rows - 1) / p.rows;
  job j = {.task = one_tile, .data = &p, .count = p.across * down, .chunk = 1};
  emu_run(e, &j, (double)g->m * (double)g->n * (double)g->k < 5e5);
  for (int64_t r = 0; e->o.checked && r < g->m; r++) {
    size_t size = gs_type_size(g->c_type);
    emu_mark(e, g->c + (size_t)(r * g->ldc) * size, (size_t)g->n * size);
  }
  return GS_OK;
}
