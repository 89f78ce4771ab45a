/* uses: gs_step gs_model gs_data gs_device */
/* The training step on a tiny random Llama, f32 on the emulator: gradients against central
 * differences, packed documents against each alone, one plan against another, and what is refused.
 */
#include "model/json.h"
#include "step/generate.h"
#include "step/step.h"
#include "tiny_model.h"

static char dir[512];
static gs_error err;

static void setup(void) {
  err = (gs_error){0};
  must(gs_temp_dir(dir, sizeof dir, &err), &err);
}
static void teardown(void) {
  gs_remove_tree(dir);
}
TestSuite(step, .init = setup, .fini = teardown);

typedef struct rig {
  gs_device *d;
  gs_model *m;
  gs_params *p;
} rig;

/* A model with adapters whose A and B are random. */
static rig open_typed(const char *targets, bool checked, gs_type type) {
  rig g = {0};
  gs_lora lora;
  int n;
  gs_device_options o = {.checked = checked};
  must(gs_device_open("emu", &o, &g.d, &err), &err);
  must(gs_model_open(g.d, dir, type, &g.m, &err), &err);
  must(gs_lora_parse(targets, &lora, &err), &err);
  const gs_module *modules = gs_model_modules(g.m, &n);
  must(gs_params_new(g.d, modules, n, &lora, type, 5, &g.p, &err), &err);
  float *v = calloc((size_t)gs_params_count(g.p), sizeof *v);
  for (int i = 0; i < gs_params_ntensors(g.p); i++) {
    int64_t at;
    gs_weight w = gs_params_tensor(g.p, i, &at);
    for (int64_t k = 0; k < w.shape[0] * w.shape[1]; k++) v[at + k] = (float)(0.15 * tiny_random());
  }
  must(gs_params_write(g.p, GS_MASTER, v, &err), &err);
  free(v);
  return g;
}

static rig open_rig(const char *targets, bool checked) {
  return open_typed(targets, checked, GS_F32);
}

static void close_rig(rig *g) {
  gs_params_free(g->p);
  gs_model_close(g->m);
  gs_device_close(g->d);
}

static gs_batch batch_of(const tiny_row *r) {
  return (gs_batch){.id = r->id,
                    .label = r->label,
                    .position = r->position,
                    .cu = r->cu,
                    .documents = r->documents};
}

static gs_step *make_step(const rig *g, gs_step_mode mode, int64_t tokens, bool no_reuse) {
  gs_step *s;
  gs_step_options o = {.mode = mode,
                       .tokens = tokens,
                       .optimizer = gs_adamw_default(),
                       .no_reuse = no_reuse,
                       .keep_logits = mode == GS_STEP_EVAL,
                       .chunk = 4};
  must(gs_step_new(g->m, g->p, &o, &s, &err), &err);
  return s;
}

static gs_step_result run(gs_step *s, const tiny_row *r) {
  gs_step_result out;
  gs_batch b = batch_of(r);
  must(gs_step_run(s, &b, 1e-2, 1, &out, &err), &err);
  return out;
}

static float *read_all(const rig *g, gs_param_kind kind) {
  float *v = malloc(sizeof *v * (size_t)gs_params_count(g->p));
  must(gs_params_read(g->p, kind, v, &err), &err);
  return v;
}

/* ---- gradients ---- */

/* Slope of the loss along direction d, by central differences. */
static double slope(const rig *g, gs_step *s, const tiny_row *row, const float *base,
                    const float *d, double h) {
  int64_t n = gs_params_count(g->p);
  float *v = malloc(sizeof *v * (size_t)n);
  double loss[2];
  for (int side = 0; side < 2; side++) {
    for (int64_t i = 0; i < n; i++) v[i] = (float)(base[i] + (side ? -h : h) * d[i]);
    must(gs_params_write(g->p, GS_MASTER, v, &err), &err);
    loss[side] = run(s, row).loss;
  }
  free(v);
  return (loss[0] - loss[1]) / (2 * h);
}

static void check_gradients(const char *targets) {
  rig g = open_rig(targets, false);
  tiny_row row = {.n = 0};
  tiny_document(&row, 7, 37);
  tiny_document(&row, 1, 37);
  tiny_document(&row, 11, 37);
  gs_step *back = make_step(&g, GS_STEP_GRADIENT, row.n, false);
  gs_step *eval = make_step(&g, GS_STEP_EVAL, row.n, false);
  gs_step_result r = run(back, &row);
  float *grad = read_all(&g, GS_GRAD), *base = read_all(&g, GS_MASTER);
  int64_t n = gs_params_count(g.p);
  float *d = malloc(sizeof *d * (size_t)n);
  cr_assert(fabs(run(eval, &row).loss - r.loss) < 1e-6);
  double all = 0;
  for (int i = 0; i < gs_params_ntensors(g.p); i++) {
    int64_t at;
    gs_weight w = gs_params_tensor(g.p, i, &at);
    int64_t count = w.shape[0] * w.shape[1];
    double norm = 0;
    for (int64_t k = 0; k < count; k++) norm += (double)grad[at + k] * grad[at + k];
    all += norm;
    norm = sqrt(norm);
    cr_assert(norm > 1e-4, "%s has gradient norm %g", w.name, norm);
    memset(d, 0, sizeof *d * (size_t)n);
    for (int64_t k = 0; k < count; k++) d[at + k] = (float)(grad[at + k] / norm);
    double along = slope(&g, eval, &row, base, d, 2e-2);
    cr_assert(fabs(along - norm) < 0.01 * norm + 1e-4, "%s: %g by differences, %g", w.name, along,
              norm);
    double want = 0, length = 0;
    for (int64_t k = 0; k < count; k++) {
      d[at + k] = (float)tiny_random();
      length += (double)d[at + k] * d[at + k];
    }
    for (int64_t k = 0; k < count; k++) {
      d[at + k] = (float)(d[at + k] / sqrt(length));
      want += (double)d[at + k] * grad[at + k];
    }
    along = slope(&g, eval, &row, base, d, 2e-2);
    cr_assert(fabs(along - want) < 0.01 * norm + 1e-4, "%s: %g by differences, %g", w.name, along,
              want);
  }
  cr_assert(fabs(r.grad_norm - sqrt(all)) < 1e-4 * sqrt(all), "norm %g, %g", r.grad_norm,
            sqrt(all));
  free(d);
  free(grad);
  free(base);
  gs_step_free(back);
  gs_step_free(eval);
  close_rig(&g);
}

Test(step, gradients_of_all_projections_and_lm_head) {
  tiny t = tiny_default();
  tiny_write(dir, &t, 1);
  check_gradients(
      "r=3,alpha=5,targets=q_proj+k_proj+v_proj+o_proj+gate_proj+up_proj+down_proj+lm_head");
}

Test(step, gradients_of_some_targets) {
  tiny t = tiny_default();
  t.tied = false;
  t.lm_head = true;
  tiny_write(dir, &t, 2);
  check_gradients("r=2,alpha=2,targets=v_proj");
  check_gradients("r=1,alpha=4,targets=down_proj+gate_proj");
}

Test(step, packed_documents_equal_each_alone) {
  tiny t = tiny_default();
  tiny_write(dir, &t, 3);
  rig g = open_rig("r=3,alpha=6,targets=all", false);
  int lengths[] = {5, 13, 2, 9};
  tiny_row all = {.n = 0};
  for (int i = 0; i < 4; i++) tiny_document(&all, lengths[i], 37);
  gs_step *s = make_step(&g, GS_STEP_GRADIENT, all.n, false);
  gs_step_result packed = run(s, &all);
  float *grad = read_all(&g, GS_GRAD);
  gs_step_free(s);
  int64_t n = gs_params_count(g.p), labels = 0;
  double *sum = calloc((size_t)n, sizeof *sum), loss = 0, largest = 0;
  for (int i = 0, at = 0; i < 4; at += lengths[i++]) {
    tiny_row one = {.n = lengths[i]};
    memcpy(one.id, all.id + at, sizeof(int32_t) * (size_t)one.n);
    memcpy(one.label, all.label + at, sizeof(int32_t) * (size_t)one.n);
    memcpy(one.position, all.position + at, sizeof(int32_t) * (size_t)one.n);
    tiny_one_document(&one);
    s = make_step(&g, GS_STEP_GRADIENT, one.n, false);
    gs_step_result r = run(s, &one);
    float *part = read_all(&g, GS_GRAD);
    for (int64_t k = 0; k < n; k++) sum[k] += part[k] * (double)r.labels;
    loss += r.loss * (double)r.labels;
    labels += r.labels;
    free(part);
    gs_step_free(s);
  }
  cr_assert(labels == packed.labels);
  cr_assert(fabs(loss / (double)labels - packed.loss) < 2e-6 * packed.loss);
  for (int64_t k = 0; k < n; k++) largest = fmax(largest, fabs(grad[k]));
  for (int64_t k = 0; k < n; k++)
    cr_assert(fabs(sum[k] / (double)labels - grad[k]) < 1e-5 * largest, "[%lld] %g, %g",
              (long long)k, sum[k] / (double)labels, grad[k]);
  free(sum);
  free(grad);
  close_rig(&g);
}

/* ---- plans ---- */

/* The masters after a few updates, and their losses. */
static float *train_some(bool no_reuse, bool checked, double *losses, gs_step_info *info) {
  rig g = open_rig("r=4,alpha=8,targets=all", checked);
  gs_step *s = make_step(&g, GS_STEP_TRAIN, 21, no_reuse);
  tiny_state = 99;
  for (int i = 0; i < 4; i++) {
    tiny_row row = {.n = 0};
    gs_step_result r;
    tiny_document(&row, 8, 37);
    tiny_document(&row, 13, 37);
    gs_batch b = batch_of(&row);
    must(gs_step_run(s, &b, 1e-2, i + 1, &r, &err), &err);
    losses[i] = r.loss;
  }
  *info = gs_step_about(s);
  float *v = read_all(&g, GS_MASTER);
  gs_step_free(s);
  close_rig(&g);
  return v;
}

Test(step, plan_without_reuse_gives_the_same_bits) {
  tiny t = tiny_default();
  double losses[2][4];
  gs_step_info info[2];
  tiny_write(dir, &t, 4);
  tiny_state = 7;
  float *a = train_some(false, false, losses[0], &info[0]);
  tiny_state = 7;
  float *b = train_some(true, true, losses[1], &info[1]);
  cr_assert(memcmp(losses[0], losses[1], sizeof losses[0]) == 0);
  cr_assert(losses[0][0] != losses[0][3]);
  rig g = open_rig("r=4,alpha=8,targets=all", false);
  cr_assert(memcmp(a, b, sizeof *a * (size_t)gs_params_count(g.p)) == 0);
  cr_assert(info[0].arena_bytes * 3 < info[1].arena_bytes * 2, "%zu, %zu", info[0].arena_bytes,
            info[1].arena_bytes);
  cr_assert(info[1].arena_bytes == info[1].arena_bytes_without_reuse);
  close_rig(&g);
  free(a);
  free(b);
}

Test(step, one_batch_is_learned) {
  tiny t = tiny_default();
  tiny_write(dir, &t, 5);
  rig g = open_rig("r=8,alpha=16,targets=all", false);
  gs_step *s = make_step(&g, GS_STEP_TRAIN, 16, false);
  tiny_row row = {.n = 0};
  tiny_document(&row, 16, 37);
  gs_batch b = batch_of(&row);
  double first = 0, last = 0;
  for (int i = 0; i < 60; i++) {
    gs_step_result r;
    must(gs_step_run(s, &b, 2e-2, i + 1, &r, &err), &err);
    if (i == 0) first = r.loss;
    last = r.loss;
  }
  cr_assert(last < 0.1 * first, "%g to %g", first, last);
  gs_step_free(s);
  close_rig(&g);
}

/* ---- batches ---- */

Test(step, batch_without_labels_changes_nothing) {
  tiny t = tiny_default();
  tiny_write(dir, &t, 6);
  rig g = open_rig("r=2,alpha=2,targets=all", false);
  gs_step *s = make_step(&g, GS_STEP_TRAIN, 6, false);
  tiny_row row = {.n = 0};
  tiny_document(&row, 6, 37);
  run(s, &row);
  float *before[3], *after[3];
  for (int k = 0; k < 3; k++)
    before[k] = read_all(&g, (gs_param_kind[]){GS_MASTER, GS_MOMENT1, GS_MOMENT2}[k]);
  for (int i = 0; i < 6; i++) row.label[i] = -100;
  gs_step_result r = run(s, &row);
  cr_assert(r.skipped && r.loss == 0 && r.labels == 0);
  for (int k = 0; k < 3; k++) {
    after[k] = read_all(&g, (gs_param_kind[]){GS_MASTER, GS_MOMENT1, GS_MOMENT2}[k]);
    cr_assert(memcmp(before[k], after[k], sizeof(float) * (size_t)gs_params_count(g.p)) == 0);
    free(before[k]);
    free(after[k]);
  }
  gs_step_free(s);
  close_rig(&g);
}

static void expect_refusal(gs_step *s, const tiny_row *r, const char *part, const char *part2) {
  gs_step_result out;
  gs_batch b = batch_of(r);
  cr_assert(gs_step_run(s, &b, 0, 1, &out, &err) == GS_ERR_INPUT);
  cr_assert(strstr(err.message, part) && strstr(err.message, part2), "%s", err.message);
}

Test(step, values_out_of_range_are_named) {
  tiny t = tiny_default();
  tiny_write(dir, &t, 7);
  rig g = open_rig("r=2,alpha=2,targets=all", false);
  gs_step *s = make_step(&g, GS_STEP_EVAL, 9, false);
  tiny_row row = {.n = 0}, bad;
  tiny_document(&row, 9, 37);
  bad = row;
  bad.label[4] = 37;
  expect_refusal(s, &bad, "token 4", "37");
  bad.label[4] = -1;
  expect_refusal(s, &bad, "token 4", "-1");
  bad = row;
  bad.id[8] = 9999;
  expect_refusal(s, &bad, "token 8", "9999");
  bad = row;
  bad.position[2] = -3;
  expect_refusal(s, &bad, "token 2", "-3");
  bad = row;
  bad.cu[1] = 10;
  expect_refusal(s, &bad, "document 1", "10");
  gs_step_free(s);
  close_rig(&g);
}

/* What hangs on the batch alone is made once and shared by all layers: attention's lists of tiles.
 * Its memory lives until the last of them; nothing else may lie there in between. */
Test(step, what_a_batch_needs_is_made_once) {
  tiny t = tiny_default();
  t.dim = 8, t.layers = 3; /* heads that fit tiles */
  tiny_write(dir, &t, 9);
  rig g = open_typed("r=2,alpha=2,targets=all", false, GS_BF16);
  tiny_row row = {.n = 0};
  tiny_document(&row, 7, 37);
  tiny_document(&row, 20, 37);
  float *grad[2];
  for (int no_reuse = 0; no_reuse < 2; no_reuse++) {
    gs_step *s = make_step(&g, GS_STEP_GRADIENT, row.n, no_reuse);
    const gs_record *r = gs_step_record(s);
    int made = 0, shared = 0;
    for (int i = 0; i < r->nacts; i++) {
      const gs_act *a = &r->acts[i];
      if (a->kind != GS_ACT_LAUNCH || !a->routine->code.list->kernels[0].once) continue;
      made += a->had == 0;
      shared += a->had == 1;
    }
    cr_assert(made == 2 && shared == 4, "%d made, %d shared", made, shared);
    run(s, &row);
    grad[no_reuse] = read_all(&g, GS_GRAD);
    gs_step_free(s);
  }
  size_t n = (size_t)gs_params_count(g.p);
  cr_assert(memcmp(grad[0], grad[1], n * sizeof(float)) == 0);
  free(grad[0]), free(grad[1]);
  close_rig(&g);
}

/* With a vocabulary of whole vectors the head gives its gradient as bf16, so the last norm takes
 * another form: the gradients are those of f32, but for rounding. */
Test(step, bfloat16_gradients_are_near_those_of_f32) {
  tiny t = tiny_default();
  t.vocab = 40;
  tiny_write(dir, &t, 9);
  tiny_row row = {.n = 0};
  tiny_document(&row, 20, t.vocab);
  float *grad[2];
  double far = 0, all = 0;
  size_t n = 0;
  for (int i = 0; i < 2; i++) {
    tiny_state = 77; /* the same adapters */
    rig g = open_typed("r=2,alpha=2,targets=all", true, i ? GS_F32 : GS_BF16);
    gs_step *s = make_step(&g, GS_STEP_GRADIENT, row.n, false);
    run(s, &row);
    grad[i] = read_all(&g, GS_GRAD);
    n = (size_t)gs_params_count(g.p);
    gs_step_free(s);
    close_rig(&g);
  }
  for (size_t k = 0; k < n; k++) {
    far += pow((double)grad[0][k] - grad[1][k], 2);
    all += pow(grad[1][k], 2);
  }
  cr_assert(all > 0 && sqrt(far / all) < 0.1, "off by %g", sqrt(far / all));
  free(grad[0]), free(grad[1]);
}

/* ---- the model file ---- */

static float *logits_of(const tiny *t, uint64_t seed, const tiny_row *row) {
  tiny_write(dir, t, seed);
  rig g = open_rig("r=2,alpha=2,targets=q_proj", false);
  gs_step *s;
  gs_step_options o = {.mode = GS_STEP_EVAL, .tokens = row->n, .keep_logits = true};
  must(gs_step_new(g.m, NULL, &o, &s, &err), &err);
  run(s, row);
  float *v = malloc(sizeof *v * (size_t)row->n * (size_t)t->vocab);
  must(gs_step_logits(s, v, &err), &err);
  gs_step_free(s);
  close_rig(&g);
  return v;
}

Test(step, linear_scaling_halves_positions) {
  tiny t = tiny_default();
  tiny_row row = {.n = 0};
  tiny_document(&row, 12, 37);
  float *plain = logits_of(&t, 8, &row);
  for (int i = 0; i < row.n; i++) row.position[i] *= 2;
  float *wrong = logits_of(&t, 8, &row);
  t.more = "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0},";
  float *scaled = logits_of(&t, 8, &row);
  t.more =
      "\"rope_parameters\": {\"rope_type\": \"linear\", \"factor\": 2.0, \"rope_theta\": 10000.0},";
  float *newer = logits_of(&t, 8, &row);
  double far = 0;
  for (int i = 0; i < row.n * t.vocab; i++) {
    cr_assert(fabs(plain[i] - scaled[i]) < 1e-4 && scaled[i] == newer[i]);
    far = fmax(far, fabs(plain[i] - wrong[i]));
  }
  cr_assert(far > 1e-2);
  free(plain);
  free(wrong);
  free(scaled);
  free(newer);
}

/* The frequencies that a step has on the device. */
static void read_inv_freq(const gs_step *s, gs_device *d, float *out) {
  const gs_record *r = gs_step_record(s);
  for (int i = 0; i < r->nvars; i++)
    if (strcmp(r->vars[i].name, "inv_freq") == 0) {
      must(gs_device_download(d, out, r->vars[i].ptr, gs_var_bytes(&r->vars[i]), &err), &err);
      return;
    }
  cr_assert(false, "no inv_freq");
}

Test(step, llama3_scaling_against_its_formula) {
  tiny t = tiny_default();
  t.heads = t.kv = 1;
  t.dim = 64;
  t.more =
      "\"rope_theta\": 500000.0, \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, "
      "\"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": "
      "8192},";
  tiny_write(dir, &t, 9);
  rig g = open_rig("r=2,alpha=2,targets=q_proj", false);
  gs_step *s = make_step(&g, GS_STEP_EVAL, 3, false);
  float have[32];
  int kinds[3] = {0};
  read_inv_freq(s, g.d, have);
  for (int i = 0; i < 32; i++) {
    double f = pow(500000.0, -2.0 * i / 64), wave = 2 * acos(-1.0) / f, want;
    double smooth = (8192 / wave - 1) / (4 - 1);
    int kind = wave < 8192 / 4.0 ? 0 : wave > 8192 / 1.0 ? 2 : 1;
    want = kind == 0 ? f : kind == 2 ? f / 8 : (1 - smooth) * f / 8 + smooth * f;
    kinds[kind]++;
    cr_assert(fabs(have[i] - want) < 2e-6 * want, "[%d] %g, %g", i, have[i], want);
  }
  cr_assert(kinds[0] && kinds[1] && kinds[2]);
  gs_step_free(s);
  close_rig(&g);
}

static void expect_unopened(const tiny *t, const char *part) {
  gs_device *d;
  gs_model *m;
  gs_device_options o = {0};
  tiny_write(dir, t, 10);
  must(gs_device_open("emu", &o, &d, &err), &err);
  gs_status st = gs_model_open(d, dir, GS_F32, &m, &err);
  cr_assert(st == GS_ERR_INPUT || st == GS_ERR_USE, "%s opened", part);
  cr_assert(strstr(err.message, part), "\"%s\" is not in: %s", part, err.message);
  gs_device_close(d);
}

Test(step, fields_that_would_be_ignored_are_refused) {
  static const char *const rows[][2] = {
      {"\"attention_bias\": true,", "attention_bias"},
      {"\"mlp_bias\": true,", "mlp_bias"},
      {"\"sliding_window\": 4096,", "sliding_window"},
      {"\"quantization_config\": {\"bits\": 4},", "quantization_config"},
      {"\"attention_dropout\": 0.1,", "attention_dropout"},
      {"\"logit_scale\": 0.5,", "logit_scale"},
      {"\"rope_scaling\": {\"type\": \"ntk2\", \"factor\": 2.0},", "ntk2"},
      {"\"rope_scaling\": {\"rope_type\": \"linear\"},", "factor"},
      {"\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2.0, \"mscale\": 2},", "mscale"},
      {"\"auto_map\": {},", "auto_map"},
  };
  tiny t = tiny_default();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    t.more = rows[i][0];
    expect_unopened(&t, rows[i][1]);
    expect_unopened(&t, "config.json");
  }
  t.more = "\"sliding_window\": null, \"torch_dtype\": \"bfloat16\", \"use_cache\": true,";
  tiny_write(dir, &t, 10);
  rig g = open_rig("r=2,alpha=2,targets=all", false);
  close_rig(&g);
}

Test(step, faults_of_files_are_named) {
  tiny t = tiny_default();
  t.heads = 5;
  expect_unopened(&t, "num_attention_heads");
  t = tiny_default();
  t.dim = 3;
  expect_unopened(&t, "head_dim");
  t = tiny_default();
  t.leave_out = "model.layers.1.mlp.up_proj.weight";
  expect_unopened(&t, t.leave_out);
  t = tiny_default();
  t.extra = "model.layers.0.self_attn.q_proj.bias";
  expect_unopened(&t, t.extra);
  t = tiny_default();
  tiny_write(dir, &t, 1);
  t.ffn = 36;
  tiny_write_config(dir, &t);
  gs_device *d;
  gs_model *m;
  gs_device_options o = {0};
  must(gs_device_open("emu", &o, &d, &err), &err);
  cr_assert(gs_model_open(d, dir, GS_F32, &m, &err) == GS_ERR_INPUT);
  cr_assert(strstr(err.message, "gate_proj") && strstr(err.message, "[35, 24]"), "%s", err.message);
  char path[600];
  snprintf(path, sizeof path, "%s/config.json", dir);
  const char *other = "{\"architectures\": [\"MambaForCausalLM\"]}";
  must(gs_file_write(path, other, strlen(other), &err), &err);
  cr_assert(gs_model_open(d, dir, GS_F32, &m, &err) == GS_ERR_INPUT);
  cr_assert(strstr(err.message, "MambaForCausalLM") && strstr(err.message, "LlamaForCausalLM"),
            "%s", err.message);
  gs_device_close(d);
}

Test(step, unknown_target_is_named) {
  tiny t = tiny_default();
  gs_device *d;
  gs_model *m;
  gs_params *p;
  gs_lora lora;
  gs_device_options o = {0};
  int n;
  tiny_write(dir, &t, 1);
  must(gs_device_open("emu", &o, &d, &err), &err);
  must(gs_model_open(d, dir, GS_F32, &m, &err), &err);
  must(gs_lora_parse("r=2,targets=q_proj+w_pack", &lora, &err), &err);
  const gs_module *modules = gs_model_modules(m, &n);
  cr_assert(n == 2 * 7 + 1);
  cr_assert(gs_params_new(d, modules, n, &lora, GS_F32, 0, &p, &err) == GS_ERR_USE);
  cr_assert(strstr(err.message, "w_pack") && strstr(err.message, "gate_proj"), "%s", err.message);
  gs_model_close(m);
  gs_device_close(d);
}

/* ---- generation ---- */

Test(step, greedy_text_follows_the_logits) {
  tiny t = tiny_default();
  tiny_write(dir, &t, 11);
  rig g = open_rig("r=2,alpha=4,targets=all", false);
  int32_t ids[64] = {3, 14, 15, 9};
  int64_t n = 4;
  gs_generate_options o = {.max_tokens = 32};
  must(gs_generate(g.m, g.p, &o, ids, &n, &err), &err);
  cr_assert(n == 36, "grows beyond one capacity");
  tiny_row row = {.n = 36};
  for (int i = 0; i < 36; i++) {
    row.id[i] = ids[i];
    row.position[i] = i;
    row.label[i] = i + 1 < 36 ? ids[i + 1] : -100;
  }
  tiny_one_document(&row);
  gs_step *s = make_step(&g, GS_STEP_EVAL, 36, false);
  run(s, &row);
  float *v = malloc(sizeof *v * 36 * 37);
  must(gs_step_logits(s, v, &err), &err);
  for (int i = 3; i < 35; i++)
    for (int k = 0; k < 37; k++)
      cr_assert(v[i * 37 + k] <= v[i * 37 + ids[i + 1]] + 1e-5, "token %d is not the likeliest",
                i + 1);
  int64_t m = 4;
  int32_t again[64] = {3, 14, 15, 9};
  o.stop = &ids[6];
  o.nstop = 1;
  must(gs_generate(g.m, g.p, &o, again, &m, &err), &err);
  cr_assert(m <= 6, "the stop id ends the text");
  free(v);
  gs_step_free(s);
  close_rig(&g);
}

/* ---- a real model ---- */

/* Mean negative log-likelihood of texts under stories260K, and its greedy text, against an
 * independent forward in double precision (golden.json). The tiny models above are the twin on data
 * of our own. */
static void check_text(const rig *g, const json_t *j) {
  const json_t *ids = json_object_get(j, "ids");
  tiny_row row = {.n = (int)json_array_size(ids)};
  cr_assert(row.n <= 512);
  for (int i = 0; i < row.n; i++) {
    row.id[i] = (int32_t)json_integer_value(json_array_get(ids, (size_t)i));
    row.position[i] = i;
    row.label[i] = -100;
    if (i > 0) row.label[i - 1] = row.id[i];
  }
  tiny_one_document(&row);
  gs_step *s = make_step(g, GS_STEP_EVAL, row.n, false);
  double want = json_real_value(json_object_get(j, "mean_nll")), loss = run(s, &row).loss;
  cr_assert(fabs(loss - want) < 1e-5 * want, "%.8g, golden %.8g", loss, want);
  gs_step_free(s);
}

static bool find_inputs(char *path, size_t cap) {
  const char *root = getenv("GRADSMITH_INPUTS");
  if (root)
    snprintf(path, cap, "%s/models/stories260K", root);
  else
    snprintf(path, cap, "%s/../../shared/inputs/models/stories260K", GS_TEST_DIR);
  return gs_path_exists(path);
}

Test(step, stories260k_agrees_with_its_golden_values) {
  char path[600], file[700];
  json_t *j;
  rig g = {0};
  gs_device_options o = {0};
  if (!find_inputs(path, sizeof path)) {
    printf("skipped: no stories260K in $GRADSMITH_INPUTS or ../shared/inputs\n");
    return;
  }
  snprintf(file, sizeof file, "%s/golden.json", path);
  must(gs_json_read(file, &j, &err), &err);
  must(gs_device_open("emu", &o, &g.d, &err), &err);
  must(gs_model_open(g.d, path, GS_F32, &g.m, &err), &err);
  const json_t *texts = json_object_get(j, "nll");
  cr_assert(json_array_size(texts) > 0);
  for (size_t i = 0; i < json_array_size(texts); i++) check_text(&g, json_array_get(texts, i));
  const json_t *greedy = json_object_get(j, "greedy_ids");
  int32_t ids[64] = {(int32_t)json_integer_value(json_array_get(greedy, 0))};
  int64_t n = 1;
  gs_generate_options go = {.max_tokens = 40};
  must(gs_generate(g.m, NULL, &go, ids, &n, &err), &err);
  for (int i = 0; i < 41; i++)
    cr_assert(ids[i] == json_integer_value(json_array_get(greedy, (size_t)i)), "token %d", i);
  json_decref(j);
  close_rig(&g);
}
