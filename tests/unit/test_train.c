/* uses: gs_step gs_model gs_data gs_device */
/* A training run: its order of data, learning rates and settings; that a run which goes on from its
 * state gives the bits of one that was not stopped; and what it refuses. */
#include "optim/schedule.h"
#include "step/state.h"
#include "step/train.h"
#include "tiny_model.h"

static char dir[512], model[600], data[600], out[600], out2[600];
static gs_error err;

/* ---- a model folder with a tokenizer of bytes ---- */

static void add_utf8(gs_text *t, int c) {
  char s[3] = {(char)c, 0, 0};
  if (c >= 128) {
    s[0] = (char)(0xc0 | c >> 6);
    s[1] = (char)(0x80 | (c & 63));
  }
  if (c == '"' || c == '\\') gs_text_add(t, "\\");
  gs_text_add(t, s);
}

static void write_text(const char *folder, const char *name, const char *text) {
  char path[700];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  must(gs_file_write(path, text, strlen(text), &err), &err);
}

/* Byte-level BPE without merges: each byte is a token, 256 ends the text. */
static void write_tokenizer(void) {
  gs_text j = {0};
  int other = 256;
  gs_text_add(
      &j,
      "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null, \"added_tokens\": [{\"id\": "
      "256, "
      "\"content\": \"<|end|>\", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
      "\"normalized\": false, \"special\": true}], \"normalizer\": null, \"pre_tokenizer\": "
      "{\"type\": "
      "\"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": true}, "
      "\"post_processor\": null, \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": "
      "true, "
      "\"trim_offsets\": true, \"use_regex\": true}, \"model\": {\"type\": \"BPE\", \"dropout\": "
      "null, "
      "\"unk_token\": null, \"continuing_subword_prefix\": null, \"end_of_word_suffix\": null, "
      "\"fuse_unk\": false, \"byte_fallback\": false, \"vocab\": {");
  for (int b = 0; b < 256; b++) {
    bool plain = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    gs_text_add(&j, b ? ", \"" : "\"");
    add_utf8(&j, plain ? b : other++);
    gs_text_printf(&j, "\": %d", b);
  }
  gs_text_add(&j, "}, \"merges\": []}}");
  write_text(model, "tokenizer.json", j.s);
  write_text(model, "tokenizer_config.json", "{\"eos_token\": \"<|end|>\"}");
  gs_text_free(&j);
}

static void setup(void) {
  err = (gs_error){0};
  must(gs_temp_dir(dir, sizeof dir, &err), &err);
  snprintf(model, sizeof model, "%s/model", dir);
  snprintf(data, sizeof data, "%s/data.jsonl", dir);
  snprintf(out, sizeof out, "%s/out", dir);
  snprintf(out2, sizeof out2, "%s/out2", dir);
  tiny t = tiny_default();
  t.vocab = 261;
  tiny_write(model, &t, 1);
  write_tokenizer();
  write_text(dir, "data.jsonl",
             "{\"text\": \"the first sample\"}\n{\"text\": \"a second one, longer\"}\n"
             "{\"prompt\": \"what?\", \"completion\": \"that\"}\n{\"text\": \"x\"}\n{\"text\": "
             "\"no more than this\"}\n"
             "{\"text\": \"a sample that is rather long, so that it fills a row\"}\n{\"text\": "
             "\"tail\"}\n");
}
static void teardown(void) {
  gs_remove_tree(dir);
}
TestSuite(train, .init = setup, .fini = teardown);

static gs_device *open_device(void) {
  gs_device *d;
  gs_device_options o = {0};
  must(gs_device_open("emu", &o, &d, &err), &err);
  return d;
}

static gs_settings settings(void) {
  gs_settings s = gs_settings_none();
  s.model = model;
  s.data = data;
  s.steps = 7;
  s.seq = 48;
  s.lr = 1e-2;
  s.seed = 3;
  s.lora = "r=2,alpha=4,targets=q_proj+down_proj";
  return s;
}

/* Takes n steps; appends losses. */
static void take(gs_trainer *t, int n, double *losses, int *at) {
  for (int i = 0; i < n; i++) {
    gs_progress p;
    must(gs_trainer_step(t, &p, &err), &err);
    cr_assert(p.result.labels > 0 && p.tokens <= 48 && !p.zero_gradients, "%s", p.zero_gradients);
    losses[(*at)++] = p.result.loss;
  }
}

static float *masters(const gs_trainer *t, gs_param_kind kind, int64_t *n) {
  gs_params *p = gs_trainer_info(t).params;
  *n = gs_params_count(p);
  float *v = malloc(sizeof *v * (size_t)*n);
  must(gs_params_read(p, kind, v, &err), &err);
  return v;
}

Test(train, resumed_run_has_the_bits_of_an_unstopped_one) {
  gs_device *d = open_device();
  gs_trainer *whole, *part;
  gs_settings s = settings(), said = gs_settings_none();
  double a[7], b[7];
  int na = 0, nb = 0;
  int64_t n;
  must(gs_trainer_start(d, &s, out, NULL, &whole, &err), &err);
  cr_assert(gs_trainer_info(whole).rows < 7, "the run goes on into further epochs");
  take(whole, 7, a, &na);
  must(gs_trainer_save(whole, &err), &err);
  s = settings();
  must(gs_trainer_start(d, &s, out2, NULL, &part, &err), &err);
  take(part, 4, b, &nb);
  must(gs_trainer_save(part, &err), &err);
  gs_trainer_free(part);
  said.lr = 1e-2;
  must(gs_trainer_resume(d, &said, out2, &part, &err), &err);
  cr_assert(gs_trainer_info(part).done == 4 && gs_trainer_info(part).steps == 7);
  take(part, 3, b, &nb);
  cr_assert(memcmp(a, b, sizeof a) == 0, "the losses differ");
  for (int k = 0; k < 3; k++) {
    gs_param_kind kind = (gs_param_kind[]){GS_MASTER, GS_MOMENT1, GS_MOMENT2}[k];
    float *x = masters(whole, kind, &n), *y = masters(part, kind, &n);
    cr_assert(memcmp(x, y, sizeof *x * (size_t)n) == 0, "buffer %d differs", k);
    free(x);
    free(y);
  }
  gs_progress p;
  cr_assert(gs_trainer_step(part, &p, &err) == GS_ERR_USE);
  gs_trainer_free(part);
  gs_trainer_free(whole);
  gs_device_close(d);
}

Test(train, saved_adapter_is_the_start_of_another_run) {
  gs_device *d = open_device();
  gs_trainer *t, *next;
  gs_settings s = settings();
  double losses[8];
  int at = 0;
  int64_t n;
  s.eval = data;
  must(gs_trainer_start(d, &s, out, NULL, &t, &err), &err);
  double before, after, again;
  int64_t labels;
  must(gs_trainer_eval(t, &before, &labels, &err), &err);
  take(t, 7, losses, &at);
  must(gs_trainer_eval(t, &after, &labels, &err), &err);
  cr_assert(after < before && labels > 50, "%g to %g", before, after);
  must(gs_trainer_save(t, &err), &err);
  s = settings();
  s.lora = NULL; /* the adapter says */
  s.eval = data;
  must(gs_trainer_start(d, &s, out2, out, &next, &err), &err);
  float *x = masters(t, GS_MASTER, &n), *y = masters(next, GS_MASTER, &n);
  cr_assert(memcmp(x, y, sizeof *x * (size_t)n) == 0);
  must(gs_trainer_eval(next, &again, &labels, &err), &err);
  cr_assert(again == after);
  free(x);
  free(y);
  gs_trainer_free(t);
  gs_trainer_free(next);
  gs_device_close(d);
}

static void expect(gs_status st, const char *part) {
  cr_assert(st == GS_ERR_USE || st == GS_ERR_INPUT || st == GS_ERR_IO, "not refused: %s", part);
  cr_assert(strstr(err.message, part), "\"%s\" is not in: %s", part, err.message);
}

Test(train, what_cannot_be_is_refused) {
  gs_device *d = open_device();
  gs_trainer *t;
  gs_settings s = settings(), said = gs_settings_none();
  must(gs_mkdirs(out, &err), &err);
  write_text(out, "note", "mine");
  expect(gs_trainer_start(d, &s, out, NULL, &t, &err), "not empty");
  expect(gs_trainer_resume(d, &said, out, &t, &err), "state.safetensors");
  s = settings();
  s.epochs = 2;
  expect(gs_trainer_start(d, &s, out2, NULL, &t, &err), "--epochs");
  s = settings();
  s.schedule = "sometimes";
  expect(gs_trainer_start(d, &s, out2, NULL, &t, &err), "sometimes");
  s = settings();
  s.lr = -1;
  expect(gs_trainer_start(d, &s, out2, NULL, &t, &err), "--lr");
  s = settings();
  s.dtype = "fp7";
  expect(gs_trainer_start(d, &s, out2, NULL, &t, &err), "fp7");
  cr_assert(!gs_path_exists(out2), "nothing is written when a run does not start");
  s = settings();
  char under[700];
  snprintf(under, sizeof under, "%s/note/below", out);
  expect(gs_trainer_start(d, &s, under, NULL, &t, &err), "note");

  s = settings();
  must(gs_trainer_start(d, &s, out2, NULL, &t, &err), &err);
  gs_trainer_free(t);
  said.lr = 5;
  expect(gs_trainer_resume(d, &said, out2, &t, &err), "--lr 0.01");
  said = gs_settings_none();
  said.lora = "r=4,alpha=4,targets=q_proj";
  expect(gs_trainer_resume(d, &said, out2, &t, &err), "--lora");
  write_text(dir, "data.jsonl", "{\"text\": \"other data\"}\n");
  said = gs_settings_none();
  expect(gs_trainer_resume(d, &said, out2, &t, &err), "has changed");
  gs_device_close(d);
}

Test(train, order_of_samples_is_a_permutation_of_its_seed) {
  enum { N = 101 };
  int a[N], b[N], seen[N] = {0}, same = 0;
  gs_shuffle(a, N, 7, 2);
  for (int i = 0; i < N; i++) seen[a[i]]++;
  for (int i = 0; i < N; i++) cr_assert(seen[i] == 1);
  gs_shuffle(b, N, 7, 2);
  cr_assert(memcmp(a, b, sizeof a) == 0);
  for (int k = 0; k < 2; k++) {
    gs_shuffle(b, N, k ? 8 : 7, k ? 2 : 3);
    same = 0;
    for (int i = 0; i < N; i++) same += a[i] == b[i];
    cr_assert(same < 10);
  }
}

Test(train, learning_rate_rises_and_falls) {
  gs_schedule s = {GS_SCHEDULE_COSINE, 2.0, 4, 104};
  for (int i = 0; i < 4; i++) cr_assert_float_eq(gs_schedule_lr(&s, i), 2.0 * (i + 1) / 5, 1e-12);
  cr_assert_float_eq(gs_schedule_lr(&s, 4), 2.0, 1e-12);
  cr_assert_float_eq(gs_schedule_lr(&s, 54), 1.0, 1e-12);
  cr_assert(gs_schedule_lr(&s, 103) > 0 && gs_schedule_lr(&s, 103) < 1e-3);
  s.kind = GS_SCHEDULE_LINEAR;
  cr_assert_float_eq(gs_schedule_lr(&s, 79), 0.5, 1e-12);
  s.kind = GS_SCHEDULE_CONSTANT;
  cr_assert_float_eq(gs_schedule_lr(&s, 0), 2.0, 1e-12);
}
