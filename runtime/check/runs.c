/* runs.c: the kernels of every pass on a device, against the float64 value and its error bound.
 * Outputs are poisoned beforehand, rows have gaps between them that must stay as they were, and the
 * emulator's shadow memory tells of elements that were never written. */
#include "check/case.h"

#include "base/half.h"
#include "device/emu/emu.h"
#include "device/launch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GAP = 16, POISON = 0xff, MAX_BINDINGS = 48, MAX_TEMPS = 64 };

/* One pass of one case. */
typedef struct run {
  gs_case *c;
  gs_pass *pass;
  gs_launch_list *list;
  gs_func **funcs;
} run;

typedef struct runs {
  gs_device *d;
  const gs_check_options *o;
  run *run;
  int n, cap;
} runs;

static bool has_terminal(const gs_instance *i) {
  for (int k = 0; k < i->nbackward; k++)
    if (i->backward[k].inplace && i->body == NULL) return true;
  return false;
}

static gs_status add_run(runs *r, gs_case *c, gs_pass_kind kind, const char *const *wanted,
                         int nwanted, bool add, gs_error *err) {
  if (r->n == r->cap) {
    r->cap = r->cap ? 2 * r->cap : 64;
    run *more = realloc(r->run, sizeof *more * (size_t)r->cap);
    if (!more) return gs_fail(err, GS_ERR_MEMORY, "check: out of host memory");
    r->run = more;
  }
  run *x = &r->run[r->n];
  *x = (run){.c = c};
  gs_status st = gs_layer_pass(c->i, kind, wanted, nwanted, add ? wanted : NULL, add ? nwanted : 0,
                               &x->pass, err);
  if (st == GS_OK) st = gs_compile(x->pass, gs_device_caps(r->d), NULL, &x->list, err);
  if (st != GS_OK) return gs_fail_in(err, "%s", c->label), st;
  for (int k = 0; r->o->edit && k < x->list->nkernels; k++) {
    const char *text = r->o->edit(r->o->context, &x->list->kernels[k]);
    if (text) x->list->kernels[k].text = text;
  }
  r->n++;
  return GS_OK;
}

/* Forward for training and for inference; all gradients, each alone, and added to what is there. */
static gs_status plan_case(runs *r, gs_case *c, gs_error *err) {
  const gs_instance *i = c->i;
  const char *names[32];
  int n = 0, nf32 = 0;
  const char *f32[32];
  gs_status st = add_run(r, c, GS_PASS_FORWARD, NULL, 0, false, err);
  if (st == GS_OK && !i->is_kernel) st = add_run(r, c, GS_PASS_INFER, NULL, 0, false, err);
  for (int k = 0; k < i->nbackward && k < 32; k++) {
    names[n++] = i->backward[k].name;
    if (i->backward[k].type == GS_F32) f32[nf32++] = i->backward[k].name;
  }
  if (st != GS_OK || n == 0) return st;
  st = add_run(r, c, GS_PASS_BACKWARD, names, n, false, err);
  for (int k = 0; st == GS_OK && n > 1 && k < n; k++)
    st = add_run(r, c, GS_PASS_BACKWARD, &names[k], 1, false, err);
  if (st == GS_OK && nf32 && !i->body) st = add_run(r, c, GS_PASS_BACKWARD, f32, nf32, true, err);
  for (int k = 0; k < i->nrecomputed && n < 32; k++) names[n++] = i->recomputed[k].name;
  if (st == GS_OK && i->nrecomputed) st = add_run(r, c, GS_PASS_BACKWARD, names, n, false, err);
  n -= i->nrecomputed;
  if (st == GS_OK && has_terminal(i)) st = add_run(r, c, GS_PASS_TERMINAL, names, n, false, err);
  return st;
}

static gs_status compile_all(runs *r, gs_error *err) {
  int total = 0, at = 0;
  for (int k = 0; k < r->n; k++) total += r->run[k].list->nkernels;
  const gs_kernel **kernels = calloc((size_t)total + 1, sizeof *kernels);
  gs_func **funcs = calloc((size_t)total + 1, sizeof *funcs);
  gs_status st = kernels && funcs ? GS_OK : gs_fail(err, GS_ERR_MEMORY, "check: out of memory");
  for (int k = 0; st == GS_OK && k < r->n; k++)
    for (int j = 0; j < r->run[k].list->nkernels; j++) kernels[at++] = &r->run[k].list->kernels[j];
  if (st == GS_OK) st = gs_device_compile(r->d, kernels, total, funcs, err);
  at = 0;
  for (int k = 0; st == GS_OK && k < r->n; k++) {
    int n = r->run[k].list->nkernels;
    r->run[k].funcs = malloc(sizeof(gs_func *) * (size_t)(n ? n : 1));
    if (!r->run[k].funcs) {
      st = gs_fail(err, GS_ERR_MEMORY, "check: out of memory");
      break;
    }
    memcpy(r->run[k].funcs, funcs + at, sizeof(gs_func *) * (size_t)n);
    at += n;
  }
  free(kernels);
  free(funcs);
  return st;
}

/* ---- one run ---- */

/* A binding's memory: rows of `packed` elements, `stride` apart. */
typedef struct place {
  int64_t rows, packed, stride;
  size_t bytes, size;
  unsigned char *host;
} place;

typedef struct live {
  runs *r;
  run *x;
  place at[MAX_BINDINGS];
  gs_bound bound[MAX_BINDINGS];
  gs_ptr temps[MAX_TEMPS];
  double *before[MAX_BINDINGS]; /* what an added result was added to */
} live;

static place place_of(const gs_case *c, const gs_binding *b) {
  place p = {.rows = 1, .size = gs_type_size(b->type)};
  p.packed = gs_case_count(c, b->dim, b->ndims);
  if (b->ndims > 0) {
    p.rows = c->sizes[b->dim[0]];
    p.packed = gs_case_count(c, b->dim + 1, b->ndims - 1);
  }
  p.stride = b->ndims > 1 ? p.packed + GAP : p.packed;
  p.bytes = (size_t)(p.rows ? (p.rows - 1) * p.stride + p.packed : 0) * p.size;
  return p;
}

/* A leaf of the pass, or another tensor of the case: kernels that are not derived read the same
 * whichever results are wanted. */
static int leaf_named(const run *x, const char *name) {
  for (int k = 0; k < x->pass->nleaves; k++)
    if (strcmp(gs_graph_tensor_at(x->pass->g, x->pass->leaves[k])->name, name) == 0)
      return x->pass->leaves[k];
  for (int t = 0; x->pass->instance->body && t < x->c->ntensors; t++)
    if (x->c->tensor[t] && strcmp(gs_graph_tensor_at(x->pass->g, t)->name, name) == 0) return t;
  return -1;
}

/* A terminal pass has step scalars that the case does not know: the upstream of the loss. */
static double step_scalar(const run *x, int t) {
  const gs_tensor *now = gs_graph_tensor_at(x->pass->g, t);
  bool same = t < x->c->ntensors && x->c->tensor[t] && now->role == GS_ROLE_STEP_SCALAR &&
              now->ndims == 0 && x->pass->kind != GS_PASS_TERMINAL;
  return same ? x->c->tensor[t][0] : 0.375;
}

static gs_status upload_rows(live *l, int b, const double *v, gs_error *err) {
  const gs_binding *bind = &l->x->list->bindings[b];
  place *p = &l->at[b];
  gs_status st = GS_OK;
  for (int64_t row = 0; st == GS_OK && row < p->rows && p->packed; row++) {
    unsigned char *to = p->host + (size_t)(row * p->stride) * p->size;
    for (int64_t i = 0; i < p->packed; i++)
      gs_store_f64(to, bind->type, (size_t)i, v[row * p->packed + i]);
    st = gs_device_upload(l->r->d, l->bound[b].ptr + (size_t)(row * p->stride) * p->size, to,
                          (size_t)p->packed * p->size, err);
  }
  return st;
}

static const gs_result *result_named(const run *x, const char *name) {
  for (int k = 0; k < x->pass->nresults; k++)
    if (strcmp(x->pass->results[k].name, name) == 0) return &x->pass->results[k];
  return NULL;
}

static gs_status bind_input(live *l, int b, gs_error *err) {
  const gs_binding *bind = &l->x->list->bindings[b];
  int t = leaf_named(l->x, bind->name);
  if (t < 0)
    return gs_fail(err, GS_ERR_CHECK, "binding %s is no leaf of the pass %s", bind->name,
                   l->x->pass->key);
  if (bind->role == GS_ROLE_STEP_SCALAR) {
    double v = step_scalar(l->x, t);
    return upload_rows(l, b, &v, err);
  }
  return upload_rows(l, b, l->x->c->tensor[t], err);
}

static gs_status bind_one(live *l, int b, gs_error *err) {
  const gs_binding *bind = &l->x->list->bindings[b];
  gs_device *d = l->r->d;
  if (bind->role == GS_ROLE_SCALAR && !bind->is_result) {
    l->bound[b].value = (float)l->x->c->tensor[leaf_named(l->x, bind->name)][0];
    return GS_OK;
  }
  place *p = &l->at[b];
  *p = place_of(l->x->c, bind);
  l->bound[b].stride = p->stride;
  l->bound[b].bytes = p->bytes;
  if (bind->is_result && bind->inplace >= 0) {
    l->bound[b] = l->bound[bind->inplace];
    return GS_OK;
  }
  p->host = malloc(p->bytes + 1);
  if (!p->host) return gs_fail(err, GS_ERR_MEMORY, "check: out of host memory");
  memset(p->host, POISON, p->bytes);
  gs_status st = gs_device_alloc(d, p->bytes ? p->bytes : 1, &l->bound[b].ptr, err);
  if (st == GS_OK && !gs_device_is_emulator(d) && p->bytes)
    st = gs_device_fill(d, l->bound[b].ptr, POISON, p->bytes, err);
  if (st != GS_OK) return st;
  if (!bind->is_result) return bind_input(l, b, err);
  const gs_result *res = result_named(l->x, bind->name);
  if (!res || !res->add) return GS_OK;
  int64_t n = p->rows * p->packed;
  l->before[b] = malloc(sizeof(double) * (size_t)(n ? n : 1));
  if (!l->before[b]) return gs_fail(err, GS_ERR_MEMORY, "check: out of host memory");
  for (int64_t i = 0; i < n; i++) l->before[b][i] = (double)((i * 37) % 101) / 64.0 - 0.75;
  return upload_rows(l, b, l->before[b], err);
}

static gs_status make_temps(live *l, gs_error *err) {
  gs_launch_list *list = l->x->list;
  gs_status st = GS_OK;
  if (list->ntemps > MAX_TEMPS)
    return gs_fail(err, GS_ERR_CHECK, "%s: too many temporaries", list->key);
  for (int t = 0; st == GS_OK && t < list->ntemps; t++) {
    size_t bytes = gs_launch_temp_bytes(list, t, l->x->c->sizes);
    st = gs_device_alloc(l->r->d, bytes ? bytes : 1, &l->temps[t], err);
  }
  return st;
}

/* ---- comparing ---- */

static gs_status say(const live *l, const gs_result *res, int64_t i, const char *what,
                     gs_error *err) {
  char index[128];
  gs_case_index(l->x->c, res->dim, res->ndims, i, index, sizeof index);
  return gs_fail(err, GS_ERR_CHECK, "%s on %s: %s is wrong at [%s]: %s; sizes %s", l->x->pass->key,
                 gs_device_name(l->r->d), res->name, index, what, l->x->c->label);
}

static gs_status compare_element(const live *l, const gs_result *res, int64_t i, double got,
                                 double want, double bound, gs_check_report *rep, gs_error *err) {
  char what[160];
  rep->elements++;
  if (!isfinite(want) || !isfinite(bound)) return GS_OK; /* float64 itself says nothing here */
  if (fabs(want) + bound > (res->type == GS_F16 ? 65504.0 : 3.3e38)) return GS_OK; /* overflows */
  double off = fabs(got - want);
  rep->values++;
  if (off <= bound) {
    if (bound > 0 && off / bound > rep->worst) rep->worst = off / bound;
    return GS_OK;
  }
  snprintf(what, sizeof what, "the kernel gives %.9g, float64 %.9g, allowed difference %.3g", got,
           want, bound);
  return say(l, res, i, what, err);
}

static gs_status check_written(const live *l, int b, const gs_result *res, gs_error *err) {
  const place *p = &l->at[b];
  size_t at;
  for (int64_t row = 0; row < p->rows && p->packed; row++) {
    gs_ptr from = l->bound[b].ptr + (size_t)(row * p->stride) * p->size;
    if (gs_emu_unwritten(l->r->d, from, (size_t)p->packed * p->size, &at))
      return say(l, res, row * p->packed + (int64_t)(at / p->size), "it was never written", err);
  }
  return GS_OK;
}

static gs_status check_gaps(const live *l, int b, const gs_result *res, gs_error *err) {
  const place *p = &l->at[b];
  for (int64_t row = 0; row + 1 < p->rows; row++)
    for (size_t k = (size_t)(row * p->stride + p->packed) * p->size;
         k < (size_t)((row + 1) * p->stride) * p->size; k++)
      if (p->host[k] != POISON)
        return say(l, res, row * p->packed, "memory between this row and the next was written",
                   err);
  return GS_OK;
}

static gs_status compare_result(live *l, int b, const gs_array *a, gs_check_report *rep,
                                gs_error *err) {
  const gs_binding *bind = &l->x->list->bindings[b];
  const gs_result *res = result_named(l->x, bind->name);
  int owner = bind->inplace >= 0 ? bind->inplace : b;
  place *p = &l->at[owner];
  gs_device *d = l->r->d;
  gs_status st = GS_OK;
  double *v = gs_case_order(l->x->c, a, a->v, res->dim, res->ndims);
  double *e = gs_case_order(l->x->c, a, a->err, res->dim, res->ndims);
  if (!v || !e) st = gs_fail(err, GS_ERR_MEMORY, "check: out of host memory");
  if (st == GS_OK && gs_device_is_emulator(d)) st = check_written(l, owner, res, err);
  if (st == GS_OK && p->bytes) {
    memset(p->host, POISON, p->bytes);
    for (int64_t row = 0; st == GS_OK && row < p->rows && p->packed; row++) {
      size_t at = (size_t)(row * p->stride) * p->size;
      size_t bytes =
          (size_t)(gs_device_is_emulator(d) || row + 1 == p->rows ? p->packed : p->stride);
      st = gs_device_download(d, p->host + at, l->bound[b].ptr + at, bytes * p->size, err);
    }
  }
  if (st == GS_OK && owner == b && !l->before[b]) st = check_gaps(l, owner, res, err);
  for (int64_t i = 0; st == GS_OK && i < p->rows * p->packed; i++) {
    int64_t at = i / (p->packed ? p->packed : 1) * p->stride + i % (p->packed ? p->packed : 1);
    double got = gs_load_f64(p->host, bind->type, (size_t)at), want = v[i], bound = e[i];
    if (l->before[b]) {
      want += l->before[b][i];
      bound += 0x1p-23 * fabs(want);
    }
    st = compare_element(l, res, i, got, want, bound + 1e-44, rep, err);
  }
  free(v);
  free(e);
  return st;
}

/* The float64 values of a pass's results, rounded in `err` only: a last ROUND to the storage type.
 */
static gs_status expected(const run *x, gs_array *out, gs_error *err) {
  gs_graph *g = x->pass->g;
  int ntensors = gs_graph_ntensors(g);
  const double **values = calloc((size_t)ntensors + 1, sizeof *values);
  double *scalars = calloc((size_t)ntensors + 1, sizeof *scalars);
  gs_id *roots = calloc((size_t)x->pass->nresults + 1, sizeof *roots);
  gs_status st =
      values && scalars && roots ? GS_OK : gs_fail(err, GS_ERR_MEMORY, "check: no memory");
  for (int t = 0; st == GS_OK && t < ntensors; t++) {
    values[t] = t < x->c->ntensors ? x->c->tensor[t] : NULL;
    if (gs_graph_tensor_at(g, t)->role == GS_ROLE_STEP_SCALAR) {
      scalars[t] = step_scalar(x, t);
      values[t] = &scalars[t];
    }
  }
  for (int k = 0; st == GS_OK && k < x->pass->nresults; k++) {
    const gs_result *res = &x->pass->results[k];
    bool is_real = gs_graph_node(g, res->expr)->type == GS_F32;
    gs_node n = {.op = GS_OP_ROUND, .to = res->type, .arg = {res->expr}, .nargs = 1};
    roots[k] = is_real ? gs_apply(g, &n, err) : res->expr;
    if (!roots[k]) st = GS_ERR_CHECK;
  }
  gs_env env = {x->c->sizes, values};
  if (st == GS_OK) st = gs_eval(g, roots, x->pass->nresults, &env, out, err);
  free(values);
  free(scalars);
  free(roots);
  return st;
}

static void drop(live *l) {
  for (int b = 0; b < l->x->list->nbindings && b < MAX_BINDINGS; b++) {
    const gs_binding *bind = &l->x->list->bindings[b];
    if (l->bound[b].ptr && !(bind->is_result && bind->inplace >= 0))
      gs_device_free(l->r->d, l->bound[b].ptr);
    free(l->at[b].host);
    free(l->before[b]);
  }
  for (int t = 0; t < l->x->list->ntemps && t < MAX_TEMPS; t++)
    if (l->temps[t]) gs_device_free(l->r->d, l->temps[t]);
}

static gs_status run_one(runs *r, run *x, gs_check_report *rep, gs_error *err) {
  live l = {.r = r, .x = x};
  gs_launch_list *list = x->list;
  gs_array want[64] = {0};
  gs_status st = GS_OK;
  if (list->nbindings > MAX_BINDINGS || x->pass->nresults > 64)
    return gs_fail(err, GS_ERR_CHECK, "%s: more tensors than a check holds", list->key);
  for (int b = 0; st == GS_OK && b < list->nbindings; b++)
    if (!list->bindings[b].is_result) st = bind_one(&l, b, err);
  for (int b = 0; st == GS_OK && b < list->nbindings; b++)
    if (list->bindings[b].is_result) st = bind_one(&l, b, err);
  if (st == GS_OK) st = make_temps(&l, err);
  gs_compiled compiled = {list, x->funcs};
  if (st == GS_OK) st = gs_launch(r->d, &compiled, l.bound, x->c->sizes, l.temps, err);
  if (st == GS_OK) st = gs_device_sync(r->d, err);
  if (st != GS_OK) gs_fail_in(err, "%s (sizes %s)", x->pass->key, x->c->label);
  if (st == GS_OK) st = expected(x, want, err);
  for (int b = 0; st == GS_OK && b < list->nbindings; b++)
    for (int k = 0; list->bindings[b].is_result && st == GS_OK && k < x->pass->nresults; k++)
      if (strcmp(x->pass->results[k].name, list->bindings[b].name) == 0)
        st = compare_result(&l, b, &want[k], rep, err);
  for (int k = 0; k < 64; k++) gs_array_free(&want[k]);
  drop(&l);
  rep->kernel_runs++;
  return st;
}

gs_status gs_check_runs(gs_case *cases, int ncases, gs_device *d, const gs_check_options *o,
                        gs_check_report *rep, gs_error *err) {
  runs r = {.d = d, .o = o};
  gs_status st = GS_OK;
  for (int k = 0; st == GS_OK && k < ncases; k++) st = plan_case(&r, &cases[k], err);
  if (st == GS_OK) st = compile_all(&r, err);
  for (int k = 0; st == GS_OK && k < r.n; k++) st = run_one(&r, &r.run[k], rep, err);
  for (int k = 0; k < r.n; k++) free(r.run[k].funcs);
  free(r.run);
  return st;
}
