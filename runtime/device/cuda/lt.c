/* lt.c: row-major products on cuBLASLt, which is column-major.
 *
 * A row-major matrix [r, c] with ld elements a row is, to cuBLASLt, the column-major matrix [c, r]
 * with the same ld: its transpose. C^T = op(B)^T op(A)^T, so B is the first operand, A the second,
 * and a flag ta or tb means OP_T there just as it does here. */
#include "device/cuda/lt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Alignment is part of a plan, in steps up to 16 bytes: tensors of one arena all have 16, so that
 * the same product at another place in it takes the same algorithm. */
typedef struct plan_key {
  int64_t m, n, k, lda, ldb, ldc;
  int ta, tb, ab_type, c_type;
  uint32_t align_a, align_b, align_c, unused;
} plan_key;

typedef struct plan {
  plan_key key;
  gs_lt_desc desc;
  gs_lt_layout first, second, result;
  gs_lt_found found;
} plan;

struct gs_lt {
  gs_library lib;
  gs_lt_api api;
  gs_lt_handle handle;
  gs_cu_ptr workspace;
  plan *plans;
  size_t nplans, cap;
};

gs_status gs_lt_find(int max_major, gs_library *lib, gs_lt_api *api, gs_error *err) {
  static const int any[] = {13, 12, 0};
  gs_library_wanted w = {"cuBLASLt", "libcublasLt.so",
                         "Install the CUDA toolkit, or: python3 -m pip install nvidia-cublas", any};
  if (max_major == 12) {
    w.versions = any + 1;
    w.remedy = "Install a CUDA 12 toolkit, or: python3 -m pip install nvidia-cublas-cu12";
  }
  gs_status st = gs_library_open(&w, lib, err);
  if (st != GS_OK) return st;
#define GS_LOAD(field, symbol, result, params)                                                     \
  if (!gs_library_symbol(lib, symbol, &api->field))                                                \
    return gs_fail(err, GS_ERR_DEVICE, "%s has no function %s", lib->path, symbol);
  GS_LT_FUNCTIONS(GS_LOAD)
#undef GS_LOAD
  return GS_OK;
}

void gs_lt_version_text(size_t version, char *out, size_t cap) {
  snprintf(out, cap, "%zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
}

gs_status gs_lt_open(int max_major, gs_cu_ptr workspace, gs_lt **out, gs_error *err) {
  *out = NULL;
  gs_lt *lt = calloc(1, sizeof *lt);
  if (!lt) return gs_fail(err, GS_ERR_MEMORY, "no memory to open cuBLASLt");
  lt->workspace = workspace;
  gs_status st = gs_lt_find(max_major, &lt->lib, &lt->api, err);
  if (st == GS_OK) {
    int r = lt->api.create(&lt->handle);
    if (r != GS_LT_OK)
      st = gs_fail(err, GS_ERR_DEVICE, "cuBLASLt (%s) does not start: %s", lt->lib.path,
                   lt->api.status_string(r));
  }
  if (st == GS_OK)
    *out = lt;
  else
    gs_lt_close(lt);
  return st;
}

static void drop_plan(const gs_lt *lt, plan *p) {
  if (p->desc) lt->api.desc_destroy(p->desc);
  if (p->first) lt->api.layout_destroy(p->first);
  if (p->second) lt->api.layout_destroy(p->second);
  if (p->result) lt->api.layout_destroy(p->result);
}

void gs_lt_close(gs_lt *lt) {
  if (!lt) return;
  for (size_t i = 0; i < lt->nplans; i++) drop_plan(lt, &lt->plans[i]);
  if (lt->handle) lt->api.destroy(lt->handle);
  free(lt->plans);
  free(lt);
}

static int lt_type(gs_type t) {
  return t == GS_F32 ? GS_LT_F32 : t == GS_F16 ? GS_LT_F16 : GS_LT_BF16;
}

static uint32_t alignment(gs_ptr p) {
  for (uint32_t a = 16; a > 1; a /= 2)
    if (p % a == 0) return a;
  return 1;
}

static plan_key key_of(const gs_gemm *g) {
  plan_key k;
  memset(&k, 0, sizeof k); /* keys are compared byte by byte */
  k.m = g->m, k.n = g->n, k.k = g->k;
  k.lda = g->lda, k.ldb = g->ldb, k.ldc = g->ldc;
  k.ta = g->ta, k.tb = g->tb;
  k.ab_type = (int)g->ab_type, k.c_type = (int)g->c_type;
  k.align_a = alignment(g->a), k.align_b = alignment(g->b), k.align_c = alignment(g->c);
  return k;
}

/* A row-major matrix as it is stored: [r, c], or [c, r] when stored transposed. */
static int make_layout(const gs_lt *lt, gs_lt_layout *out, gs_type t, int64_t r, int64_t c,
                       bool transposed, int64_t ld) {
  int64_t rows = transposed ? r : c, cols = transposed ? c : r; /* of the column-major view */
  return lt->api.layout_create(out, lt_type(t), (uint64_t)rows, (uint64_t)cols, ld);
}

static int describe(const gs_lt *lt, const gs_gemm *g, plan *p) {
  int32_t first = g->tb ? GS_LT_OP_T : GS_LT_OP_N, second = g->ta ? GS_LT_OP_T : GS_LT_OP_N;
  int r = lt->api.desc_create(&p->desc, GS_LT_COMPUTE_F32, GS_LT_F32);
  if (r == GS_LT_OK) r = lt->api.desc_set(p->desc, GS_LT_DESC_OP_A, &first, sizeof first);
  if (r == GS_LT_OK) r = lt->api.desc_set(p->desc, GS_LT_DESC_OP_B, &second, sizeof second);
  if (r == GS_LT_OK) r = make_layout(lt, &p->first, g->ab_type, g->k, g->n, g->tb, g->ldb);
  if (r == GS_LT_OK) r = make_layout(lt, &p->second, g->ab_type, g->m, g->k, g->ta, g->lda);
  if (r == GS_LT_OK) r = make_layout(lt, &p->result, g->c_type, g->m, g->n, false, g->ldc);
  return r;
}

static int choose(const gs_lt *lt, plan *p) {
  const uint32_t reductions = GS_LT_REDUCE_IN_F32;
  const uint64_t workspace = GS_LT_WORKSPACE;
  const struct {
    int attribute;
    const void *value;
    size_t size;
  } wanted[] = {
      {GS_LT_PREF_WORKSPACE, &workspace, sizeof workspace},
      {GS_LT_PREF_REDUCTIONS, &reductions, sizeof reductions},
      {GS_LT_PREF_ALIGN_A, &p->key.align_b, sizeof p->key.align_b}, /* B is the first operand */
      {GS_LT_PREF_ALIGN_B, &p->key.align_a, sizeof p->key.align_a},
      {GS_LT_PREF_ALIGN_C, &p->key.align_c, sizeof p->key.align_c},
      {GS_LT_PREF_ALIGN_D, &p->key.align_c, sizeof p->key.align_c},
  };
  gs_lt_pref pref = NULL;
  int nfound = 0, r = lt->api.pref_create(&pref);
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted && r == GS_LT_OK; i++)
    r = lt->api.pref_set(pref, wanted[i].attribute, wanted[i].value, wanted[i].size);
  if (r == GS_LT_OK)
    r = lt->api.heuristic(lt->handle, p->desc, p->first, p->second, p->result, p->result, pref, 1,
                          &p->found, &nfound);
  if (pref) lt->api.pref_destroy(pref);
  if (r == GS_LT_OK && nfound < 1) return 15; /* cuBLAS's own "not supported" */
  return r == GS_LT_OK ? p->found.state : r;
}

static gs_status fail_gemm(const gs_lt *lt, const gs_gemm *g, const char *doing, int r,
                           gs_error *err) {
  return gs_fail(
      err, GS_ERR_DEVICE,
      "cuBLASLt, %s the product %s%s[%lld,%lld] x %s[%lld,%lld] -> %s (ld %lld, %lld, %lld): "
      "%s",
      doing, gs_type_name(g->ab_type), g->ta ? "^T" : "", (long long)g->m, (long long)g->k,
      g->tb ? "^T" : "", (long long)g->k, (long long)g->n, gs_type_name(g->c_type),
      (long long)g->lda, (long long)g->ldb, (long long)g->ldc, lt->api.status_string(r));
}

static gs_status find_plan(gs_lt *lt, const gs_gemm *g, plan **out, gs_error *err) {
  plan_key key = key_of(g);
  for (size_t i = 0; i < lt->nplans; i++)
    if (memcmp(&lt->plans[i].key, &key, sizeof key) == 0) {
      *out = &lt->plans[i];
      return GS_OK;
    }
  if (lt->nplans == lt->cap) {
    size_t cap = lt->cap ? 2 * lt->cap : 32;
    plan *more = realloc(lt->plans, cap * sizeof *more);
    if (!more) return gs_fail(err, GS_ERR_MEMORY, "no memory for matrix product plans");
    lt->plans = more;
    lt->cap = cap;
  }
  plan *p = &lt->plans[lt->nplans];
  memset(p, 0, sizeof *p);
  p->key = key;
  int r = describe(lt, g, p);
  if (r == GS_LT_OK) r = choose(lt, p);
  if (r != GS_LT_OK) {
    drop_plan(lt, p);
    return fail_gemm(lt, g, "planning", r, err);
  }
  lt->nplans++;
  *out = p;
  return GS_OK;
}

gs_status gs_lt_gemm(gs_lt *lt, const gs_gemm *g, gs_cu_stream stream, gs_error *err) {
  plan *p = NULL;
  gs_status st = find_plan(lt, g, &p, err);
  if (st != GS_OK) return st;
  void *c = (void *)(uintptr_t)g->c;
  int r =
      lt->api.matmul(lt->handle, p->desc, &g->alpha, (const void *)(uintptr_t)g->b, p->first,
                     (const void *)(uintptr_t)g->a, p->second, &g->beta, c, p->result, c, p->result,
                     &p->found.algo, (void *)(uintptr_t)lt->workspace, p->found.workspace, stream);
  return r == GS_LT_OK ? GS_OK : fail_gemm(lt, g, "running", r, err);
}
