/* train.c: a training run. */
#include "step/train.h"

#include "base/file.h"
#include "optim/schedule.h"
#include "step/state.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct gs_trainer {
  gs_device *device;
  gs_arena *arena;
  gs_settings settings;
  gs_state *state; /* of a resumed run: holds the settings' texts */
  const char *out;
  gs_model *model;
  gs_params *params;
  gs_tokenizer *tokenizer;
  gs_dataset data, eval;
  gs_packed eval_rows;
  gs_feed feed;
  bool has_feed;
  gs_schedule schedule;
  gs_step *step, *eval_step;
  gs_progress_mark mark;
  gs_text zero;
};

/* ---- opening ---- */

/* Pads with the end of text, whose value does not matter: nothing sees it. */
static int32_t pad_id(const gs_tokenizer *t) {
  int32_t eos = gs_tokenizer_eos(t);
  return eos >= 0 ? eos : 0;
}

static gs_status read_data(gs_trainer *t, gs_error *err) {
  gs_settings *s = &t->settings;
  gs_status st = gs_tokenizer_open(s->model, &t->tokenizer, err);
  if (!st) st = gs_dataset_read(s->data, t->tokenizer, (int)s->seq, &t->data, err);
  if (!st && t->data.n == 0)
    st = gs_fail(err, GS_ERR_INPUT, "%s: there is no sample in it", s->data);
  if (!st)
    st =
        gs_feed_open(&t->feed, &t->data, (int)s->seq, pad_id(t->tokenizer), (uint64_t)s->seed, err);
  if (st) return st;
  t->has_feed = true;
  if (!s->eval) return GS_OK;
  st = gs_dataset_read(s->eval, t->tokenizer, (int)s->seq, &t->eval, err);
  if (!st && t->eval.n == 0)
    st = gs_fail(err, GS_ERR_INPUT, "%s: there is no sample in it", s->eval);
  if (!st)
    st = gs_pack_rows(&t->eval, NULL, (int)s->seq, 0, pad_id(t->tokenizer), &t->eval_rows, err);
  return st;
}

static gs_status make_schedule(gs_trainer *t, gs_error *err) {
  gs_settings *s = &t->settings;
  t->schedule = (gs_schedule){
      .kind = (gs_schedule_kind)gs_schedule_from_name(s->schedule), .lr = s->lr, .steps = s->steps};
  if (s->steps == GS_UNSAID) {
    gs_status st = gs_feed_count(&t->feed, s->epochs, &t->schedule.steps, err);
    if (st) return st;
  }
  int64_t some = (t->schedule.steps * 3 + 99) / 100; /* 3 % */
  t->schedule.warmup = s->warmup != GS_UNSAID ? s->warmup : some;
  return GS_OK;
}

static gs_status make_model(gs_trainer *t, gs_error *err) {
  gs_settings *s = &t->settings;
  gs_lora lora;
  int n;
  gs_status st = gs_lora_parse(s->lora, &lora, err);
  if (!st) st = gs_model_open(t->device, s->model, gs_type_from_name(s->dtype), &t->model, err);
  gs_phase(gs_device_phases(t->device), "weights");
  if (st) return st;
  const gs_module *modules = gs_model_modules(t->model, &n);
  st = gs_params_new(t->device, modules, n, &lora, gs_model_dtype(t->model), (uint64_t)s->seed,
                     &t->params, err);
  gs_phase(gs_device_phases(t->device), "adapter");
  if (st) return st;
  gs_step_options o = {.mode = GS_STEP_TRAIN,
                       .tokens = s->seq,
                       .documents = t->feed.documents,
                       .optimizer = gs_adamw_default()};
  o.optimizer.max_norm = s->clip;
  o.optimizer.weight_decay = s->weight_decay;
  return gs_step_new(t->model, t->params, &o, &t->step, err);
}

/* Settings are there: data, schedule, model. Data first: their mistakes show without a long wait.
 */
static gs_status open_run(gs_trainer *t, gs_error *err) {
  gs_type dtype = gs_type_from_name(t->settings.dtype);
  if (dtype != GS_F32 && dtype != GS_BF16)
    return gs_fail(err, GS_ERR_USE, "--dtype %s is unknown; it is f32 or bf16", t->settings.dtype);
  gs_status s = read_data(t, err);
  if (!s) s = make_schedule(t, err);
  gs_phase(gs_device_phases(t->device), "data");
  if (!s) s = make_model(t, err);
  return s;
}

static gs_trainer *new_trainer(gs_device *d, const char *out) {
  gs_trainer *t = calloc(1, sizeof *t);
  if (!t) return NULL;
  t->device = d;
  t->arena = gs_arena_new();
  t->out = gs_arena_strdup(t->arena, out);
  return t;
}

static gs_status check_out(const char *out, gs_error *err) {
  DIR *d = opendir(out);
  if (!d && errno == ENOENT) return GS_OK;
  if (!d) return gs_fail(err, GS_ERR_USE, "--out %s: %s", out, strerror(errno));
  bool empty = true;
  const struct dirent *e;
  while ((e = readdir(d)))
    if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) empty = false;
  closedir(d);
  if (empty) return GS_OK;
  return gs_fail(err, GS_ERR_USE,
                 "--out %s is not empty; name another folder, or go on with the run in it "
                 "by --resume %s",
                 out, out);
}

/* The adapter to start from brings its own rank, alpha and targets. */
static gs_status load_adapter(gs_trainer *t, const char *dir, gs_error *err) {
  gs_lora lora;
  gs_weights *w = NULL;
  gs_status s = gs_adapter_read(dir, &lora, &w, err);
  if (s) return s;
  const gs_lora *have = gs_params_lora(t->params);
  if (lora.r != have->r || lora.alpha != have->alpha)
    s = gs_fail(err, GS_ERR_USE,
                "--init-adapter %s has r=%lld,alpha=%g, but --lora says r=%lld,alpha=%g", dir,
                (long long)lora.r, lora.alpha, (long long)have->r, have->alpha);
  if (!s) s = gs_params_load(t->params, w, dir, err);
  gs_weights_close(w);
  return s;
}

/* Without --lora, the text of an adapter's own choice. */
static gs_status adopt_lora(gs_trainer *t, const char *dir, gs_error *err) {
  gs_lora lora;
  gs_weights *w = NULL;
  gs_status s = gs_adapter_read(dir, &lora, &w, err);
  if (s) return s;
  gs_weights_close(w);
  gs_text text = {0};
  gs_text_printf(&text, "r=%lld,alpha=%.17g,targets=", (long long)lora.r, lora.alpha);
  for (int i = 0; i < lora.ntargets; i++)
    gs_text_printf(&text, "%s%s", i ? "+" : "", lora.targets[i]);
  t->settings.lora = gs_arena_strdup(t->arena, text.s);
  gs_text_free(&text);
  return GS_OK;
}

static gs_status start(gs_trainer *t, const char *init_adapter, gs_error *err) {
  gs_settings *s = &t->settings;
  gs_status st = check_out(t->out, err);
  if (!st && init_adapter && !s->lora) st = adopt_lora(t, init_adapter, err);
  if (!st) st = gs_settings_complete(s, err);
  if (!st && !s->dtype) s->dtype = gs_device_is_emulator(t->device) ? "f32" : "bf16";
  if (!st) st = open_run(t, err);
  if (!st) st = gs_file_hash(s->data, &t->mark.data_hash, err);
  if (!st && init_adapter) st = load_adapter(t, init_adapter, err);
  if (!st) st = gs_mkdirs(t->out, err);
  if (!st)
    st = gs_state_write(t->out, t->params, s, &t->mark, err); /* shows that it can be written */
  return st;
}

gs_status gs_trainer_start(gs_device *d, gs_settings *s, const char *out, const char *init_adapter,
                           gs_trainer **result, gs_error *err) {
  gs_trainer *t = new_trainer(d, out);
  if (!t) return gs_fail(err, GS_ERR_MEMORY, "out of memory");
  t->settings = *s;
  gs_status st = start(t, init_adapter, err);
  *s = t->settings;
  if (st) {
    gs_trainer_free(t);
    return st;
  }
  *result = t;
  return GS_OK;
}

static gs_status resume(gs_trainer *t, const gs_settings *said, gs_error *err) {
  uint64_t hash;
  gs_status s = gs_state_open(t->out, &t->state, &t->settings, &t->mark, err);
  if (!s) s = gs_settings_agree(said, &t->settings, err);
  if (!s && (!t->settings.model || !t->settings.data || !t->settings.lora ||
             !t->settings.schedule || !t->settings.dtype))
    s = gs_fail(err, GS_ERR_INPUT, "%s/%s lacks settings", t->out, GS_STATE_FILE);
  if (!s) s = gs_file_hash(t->settings.data, &hash, err);
  if (!s && hash != t->mark.data_hash)
    s = gs_fail(err, GS_ERR_INPUT, "%s has changed since the run was started; it cannot go on",
                t->settings.data);
  if (!s) s = open_run(t, err);
  if (!s) s = gs_state_load(t->state, t->params, err);
  if (!s) s = gs_feed_skip(&t->feed, t->mark.step, err);
  return s;
}

gs_status gs_trainer_resume(gs_device *d, const gs_settings *said, const char *out,
                            gs_trainer **result, gs_error *err) {
  gs_trainer *t = new_trainer(d, out);
  if (!t) return gs_fail(err, GS_ERR_MEMORY, "out of memory");
  gs_status s = resume(t, said, err);
  if (s) {
    gs_trainer_free(t);
    return s;
  }
  *result = t;
  return GS_OK;
}

void gs_trainer_free(gs_trainer *t) {
  if (!t) return;
  gs_step_free(t->eval_step);
  gs_step_free(t->step);
  gs_params_free(t->params);
  gs_model_close(t->model);
  if (t->has_feed) gs_feed_close(&t->feed);
  gs_packed_free(&t->eval_rows);
  gs_dataset_free(&t->eval);
  gs_dataset_free(&t->data);
  if (t->tokenizer) gs_tokenizer_free(t->tokenizer);
  gs_state_close(t->state);
  gs_text_free(&t->zero);
  gs_arena_free(t->arena);
  free(t);
}

gs_trainer_about gs_trainer_info(const gs_trainer *t) {
  return (gs_trainer_about){.settings = &t->settings,
                            .model = t->model,
                            .params = t->params,
                            .step = t->step,
                            .done = t->mark.step,
                            .steps = t->schedule.steps,
                            .samples = t->data.n,
                            .truncated = t->data.ntruncated,
                            .rows = t->feed.packed.nrows,
                            .out = t->out};
}

/* ---- training ---- */

/* Names of the A (which 0) or B (1) whose gradient is zero in every element. */
static gs_status find_zero_gradients(gs_trainer *t, int which, gs_error *err) {
  gs_params *p = t->params;
  float *g = malloc((size_t)gs_params_count(p) * sizeof *g + 1);
  if (!g) return gs_fail(err, GS_ERR_MEMORY, "out of memory");
  gs_status s = gs_params_read(p, GS_GRAD, g, err);
  for (int i = which; !s && i < gs_params_ntensors(p); i += 2) {
    int64_t offset;
    gs_weight w = gs_params_tensor(p, i, &offset);
    bool zero = true;
    for (int64_t k = 0; zero && k < w.shape[0] * w.shape[1]; k++) zero = g[offset + k] == 0;
    if (zero) gs_text_printf(&t->zero, "%s%s", t->zero.len ? "\n" : "", w.name);
  }
  free(g);
  return s;
}

static gs_batch batch_of(const gs_row *r) {
  return (gs_batch){.id = r->id,
                    .label = r->label,
                    .position = r->position,
                    .cu = r->cu,
                    .documents = r->documents};
}

gs_status gs_trainer_step(gs_trainer *t, gs_progress *out, gs_error *err) {
  const gs_row *row;
  *out = (gs_progress){0};
  if (t->mark.step >= t->schedule.steps) return gs_fail(err, GS_ERR_USE, "the run is complete");
  gs_status s = gs_feed_next(&t->feed, &row, err);
  if (s) return s;
  out->lr = gs_schedule_lr(&t->schedule, t->mark.step);
  out->tokens = row->ntokens;
  out->row = row;
  gs_batch b = batch_of(row);
  s = gs_step_run(t->step, &b, out->lr, t->mark.updates + 1, &out->result, err);
  if (s) return gs_fail_in(err, "step %lld", (long long)t->mark.step + 1);
  out->step = ++t->mark.step;
  if (out->result.skipped) return GS_OK;
  t->mark.updates++;
  if (t->mark.updates > 2) return GS_OK;
  gs_text_free(&t->zero);
  t->zero = (gs_text){0};
  s = find_zero_gradients(t, t->mark.updates == 1 ? 1 : 0, err);
  out->zero_gradients = t->zero.s;
  return s;
}

gs_status gs_eval_rows(gs_step *s, const gs_packed *p, double *loss, int64_t *labels,
                       gs_error *err) {
  double sum = 0;
  *labels = 0;
  for (int i = 0; i < p->nrows; i++) {
    const gs_row *row = &p->row[i];
    gs_batch b = batch_of(row);
    gs_step_result r;
    gs_status st = gs_step_run(s, &b, 0, 1, &r, err);
    if (st) return st;
    sum += r.loss * (double)r.labels;
    *labels += r.labels;
  }
  *loss = *labels ? sum / (double)*labels : 0;
  return GS_OK;
}

gs_status gs_trainer_eval(gs_trainer *t, double *loss, int64_t *labels, gs_error *err) {
  if (!t->settings.eval) return gs_fail(err, GS_ERR_USE, "no --eval file was given");
  if (!t->eval_step) {
    gs_step_options o = {.mode = GS_STEP_EVAL,
                         .tokens = t->settings.seq,
                         .documents = t->eval_rows.documents,
                         .share = t->step};
    gs_status s = gs_step_new(t->model, t->params, &o, &t->eval_step, err);
    if (s) return s;
  }
  gs_status s = gs_eval_rows(t->eval_step, &t->eval_rows, loss, labels, err);
  return s ? gs_fail_in(err, "%s", t->settings.eval) : GS_OK;
}

/* The adapter names its model by a path that holds wherever it is loaded from. */
gs_status gs_trainer_save(gs_trainer *t, gs_error *err) {
  gs_status s = gs_state_write(t->out, t->params, &t->settings, &t->mark, err);
  if (s) return s;
  char *model = realpath(t->settings.model, NULL);
  s = gs_params_save(t->params, t->out, model ? model : t->settings.model, err);
  free(model);
  return s;
}
