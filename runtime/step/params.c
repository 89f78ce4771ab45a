/* params.c: flat buffers of trained parameters, and their names. Tensors start on multiples of 128
 * elements (256 bytes of bf16: what matrix products like best); the padding is zero in all buffers
 * and stays so, since nothing writes its gradient. */
#include "step/params.h"

#include "base/arena.h"
#include "base/half.h"
#include "base/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN_ELEMENTS 128

struct gs_params {
  gs_device *device;
  gs_arena *arena;
  gs_lora lora;
  gs_type dtype;
  int n;
  gs_adapter *adapters;
  const char **names; /* 2n */
  int64_t count, trained;
  gs_ptr buffer[5]; /* by gs_param_kind; WORKING is MASTER for f32 */
};

/* ---- random numbers by a counter ---- */

static uint64_t hash_name(uint64_t h, const char *s) {
  for (; *s; s++) h = gs_random_mix(h ^ (unsigned char)*s) + GS_RANDOM_STEP;
  return h;
}

/* Uniform in (-bound, bound), from 24 bits. */
static void fill_uniform(float *out, int64_t n, double bound, uint64_t key) {
  for (int64_t i = 0; i < n; i++) {
    uint64_t bits = gs_random_mix(key + (uint64_t)i * GS_RANDOM_STEP) >> 40;
    out[i] = (float)(((double)bits + 0.5) / 8388608.0 * bound - bound);
  }
}

/* ---- making ---- */

static bool is_target(const char *module, const char *target) {
  size_t m = strlen(module), t = strlen(target);
  if (m < t || strcmp(module + m - t, target) != 0) return false;
  return m == t || module[m - t - 1] == '.';
}

static gs_status unknown_target(const gs_module *modules, int n, const char *target,
                                gs_error *err) {
  char known[1024] = "";
  for (int i = 0; i < n; i++) {
    const char *dot = strrchr(modules[i].name, '.'), *end = dot ? dot + 1 : modules[i].name;
    const char *seen = strstr(known, end);
    if (seen || strlen(known) + strlen(end) + 3 > sizeof known) continue;
    if (known[0]) strcat(known, ", ");
    strcat(known, end);
  }
  return gs_fail(err, GS_ERR_USE, "--lora: the model has no module that ends in \"%s\"; it has %s",
                 target, known);
}

/* Finds the adapters and lays them out. */
static gs_status lay_out(gs_params *p, const gs_module *modules, int n, gs_error *err) {
  bool used[32] = {false};
  p->adapters = GS_NEW_N(p->arena, gs_adapter, n + 1);
  p->names = GS_NEW_N(p->arena, const char *, 2 * n + 1);
  for (int i = 0; i < n; i++) {
    bool wanted = false;
    for (int t = 0; t < p->lora.ntargets; t++)
      if (is_target(modules[i].name, p->lora.targets[t])) wanted = used[t] = true;
    if (!wanted) continue;
    gs_adapter *a = &p->adapters[p->n];
    a->module = modules[i];
    a->module.name = gs_arena_strdup(p->arena, modules[i].name);
    int64_t size[2] = {p->lora.r * modules[i].in, p->lora.r * modules[i].out};
    a->a = p->count;
    a->b = a->a + (size[0] + ALIGN_ELEMENTS - 1) / ALIGN_ELEMENTS * ALIGN_ELEMENTS;
    p->count = a->b + (size[1] + ALIGN_ELEMENTS - 1) / ALIGN_ELEMENTS * ALIGN_ELEMENTS;
    p->trained += size[0] + size[1];
    for (int k = 0; k < 2; k++)
      p->names[2 * p->n + k] = gs_arena_printf(p->arena, "base_model.model.%s.lora_%c.weight",
                                               modules[i].name, k ? 'B' : 'A');
    p->n++;
  }
  for (int t = 0; t < p->lora.ntargets; t++)
    if (!used[t]) return unknown_target(modules, n, p->lora.targets[t], err);
  return GS_OK;
}

static gs_status allocate(gs_params *p, gs_error *err) {
  size_t bytes = (size_t)p->count * sizeof(float);
  for (int k = GS_MASTER; k <= GS_MOMENT2; k++) {
    gs_status s = gs_device_alloc(p->device, bytes, &p->buffer[k], err);
    if (!s) s = gs_device_fill(p->device, p->buffer[k], 0, bytes, err);
    if (s) return s;
  }
  if (p->dtype == GS_F32) {
    p->buffer[GS_WORKING] = p->buffer[GS_MASTER];
    return GS_OK;
  }
  return gs_device_alloc(p->device, (size_t)p->count * gs_type_size(p->dtype),
                         &p->buffer[GS_WORKING], err);
}

static gs_status initialise(gs_params *p, uint64_t seed, gs_error *err) {
  float *master = calloc((size_t)p->count, sizeof *master);
  if (!master) return gs_fail(err, GS_ERR_MEMORY, "out of memory");
  for (int i = 0; i < p->n; i++) {
    const gs_adapter *a = &p->adapters[i];
    fill_uniform(master + a->a, p->lora.r * a->module.in, 1 / sqrt((double)a->module.in),
                 hash_name(gs_random_mix(seed), p->names[2 * i]));
  }
  gs_status s = gs_params_write(p, GS_MASTER, master, err);
  free(master);
  return s;
}

gs_status gs_params_new(gs_device *d, const gs_module *modules, int n, const gs_lora *lora,
                        gs_type dtype, uint64_t seed, gs_params **out, gs_error *err) {
  gs_params *p = calloc(1, sizeof *p);
  if (!p) return gs_fail(err, GS_ERR_MEMORY, "out of memory");
  p->device = d;
  p->arena = gs_arena_new();
  p->lora = *lora;
  p->dtype = dtype;
  gs_status s = lay_out(p, modules, n, err);
  if (!s) s = allocate(p, err);
  if (!s) s = initialise(p, seed, err);
  if (s) {
    gs_params_free(p);
    return s;
  }
  *out = p;
  return GS_OK;
}

void gs_params_free(gs_params *p) {
  if (!p) return;
  if (p->dtype != GS_F32 && p->buffer[GS_WORKING]) gs_device_free(p->device, p->buffer[GS_WORKING]);
  for (int k = GS_MASTER; k <= GS_MOMENT2; k++)
    if (p->buffer[k]) gs_device_free(p->device, p->buffer[k]);
  gs_arena_free(p->arena);
  free(p);
}

/* ---- asking ---- */

const gs_lora *gs_params_lora(const gs_params *p) {
  return &p->lora;
}
double gs_params_scale(const gs_params *p) {
  return p->lora.alpha / (double)p->lora.r;
}
int64_t gs_params_count(const gs_params *p) {
  return p->count;
}
int64_t gs_params_trained(const gs_params *p) {
  return p->trained;
}
gs_ptr gs_params_ptr(const gs_params *p, gs_param_kind kind) {
  return p->buffer[kind];
}
int gs_params_ntensors(const gs_params *p) {
  return 2 * p->n;
}

size_t gs_params_bytes(const gs_params *p) {
  size_t each = 4 * sizeof(float) + (p->dtype == GS_F32 ? 0 : gs_type_size(p->dtype));
  return (size_t)p->count * each;
}

const gs_adapter *gs_params_find(const gs_params *p, const char *module) {
  for (int i = 0; i < p->n; i++)
    if (strcmp(p->adapters[i].module.name, module) == 0) return &p->adapters[i];
  return NULL;
}

gs_weight gs_params_tensor(const gs_params *p, int i, int64_t *offset) {
  const gs_adapter *a = &p->adapters[i / 2];
  int64_t r = p->lora.r;
  gs_weight w = {.name = p->names[i], .type = GS_F32, .ndims = 2};
  w.shape[0] = i % 2 ? a->module.out : r;
  w.shape[1] = i % 2 ? r : a->module.in;
  w.bytes = (size_t)(w.shape[0] * w.shape[1]) * sizeof(float);
  if (offset) *offset = i % 2 ? a->b : a->a;
  return w;
}

/* ---- to and from the host ---- */

gs_status gs_params_read(gs_params *p, gs_param_kind kind, float *out, gs_error *err) {
  size_t bytes = (size_t)p->count * sizeof(float);
  gs_status s = gs_device_download(p->device, out, p->buffer[kind], bytes, err);
  return s ? s : gs_device_sync(p->device, err);
}

gs_status gs_params_write(gs_params *p, gs_param_kind kind, const float *from, gs_error *err) {
  size_t n = (size_t)p->count;
  gs_status s = gs_device_upload(p->device, p->buffer[kind], from, n * sizeof(float), err);
  if (!s && kind == GS_MASTER && p->dtype != GS_F32) {
    size_t bytes = n * gs_type_size(p->dtype);
    void *copy = malloc(bytes);
    if (!copy) return gs_fail(err, GS_ERR_MEMORY, "out of memory");
    gs_from_f32(copy, p->dtype, from, n);
    s = gs_device_upload(p->device, p->buffer[GS_WORKING], copy, bytes, err);
    if (!s) s = gs_device_sync(p->device, err);
    free(copy);
  }
  return s ? s : gs_device_sync(p->device, err);
}

/* One tensor of an adapter file into the flat masters. */
static gs_status load_tensor(const gs_params *p, int i, const gs_weights *w, const char *file,
                             float *master, gs_error *err) {
  int64_t offset;
  gs_weight want = gs_params_tensor(p, i, &offset);
  const gs_weight *have = gs_weights_find(w, want.name);
  if (!have) return gs_fail(err, GS_ERR_INPUT, "%s: the adapter lacks \"%s\"", file, want.name);
  if (have->ndims != 2 || have->shape[0] != want.shape[0] || have->shape[1] != want.shape[1])
    return gs_fail(err, GS_ERR_INPUT, "%s: \"%s\" is not [%lld, %lld], which model and rank want",
                   file, want.name, (long long)want.shape[0], (long long)want.shape[1]);
  gs_to_f32(master + offset, have->data, have->type, (size_t)(want.shape[0] * want.shape[1]));
  return GS_OK;
}

static bool is_known(const gs_params *p, const char *name) {
  for (int i = 0; i < 2 * p->n; i++)
    if (strcmp(p->names[i], name) == 0) return true;
  return false;
}

gs_status gs_params_load(gs_params *p, const gs_weights *w, const char *file, gs_error *err) {
  for (int i = 0; i < gs_weights_count(w); i++)
    if (!is_known(p, gs_weights_at(w, i)->name))
      return gs_fail(err, GS_ERR_INPUT, "%s: \"%s\" belongs to no module of this model", file,
                     gs_weights_at(w, i)->name);
  float *master = calloc((size_t)p->count, sizeof *master);
  if (!master) return gs_fail(err, GS_ERR_MEMORY, "out of memory");
  gs_status s = GS_OK;
  for (int i = 0; i < 2 * p->n && !s; i++) s = load_tensor(p, i, w, file, master, err);
  if (!s) s = gs_params_write(p, GS_MASTER, master, err);
  free(master);
  return s;
}

gs_status gs_params_save(gs_params *p, const char *dir, const char *base_model, gs_error *err) {
  int n = 2 * p->n;
  float *master = malloc((size_t)p->count * sizeof *master);
  gs_weight *tensors = malloc((size_t)n * sizeof *tensors);
  gs_status s = GS_OK;
  if (!master || !tensors) {
    s = gs_fail(err, GS_ERR_MEMORY, "out of memory");
    goto cleanup;
  }
  s = gs_params_read(p, GS_MASTER, master, err);
  if (s) goto cleanup;
  for (int i = 0; i < n; i++) {
    int64_t offset;
    tensors[i] = gs_params_tensor(p, i, &offset);
    tensors[i].data = master + offset;
  }
  s = gs_adapter_write(dir, &p->lora, base_model, tensors, n, err);
cleanup:
  free(master);
  free(tensors);
  return s;
}
