/* uses: gs_device */
/* test_blas.c: matrix products of the emulator against float64, for all transposes, types, strides
 * and odd sizes, with the library and with the built-in loop; equal bits for any number of workers.
 */
#include "base/half.h"
#include "device/device.h"
#include "device/emu/blas.h"
#include "device/emu/emu.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct matrix {
  int64_t rows, cols, ld; /* as stored */
  gs_type type;
  void *host;
  size_t bytes;
  gs_ptr ptr;
} matrix;

/* Random elements; what lies between rows is NaN. */
static matrix make(gs_device *d, int64_t rows, int64_t cols, int64_t pad, gs_type type) {
  matrix m = {.rows = rows, .cols = cols, .ld = cols + pad, .type = type};
  size_t n = (size_t)(m.rows * m.ld);
  m.bytes = n * gs_type_size(type);
  m.host = malloc(m.bytes + 1);
  memset(m.host, 0xff, m.bytes);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols; c++)
      gs_store_f64(m.host, type, (size_t)(r * m.ld + c), rand() / (double)RAND_MAX * 2 - 1);
  gs_error err = {0};
  cr_assert_eq(gs_device_alloc(d, m.bytes, &m.ptr, &err), GS_OK, "%s", err.message);
  cr_assert_eq(gs_device_upload(d, m.ptr, m.host, m.bytes, &err), GS_OK);
  return m;
}
static void drop(gs_device *d, matrix *m) {
  gs_device_free(d, m->ptr);
  free(m->host);
}
static double at(const matrix *m, bool trans, int64_t r, int64_t c) {
  return gs_load_f64(m->host, m->type, (size_t)(trans ? c * m->ld + r : r * m->ld + c));
}

static double unit_of(gs_type t) {
  return t == GS_F32 ? 0x1p-24 : t == GS_F16 ? 0x1p-11 : 0x1p-8;
}

static void compare(const gs_gemm *g, const matrix *a, const matrix *b, const matrix *c,
                    const void *got) {
  for (int64_t i = 0; i < g->m; i++)
    for (int64_t j = 0; j < g->n; j++) {
      double sum = 0, size = 0;
      for (int64_t k = 0; k < g->k; k++) {
        double p = at(a, g->ta, i, k) * at(b, g->tb, k, j);
        sum += p;
        size += fabs(p);
      }
      double old = g->beta != 0 ? at(c, false, i, j) : 0;
      double want = g->alpha * sum + old;
      double bound = (size * fabs(g->alpha) + fabs(old)) * 0x1p-24 * (double)(g->k + 3) +
                     fabs(want) * unit_of(g->c_type) * 1.01 + 1e-7 * unit_of(g->c_type) +
                     (g->c_type == GS_F16 ? 0x1p-25 : 0); /* half a step of its subnormals */
      double v = gs_load_f64(got, g->c_type, (size_t)(i * g->ldc + j));
      cr_assert(fabs(v - want) <= bound, "m%d n%d k%d ta%d tb%d %s %s [%d,%d]: %g not %g",
                (int)g->m, (int)g->n, (int)g->k, g->ta, g->tb, gs_type_name(g->ab_type),
                gs_type_name(g->c_type), (int)i, (int)j, v, want);
    }
  size_t size = gs_type_size(g->c_type);
  for (int64_t i = 0; i < g->m; i++) /* between the rows nothing changed */
    for (int64_t j = g->n * (int64_t)size; j < g->ldc * (int64_t)size; j++)
      cr_assert_eq(((const unsigned char *)got)[i * g->ldc * (int64_t)size + j], 0xff);
}

static void try_one(gs_device *d, int64_t m, int64_t n, int64_t k, int flags, gs_type ab,
                    gs_type ct) {
  bool ta = flags & 1, tb = flags & 2, add = flags & 4;
  matrix a = make(d, ta ? k : m, ta ? m : k, rand() % 5, ab);
  matrix b = make(d, tb ? n : k, tb ? k : n, rand() % 5, ab);
  matrix c = make(d, m, n, rand() % 5, ct);
  if (!add) cr_assert_eq(gs_emu_poison(d, c.ptr, c.bytes, NULL), GS_OK);
  gs_gemm g = {.m = m,
               .n = n,
               .k = k,
               .ta = ta,
               .tb = tb,
               .a = a.ptr,
               .b = b.ptr,
               .c = c.ptr,
               .lda = a.ld,
               .ldb = b.ld,
               .ldc = c.ld,
               .ab_type = ab,
               .c_type = ct,
               .alpha = flags & 8 ? -0.5f : 1,
               .beta = add ? 1 : 0};
  void *got = malloc(c.bytes + 1);
  gs_error err = {0};
  cr_assert_eq(gs_device_gemm(d, &g, &err), GS_OK, "%s", err.message);
  cr_assert_eq(gs_device_download(d, got, c.ptr, c.bytes, &err), GS_OK);
  compare(&g, &a, &b, &c, got);
  free(got);
  drop(d, &a);
  drop(d, &b);
  drop(d, &c);
}

static gs_device *open_emu(bool checked, int threads) {
  gs_device_options o = {.checked = checked, .threads = threads};
  gs_device *d = NULL;
  gs_error err = {0};
  cr_assert_eq(gs_device_open("emu", &o, &d, &err), GS_OK, "%s", err.message);
  return d;
}

Test(blas, all_kinds) {
  static const gs_type types[][2] = {
      {GS_F32, GS_F32}, {GS_BF16, GS_BF16}, {GS_BF16, GS_F32}, {GS_F16, GS_F16}, {GS_F16, GS_F32}};
  static const int sizes[][3] = {{1, 1, 1},     {3, 5, 7},   {65, 33, 130}, {17, 300, 64},
                                 {300, 16, 31}, {1, 257, 9}, {4, 4, 0}};
  srand((unsigned)time(NULL));
  for (int checked = 0; checked < 2; checked++) {
    gs_device *d = open_emu(checked, 2);
    for (size_t t = 0; t < 5; t++)
      for (size_t s = 0; s < 7; s++)
        for (int flags = 0; flags < 16; flags++)
          try_one(d, sizes[s][0], sizes[s][1], sizes[s][2], flags, types[t][0], types[t][1]);
    gs_device_close(d);
  }
}

Test(blas, beyond_one_tile) {
  gs_device *d = open_emu(false, 2);
  try_one(d, 1100, 70, 40, 0, GS_BF16, GS_BF16);
  try_one(d, 30, 1100, 20, 7, GS_BF16, GS_F32);
  try_one(d, 1030, 1031, 3, 5, GS_F16, GS_F16);
  for (int flags = 0; flags < 8; flags++) try_one(d, 5, 9, 4100, flags, GS_BF16, GS_BF16);
  gs_device_close(d);
}

Test(blas, same_bits_for_any_workers) {
  enum { M = 130, N = 600, K = 300 };
  static float first[M * N], again[M * N];
  for (int threads = 1; threads <= 3; threads++) {
    srand(7);
    gs_device *d = open_emu(false, threads);
    matrix a = make(d, M, K, 0, GS_BF16), b = make(d, N, K, 0, GS_BF16),
           c = make(d, M, N, 0, GS_F32);
    gs_gemm g = {.m = M,
                 .n = N,
                 .k = K,
                 .tb = true,
                 .a = a.ptr,
                 .b = b.ptr,
                 .c = c.ptr,
                 .lda = K,
                 .ldb = K,
                 .ldc = N,
                 .ab_type = GS_BF16,
                 .c_type = GS_F32,
                 .alpha = 1};
    for (int i = 0; i < 3; i++) {
      cr_assert_eq(gs_device_gemm(d, &g, NULL), GS_OK);
      gs_device_download(d, again, c.ptr, sizeof again, NULL);
      if (threads == 1 && i == 0) memcpy(first, again, sizeof first);
      cr_assert_eq(memcmp(first, again, sizeof first), 0, "%d workers", threads);
    }
    drop(d, &a);
    drop(d, &b);
    drop(d, &c);
    gs_device_close(d);
  }
}

/* The loop that serves where no library is found. */
Test(blas, built_in_loop) {
  enum { M = 70, N = 67, K = 300 };
  static float A[M * K], B[K * N], C[M * N];
  gs_blas *b = gs_blas_open(false);
  cr_assert(b && !gs_blas_about(b)->present);
  for (int i = 0; i < M * K; i++) A[i] = (float)rand() / (float)RAND_MAX - 0.5f;
  for (int i = 0; i < K * N; i++) B[i] = (float)rand() / (float)RAND_MAX - 0.5f;
  for (int flags = 0; flags < 8; flags++) {
    bool ta = flags & 1, tb = flags & 2;
    for (int i = 0; i < M * N; i++) C[i] = flags & 4 ? 1 : NAN;
    gs_blas_sgemm(b, ta, tb, M, N, K, 2, A, ta ? M : K, B, tb ? K : N, flags & 4 ? 1 : 0, C, N);
    for (int i = 0; i < M; i++)
      for (int j = 0; j < N; j++) {
        double sum = 0;
        for (int k = 0; k < K; k++)
          sum += (double)(ta ? A[k * M + i] : A[i * K + k]) * (tb ? B[j * K + k] : B[k * N + j]);
        cr_assert_float_eq(C[i * N + j], 2 * sum + (flags & 4 ? 1 : 0), 1e-4);
      }
  }
  gs_blas_close(b);
}

Test(blas, refusals) {
  gs_device *d = open_emu(true, 1);
  matrix a = make(d, 4, 4, 0, GS_F32), c = make(d, 4, 4, 0, GS_F32);
  gs_gemm g = {.m = 4,
               .n = 4,
               .k = 4,
               .a = a.ptr,
               .b = a.ptr,
               .c = c.ptr,
               .lda = 4,
               .ldb = 4,
               .ldc = 4,
               .ab_type = GS_F32,
               .c_type = GS_F32,
               .alpha = 1};
  gs_error err = {0};
  cr_assert_eq(gs_device_gemm(d, &g, &err), GS_OK);
  g.lda = 3;
  cr_assert_eq(gs_device_gemm(d, &g, &err), GS_ERR_USE);
  g.lda = 5;
  cr_assert_eq(gs_device_gemm(d, &g, &err), GS_ERR_CHECK);
  g.lda = 4, g.c_type = GS_BF16;
  cr_assert_eq(gs_device_gemm(d, &g, &err), GS_ERR_USE);
  g.c_type = GS_F32, g.beta = 1;
  gs_emu_poison(d, c.ptr + 20, 4, NULL);
  cr_assert_eq(gs_device_gemm(d, &g, &err), GS_ERR_CHECK);
  cr_assert(strstr(err.message, "row 1, column 1"), "%s", err.message);
  drop(d, &a);
  drop(d, &c);
  gs_device_close(d);
}

Test(blas, says_what_it_found) {
  gs_blas *b = gs_blas_open(true);
  const gs_blas_info *i = gs_blas_about(b);
  fprintf(stderr, "blas: %s (%s) core %s%s\n", i->present ? i->name : "none", i->path, i->core,
          i->core_set ? ", chosen by us" : "");
  cr_assert(!i->present || i->name[0] != '\0');
  gs_blas_close(b);
}
