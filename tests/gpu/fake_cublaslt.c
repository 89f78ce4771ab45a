/* fake_cublaslt.c: cuBLASLt's product as its documentation defines it, column-major, in a plain
 * loop over host memory, built as libcublasLt.so.13 for use beside fake_cuda.c. D = alpha op(A)
 * op(B) + beta C, where A is lda x columns, and op follows the descriptor. Refuses shapes that do
 * not fit. */
#include "base/half.h"
#include "device/cuda/cublaslt_api.h"

#include <stdlib.h>
#include <string.h>

enum { INVALID = 7, UNSUPPORTED = 15 };

struct gs_lt_desc_tag {
  int32_t op_a, op_b;
};
struct gs_lt_layout_tag {
  int type;
  uint64_t rows, cols;
  int64_t ld;
};
struct gs_lt_pref_tag {
  uint64_t workspace;
  uint32_t align[4];
};

typedef struct product {
  struct gs_lt_desc_tag d;
  struct gs_lt_layout_tag a, b, c;
  const void *pa, *pb;
  void *pc;
  float alpha, beta;
} product;

int fake_submit_call(void (*call)(const void *), const void *record, size_t size);

size_t cublasLtGetVersion(void) {
  return 130100;
}
const char *cublasLtGetStatusString(int status) {
  return status == INVALID ? "invalid" : "unsupported";
}

int cublasLtCreate(gs_lt_handle *h) {
  *h = malloc(1);
  return GS_LT_OK;
}
int cublasLtDestroy(gs_lt_handle h) {
  free(h);
  return GS_LT_OK;
}

int cublasLtMatmulDescCreate(gs_lt_desc *d, int compute, int scale_type) {
  *d = calloc(1, sizeof **d);
  return compute == GS_LT_COMPUTE_F32 && scale_type == GS_LT_F32 ? GS_LT_OK : UNSUPPORTED;
}
int cublasLtMatmulDescDestroy(gs_lt_desc d) {
  free(d);
  return GS_LT_OK;
}
int cublasLtMatmulDescSetAttribute(gs_lt_desc d, int attribute, const void *value, size_t size) {
  if (size != sizeof d->op_a) return INVALID;
  if (attribute != GS_LT_DESC_OP_A && attribute != GS_LT_DESC_OP_B) return INVALID;
  memcpy(attribute == GS_LT_DESC_OP_A ? &d->op_a : &d->op_b, value, size);
  return GS_LT_OK;
}

int cublasLtMatrixLayoutCreate(gs_lt_layout *l, int type, uint64_t rows, uint64_t cols,
                               int64_t ld) {
  *l = malloc(sizeof **l);
  **l = (struct gs_lt_layout_tag){type, rows, cols, ld};
  return ld >= (int64_t)rows && rows > 0 && cols > 0 ? GS_LT_OK : INVALID;
}
int cublasLtMatrixLayoutDestroy(gs_lt_layout l) {
  free(l);
  return GS_LT_OK;
}

int cublasLtMatmulPreferenceCreate(gs_lt_pref *p) {
  *p = calloc(1, sizeof **p);
  return GS_LT_OK;
}
int cublasLtMatmulPreferenceDestroy(gs_lt_pref p) {
  free(p);
  return GS_LT_OK;
}
int cublasLtMatmulPreferenceSetAttribute(gs_lt_pref p, int attribute, const void *value,
                                         size_t size) {
  if (attribute == GS_LT_PREF_WORKSPACE)
    return size == 8 ? (memcpy(&p->workspace, value, 8), 0) : INVALID;
  if (size != 4) return INVALID;
  if (attribute >= GS_LT_PREF_ALIGN_A && attribute <= GS_LT_PREF_ALIGN_D)
    memcpy(&p->align[attribute - GS_LT_PREF_ALIGN_A], value, 4);
  return GS_LT_OK;
}

static int fits(const struct gs_lt_desc_tag *d, const struct gs_lt_layout_tag *a,
                const struct gs_lt_layout_tag *b, const struct gs_lt_layout_tag *c) {
  uint64_t m = d->op_a ? a->cols : a->rows, k = d->op_a ? a->rows : a->cols;
  uint64_t kb = d->op_b ? b->cols : b->rows, n = d->op_b ? b->rows : b->cols;
  return m == c->rows && n == c->cols && k == kb && a->type == b->type;
}

/* The alignments asked for come back in the algorithm: matmul holds the pointers to them. */
int cublasLtMatmulAlgoGetHeuristic(gs_lt_handle h, gs_lt_desc d, gs_lt_layout a, gs_lt_layout b,
                                   gs_lt_layout c, gs_lt_layout out, gs_lt_pref p, int wanted,
                                   gs_lt_found *found, int *nfound) {
  memset(found, 0, sizeof *found);
  *nfound = 0;
  if (!h || wanted < 1 || c != out || !fits(d, a, b, c)) return INVALID;
  for (int i = 0; i < 4; i++) found->algo.data[i] = p->align[i];
  *nfound = 1;
  return GS_LT_OK;
}

static gs_type type_of(int t) {
  return t == GS_LT_F32 ? GS_F32 : t == GS_LT_F16 ? GS_F16 : GS_BF16;
}

static double element(const void *p, const struct gs_lt_layout_tag *l, int op, uint64_t r,
                      uint64_t c) {
  uint64_t row = op ? c : r, col = op ? r : c;
  return gs_load_f64(p, type_of(l->type), (size_t)(col * (uint64_t)l->ld + row));
}

static void multiply(const void *record) {
  const product *p = record;
  uint64_t k = p->d.op_a ? p->a.rows : p->a.cols;
  for (uint64_t i = 0; i < p->c.rows; i++)
    for (uint64_t j = 0; j < p->c.cols; j++) {
      double sum = 0;
      size_t at = (size_t)(j * (uint64_t)p->c.ld + i);
      for (uint64_t l = 0; l < k; l++)
        sum += element(p->pa, &p->a, p->d.op_a, i, l) * element(p->pb, &p->b, p->d.op_b, l, j);
      sum *= (double)p->alpha;
      if (p->beta != 0) sum += (double)p->beta * gs_load_f64(p->pc, type_of(p->c.type), at);
      gs_store_f64(p->pc, type_of(p->c.type), at, sum);
    }
}

int cublasLtMatmul(gs_lt_handle h, gs_lt_desc d, const void *alpha, const void *a, gs_lt_layout la,
                   const void *b, gs_lt_layout lb, const void *beta, const void *c, gs_lt_layout lc,
                   void *out, gs_lt_layout lout, const gs_lt_algo *algo, void *workspace,
                   size_t bytes, gs_cu_stream s) {
  if (!h || !s || c != out || lc != lout || (bytes && !workspace)) return INVALID;
  if ((uintptr_t)a % algo->data[0] || (uintptr_t)b % algo->data[1] || (uintptr_t)c % algo->data[2])
    return INVALID;
  product p = {*d, *la, *lb, *lc, a, b, out, 0, 0};
  memcpy(&p.alpha, alpha, sizeof p.alpha);
  memcpy(&p.beta, beta, sizeof p.beta);
  return fake_submit_call(multiply, &p, sizeof p) == 0 ? GS_LT_OK : UNSUPPORTED;
}
