/* subject.c: memory, inputs and code of a pass under measurement.
 *
 * Large tensors repeat a piece of a million random values: drawing a billion takes the host longer
 * than all measurements. */
#include "tune/subject.h"

#include "base/half.h"
#include "base/random.h"
#include "check/draw.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE = (1 << 20) - 3 }; /* odd, so that rows of a power of two differ */

struct gs_variant {
  gs_subject *subject;
  gs_compiled code;
  gs_launch_list rest; /* without the kernels that run once a batch, which come first */
  bool has_run_once;
  gs_ptr *temps;
  gs_variant *next;
};

struct gs_subject {
  gs_device *device;
  gs_instance *instance;
  const gs_launch_list *list; /* whose bindings bound[] follows */
  int64_t sizes[GS_MAX_DIMS];
  uint64_t seed;
  gs_bound *bound;
  gs_ptr *original; /* of an input that a result lies over: what it was; else 0 */
  gs_variant *variants;
};

static int64_t count_of(const gs_subject *s, const gs_binding *b, int from) {
  int64_t n = 1;
  for (int k = from; k < b->ndims; k++) {
    int64_t inner = gs_graph_dim_at(s->list->g, b->dim[k])->size;
    n *= inner >= 0 ? inner : s->sizes[b->dim[k]];
  }
  return n;
}

static int tensor_named(const gs_subject *s, const char *name) {
  const gs_graph *g = s->instance->g;
  for (int t = 0; t < gs_graph_ntensors(g); t++)
    if (strcmp(gs_graph_tensor_at(g, t)->name, name) == 0) return t;
  return -1;
}

/* Values of a binding that is no tensor of the instance (an upstream scalar of a terminal pass) are
 * ones. */
static void draw(gs_subject *s, const gs_binding *b, double *v, int64_t n) {
  int t = tensor_named(s, b->name);
  for (int64_t i = 0; i < n; i++) v[i] = 1;
  s->seed = gs_random_mix(s->seed + GS_RANDOM_STEP);
  if (t >= 0) gs_draw_values(s->instance, s->sizes, t, s->seed, v, n);
}

/* One piece from the host, doubled on the device until all is filled. */
static gs_status fill(gs_subject *s, const gs_binding *b, gs_bound *at, gs_error *err) {
  gs_type type = b->role == GS_ROLE_STEP_SCALAR ? GS_F32 : b->type;
  size_t size = gs_type_size(type);
  int64_t all = (int64_t)(at->bytes / size), n = all < PIECE ? all : PIECE;
  double *v = malloc(sizeof *v * (size_t)(n + 1));
  unsigned char *bits = malloc(size * (size_t)(n + 1));
  gs_status st = v && bits ? GS_OK : gs_fail(err, GS_ERR_MEMORY, "no host memory for values");
  if (st == GS_OK) {
    draw(s, b, v, n);
    for (int64_t i = 0; i < n; i++) gs_store_f64(bits, type, (size_t)i, v[i]);
    st = gs_device_upload(s->device, at->ptr, bits, size * (size_t)n, err);
  }
  for (size_t done = size * (size_t)n; st == GS_OK && done < at->bytes;) {
    size_t more = at->bytes - done < done ? at->bytes - done : done;
    st = gs_device_copy(s->device, at->ptr + done, at->ptr, more, err);
    done += more;
  }
  free(v);
  free(bits);
  return st;
}

static gs_status bind_input(gs_subject *s, int k, gs_error *err) {
  const gs_binding *b = &s->list->bindings[k];
  gs_bound *at = &s->bound[k];
  at->stride = count_of(s, b, 1);
  if (b->role == GS_ROLE_SCALAR) {
    double v;
    draw(s, b, &v, 1);
    at->value = (float)v;
    return GS_OK;
  }
  bool is_number = b->role == GS_ROLE_STEP_SCALAR;
  at->bytes = is_number ? sizeof(float) : (size_t)count_of(s, b, 0) * gs_type_size(b->type);
  gs_status st = gs_device_alloc(s->device, at->bytes ? at->bytes : 1, &at->ptr, err);
  return st == GS_OK && at->bytes ? fill(s, b, at, err) : st;
}

/* A result in place takes the memory of its partner, of which the original is kept. */
static gs_status bind_result(gs_subject *s, int k, gs_error *err) {
  const gs_binding *b = &s->list->bindings[k];
  gs_bound *at = &s->bound[k];
  if (b->inplace < 0) {
    at->stride = count_of(s, b, 1);
    at->bytes = (size_t)count_of(s, b, 0) * gs_type_size(b->type);
    gs_status st = gs_device_alloc(s->device, at->bytes ? at->bytes : 1, &at->ptr, err);
    /* sums add to what is there: begin them at zero, not at poison */
    return st == GS_OK && at->bytes ? gs_device_fill(s->device, at->ptr, 0, at->bytes, err) : st;
  }
  int partner = b->inplace;
  *at = s->bound[partner];
  if (s->list->bindings[partner].is_result || s->original[partner] || !at->bytes) return GS_OK;
  gs_status st = gs_device_alloc(s->device, at->bytes, &s->original[partner], err);
  if (st != GS_OK) return st;
  return gs_device_copy(s->device, s->original[partner], at->ptr, at->bytes, err);
}

gs_status gs_subject_new(gs_device *d, gs_instance *i, const gs_launch_list *l,
                         const int64_t *sizes, uint64_t seed, gs_subject **out, gs_error *err) {
  *out = NULL;
  gs_subject *s = calloc(1, sizeof *s);
  if (!s) return gs_fail(err, GS_ERR_MEMORY, "no memory to measure with");
  s->device = d;
  s->instance = i;
  s->list = l;
  s->seed = seed;
  memcpy(s->sizes, sizes, sizeof(int64_t) * (size_t)gs_graph_ndims(l->g));
  s->bound = calloc((size_t)l->nbindings + 1, sizeof *s->bound);
  s->original = calloc((size_t)l->nbindings + 1, sizeof *s->original);
  gs_status st =
      s->bound && s->original ? GS_OK : gs_fail(err, GS_ERR_MEMORY, "no memory to measure with");
  for (int k = 0; st == GS_OK && k < l->nbindings; k++)
    if (!l->bindings[k].is_result) st = bind_input(s, k, err);
  for (int k = 0; st == GS_OK && k < l->nbindings; k++)
    if (l->bindings[k].is_result) st = bind_result(s, k, err);
  if (st != GS_OK) {
    gs_fail_in(err, "%s", l->key);
    gs_subject_free(s);
    return st;
  }
  *out = s;
  return GS_OK;
}

gs_status gs_subject_write(gs_subject *s, const char *name, const void *values, size_t bytes,
                           gs_error *err) {
  for (int k = 0; k < s->list->nbindings; k++) {
    const gs_binding *b = &s->list->bindings[k];
    if (b->is_result || strcmp(b->name, name) != 0) continue;
    if (b->role == GS_ROLE_SCALAR && bytes == sizeof(float)) {
      memcpy(&s->bound[k].value, values, bytes);
      return GS_OK;
    }
    if (bytes != s->bound[k].bytes)
      return gs_fail(err, GS_ERR_USE, "%s: input '%s' has %zu bytes, not %zu", s->list->key, name,
                     s->bound[k].bytes, bytes);
    gs_status st = gs_device_upload(s->device, s->bound[k].ptr, values, bytes, err);
    return st == GS_OK ? gs_device_sync(s->device, err) : st;
  }
  return GS_OK;
}

void gs_subject_free(gs_subject *s) {
  if (!s) return;
  while (s->variants) gs_variant_free(s->variants);
  for (int k = 0; s->bound && s->original && k < s->list->nbindings; k++) {
    const gs_binding *b = &s->list->bindings[k];
    if (!(b->is_result && b->inplace >= 0)) gs_device_free(s->device, s->bound[k].ptr);
    gs_device_free(s->device, s->original[k]);
  }
  free(s->bound);
  free(s->original);
  free(s);
}

/* ---- variants ---- */

static bool same_bindings(const gs_launch_list *a, const gs_launch_list *b) {
  if (a->nbindings != b->nbindings) return false;
  for (int k = 0; k < a->nbindings; k++)
    if (strcmp(a->bindings[k].name, b->bindings[k].name) != 0 ||
        a->bindings[k].inplace != b->bindings[k].inplace)
      return false;
  return true;
}

static gs_status compile(gs_variant *v, gs_error *err) {
  const gs_launch_list *l = v->code.list;
  const gs_kernel **kernels = calloc((size_t)l->nkernels + 1, sizeof *kernels);
  v->code.funcs = calloc((size_t)l->nkernels + 1, sizeof *v->code.funcs);
  gs_status st = kernels && v->code.funcs ? GS_OK : gs_fail(err, GS_ERR_MEMORY, "no memory");
  for (int k = 0; st == GS_OK && k < l->nkernels; k++) kernels[k] = &l->kernels[k];
  if (st == GS_OK)
    st = gs_device_compile(v->subject->device, kernels, l->nkernels, v->code.funcs, err);
  free(kernels);
  return st;
}

gs_status gs_variant_new(gs_subject *s, const gs_launch_list *l, gs_variant **out, gs_error *err) {
  *out = NULL;
  if (!same_bindings(s->list, l))
    return gs_fail(err, GS_ERR_USE, "%s: the variant is bound to other tensors", l->key);
  gs_variant *v = calloc(1, sizeof *v);
  if (!v) return gs_fail(err, GS_ERR_MEMORY, "no memory to measure with");
  *v = (gs_variant){.subject = s, .code = {.list = l}, .next = s->variants};
  s->variants = v;
  gs_status st = compile(v, err);
  v->rest = *l;
  while (v->rest.nkernels > 1 && v->rest.kernels->once) v->rest.kernels++, v->rest.nkernels--;
  v->temps = calloc((size_t)l->ntemps + 1, sizeof *v->temps);
  if (st == GS_OK && !v->temps) st = gs_fail(err, GS_ERR_MEMORY, "no memory to measure with");
  for (int t = 0; st == GS_OK && t < l->ntemps; t++) {
    size_t bytes = gs_launch_temp_bytes(l, t, s->sizes);
    st = gs_device_alloc(s->device, bytes ? bytes : 1, &v->temps[t], err);
  }
  if (st != GS_OK) {
    gs_variant_free(v);
    return st;
  }
  *out = v;
  return GS_OK;
}

void gs_variant_free(gs_variant *v) {
  if (!v) return;
  gs_variant **at = &v->subject->variants;
  while (*at && *at != v) at = &(*at)->next;
  if (*at) *at = v->next;
  for (int t = 0; v->temps && t < v->code.list->ntemps; t++)
    gs_device_free(v->subject->device, v->temps[t]);
  free(v->temps);
  free(v->code.funcs);
  free(v);
}

gs_status gs_variant_prepare(void *variant, gs_error *err) {
  gs_subject *s = ((gs_variant *)variant)->subject;
  gs_status st = GS_OK;
  for (int k = 0; st == GS_OK && k < s->list->nbindings; k++)
    if (s->original[k])
      st = gs_device_copy(s->device, s->bound[k].ptr, s->original[k], s->bound[k].bytes, err);
  return st;
}

gs_status gs_variant_submit(void *variant, gs_error *err) {
  gs_variant *v = variant;
  gs_subject *s = v->subject;
  int skipped = v->code.list->nkernels - v->rest.nkernels;
  const gs_compiled later = {&v->rest, v->code.funcs + skipped};
  const gs_compiled *code = v->has_run_once ? &later : &v->code;
  v->has_run_once = true;
  return gs_launch(s->device, code, s->bound, s->sizes, v->temps, err);
}

gs_status gs_variant_read(gs_variant *v, const char *name, void *out, size_t bytes, gs_error *err) {
  gs_subject *s = v->subject;
  for (int k = 0; k < s->list->nbindings; k++)
    if (strcmp(s->list->bindings[k].name, name) == 0 && bytes <= s->bound[k].bytes)
      return gs_device_download(s->device, out, s->bound[k].ptr, bytes, err);
  return gs_fail(err, GS_ERR_USE, "%s: no %zu bytes of '%s'", s->list->key, bytes, name);
}
