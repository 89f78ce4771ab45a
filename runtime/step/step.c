/* step.c: a step put together and run. */
#include "step/step.h"

#include "base/half.h"
#include "data/dataset.h"
#include "step/plan.h"
#include "step/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The small device buffer that changes from step to step. */
enum { INV_COUNT, LR, BC1, BC2, NSCALARS };

struct gs_step {
  gs_model *model;
  gs_params *params;
  gs_device *device;
  gs_step_options options;
  gs_record *r;
  gs_plan plan;
  size_t bytes_without_reuse;
  gs_ptr batch, scalars, arena;
  bool owns_arena;
  size_t arena_bytes;
  gs_exec *exec;
  gs_batch_vars vars;
  int scalar[NSCALARS];
  int loss, norm;   /* variables; -1 none */
  char *host_batch; /* id, label, position, cu, last */
};

static bool trains(gs_step_mode m) {
  return m == GS_STEP_TRAIN || m == GS_STEP_GRADIENT;
}

/* ---- making ---- */

/* The batch lies as five arrays, each aligned as every other tensor, with room for the longest. */
static size_t batch_stride(const gs_step *s) {
  int64_t tokens = s->options.tokens, documents = s->options.documents;
  size_t bytes = (size_t)(tokens > documents ? tokens : documents + 1) * sizeof(int32_t);
  return (bytes + GS_PLAN_ALIGN - 1) / GS_PLAN_ALIGN * GS_PLAN_ALIGN;
}

static gs_status make_inputs(gs_step *s, gs_error *err) {
  static const char *const names[NSCALARS] = {"inv_count", "lr", "bc1", "bc2"};
  static const char *const arrays[] = {"id", "label", "position", "cu", "last"};
  int64_t T = s->options.tokens, B1 = s->options.documents + 1, one = 1;
  size_t stride = batch_stride(s);
  gs_status st = gs_device_alloc(s->device, 5 * stride, &s->batch, err);
  if (!st) st = gs_device_alloc(s->device, NSCALARS * sizeof(float), &s->scalars, err);
  if (st) return st;
  s->host_batch = calloc(5, stride);
  if (!s->host_batch) return gs_fail(err, GS_ERR_MEMORY, "out of memory");
  int var[5];
  const int64_t *sizes[5] = {&T, &T, &T, &B1, &one};
  for (int i = 0; i < 5; i++)
    var[i] = gs_record_fixed(s->r, arrays[i], GS_I32, 1, sizes[i], s->batch + (gs_ptr)i * stride);
  for (int i = 0; i < NSCALARS; i++)
    s->scalar[i] =
        gs_record_fixed(s->r, names[i], GS_F32, 0, NULL, s->scalars + (gs_ptr)i * sizeof(float));
  s->vars = (gs_batch_vars){var[0], var[1], var[2], var[3], var[4], s->scalar[INV_COUNT]};
  return GS_OK;
}

static gs_status record(gs_step *s, gs_error *err) {
  int coef;
  gs_step_mode mode = s->options.mode;
  s->r->chunk = s->options.chunk;
  s->r->keep_logits = s->options.keep_logits;
  gs_status st = gs_model_record(s->model, s->r, &s->vars, err);
  s->loss = s->r->head.loss;
  if (st || !trains(mode)) return st;
  st = gs_record_backward(s->r, err);
  if (!st) st = gs_record_norm(s->r, s->options.optimizer.max_norm, &s->norm, &coef, err);
  if (st || mode != GS_STEP_TRAIN) return st;
  gs_adamw_vars v = {s->scalar[LR], s->scalar[BC1], s->scalar[BC2]};
  return gs_record_adamw(s->r, &s->options.optimizer, &v, coef, err);
}

static gs_status place(gs_step *s, gs_error *err) {
  gs_status st = gs_plan_record(s->r, !s->options.no_reuse, &s->plan, err);
  if (st) return st;
  for (int i = 0; i < s->plan.npieces; i++)
    s->bytes_without_reuse +=
        (s->plan.pieces[i].bytes + GS_PLAN_ALIGN - 1) / GS_PLAN_ALIGN * GS_PLAN_ALIGN;
  const gs_step *share = s->options.share;
  if (share && share->arena_bytes >= s->plan.bytes) {
    s->arena = share->arena;
    s->arena_bytes = share->arena_bytes;
  } else {
    s->arena_bytes = s->plan.bytes ? s->plan.bytes : GS_PLAN_ALIGN;
    st = gs_device_alloc(s->device, s->arena_bytes, &s->arena, err);
    if (st)
      return gs_fail_in(err, "%.1f MiB for the activations of %lld tokens",
                        (double)s->arena_bytes / 1048576, (long long)s->options.tokens);
    s->owns_arena = true;
  }
  gs_plan_place(&s->plan, s->r, s->arena);
  return GS_OK;
}

static gs_status capture(gs_step *s, gs_error *err) {
  gs_status st = gs_device_capture_begin(s->device, err);
  if (st) return st;
  st = gs_run_acts(s->device, s->r, err);
  gs_phase(gs_device_phases(s->device), "capture");
  gs_status end = gs_device_capture_end(s->device, &s->exec, st ? NULL : err);
  return st ? st : end;
}

gs_status gs_step_new(gs_model *m, gs_params *p, const gs_step_options *o, gs_step **out,
                      gs_error *err) {
  if (trains(o->mode) && !p)
    return gs_fail(err, GS_ERR_USE, "a training step needs trained parameters");
  if (o->tokens < 1) return gs_fail(err, GS_ERR_USE, "a step has at least one token");
  gs_step *s = calloc(1, sizeof *s);
  if (!s) return gs_fail(err, GS_ERR_MEMORY, "out of memory");
  s->model = m;
  s->params = p;
  s->device = gs_model_device(m);
  s->options = *o;
  if (o->documents < 1) s->options.documents = o->tokens;
  s->loss = s->norm = -1;
  s->r = gs_record_new(gs_model_library(m), p, o->mode, gs_model_dtype(m), o->tokens);
  gs_status st = make_inputs(s, err);
  if (!st) st = record(s, err);
  if (!st) st = place(s, err);
  gs_phase(gs_device_phases(s->device), "recording");
  if (!st) st = gs_library_compile(gs_model_library(m), err);
  gs_phase(gs_device_phases(s->device), "kernels");
  if (!st) st = capture(s, err);
  gs_phase(gs_device_phases(s->device), "graph");
  if (st) {
    gs_step_free(s);
    return st;
  }
  *out = s;
  return GS_OK;
}

void gs_step_free(gs_step *s) {
  if (!s) return;
  if (s->exec) gs_exec_free(s->exec);
  if (s->owns_arena) gs_device_free(s->device, s->arena);
  if (s->batch) gs_device_free(s->device, s->batch);
  if (s->scalars) gs_device_free(s->device, s->scalars);
  gs_record_free(s->r);
  free(s->host_batch);
  free(s);
}

/* ---- running ---- */

static gs_status check_documents(const gs_step *s, const gs_batch *b, gs_error *err) {
  if (b->documents < 0 || b->documents > s->options.documents)
    return gs_fail(err, GS_ERR_USE, "the batch has %d documents; the step takes %lld", b->documents,
                   (long long)s->options.documents);
  for (int i = 0; i <= b->documents; i++)
    if (b->cu[i] < (i ? b->cu[i - 1] : 0) || b->cu[i] > (i ? s->options.tokens : 0))
      return gs_fail(err, GS_ERR_INPUT, "document %d of the batch begins at token %d", i, b->cu[i]);
  return GS_OK;
}

/* Every value of the batch in its range: an error names row and value. */
static gs_status check_batch(const gs_step *s, const gs_batch *b, int64_t *labels, gs_error *err) {
  int64_t T = s->options.tokens, V = gs_model_vocab(s->model);
  *labels = 0;
  gs_status st = check_documents(s, b, err);
  if (st) return st;
  for (int64_t i = 0; i < T; i++) {
    if (b->id[i] < 0 || b->id[i] >= V)
      return gs_fail(err, GS_ERR_INPUT,
                     "token %lld of the batch is id %d, but the model has ids 0 to %lld",
                     (long long)i, b->id[i], (long long)V - 1);
    if (b->position[i] < 0)
      return gs_fail(err, GS_ERR_INPUT, "token %lld of the batch has position %d", (long long)i,
                     b->position[i]);
    if (!b->label || b->label[i] == GS_IGNORE) continue;
    if (b->label[i] < 0 || b->label[i] >= V)
      return gs_fail(err, GS_ERR_INPUT,
                     "the label of token %lld of the batch is %d; labels are 0 to %lld, "
                     "or %d for none",
                     (long long)i, b->label[i], (long long)V - 1, GS_IGNORE);
    ++*labels;
  }
  if (s->options.mode == GS_STEP_INFER && (b->last < 0 || b->last >= T))
    return gs_fail(err, GS_ERR_USE, "there is no token %lld", (long long)b->last);
  return GS_OK;
}

static gs_status upload(gs_step *s, const gs_batch *b, const float *scalars, gs_error *err) {
  size_t stride = batch_stride(s), row = (size_t)s->options.tokens * sizeof(int32_t);
  const int32_t last = (int32_t)b->last;
  memcpy(s->host_batch, b->id, row);
  if (b->label) memcpy(s->host_batch + stride, b->label, row);
  memcpy(s->host_batch + 2 * stride, b->position, row);
  int32_t *cu = (int32_t *)(s->host_batch + 3 * stride);
  for (int64_t i = 0; i <= s->options.documents; i++) /* those that there are not have no rows */
    cu[i] = b->cu[i < b->documents ? i : b->documents];
  memcpy(s->host_batch + 4 * stride, &last, sizeof last);
  gs_status st = gs_device_upload(s->device, s->batch, s->host_batch, 5 * stride, err);
  if (st) return st;
  return gs_device_upload(s->device, s->scalars, scalars, NSCALARS * sizeof *scalars, err);
}

static gs_status fetch(gs_step *s, int var, double *out, gs_error *err) {
  float v = 0;
  gs_status st = gs_device_download(s->device, &v, s->r->vars[var].ptr, sizeof v, err);
  *out = v;
  return st;
}

gs_status gs_step_run(gs_step *s, const gs_batch *b, double lr, int64_t update, gs_step_result *out,
                      gs_error *err) {
  gs_step_result none;
  if (!out) out = &none;
  *out = (gs_step_result){0};
  gs_step_mode mode = s->options.mode;
  if (mode != GS_STEP_INFER && !b->label)
    return gs_fail(err, GS_ERR_USE, "the batch has no labels");
  gs_status st = check_batch(s, b, &out->labels, err);
  if (st) return st;
  if (mode != GS_STEP_INFER && out->labels == 0) {
    out->skipped = true;
    return GS_OK;
  }
  float scalars[NSCALARS] = {out->labels ? 1.0f / (float)out->labels : 0};
  if (mode == GS_STEP_TRAIN) gs_adamw_scalars(&s->options.optimizer, lr, update, scalars + LR);
  st = upload(s, b, scalars, err);
  if (!st) st = gs_exec_launch(s->exec, err);
  if (!st) st = gs_device_sync(s->device, err);
  if (!st && s->loss >= 0) st = fetch(s, s->loss, &out->loss, err);
  if (!st && s->norm >= 0) st = fetch(s, s->norm, &out->grad_norm, err);
  if (!st) st = gs_device_sync(s->device, err);
  if (st) return st;
  if (!isfinite(out->loss) || !isfinite(out->grad_norm))
    return gs_fail(err, GS_ERR_CHECK,
                   "the loss is %g and the gradient norm %g: a smaller --lr, or f32, may "
                   "help",
                   out->loss, out->grad_norm);
  return GS_OK;
}

/* scale·logits, capped. */
static void finish_logits(const gs_head_vars *h, float *v, size_t n) {
  if (h->scale == 1 && h->softcap <= 0) return;
  for (size_t i = 0; i < n; i++) {
    double u = h->scale * v[i];
    v[i] = (float)(h->softcap > 0 ? h->softcap * tanh(u / h->softcap) : u);
  }
}

gs_status gs_step_logits(gs_step *s, float *out, gs_error *err) {
  const gs_head_vars *h = &s->r->head;
  if (h->logits < 0) return gs_fail(err, GS_ERR_USE, "the step was made without keep_logits");
  const gs_var *v = &s->r->vars[h->logits];
  size_t bytes = gs_var_bytes(v), rows = (size_t)v->shape[0], V = (size_t)v->shape[1];
  size_t stride = (size_t)gs_var_stride(v) * gs_type_size(v->type);
  void *raw = malloc(bytes);
  if (!raw) return gs_fail(err, GS_ERR_MEMORY, "out of memory");
  gs_status st = gs_device_download(s->device, raw, v->ptr, bytes, err);
  if (!st) st = gs_device_sync(s->device, err);
  for (size_t i = 0; i < rows && !st; i++)
    gs_to_f32(out + i * V, (const char *)raw + i * stride, v->type, V);
  if (!st) finish_logits(h, out, rows * V);
  free(raw);
  return st;
}

/* ---- telling ---- */

gs_step_info gs_step_about(const gs_step *s) {
  gs_step_info i = {.actions = s->r->nacts,
                    .kernels = gs_library_kernels(s->r->library),
                    .arena_bytes = s->plan.bytes,
                    .arena_bytes_without_reuse = s->bytes_without_reuse,
                    .weight_bytes = gs_model_weight_bytes(s->model),
                    .param_bytes = s->params ? gs_params_bytes(s->params) : 0};
  for (int k = 0; k < s->r->nacts; k++) {
    const gs_act *a = &s->r->acts[k];
    if (a->kind == GS_ACT_LAUNCH) i.launches += a->routine->code.list->nkernels - a->had;
    if (a->kind == GS_ACT_GEMM) i.gemms++;
    if (a->kind == GS_ACT_COPY) i.copies++;
  }
  return i;
}

void gs_step_print(const gs_step *s, gs_text *out) {
  static const char *const kinds[] = {"launch", "gemm", "copy", "zero"};
  for (int k = 0; k < s->r->nacts; k++) {
    const gs_act *a = &s->r->acts[k];
    gs_text_printf(out, "%4d %-6s %s\n", k, kinds[a->kind], a->what);
    for (int u = 0; u < a->nuses; u++) {
      if (a->uses[u].var < 0) continue;
      const gs_var *v = &s->r->vars[a->uses[u].var];
      char text[160];
      gs_text_printf(out, "       %s%s %s %s", a->uses[u].is_read ? "r" : "-",
                     a->uses[u].is_written ? "w" : "-", v->name, gs_var_text(v, text, sizeof text));
      if (v->kind == GS_VAR_VALUE)
        gs_text_printf(out, " at %llu", (unsigned long long)(v->ptr - s->arena));
      gs_text_add(out, "\n");
    }
  }
}

const gs_record *gs_step_record(const gs_step *s) {
  return s->r;
}
