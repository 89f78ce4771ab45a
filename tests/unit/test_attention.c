/* uses: gs_check gs_device */
/* Attention: the layer through check for both kinds of GPU, and its kernels on batches of documents
 * of chosen lengths against a plain computation in double, to the bit where a document stands alone
 * instead of among others, and whatever lies beside it. */
#include "base/half.h"
#include "check/check.h"
#include "device/launch.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DOCUMENTS = 8, MAX_TENSORS = 32 };

/* ---- through check ---- */

static void layer_holds(const char *layer, const char *arch, const char *dims,
                        const char *options) {
  gs_error err = {0};
  gs_author *a;
  gs_device *d;
  gs_check_report r;
  gs_device_options o = {.checked = true, .arch = arch};
  cr_assert_eq(gs_device_open("emu", &o, &d, &err), GS_OK, "%s", err.message);
  cr_assert_eq(gs_author_new(&a, &err), GS_OK, "%s", err.message);
  gs_check_options c = {.seed = 3, .rounds = 1, .dims = dims, .options = options};
  c.devices = &d, c.ndevices = 1;
  cr_expect_eq(gs_check_layer(a, layer, &c, &r, &err), GS_OK, "%s", err.message);
  gs_author_free(a);
  gs_device_close(d);
}

static void holds(const char *arch, const char *dims, const char *options) {
  layer_holds("attention", arch, dims, options);
}

#define ALL "window=9,cap=2.5,alibi=1,sink=1,prefix=1"
Test(attention, check_sm_80, .timeout = 300) {
  holds("sm_80", "T=37,S=70,B1=4,K=1,G=2,D=24", ALL);
}
Test(attention, check_sm_90a, .timeout = 300) {
  holds("sm_90a", "T=37,S=70,B1=4,K=1,G=2,D=24", ALL);
}
Test(attention, check_fast_dq, .timeout = 300) {
  holds("sm_80", "T=40,S=40,B1=3,K=2,G=1,D=16", "fast_dq=1,causal=0");
}

/* The bound counts what a score's rounding loses where the backward takes most of it away again. */
Test(attention, check_scores_far_from_zero, .timeout = 300) {
  layer_holds(GS_TEST_DIR "/layers/good/attention_far.lua", "sm_80", "T=17,S=17,B1=2,K=2,G=2,D=8",
              NULL);
}

/* ---- batches ---- */

typedef struct kernels { /* one specialisation */
  gs_device *d;
  gs_author *a;
  gs_instance *i;
  gs_launch_list *list[2]; /* forward, backward */
  gs_func **funcs[2];
  int K, G, D;
  bool sink, causal;
  gs_type type;
} kernels;

typedef struct batch {
  int documents;
  int32_t n_q[MAX_DOCUMENTS], n_k[MAX_DOCUMENTS], past; /* rows past the last document */
} batch;

typedef struct tensor {
  const char *name;
  int64_t n;
  unsigned char *data; /* as stored */
  gs_type type;
  gs_ptr ptr;
} tensor;

typedef struct run {
  const kernels *k;
  int64_t T, S;
  int32_t cu_q[MAX_DOCUMENTS + 1], cu_k[MAX_DOCUMENTS + 1];
  int documents, ntensors;
  tensor t[MAX_TENSORS];
} run;

static gs_error err;

static void must(gs_status st) {
  cr_assert(st == GS_OK, "%s", err.message);
}

static kernels opened(const char *arch, gs_type type, int K, int G, int D, bool causal, bool sink) {
  static const char *const names[] = {"causal", "sink"};
  double values[] = {causal, sink};
  static const gs_pass_kind kinds[] = {GS_PASS_FORWARD, GS_PASS_BACKWARD};
  kernels k = {.K = K, .G = G, .D = D, .sink = sink, .causal = causal, .type = type};
  gs_layer *l;
  gs_device_options o = {.arch = arch};
  int64_t sizes[GS_MAX_DIMS] = {-1, -1, -1, K, G, D};
  must(gs_device_open("emu", &o, &k.d, &err));
  must(gs_author_new(&k.a, &err));
  must(gs_layer_open(k.a, "attention", &l, &err));
  gs_choice c = {.dtype = type, .sizes = sizes, .noptions = 2};
  c.option_names = names, c.option_values = values;
  must(gs_layer_instantiate(l, &c, &k.i, &err));
  for (int p = 0; p < 2; p++) {
    gs_pass *pass;
    must(gs_layer_pass(k.i, kinds[p], NULL, 0, NULL, 0, &pass, &err));
    must(gs_compile(pass, gs_device_caps(k.d), NULL, &k.list[p], &err));
    int n = k.list[p]->nkernels;
    const gs_kernel **list = calloc((size_t)n, sizeof *list);
    k.funcs[p] = calloc((size_t)n, sizeof *k.funcs[p]);
    for (int i = 0; i < n; i++) list[i] = &k.list[p]->kernels[i];
    must(gs_device_compile(k.d, list, n, k.funcs[p], &err));
    free(list);
  }
  return k;
}

static void closed(kernels *k) {
  free(k->funcs[0]), free(k->funcs[1]);
  gs_instance_free(k->i);
  gs_author_free(k->a);
  gs_device_close(k->d);
}

static tensor *find(run *r, const char *name) {
  for (int i = 0; i < r->ntensors; i++)
    if (strcmp(r->t[i].name, name) == 0) return &r->t[i];
  return NULL;
}

static double at(run *r, const char *name, int64_t i) {
  const tensor *t = find(r, name);
  cr_assert(t && i < t->n, "%s[%lld]", name, (long long)i);
  return gs_load_f64(t->data, t->type, (size_t)i);
}

/* Of the row of a tensor, the same whatever batch it stands in: by document and row there. */
static double drawn(int tensor_, int document, int64_t row, int64_t i) {
  uint64_t s = (uint64_t)tensor_ * 1000003u + (uint64_t)document * 7919u + (uint64_t)row * 104729u +
               (uint64_t)i;
  for (int k = 0; k < 3; k++) s = (s ^ s >> 29) * 0xbf58476d1ce4e5b9u;
  return (double)(s >> 11) * 0x1p-52 - 1;
}

static tensor *add_tensor(run *r, const char *name, gs_type type, int64_t n) {
  tensor *t = &r->t[r->ntensors++];
  *t = (tensor){.name = name, .n = n, .type = type};
  t->data = calloc((size_t)n + 1, gs_type_size(type));
  return t;
}

/* first: the number of the batch's first document as `drawn` counts. NaN past the end. */
static void fill(run *r, const char *name, int64_t rows, const int32_t *cu, int first, int width) {
  tensor *t = add_tensor(r, name, r->k->type, rows * width);
  for (int64_t row = 0; row < rows; row++) {
    int d = 0;
    while (d < r->documents && cu[d + 1] <= row) d++;
    for (int i = 0; i < width; i++) {
      double v = d < r->documents ? 1.5 * drawn(name[0] + name[1], first + d, row - cu[d], i) : NAN;
      gs_store_f64(t->data, t->type, (size_t)(row * width + i), v);
    }
  }
}

static run made(const kernels *k, const batch *b, int first) {
  run r = {.k = k, .documents = b->documents};
  for (int d = 0; d < b->documents; d++) {
    r.cu_q[d + 1] = r.cu_q[d] + b->n_q[d];
    r.cu_k[d + 1] = r.cu_k[d] + b->n_k[d];
  }
  r.T = r.cu_q[b->documents] + b->past;
  r.S = r.cu_k[b->documents] + b->past;
  int q = k->K * k->G * k->D, kv = k->K * k->D;
  fill(&r, "q", r.T, r.cu_q, first, q);
  fill(&r, "dy", r.T, r.cu_q, first, q);
  fill(&r, "k", r.S, r.cu_k, first, kv);
  fill(&r, "v", r.S, r.cu_k, first, kv);
  static const char *const cu[] = {"cu_q", "cu_k"};
  for (int i = 0; i < 2; i++) {
    tensor *t = add_tensor(&r, cu[i], GS_I32, b->documents + 1);
    memcpy(t->data, i ? r.cu_k : r.cu_q, sizeof(int32_t) * (size_t)(b->documents + 1));
  }
  tensor *sinks = add_tensor(&r, "sinks", k->type, k->K * k->G);
  for (int i = 0; i < sinks->n; i++) gs_store_f64(sinks->data, sinks->type, (size_t)i, 0.5);
  add_tensor(&r, "y", k->type, r.T * q);
  add_tensor(&r, "lse", GS_F32, r.T * k->K * k->G);
  add_tensor(&r, "dq", k->type, r.T * q);
  add_tensor(&r, "dk", k->type, r.S * kv);
  add_tensor(&r, "dv", k->type, r.S * kv);
  add_tensor(&r, "dsinks", GS_F32, k->K * k->G);
  return r;
}

static void freed(run *r) {
  for (int i = 0; i < r->ntensors; i++) free(r->t[i].data);
}

static void launch(run *r, int pass) {
  const gs_launch_list *l = r->k->list[pass];
  gs_bound bound[MAX_TENSORS] = {0};
  gs_ptr temps[16] = {0};
  int64_t sizes[GS_MAX_DIMS] = {r->T, r->S, r->documents + 1, r->k->K, r->k->G, r->k->D};
  gs_compiled c = {l, r->k->funcs[pass]};
  for (int i = 0; i < l->nbindings; i++) {
    const gs_binding *b = &l->bindings[i];
    bound[i].value = (float)(1 / sqrt(r->k->D));
    if (b->role == GS_ROLE_SCALAR && !b->is_result) continue;
    const tensor *t = find(r, b->name);
    cr_assert(t, "no tensor %s", b->name);
    bound[i].ptr = t->ptr;
    bound[i].bytes = (size_t)t->n * gs_type_size(t->type);
    bound[i].stride = 1;
    for (int k = 1; k < b->ndims; k++) bound[i].stride *= sizes[b->dim[k]];
  }
  for (int i = 0; i < l->ntemps; i++)
    must(gs_device_alloc(r->k->d, gs_launch_temp_bytes(l, i, sizes) + 1, &temps[i], &err));
  must(gs_launch(r->k->d, &c, bound, sizes, temps, &err));
  for (int i = 0; i < l->ntemps; i++) gs_device_free(r->k->d, temps[i]);
}

static void run_both(run *r) {
  gs_device *d = r->k->d;
  for (int i = 0; i < r->ntensors; i++) {
    size_t bytes = (size_t)r->t[i].n * gs_type_size(r->t[i].type);
    must(gs_device_alloc(d, bytes + 1, &r->t[i].ptr, &err));
    if (bytes) must(gs_device_upload(d, r->t[i].ptr, r->t[i].data, bytes, &err));
  }
  launch(r, 0);
  launch(r, 1);
  for (int i = 0; i < r->ntensors; i++) {
    size_t bytes = (size_t)r->t[i].n * gs_type_size(r->t[i].type);
    if (bytes) must(gs_device_download(d, r->t[i].data, r->t[i].ptr, bytes, &err));
    gs_device_free(d, r->t[i].ptr);
  }
}

/* ---- against double ---- */

static double dot(run *r, const char *x, int64_t i, const char *y, int64_t j) {
  double s = 0;
  for (int d = 0; d < r->k->D; d++) s += at(r, x, i + d) * at(r, y, j + d);
  return s;
}

static bool near_to(const run *r, double got, double want, double scale) {
  double part = r->k->type == GS_F32 ? 2e-5 : 0.02;
  return fabs(got - want) <= part * (scale + fabs(want));
}

/* A query row of a head: its keys are k0 ... k1 - 1 of the batch. */
static void row_holds(run *r, int64_t t, int head, int64_t k0, int64_t k1) {
  int D = r->k->D, heads = r->k->K * r->k->G, kv = head / r->k->G;
  int64_t q = (t * heads + head) * D;
  double scale = (float)(1 / sqrt(D)), sum = r->k->sink ? exp(0.5) : 0, delta = 0;
  double *y = calloc((size_t)D, sizeof *y), *dq = calloc((size_t)D, sizeof *dq);
  for (int64_t j = k0; j < k1; j++) {
    double p = exp(scale * dot(r, "q", q, "k", (j * r->k->K + kv) * D));
    sum += p;
    for (int d = 0; d < D; d++) y[d] += p * at(r, "v", (j * r->k->K + kv) * D + d);
  }
  double lse = log(sum), got = at(r, "lse", t * heads + head);
  cr_assert(sum > 0 ? fabs(got - lse) < 1e-3 : got == -INFINITY, "lse[%lld]: %g, %g", (long long)t,
            got, lse);
  for (int d = 0; d < D; d++) y[d] = sum > 0 ? y[d] / sum : 0;
  for (int d = 0; d < D; d++) delta += y[d] * at(r, "dy", q + d);
  for (int64_t j = k0; j < k1; j++) {
    int64_t at_k = (j * r->k->K + kv) * D;
    double p = exp(scale * dot(r, "q", q, "k", at_k) - lse);
    double ds = p * (dot(r, "dy", q, "v", at_k) - delta);
    for (int d = 0; d < D; d++) dq[d] += scale * ds * at(r, "k", at_k + d);
  }
  for (int d = 0; d < D; d++) {
    cr_assert(near_to(r, at(r, "y", q + d), y[d], 0.3), "y[%lld, %d]: %g, %g", (long long)t, d,
              at(r, "y", q + d), y[d]);
    cr_assert(near_to(r, at(r, "dq", q + d), dq[d], 0.3), "dq[%lld, %d]: %g, %g", (long long)t, d,
              at(r, "dq", q + d), dq[d]);
  }
  free(y), free(dq);
}

/* A key of document d, by the y and lse that the kernels gave. */
static void key_holds(run *r, int64_t j, int kv, int d) {
  int D = r->k->D, heads = r->k->K * r->k->G;
  int64_t at_k = (j * r->k->K + kv) * D, ki = j - r->cu_k[d];
  int64_t n_q = r->cu_q[d + 1] - r->cu_q[d], n_k = r->cu_k[d + 1] - r->cu_k[d];
  double scale = (float)(1 / sqrt(D));
  double *dk = calloc((size_t)D, sizeof *dk), *dv = calloc((size_t)D, sizeof *dv);
  for (int64_t i = 0; i < n_q; i++)
    for (int g = 0; g < r->k->G && (!r->k->causal || ki <= i + n_k - n_q); g++) {
      int64_t n = (r->cu_q[d] + i) * heads + kv * r->k->G + g, q = n * D;
      double p = exp(scale * dot(r, "q", q, "k", at_k) - at(r, "lse", n));
      double ds = p * (dot(r, "dy", q, "v", at_k) - dot(r, "dy", q, "y", q));
      for (int c = 0; c < D; c++) dk[c] += scale * ds * at(r, "q", q + c);
      for (int c = 0; c < D; c++) dv[c] += p * at(r, "dy", q + c);
    }
  for (int c = 0; c < D; c++) {
    cr_assert(near_to(r, at(r, "dk", at_k + c), dk[c], 0.5), "dk[%lld, %d]: %g, %g", (long long)j,
              c, at(r, "dk", at_k + c), dk[c]);
    cr_assert(near_to(r, at(r, "dv", at_k + c), dv[c], 0.5), "dv[%lld, %d]: %g, %g", (long long)j,
              c, at(r, "dv", at_k + c), dv[c]);
  }
  free(dk), free(dv);
}

static void zero_from(run *r, const char *name, int64_t from) {
  const tensor *t = find(r, name);
  for (int64_t i = from; i < t->n; i++) cr_assert_eq(at(r, name, i), 0, "%s past the end", name);
}

/* Every `step`-th row and key of a batch. */
static void batch_holds(const kernels *k, const batch *b, int step) {
  run r = made(k, b, 0);
  run_both(&r);
  int n = 0, heads = k->K * k->G;
  for (int d = 0; d < b->documents; d++) {
    int64_t n_q = b->n_q[d], n_k = b->n_k[d];
    for (int64_t i = 0; i < n_q; i++) {
      if (n++ % step && i + 1 < n_q) continue;
      int64_t sees = !k->causal ? n_k : i + n_k - n_q + 1;
      for (int h = 0; h < heads; h += 1 + heads / 3)
        row_holds(&r, r.cu_q[d] + i, h, r.cu_k[d], r.cu_k[d] + (sees > 0 ? sees : 0));
    }
    for (int64_t j = 0; j < n_k; j++)
      if (n++ % step == 0 || j + 1 == n_k) key_holds(&r, r.cu_k[d] + j, (int)(j % k->K), d);
  }
  zero_from(&r, "y", (int64_t)r.cu_q[b->documents] * heads * k->D);
  zero_from(&r, "dq", (int64_t)r.cu_q[b->documents] * heads * k->D);
  zero_from(&r, "dk", (int64_t)r.cu_k[b->documents] * k->K * k->D);
  zero_from(&r, "dv", (int64_t)r.cu_k[b->documents] * k->K * k->D);
  freed(&r);
}

static void same_bits(run *x, run *y, const char *name, int64_t from, int64_t n, int d) {
  const tensor *a = find(x, name), *b = find(y, name);
  size_t size = gs_type_size(a->type);
  cr_assert(memcmp(a->data + (size_t)from * size, b->data, (size_t)n * size) == 0,
            "%s of document %d differs when it is alone", name, d);
}

/* Each document of a batch has the bits that it has alone. */
static void alone_holds(const kernels *k, const batch *b) {
  run all = made(k, b, 0);
  run_both(&all);
  int64_t q = (int64_t)k->K * k->G * k->D, kv = (int64_t)k->K * k->D;
  for (int d = 0; d < b->documents; d++) {
    batch one = {.documents = 1, .n_q = {b->n_q[d]}, .n_k = {b->n_k[d]}};
    run r = made(k, &one, d);
    run_both(&r);
    same_bits(&all, &r, "y", all.cu_q[d] * q, b->n_q[d] * q, d);
    same_bits(&all, &r, "lse", all.cu_q[d] * q / k->D, b->n_q[d] * q / k->D, d);
    same_bits(&all, &r, "dq", all.cu_q[d] * q, b->n_q[d] * q, d);
    same_bits(&all, &r, "dk", all.cu_k[d] * kv, b->n_k[d] * kv, d);
    same_bits(&all, &r, "dv", all.cu_k[d] * kv, b->n_k[d] * kv, d);
    freed(&r);
  }
  freed(&all);
}

static const batch odd = {.documents = 8,
                          .n_q = {1, 0, 63, 65, 5, 127, 0, 129},
                          .n_k = {1, 0, 63, 65, 0, 127, 9, 129},
                          .past = 70};
static const batch crossed = {
    .documents = 4, .n_q = {70, 3, 130, 40}, .n_k = {30, 200, 129, 0}, .past = 3};

static void all_of(const char *arch, gs_type type, int K, int G, int D, bool causal, bool sink) {
  kernels k = opened(arch, type, K, G, D, causal, sink);
  batch_holds(&k, &odd, 7);
  batch_holds(&k, &crossed, 5);
  alone_holds(&k, &odd);
  if (D == 64 && G == 4) {
    static const batch long_one = {.documents = 1, .n_q = {4097}, .n_k = {4097}};
    batch_holds(&k, &long_one, 997);
  }
  closed(&k);
}

Test(attention, sm_80_four_heads_a_key, .timeout = 300) {
  all_of("sm_80", GS_BF16, 1, 4, 64, true, false);
}
Test(attention, sm_80_seven_heads_a_key_with_a_sink, .timeout = 300) {
  all_of("sm_80", GS_F16, 1, 7, 80, true, true);
}
Test(attention, sm_90a_four_heads_a_key, .timeout = 300) {
  all_of("sm_90a", GS_BF16, 1, 4, 64, true, false);
}
Test(attention, sm_90a_one_head_a_key_all_keys, .timeout = 300) {
  all_of("sm_90a", GS_F16, 2, 1, 128, false, true);
}
Test(attention, plain_f32, .timeout = 300) {
  all_of(NULL, GS_F32, 1, 2, 20, true, true);
}
