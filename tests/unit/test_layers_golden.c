/* uses: gs_model gs_device */
/* Single layers against PyTorch: every case of tests/golden/layers in the emulator, forward and
 * gradients. Against float64 the kernel's error is at most 1.25 times PyTorch's own plus one
 * rounding of the largest value; what the case calls equal is equal to the bit. */
#include "base/asset.h"
#include "base/half.h"
#include "device/emu/emu.h"
#include "device/launch.h"
#include "lua/layer.h"
#include "model/json.h"
#include "model/safetensors.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VALUES = 96, MAX_CASES = 400, MAX_TEMPS = 16 };

/* A tensor by name, as stored: an input, an upstream, or what a pass has written. */
typedef struct value {
  char name[64];
  gs_type type;
  int64_t count;
  void *data; /* owned */
} value;

typedef struct part { /* one pass of a case */
  gs_pass *pass;
  gs_launch_list *list;
  gs_func **funcs;
} part;

typedef struct kase {
  json_t *j; /* borrowed */
  const char *name, *layer, *dtype;
  const gs_layer_decl *decl;
  gs_instance *i;
  int64_t sizes[GS_MAX_DIMS];
  value values[MAX_VALUES];
  int nvalues;
  part parts[2];
  int nparts;
} kase;

typedef struct family {
  char path[512];
  gs_weights *w;
  json_t *cases;
  gs_author *author;
  gs_device *d;
  kase *k;
  int n;
  FILE *table;
} family;

static void must(gs_status st, const kase *k, const gs_error *err) {
  cr_assert(st == GS_OK, "%s: %s", k ? k->name : "golden", err->message);
}

/* ---- values by name ---- */

static value *find(kase *k, const char *name) {
  for (int i = 0; i < k->nvalues; i++)
    if (strcmp(k->values[i].name, name) == 0) return &k->values[i];
  return NULL;
}

static value *make(kase *k, const char *name, gs_type type, int64_t count) {
  value *v = find(k, name);
  if (!v) {
    cr_assert(k->nvalues < MAX_VALUES, "%s: too many tensors", k->name);
    v = &k->values[k->nvalues++];
    snprintf(v->name, sizeof v->name, "%s", name);
  }
  free(v->data);
  v->type = type;
  v->count = count;
  v->data = calloc((size_t)count + 1, gs_type_size(type));
  return v;
}

static const gs_weight *tensor(const family *f, const kase *k, const json_t *key) {
  const gs_weight *w = gs_weights_find(f->w, json_string_value(key));
  cr_assert(w, "%s: the file has no tensor %s", k->name, json_string_value(key));
  return w;
}

static int64_t elements(const gs_weight *w) {
  int64_t n = 1;
  for (int d = 0; d < w->ndims; d++) n *= w->shape[d];
  return n;
}

static void read_values(family *f, kase *k, const char *group, const char *prefix) {
  const char *name;
  json_t *key;
  json_object_foreach(json_object_get(k->j, group), name, key) {
    char full[64];
    const gs_weight *w = tensor(f, k, key);
    snprintf(full, sizeof full, "%s%s", prefix, name);
    value *v = make(k, full, w->type, elements(w));
    v->data = realloc(v->data, w->bytes + 1);
    if (w->bytes) memcpy(v->data, w->data, w->bytes);
  }
}

/* ---- a case, opened ---- */

static int decl_dim(const gs_layer_decl *d, const char *name) {
  for (int k = 0; k < d->ndims; k++)
    if (strcmp(d->dims[k], name) == 0) return k;
  return -1;
}

static void read_sizes(kase *k, int64_t *sizes) {
  const char *name;
  json_t *size;
  json_object_foreach(json_object_get(k->j, "sizes"), name, size) {
    int d = decl_dim(k->decl, name);
    if (d >= 0) sizes[d] = json_integer_value(size);
  }
}

static void instantiate(kase *k, gs_layer *l) {
  const char *names[16], *name;
  double values[16];
  int n = 0;
  json_t *option;
  gs_error err = {0};
  int64_t sizes[GS_MAX_DIMS] = {0};
  json_object_foreach(json_object_get(k->j, "options"), name, option) {
    names[n] = name;
    values[n++] = json_number_value(option);
  }
  gs_choice c = {.dtype = gs_type_from_name(k->dtype),
                 .sizes = sizes,
                 .noptions = n,
                 .option_names = names,
                 .option_values = values};
  read_sizes(k, sizes);
  must(gs_layer_sizes(l, &c, sizes, &err), k, &err);
  must(gs_layer_instantiate(l, &c, &k->i, &err), k, &err);
  for (int d = 0; d < k->decl->ndims; d++) k->sizes[d] = sizes[d];
  gs_graph_sizes(k->i->g, k->sizes);
}

static void add_part(family *f, kase *k, gs_pass_kind kind) {
  gs_error err = {0};
  part *p = &k->parts[k->nparts++];
  must(gs_layer_pass(k->i, kind, NULL, 0, NULL, 0, &p->pass, &err), k, &err);
  must(gs_compile(p->pass, gs_device_caps(f->d), NULL, &p->list, &err), k, &err);
}

static void open_case(family *f, kase *k, json_t *j) {
  gs_error err = {0};
  gs_layer *l;
  k->j = j;
  k->name = json_string_value(json_object_get(j, "name"));
  k->layer = json_string_value(json_object_get(j, "layer"));
  k->dtype = json_string_value(json_object_get(j, "dtype"));
  must(gs_layer_open(f->author, k->layer, &l, &err), k, &err);
  k->decl = gs_layer_declaration(l);
  read_values(f, k, "inputs", "");
  read_values(f, k, "upstream", "d");
  instantiate(k, l);
  add_part(f, k, GS_PASS_FORWARD);
  if (!k->i->is_kernel && k->i->nbackward) add_part(f, k, GS_PASS_BACKWARD);
}

static void compile(family *f) {
  gs_error err = {0};
  int total = 0, at = 0;
  for (int c = 0; c < f->n; c++)
    for (int p = 0; p < f->k[c].nparts; p++) total += f->k[c].parts[p].list->nkernels;
  const gs_kernel **kernels = calloc((size_t)total + 1, sizeof *kernels);
  gs_func **funcs = calloc((size_t)total + 1, sizeof *funcs);
  for (int c = 0; c < f->n; c++)
    for (int p = 0; p < f->k[c].nparts; p++)
      for (int n = 0; n < f->k[c].parts[p].list->nkernels; n++)
        kernels[at++] = &f->k[c].parts[p].list->kernels[n];
  must(gs_device_compile(f->d, kernels, total, funcs, &err), NULL, &err);
  at = 0;
  for (int c = 0; c < f->n; c++)
    for (int p = 0; p < f->k[c].nparts; p++) {
      part *x = &f->k[c].parts[p];
      x->funcs = malloc(sizeof *x->funcs * (size_t)(x->list->nkernels + 1));
      memcpy(x->funcs, funcs + at, sizeof *x->funcs * (size_t)x->list->nkernels);
      at += x->list->nkernels;
    }
  free(kernels);
  free(funcs);
}

/* ---- running ---- */

static int64_t binding_count(const kase *k, const gs_binding *b) {
  int64_t n = 1;
  for (int d = 0; d < b->ndims; d++) n *= k->sizes[b->dim[d]];
  return n;
}

static int64_t binding_stride(const kase *k, const gs_binding *b) {
  int64_t n = 1;
  for (int d = 1; d < b->ndims; d++) n *= k->sizes[b->dim[d]];
  return n;
}

static float scalar(const kase *k, const char *name) {
  json_t *given = json_object_get(json_object_get(k->j, "scalars"), name);
  if (given) return (float)json_number_value(given);
  for (int p = 0; p < k->decl->nparams; p++)
    if (strcmp(k->decl->params[p].name, name) == 0) return (float)k->decl->params[p].value;
  cr_assert(false, "%s: no scalar %s", k->name, name);
  return 0;
}

static void bind(family *f, kase *k, const gs_binding *b, gs_bound *at) {
  gs_error err = {0};
  int64_t n = binding_count(k, b);
  if (b->role == GS_ROLE_SCALAR && !b->is_result) {
    at->value = scalar(k, b->name);
    return;
  }
  value *v = b->is_result ? NULL : find(k, b->name);
  if (!b->is_result && !v && b->role == GS_ROLE_UPSTREAM) v = make(k, b->name, b->type, n); /* 0 */
  at->stride = binding_stride(k, b);
  if (v && b->role == GS_ROLE_UPSTREAM && b->ndims > 1 && v->count == at->stride) {
    n = v->count; /* one row, the same for all, as the gradient of a sum */
    at->stride = 0;
  }
  at->bytes = (size_t)n * gs_type_size(b->type);
  must(gs_device_alloc(f->d, at->bytes + 1, &at->ptr, &err), k, &err);
  must(gs_emu_poison(f->d, at->ptr, at->bytes, &err), k, &err);
  if (b->is_result) return;
  cr_assert(v, "%s: the case gives no '%s'", k->name, b->name);
  if (v->type == GS_TYPE_NONE && gs_type_size(b->type) == 1) v->type = b->type;
  cr_assert(v->type == b->type && v->count == n,
            "%s: '%s' is %s with %lld elements in the case, but %s with %lld in the layer", k->name,
            b->name, gs_type_name(v->type), (long long)v->count, gs_type_name(b->type),
            (long long)n);
  must(gs_device_upload(f->d, at->ptr, v->data, at->bytes, &err), k, &err);
}

static void run(family *f, kase *k, part *p) {
  gs_error err = {0};
  gs_launch_list *l = p->list;
  gs_bound *at = calloc((size_t)l->nbindings + 1, sizeof *at);
  gs_ptr temps[MAX_TEMPS] = {0};
  for (int b = 0; b < l->nbindings; b++)
    if (!l->bindings[b].is_result || l->bindings[b].inplace < 0)
      bind(f, k, &l->bindings[b], &at[b]);
  for (int b = 0; b < l->nbindings; b++)
    if (l->bindings[b].is_result && l->bindings[b].inplace >= 0) at[b] = at[l->bindings[b].inplace];
  for (int t = 0; t < l->ntemps; t++)
    must(gs_device_alloc(f->d, gs_launch_temp_bytes(l, t, k->sizes) + 1, &temps[t], &err), k, &err);
  gs_compiled compiled = {l, p->funcs};
  must(gs_launch(f->d, &compiled, at, k->sizes, temps, &err), k, &err);
  for (int b = 0; b < l->nbindings; b++) {
    const gs_binding *bind = &l->bindings[b];
    if (!bind->is_result) continue;
    value *v = make(k, bind->name, bind->type, binding_count(k, bind));
    must(gs_device_download(f->d, v->data, at[b].ptr, at[b].bytes, &err), k, &err);
  }
  for (int b = 0; b < l->nbindings; b++)
    if (at[b].ptr && !(l->bindings[b].is_result && l->bindings[b].inplace >= 0))
      gs_device_free(f->d, at[b].ptr);
  for (int t = 0; t < l->ntemps; t++) gs_device_free(f->d, temps[t]);
  free(at);
}

/* ---- comparing ---- */

/* What rounding to type t may do to a value of the size of v: half a unit in its last place. In f32
 * the arithmetic before it rounds as well: four units. */
static double rounding_of(gs_type t, double v) {
  int bits = t == GS_BF16 ? 8 : t == GS_F16 ? 11 : 24, e;
  double least = t == GS_F16 ? 0x1p-25 : 0x1p-150;
  if (v == 0) return least;
  frexp(v, &e);
  return fmax(ldexp(t == GS_F32 ? 8 : 1, e - bits - 1), least);
}

static bool same(double a, double b) {
  return a == b || (isnan(a) && isnan(b));
}

/* Types that the reader of files has no name for: F64, and those of one byte, which are t. */
static double load(const gs_weight *w, gs_type t, int64_t i) {
  if (w->type != GS_TYPE_NONE) return gs_load_f64(w->data, w->type, (size_t)i);
  if (w->bytes == (size_t)elements(w)) return gs_load_f64(w->data, t, (size_t)i);
  return ((const double *)w->data)[i];
}

typedef struct distance {
  double ours, torch, both; /* largest errors against float64; between ours and PyTorch */
  double largest;
  int64_t where, apart; /* where ours is worst; elements that differ from PyTorch's */
} distance;

static distance measure(const value *v, const gs_weight *torch, const gs_weight *exact) {
  distance d = {0};
  for (int64_t i = 0; i < v->count; i++) {
    double a = gs_load_f64(v->data, v->type, (size_t)i), t = load(torch, v->type, i);
    double x = exact ? load(exact, v->type, i) : t;
    if (!same(a, t)) d.apart++;
    if (same(a, x) && same(t, x)) continue;
    double e = fabs(a - x);
    if (!(e <= d.ours)) d.ours = isnan(e) ? INFINITY : e, d.where = i;
    d.torch = fmax(d.torch, fabs(t - x));
    d.both = fmax(d.both, fabs(a - t));
    if (isfinite(x)) d.largest = fmax(d.largest, fabs(x));
  }
  return d;
}

static void compare(family *f, kase *k, const char *name, const json_t *expect) {
  value *v = find(k, name);
  cr_assert(v, "%s: the layer has no result '%s'", k->name, name);
  const gs_weight *torch = tensor(f, k, json_object_get(expect, "torch"));
  const json_t *key = json_object_get(expect, "exact");
  const gs_weight *exact = json_is_string(key) ? tensor(f, k, key) : NULL;
  bool bits = json_is_true(json_object_get(expect, "bits")) || !exact;
  cr_assert(elements(torch) == v->count, "%s: %s has %lld elements, PyTorch's %lld", k->name, name,
            (long long)v->count, (long long)elements(torch));
  distance d = measure(v, torch, exact);
  double bound = 1.25 * d.torch + rounding_of(v->type, d.largest) + 1e-37;
  if (f->table)
    fprintf(f->table, "%s | %s | %s | %s | %.3g | %.3g | %.3g | %s\n", k->layer, k->name, name,
            k->dtype, d.both, d.ours, d.torch, d.apart ? "" : "equal");
  cr_expect(!exact || d.ours <= bound,
            "%s: %s[%lld] is off float64 by %.4g; PyTorch by %.4g; allowed %.4g", k->name, name,
            (long long)d.where, d.ours, d.torch, bound);
  cr_expect(!bits || d.apart == 0, "%s: %lld of %lld elements of %s differ from PyTorch's", k->name,
            (long long)d.apart, (long long)v->count, name);
}

static void check_case(family *f, kase *k) {
  const char *name;
  json_t *expect;
  for (int p = 0; p < k->nparts; p++) run(f, k, &k->parts[p]);
  json_object_foreach(json_object_get(k->j, "expect"), name, expect) compare(f, k, name, expect);
}

/* ---- families ---- */

static void open_family(family *f, const char *only) {
  gs_error err = {0};
  size_t i;
  json_t *j;
  gs_device_options o = {0};
  must(gs_weights_open(f->path, &f->w, &err), NULL, &err);
  const char *text = gs_weights_metadata(f->w, "cases");
  cr_assert(text, "%s has no cases", f->path);
  must(gs_json_parse(text, strlen(text), f->path, &f->cases, &err), NULL, &err);
  must(gs_author_new(&f->author, &err), NULL, &err);
  must(gs_device_open("emu", &o, &f->d, &err), NULL, &err);
  f->k = calloc(MAX_CASES, sizeof *f->k);
  json_array_foreach(f->cases, i, j) {
    if (only && !strstr(json_string_value(json_object_get(j, "name")), only)) continue;
    cr_assert(f->n < MAX_CASES, "%s has too many cases", f->path);
    open_case(f, &f->k[f->n++], j);
  }
}

static void close_family(family *f) {
  for (int c = 0; c < f->n; c++) {
    kase *k = &f->k[c];
    for (int v = 0; v < k->nvalues; v++) free(k->values[v].data);
    for (int p = 0; p < k->nparts; p++) free(k->parts[p].funcs);
    gs_instance_free(k->i);
  }
  free(f->k);
  gs_device_close(f->d);
  gs_author_free(f->author);
  json_decref(f->cases);
  gs_weights_close(f->w);
}

static void check_family(const char *folder, const char *file) {
  family f = {0};
  const char *table = getenv("GS_GOLDEN_TABLE");
  snprintf(f.path, sizeof f.path, "%s/%s", folder, file);
  if (table) f.table = fopen(table, "a");
  open_family(&f, getenv("GS_GOLDEN_CASE"));
  compile(&f);
  for (int c = 0; c < f.n; c++) check_case(&f, &f.k[c]);
  if (f.table) fclose(f.table);
  close_family(&f);
}

/* ---- cases too large for a file ---- */

static void draw(kase *k, const char *name, int64_t count, double centre) {
  uint64_t seed = (uint64_t)name[0];
  value *v = make(k, name, GS_BF16, count);
  for (int64_t i = 0; i < count; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    gs_store_f64(v->data, GS_BF16, (size_t)i, centre + (double)(seed >> 11) * 0x1p-52 - 1);
  }
}

/* Holds dw[h] = sum of x·rstd·dy over T against float64. */
static void check_dw(kase *k, int64_t T, int64_t H) {
  const void *x = find(k, "x")->data, *dy = find(k, "dy")->data;
  const float *rstd = find(k, "rstd")->data, *dw = find(k, "dw")->data;
  for (int64_t h = 0; h < H; h++) {
    double sum = 0, size = 0;
    for (int64_t t = 0; t < T; t++) {
      size_t at = (size_t)(t * H + h);
      double term = gs_load_f64(x, GS_BF16, at) * rstd[t] * gs_load_f64(dy, GS_BF16, at);
      sum += term;
      size += fabs(term);
    }
    cr_assert(fabs(dw[h] - sum) <= 4e-7 * size, "dw[%lld] %.9g, %.9g", (long long)h, dw[h], sum);
  }
}

/* dw over 32768 rows: partial sums in f32, in an order that does not change. */
Test(layers_golden, weight_gradient_over_many_rows) {
  enum { T = 32768, H = 256 };
  family f = {.n = 1};
  gs_error err = {0};
  gs_device_options o = {0};
  float first[H];
  must(gs_author_new(&f.author, &err), NULL, &err);
  must(gs_device_open("emu", &o, &f.d, &err), NULL, &err);
  kase *k = f.k = calloc(1, sizeof *f.k);
  f.cases = json_pack("{s:s, s:s, s:s, s:{s:i, s:i}}", "name", "many rows", "layer", "rmsnorm",
                      "dtype", "bf16", "sizes", "T", T, "H", H);
  open_case(&f, k, f.cases);
  compile(&f);
  draw(k, "x", (int64_t)T * H, 0);
  draw(k, "dy", (int64_t)T * H, 0.1);
  draw(k, "w", H, 0.1);
  for (int p = 0; p < 2; p++) run(&f, k, &k->parts[p]);
  check_dw(k, T, H);
  memcpy(first, find(k, "dw")->data, sizeof first);
  run(&f, k, &k->parts[1]);
  cr_assert(memcmp(first, find(k, "dw")->data, sizeof first) == 0, "other bits the second time");
  close_family(&f);
}

/* No weight of a shipped layer goes untrained because nobody derived its gradient. */
Test(layers_golden, every_weight_has_a_gradient) {
  const gs_asset *a;
  gs_error err = {0};
  gs_author *author;
  int weights = 0;
  must(gs_author_new(&author, &err), NULL, &err);
  for (size_t i = 0; (a = gs_asset_at(i)); i++) {
    char name[64];
    gs_layer *l;
    if (sscanf(a->path, "lua/layers/%63[a-z0-9_].lua", name) != 1 || strchr(a->path + 11, '/'))
      continue;
    must(gs_layer_open(author, name, &l, &err), NULL, &err);
    const gs_layer_decl *d = gs_layer_declaration(l);
    for (int p = 0; !d->is_kernel && p < d->nparams; p++) {
      if (d->params[p].role != GS_ROLE_WEIGHT) continue;
      cr_expect(d->differentiable[p], "%s: the weight '%s' has no gradient", name,
                d->params[p].name);
      weights++;
    }
  }
  cr_assert(weights > 10);
  gs_author_free(author);
}

Test(layers_golden, every_family) {
  const char *only = getenv("GS_GOLDEN_FAMILY");
  char folder[400];
  struct dirent **list;
  snprintf(folder, sizeof folder, "%s/golden/layers", GS_TEST_DIR);
  int n = scandir(folder, &list, NULL, alphasort), families = 0;
  for (int i = 0; i < n; i++) {
    const char *dot = strrchr(list[i]->d_name, '.');
    size_t stem = dot ? (size_t)(dot - list[i]->d_name) : 0;
    if (dot && strcmp(dot, ".safetensors") == 0 &&
        (!only || (strlen(only) == stem && memcmp(only, list[i]->d_name, stem) == 0))) {
      check_family(folder, list[i]->d_name);
      families++;
    }
    free(list[i]);
  }
  if (n >= 0) free(list);
  cr_assert(families > 0, "no goldens in %s", folder);
}
