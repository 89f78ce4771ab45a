/* model.c: from a model folder to weights on the device. The model file is run once without a
 * machine (a survey) to learn which tensors and linears there are; what it asks for is held against
 * the file before anything is uploaded. */
#include "step/model.h"

#include "base/half.h"
#include "base/file.h"
#include "model/json.h"
#include "step/plan.h"
#include "step/script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK ((size_t)1 << 20) /* elements converted at a time */
#define MAX_EOS 16

typedef struct tensor {
  struct tensor *next;
  const char *name;
  int ndims;
  int64_t shape[GS_MAX_RANK];
  size_t offset; /* into the weights' buffer */
} tensor;

typedef struct constant {
  struct constant *next;
  const char *name;
  const float *values;
  int64_t n;
  gs_ptr ptr;
} constant;

struct gs_model {
  gs_device *device;
  gs_library *library;
  gs_arena *arena;
  gs_script *script;
  json_t *config;
  const char *dir, *config_path;
  gs_type dtype;
  bool surveying;
  tensor *tensors, **tensors_end;
  constant *constants;
  gs_module *modules;
  int nmodules, cap_modules;
  int64_t vocab, parameters;
  gs_ptr weights;
  size_t weight_bytes;
  int32_t eos[MAX_EOS];
  int neos;
};

/* ---- what the model file asks for ---- */

static tensor *find_tensor(gs_model *m, const char *name) {
  tensor *t = m->tensors;
  while (t && strcmp(t->name, name) != 0) t = t->next;
  return t;
}

static gs_status host_weight(void *context, gs_record *r, const char *name, int ndims,
                             const int64_t *shape, int *var, gs_error *err) {
  gs_model *m = context;
  tensor *t = find_tensor(m, name);
  if (!t && !m->surveying)
    return gs_fail(err, GS_ERR_USE, "weight \"%s\" was not asked for when the model was opened",
                   name);
  if (!t) {
    t = GS_NEW(m->arena, tensor);
    t->name = gs_arena_strdup(m->arena, name);
    t->ndims = ndims;
    memcpy(t->shape, shape, (size_t)ndims * sizeof *shape);
    *m->tensors_end = t;
    m->tensors_end = &t->next;
  }
  if (t->ndims != ndims || memcmp(t->shape, shape, (size_t)ndims * sizeof *shape) != 0)
    return gs_fail(err, GS_ERR_USE, "weight \"%s\" is asked for with two shapes", name);
  *var = gs_record_fixed(r, name, m->dtype, ndims, shape, m->weights + t->offset);
  return GS_OK;
}

static gs_status host_constant(void *context, gs_record *r, const char *name, const float *v,
                               int64_t n, int *var, gs_error *err) {
  gs_model *m = context;
  size_t bytes = (size_t)n * sizeof *v;
  constant *c = m->constants;
  while (c && (strcmp(c->name, name) != 0 || c->n != n || memcmp(c->values, v, bytes) != 0))
    c = c->next;
  if (!c) {
    c = GS_NEW(m->arena, constant);
    c->name = gs_arena_strdup(m->arena, name);
    c->values = gs_arena_copy(m->arena, v, bytes);
    c->n = n;
    gs_status s = gs_device_alloc(m->device, bytes, &c->ptr, err);
    if (s) return s;
    c->next = m->constants;
    m->constants = c;
    s = gs_device_upload(m->device, c->ptr, c->values, bytes, err);
    if (s) return s;
  }
  *var = gs_record_fixed(r, name, GS_F32, 1, &n, c->ptr);
  return GS_OK;
}

static void host_linear(void *context, const char *module, int64_t in, int64_t out) {
  gs_model *m = context;
  if (!m->surveying) return;
  if (m->nmodules == m->cap_modules) {
    m->cap_modules = m->cap_modules ? 2 * m->cap_modules : 64;
    gs_module *p = GS_NEW_N(m->arena, gs_module, m->cap_modules);
    if (m->nmodules) memcpy(p, m->modules, (size_t)m->nmodules * sizeof *p);
    m->modules = p;
  }
  m->modules[m->nmodules++] = (gs_module){gs_arena_strdup(m->arena, module), in, out};
}

gs_status gs_model_record(gs_model *m, gs_record *r, const gs_batch_vars *b, gs_error *err) {
  gs_host host = {m, host_weight, host_constant, host_linear};
  return gs_script_forward(m->script, r, b, &host, err);
}

static gs_status survey(gs_model *m, gs_error *err) {
  int64_t one = 1, two = 2;
  gs_record *r = gs_record_new(m->library, NULL, GS_STEP_SURVEY, m->dtype, 1);
  gs_batch_vars b = {.id = gs_record_fixed(r, "id", GS_I32, 1, &one, 0),
                     .position = gs_record_fixed(r, "position", GS_I32, 1, &one, 0),
                     .cu = gs_record_fixed(r, "cu", GS_I32, 1, &two, 0),
                     .label = -1,
                     .last = -1,
                     .upstream = -1};
  m->surveying = true;
  gs_status s = gs_model_record(m, r, &b, err);
  m->surveying = false;
  if (!s) m->vocab = r->vars[r->head.logits].shape[1];
  gs_record_free(r);
  return s;
}

/* ---- the file ---- */

static gs_status check_tensor(const gs_model *m, const gs_weights *w, const tensor *t,
                              gs_error *err) {
  const gs_weight *have;
  gs_status s = gs_weights_get(w, t->name, &have, err);
  if (s) return s;
  bool same = have->ndims == t->ndims;
  for (int i = 0; same && i < t->ndims; i++) same = have->shape[i] == t->shape[i];
  if (!same) {
    gs_var want = {.ndims = t->ndims, .type = m->dtype},
           is = {.ndims = have->ndims, .type = have->type};
    memcpy(want.shape, t->shape, sizeof want.shape);
    memcpy(is.shape, have->shape, sizeof is.shape);
    char a[160], b[160];
    return gs_fail(err, GS_ERR_INPUT, "%s: tensor \"%s\" is %s, but config.json makes it %s",
                   m->dir, t->name, gs_var_text(&is, a, sizeof a), gs_var_text(&want, b, sizeof b));
  }
  if (have->type != GS_F32 && have->type != GS_BF16 && have->type != GS_F16)
    return gs_fail(err, GS_ERR_INPUT, "%s: tensor \"%s\" is %s; weights are f32, bf16 or f16",
                   m->dir, t->name, gs_type_name(have->type));
  return GS_OK;
}

/* A tensor that the model file does not read would be a part of the model that is left out. */
static gs_status check_unread(gs_model *m, const gs_weights *w, gs_error *err) {
  for (int i = 0; i < gs_weights_count(w); i++) {
    const char *name = gs_weights_at(w, i)->name;
    if (!find_tensor(m, name) && !gs_script_may_ignore(m->script, name))
      return gs_fail(err, GS_ERR_INPUT,
                     "%s: tensor \"%s\" is no part of the model that config.json "
                     "describes, and would be ignored",
                     m->dir, name);
  }
  return GS_OK;
}

static gs_status upload_tensor(gs_model *m, const tensor *t, const gs_weight *w, float *wide,
                               void *narrow, gs_error *err) {
  gs_ptr to = m->weights + t->offset;
  if (w->type == m->dtype) return gs_device_upload(m->device, to, w->data, w->bytes, err);
  size_t size = gs_type_size(m->dtype), n = w->bytes / gs_type_size(w->type);
  for (size_t i = 0; i < n; i += CHUNK) {
    size_t k = n - i < CHUNK ? n - i : CHUNK;
    gs_to_f32(wide, (const char *)w->data + i * gs_type_size(w->type), w->type, k);
    gs_from_f32(narrow, m->dtype, wide, k);
    gs_status s = gs_device_upload(m->device, to + i * size, narrow, k * size, err);
    if (!s) s = gs_device_sync(m->device, err); /* narrow is used again */
    if (s) return s;
  }
  return GS_OK;
}

static gs_status lay_out(gs_model *m, const gs_weights *w, gs_error *err) {
  for (tensor *t = m->tensors; t; t = t->next) {
    gs_status s = check_tensor(m, w, t, err);
    if (s) return s;
    size_t n = 1;
    for (int i = 0; i < t->ndims; i++) n *= (size_t)t->shape[i];
    t->offset = m->weight_bytes;
    m->parameters += (int64_t)n;
    m->weight_bytes +=
        (n * gs_type_size(m->dtype) + GS_PLAN_ALIGN - 1) / GS_PLAN_ALIGN * GS_PLAN_ALIGN;
  }
  return GS_OK;
}

static gs_status load_weights(gs_model *m, gs_error *err) {
  gs_weights *w = NULL;
  float *wide = NULL;
  void *narrow = NULL;
  gs_status s = gs_weights_open(m->dir, &w, err);
  if (!s) s = lay_out(m, w, err);
  if (!s) s = check_unread(m, w, err);
  if (!s) s = gs_device_alloc(m->device, m->weight_bytes, &m->weights, err);
  if (s) goto cleanup;
  wide = malloc(CHUNK * sizeof *wide);
  narrow = malloc(CHUNK * sizeof(float));
  if (!wide || !narrow) {
    s = gs_fail(err, GS_ERR_MEMORY, "out of memory");
    goto cleanup;
  }
  for (tensor *t = m->tensors; t && !s; t = t->next)
    s = upload_tensor(m, t, gs_weights_find(w, t->name), wide, narrow, err);
  if (!s) s = gs_device_sync(m->device, err);
cleanup:
  free(wide);
  free(narrow);
  gs_weights_close(w);
  return s;
}

/* ---- ends of generation ---- */

static void add_eos(gs_model *m, const json_t *v) {
  size_t i;
  json_t *item;
  if (json_is_integer(v) && m->neos < MAX_EOS) {
    int32_t id = (int32_t)json_integer_value(v);
    for (int k = 0; k < m->neos; k++)
      if (m->eos[k] == id) return;
    m->eos[m->neos++] = id;
  } else if (json_is_array(v)) {
    json_array_foreach((json_t *)v, i, item) add_eos(m, item);
  }
}

static gs_status read_eos(gs_model *m, gs_error *err) {
  add_eos(m, json_object_get(m->config, "eos_token_id"));
  const char *path = gs_arena_printf(m->arena, "%s/generation_config.json", m->dir);
  if (!gs_path_exists(path)) return GS_OK;
  json_t *j;
  gs_status s = gs_json_read(path, &j, err);
  if (s) return s;
  add_eos(m, json_object_get(j, "eos_token_id"));
  json_decref(j);
  return GS_OK;
}

/* ---- opening ---- */

static gs_status open_all(gs_model *m, gs_error *err) {
  if (m->dtype != GS_F32 && m->dtype != GS_BF16)
    return gs_fail(err, GS_ERR_USE, "models run in f32 or bf16, not %s", gs_type_name(m->dtype));
  if (!gs_path_exists(m->dir))
    return gs_fail(err, GS_ERR_IO, "%s: there is no such model folder", m->dir);
  gs_status s = gs_json_read(m->config_path, &m->config, err);
  if (s) return s;
  if (!json_is_object(m->config))
    return gs_fail(err, GS_ERR_INPUT, "%s: not a JSON object", m->config_path);
  s = gs_library_new(m->device, &m->library, err);
  if (!s) s = gs_script_open(m->config, m->config_path, &m->script, err);
  if (!s) s = survey(m, err);
  if (!s) s = read_eos(m, err);
  if (!s) s = load_weights(m, err);
  return s;
}

gs_status gs_model_open(gs_device *d, const char *dir, gs_type dtype, gs_model **out,
                        gs_error *err) {
  gs_model *m = calloc(1, sizeof *m);
  if (!m) return gs_fail(err, GS_ERR_MEMORY, "out of memory");
  m->device = d;
  m->arena = gs_arena_new();
  m->dir = gs_arena_strdup(m->arena, dir);
  m->config_path = gs_arena_printf(m->arena, "%s/config.json", dir);
  m->dtype = dtype;
  m->tensors_end = &m->tensors;
  gs_status s = open_all(m, err);
  if (s) {
    gs_model_close(m);
    return s;
  }
  *out = m;
  return GS_OK;
}

void gs_model_close(gs_model *m) {
  if (!m) return;
  for (constant *c = m->constants; c; c = c->next) gs_device_free(m->device, c->ptr);
  if (m->weights) gs_device_free(m->device, m->weights);
  gs_script_close(m->script);
  gs_library_free(m->library);
  json_decref(m->config);
  gs_arena_free(m->arena);
  free(m);
}

gs_device *gs_model_device(const gs_model *m) {
  return m->device;
}
gs_library *gs_model_library(const gs_model *m) {
  return m->library;
}
const char *gs_model_dir(const gs_model *m) {
  return m->dir;
}
gs_type gs_model_dtype(const gs_model *m) {
  return m->dtype;
}
int64_t gs_model_vocab(const gs_model *m) {
  return m->vocab;
}
size_t gs_model_weight_bytes(const gs_model *m) {
  return m->weight_bytes;
}
int64_t gs_model_parameters(const gs_model *m) {
  return m->parameters;
}

const gs_module *gs_model_modules(const gs_model *m, int *n) {
  *n = m->nmodules;
  return m->modules;
}

const int32_t *gs_model_eos(const gs_model *m, int *n) {
  *n = m->neos;
  return m->eos;
}
