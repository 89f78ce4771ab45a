/* pack.c: libgradsmith: a pack opened, a pass found and loaded, launched. */
#include "pack/lib/call.h"

#include "device/cuda/boxes.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening ---- */

static bool knows(const gs_pack *p, const char *key) {
  for (int i = 0; i < p->nkeys; i++)
    if (strcmp(p->keys[i], key) == 0) return true;
  return false;
}

gs_status gs_pack_open(const char *path, gs_pack **out, gs_error *err) {
  *out = NULL;
  gs_pack *p = calloc(1, sizeof *p);
  if (!p) return gs_fail(err, GS_ERR_MEMORY, "no memory for the pack %s", path);
  pthread_mutex_init(&p->lock, NULL);
  gs_status st = gs_pack_file_open(path, &p->file, err);
  const gs_pack_about *a = st == GS_OK ? gs_pack_file_about(p->file) : NULL;
  if (a && !(p->keys = calloc((size_t)a->nrecords + 1, sizeof *p->keys)))
    st = gs_fail(err, GS_ERR_MEMORY, "no memory for the pack %s", path);
  if (st != GS_OK) {
    gs_pack_close(p);
    return st;
  }
  for (int i = 0; i < a->nrecords; i++)
    if (!knows(p, a->records[i].key)) p->keys[p->nkeys++] = a->records[i].key;
  *out = p;
  return GS_OK;
}

static void free_call(gs_pack *p, gs_pack_call *c) {
  gs_cu_context before = NULL;
  const gs_cu_api *api = &p->driver.api;
  bool entered = c->modules && api->context_get(&before) == GS_CU_OK &&
                 api->context_set(c->context) == GS_CU_OK;
  for (int k = 0; entered && k < c->record->list.nkernels; k++)
    if (c->modules[k]) api->module_unload(c->modules[k]);
  if (entered) api->context_set(before);
  free(c->modules);
  free(c->functions);
  free(c->info);
  free(c->strided);
  free(c);
}

void gs_pack_close(gs_pack *p) {
  if (!p) return;
  for (gs_pack_call *c = p->calls, *next; c; c = next) {
    next = c->next;
    free_call(p, c);
  }
  free(p->keys);
  gs_pack_file_close(p->file);
  pthread_mutex_destroy(&p->lock);
  free(p);
}

int gs_pack_count(const gs_pack *p) {
  return p->nkeys;
}

const char *gs_pack_key(const gs_pack *p, int i) {
  return i >= 0 && i < p->nkeys ? p->keys[i] : NULL;
}

/* ---- finding ---- */

static gs_status fail_driver(const gs_pack *p, int code, gs_error *err, const char *doing,
                             const char *what) {
  char why[512];
  gs_driver_explain(&p->driver, code, why, sizeof why);
  return gs_fail(err, code == GS_CU_OUT_OF_MEMORY ? GS_ERR_MEMORY : GS_ERR_DEVICE, "%s %s: %s",
                 doing, what, why);
}

static gs_status current_gpu(gs_pack *p, gs_cu_context *context, int *major, int *minor,
                             gs_error *err) {
  gs_cu_device device = 0;
  if (!p->has_driver) {
    gs_status st = gs_driver_open(&p->driver, err);
    if (st != GS_OK) return st;
    p->has_driver = true;
  }
  const gs_cu_api *api = &p->driver.api;
  int code = api->context_get(context);
  if (code == GS_CU_OK && !*context)
    return gs_fail(err, GS_ERR_DEVICE,
                   "no CUDA context is current on this thread: make one first (any call of the "
                   "CUDA runtime does, and cuCtxSetCurrent)");
  if (code == GS_CU_OK) code = api->context_device(&device);
  if (code == GS_CU_OK) code = api->device_attribute(major, GS_CU_MAJOR, device);
  if (code == GS_CU_OK) code = api->device_attribute(minor, GS_CU_MINOR, device);
  return code == GS_CU_OK ? GS_OK : fail_driver(p, code, err, "asking for", "the current GPU");
}

static gs_operand_kind kind_of(const gs_pack_record *r, const gs_binding *b) {
  char added[128];
  if (b->role == GS_ROLE_SCALAR) return GS_OPERAND_NUMBER;
  if (b->role == GS_ROLE_STEP_SCALAR) return GS_OPERAND_DEVICE_NUMBER;
  if (!b->is_result) return GS_OPERAND_INPUT;
  const char *results = strstr(r->key, " -> "); /* "... -> dx,dw+" */
  snprintf(added, sizeof added, "%.100s+", b->name);
  const char *at = results ? strstr(results, added) : NULL;
  bool adds = at && (at[-1] == ' ' || at[-1] == ',');
  return adds ? GS_OPERAND_SUM : GS_OPERAND_RESULT;
}

static void describe(gs_pack_call *c) {
  const gs_pack_record *r = c->record;
  for (int i = 0; i < r->list.nbindings; i++) {
    const gs_binding *b = &r->list.bindings[i];
    gs_operand_info *o = &c->info[i];
    *o = (gs_operand_info){
        .name = b->name, .kind = kind_of(r, b), .type = b->type, .rank = b->ndims};
    for (int k = 0; k < b->ndims; k++) {
      o->dim[k] = r->dims[b->dim[k]].name;
      o->shape[k] = r->dims[b->dim[k]].size;
    }
    if (b->is_result && b->inplace >= 0) o->shares = r->list.bindings[b->inplace].name;
  }
  for (int k = 0; k < r->list.nkernels; k++)
    for (int i = 0; i < r->list.kernels[k].nargs; i++) {
      const gs_arg *a = &r->list.kernels[k].args[i];
      if (a->kind == GS_ARG_STRIDE || a->kind == GS_ARG_MAP) c->strided[a->index] = true;
    }
}

static gs_status load(gs_pack *p, gs_pack_call *c, const char *target, gs_error *err) {
  const gs_pack_record *r = c->record;
  for (int k = 0; k < r->list.nkernels; k++) {
    const char *entry = r->list.kernels[k].entry;
    const gs_pack_code *code = gs_pack_file_code(p->file, entry, r->text[k], target);
    if (!code)
      return gs_fail(err, GS_ERR_INPUT, "the pack %s has no code of kernel %s for %s",
                     gs_pack_file_about(p->file)->path, entry, target);
    int rc = p->driver.api.module_load(&c->modules[k], code->data);
    if (rc == GS_CU_OK) rc = p->driver.api.module_function(&c->functions[k], c->modules[k], entry);
    if (rc == GS_CU_OK && r->list.kernels[k].shared_bytes > 0)
      rc = p->driver.api.function_set(c->functions[k], GS_CU_FUNCTION_SHARED,
                                      r->list.kernels[k].shared_bytes);
    if (rc != GS_CU_OK) return fail_driver(p, rc, err, "loading kernel", entry);
  }
  return GS_OK;
}

static gs_status make_call(gs_pack *p, const gs_pack_record *r, gs_cu_context context,
                           const char *target, gs_pack_call **out, gs_error *err) {
  size_t n = (size_t)r->list.nkernels + 1, m = (size_t)r->list.nbindings + 1;
  gs_pack_call *c = calloc(1, sizeof *c);
  if (!c) return gs_fail(err, GS_ERR_MEMORY, "no memory for %s", r->key);
  c->pack = p;
  c->record = r;
  c->context = context;
  c->modules = calloc(n, sizeof(gs_cu_module));
  c->functions = calloc(n, sizeof(gs_cu_function));
  c->info = calloc(m, sizeof *c->info);
  c->strided = calloc(m, sizeof *c->strided);
  gs_status st = GS_OK;
  if (!c->modules || !c->functions || !c->info || !c->strided || m > GS_CALL_MOST_OPERANDS)
    st = gs_fail(err, GS_ERR_MEMORY, "no memory for %s", r->key);
  if (st == GS_OK) st = load(p, c, target, err);
  if (st != GS_OK) {
    free_call(p, c);
    return st;
  }
  describe(c);
  c->next = p->calls;
  *out = p->calls = c;
  return GS_OK;
}

static gs_status missing(const gs_pack *p, const char *key, const gs_pack_target *t,
                         gs_error *err) {
  const char *nearest = gs_pack_file_nearest(p->file, key, t->schedule);
  return gs_fail(err, GS_ERR_USE, "the pack %s has no \"%s\" for %s; the nearest is %s%s%s",
                 gs_pack_file_about(p->file)->path, key, t->name, nearest ? "\"" : "none",
                 nearest ? nearest : "", nearest ? "\"" : "");
}

static gs_status find(gs_pack *p, const char *key, gs_pack_call **out, gs_error *err) {
  gs_cu_context context = NULL;
  int major = 0, minor = 0;
  const gs_pack_target *target;
  gs_status st = current_gpu(p, &context, &major, &minor, err);
  if (st != GS_OK) return st;
  for (gs_pack_call *c = p->calls; c; c = c->next)
    if (c->context == context && strcmp(c->record->key, key) == 0) {
      *out = c;
      return GS_OK;
    }
  st = gs_pack_file_choose(p->file, major, minor, &target, err);
  if (st != GS_OK) return st;
  const gs_pack_record *r = gs_pack_file_record(p->file, key, target->schedule);
  return r ? make_call(p, r, context, target->name, out, err) : missing(p, key, target, err);
}

gs_status gs_pack_find(gs_pack *p, const char *key, gs_pack_call **out, gs_error *err) {
  *out = NULL;
  pthread_mutex_lock(&p->lock);
  gs_status st = find(p, key, out, err);
  pthread_mutex_unlock(&p->lock);
  return st;
}

int gs_pack_operands(const gs_pack_call *c) {
  return c->record->list.nbindings;
}

const gs_operand_info *gs_pack_operand(const gs_pack_call *c, int i) {
  return i >= 0 && i < c->record->list.nbindings ? &c->info[i] : NULL;
}

/* ---- launching ---- */

typedef union value {
  gs_cu_map map;
  uint64_t ptr;
  int64_t i64;
  float f32;
} value;

/* Of a result in place that was left out, its partner's. */
static const gs_operand *operand_of(const gs_pack_call *c, const gs_pack_bound *b, int i) {
  return b->operand[i] ? b->operand[i] : b->operand[c->record->list.bindings[i].inplace];
}

static int64_t stride_of(const gs_pack_call *c, const gs_pack_bound *b, int i) {
  return b->stride[b->operand[i] ? i : c->record->list.bindings[i].inplace];
}

static gs_status make_map(const gs_pack_call *c, const gs_pack_bound *b, const gs_arg *a,
                          gs_cu_map *out, gs_error *err) {
  gs_tensor_map m;
  const gs_binding *x = &c->record->list.bindings[a->index];
  uint64_t ptr = operand_of(c, b, a->index)->ptr;
  gs_status st = gs_tensor_map_make(x, &a->box, b->sizes, ptr, stride_of(c, b, a->index), &m, err);
  if (st != GS_OK) return gs_fail_in(err, "%s", c->record->key);
  int code = gs_cuda_encode_map(&c->pack->driver.api, &m, ptr, out);
  return code == GS_CU_OK ? GS_OK : fail_driver(c->pack, code, err, "making a map of", x->name);
}

static gs_status value_of(const gs_pack_call *c, const gs_pack_bound *b, const gs_arg *a,
                          uint64_t workspace, value *out, gs_error *err) {
  switch (a->kind) {
  case GS_ARG_TEMP:
    out->ptr = workspace + gs_pack_temp_at(c->record, a->index, b->sizes);
    return GS_OK;
  case GS_ARG_STRIDE: out->i64 = stride_of(c, b, a->index); return GS_OK;
  case GS_ARG_DIM: out->i64 = b->sizes[a->index]; return GS_OK;
  case GS_ARG_SCALAR: out->f32 = (float)operand_of(c, b, a->index)->value; return GS_OK;
  case GS_ARG_MAP: return make_map(c, b, a, &out->map, err);
  case GS_ARG_TENSOR:
  case GS_ARG_STEP_SCALAR: break;
  }
  out->ptr = operand_of(c, b, a->index)->ptr;
  return GS_OK;
}

static gs_status launch_one(const gs_pack_call *c, int k, const gs_pack_bound *b, void *stream,
                            uint64_t workspace, gs_error *err) {
  const gs_kernel *kernel = &c->record->list.kernels[k];
  value values[GS_CALL_MOST_OPERANDS];
  void *params[GS_CALL_MOST_OPERANDS];
  int64_t grid = gs_count_value(&kernel->grid, b->sizes);
  if (grid == 0) return GS_OK;
  if (grid < 0 || grid > INT_MAX || kernel->nargs > GS_CALL_MOST_OPERANDS)
    return gs_fail(err, GS_ERR_USE, "%s: kernel %s would take %lld blocks; 2147483647 is the most",
                   c->record->key, kernel->entry, (long long)grid);
  for (int i = 0; i < kernel->nargs; i++) {
    gs_status st = value_of(c, b, &kernel->args[i], workspace, &values[i], err);
    if (st != GS_OK) return st;
    params[i] = &values[i];
  }
  int code = c->pack->driver.api.launch(
      c->functions[k], (unsigned)grid, 1, 1, (unsigned)kernel->threads, 1, 1,
      (unsigned)kernel->shared_bytes, (gs_cu_stream)stream, params, NULL);
  return code == GS_CU_OK ? GS_OK
                          : fail_driver(c->pack, code, err, "launching kernel", kernel->entry);
}

gs_status gs_pack_workspace(const gs_pack_call *c, const gs_operand *operands, int n, size_t *bytes,
                            gs_error *err) {
  gs_pack_bound b;
  *bytes = 0;
  gs_status st = gs_pack_bind(c, operands, n, false, &b, err);
  if (st == GS_OK) *bytes = gs_pack_temp_at(c->record, c->record->list.ntemps, b.sizes);
  return st;
}

gs_status gs_pack_launch(const gs_pack_call *c, void *stream, const gs_operand *operands, int n,
                         uint64_t workspace, size_t workspace_bytes, gs_error *err) {
  gs_pack_bound b;
  gs_status st = gs_pack_bind(c, operands, n, true, &b, err);
  if (st != GS_OK) return st;
  size_t need = gs_pack_temp_at(c->record, c->record->list.ntemps, b.sizes);
  if (need > workspace_bytes || (need && (!workspace || workspace % GS_CALL_TEMP_ALIGN)))
    return gs_fail(err, GS_ERR_USE,
                   "%s: its kernels work in %zu bytes at a multiple of %d, but %zu at 0x%llx were "
                   "given",
                   c->record->key, need, GS_CALL_TEMP_ALIGN, workspace_bytes,
                   (unsigned long long)workspace);
  for (int k = 0; k < c->record->list.nkernels && st == GS_OK; k++)
    st = launch_one(c, k, &b, stream, workspace, err);
  return st;
}
