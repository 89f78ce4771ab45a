/* uses: gs_bench gs_tune gs_check gs_device gs_model */
/* `gradsmith bench` and `tune` as their user meets them, over the driver made of host memory: what
 * is not known is "unknown", the emulator is never timed, a tuned choice is kept, shown, used, and
 * survives being killed. Where there is no NVRTC the machine can't be opened: nothing to test. */
#define _GNU_SOURCE
#include "base/file.h"
#include "bench/bench.h"
#include "jit/jit.h"
#include "tiny_model.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[512], said[1 << 16];
static gs_error err;

#define fine(call) cr_assert((call) == GS_OK, "%s", err.message)

static void setup(void) {
  err = (gs_error){0};
  fine(gs_temp_dir(dir, sizeof dir, &err));
}
static void teardown(void) {
  gs_remove_tree(dir);
}
TestSuite(bench, .init = setup, .fini = teardown, .timeout = 60);

/* Starts the program with words separated by blanks; all it says goes to DIR/said. */
static pid_t start(const char *words, bool fake) {
  char path[1024], text[1024], *argv[32], *save = NULL;
  int n = 0;
  pid_t child = fork();
  if (child) return child;
  snprintf(path, sizeof path, "%s/said", dir);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  dup2(fd, 1);
  dup2(fd, 2);
  snprintf(path, sizeof path, "%.*sfake_cuda", (int)(strrchr(GS_PROGRAM, '/') + 1 - GS_PROGRAM),
           GS_PROGRAM);
  if (fake) setenv("LD_LIBRARY_PATH", path, 1);
  setenv("FAKE_CUDA_ANY", "1", 1);
  setenv("FAKE_CUDA_BLIND", "1", 1);
  setenv("XDG_DATA_HOME", dir, 1);
  if (chdir(dir) != 0) _exit(99);
  snprintf(text, sizeof text, "gradsmith %s", words);
  for (char *w = strtok_r(text, " ", &save); w && n < 31; w = strtok_r(NULL, " ", &save))
    argv[n++] = w;
  argv[n] = NULL;
  execv(GS_PROGRAM, argv);
  _exit(98);
}

static int finish(pid_t child) {
  char path[1024], *text = NULL;
  size_t len = 0;
  int state = 0;
  waitpid(child, &state, 0);
  snprintf(path, sizeof path, "%s/said", dir);
  fine(gs_file_read(path, &text, &len, &err));
  snprintf(said, sizeof said, "%s", text);
  free(text);
  return WIFEXITED(state) ? WEXITSTATUS(state) : -WTERMSIG(state);
}

static int run(const char *words) {
  return finish(start(words, true));
}

static bool has_nvrtc(void) {
  gs_jit *j = NULL;
  bool has = gs_jit_open(0, &j, NULL) == GS_OK;
  gs_jit_close(j);
  return has;
}

static char *file(const char *name) {
  char path[1024], *text = NULL;
  size_t len;
  snprintf(path, sizeof path, "%s/%s", dir, name);
  fine(gs_file_read(path, &text, &len, &err));
  return text;
}

Test(bench, the_emulator_is_not_timed) {
  cr_assert(finish(start("bench rmsnorm --device emu", false)) == 2, "%s", said);
  cr_assert(strstr(said, "checker") && !strstr(said, "TB/s"), "%s", said);
  cr_assert(finish(start("tune rmsnorm --dims T=4,H=64 --device emu", false)) == 2, "%s", said);
  cr_assert(strstr(said, "checker"), "%s", said);
}

Test(bench, wrong_use) {
  cr_assert(run("bench nothing_like_it") == 2);
  cr_assert(strstr(said, "no case of 'nothing_like_it'"), "%s", said);
  cr_assert(run("bench rmsnorm --dtype i8") == 2 && strstr(said, "--dtype"), "%s", said);
  cr_assert(run("bench --dims T=1,H=8") == 2, "%s", said);
  cr_assert(run("tune") == 2 && strstr(said, "is needed"), "%s", said);
  cr_assert(run("tune rmsnorm --show") == 2, "%s", said);
}

Test(bench, a_table_of_an_unknown_gpu) {
  if (!has_nvrtc()) cr_skip("no NVRTC");
  cr_assert(run("bench rmsnorm --dims T=64,H=256 --out o") == 0, "%s", said);
  cr_assert(strstr(said, "Fake GPU") && strstr(said, "clocks unknown"), "%s", said);
  /* a launch of the fake takes 10 ms; the backward is two */
  cr_assert(strstr(said, "rmsnorm.forward") && strstr(said, "10000.0 us"), "%s", said);
  cr_assert(strstr(said, "rmsnorm.backward"), "%s", said);
  char *json = file("o/bench.json"), *md = file("o/bench.md"), *svg = file("o/bench.svg");
  cr_assert(strstr(json, "\"power_cap_w\": \"unknown\"") &&
            strstr(json, "\"driver\": \"unknown\""));
  cr_assert(strstr(json, "\"bytes_formula\": \"2*T*H x + 2*H w + 2*T*H y + 4*T rstd\""), "%s",
            json);
  cr_assert(strstr(md, "| rmsnorm.forward | T=64 H=256 | 10000.0 |"), "%s", md);
  cr_assert(strstr(svg, "</svg>") && strstr(svg, "rmsnorm.backward"));
  free(json);
  free(md);
  free(svg);
}

Test(bench, a_case_that_fails_is_named) {
  if (!has_nvrtc()) cr_skip("no NVRTC");
  cr_assert(run("bench swiglu rmsnorm --dims T=64,H=256 --out o") == 1, "%s", said);
  cr_assert(strstr(said, "swiglu.forward") && strstr(said, "dim H=256: no such dim"), "%s", said);
  cr_assert(strstr(said, "rmsnorm.forward") && strstr(said, "2 of 4 cases"), "%s", said);
}

/* ---- the report ---- */

static gs_bench_row row(void) {
  gs_bench_row r = {.name = "rmsnorm.forward",
                    .shape = "T=1",
                    .dtype = GS_BF16,
                    .bytes = 4e8,
                    .flops = 1e9,
                    .t = {.n = 1, .median = 1e-4, .low = 1e-4, .high = 1.1e-4}};
  return r;
}

Test(bench, a_line) {
  gs_bench b = {.rates = {.copy = 5e12}};
  gs_bench_row r = row();
  gs_text t = {0};
  gs_bench_line(&b, &r, &t); /* 4e8 bytes in 100 us: 4 TB/s, 80 % */
  cr_assert(strstr(t.s, "100.0 us") && strstr(t.s, "4.00 TB/s") && strstr(t.s, "80.0 % of copy") &&
                strstr(t.s, "spread 10 %"),
            "%s", t.s);
  gs_text_free(&t);
  b.rates.copy = 0;
  gs_bench_line(&b, &r, &t);
  cr_assert(strstr(t.s, "unknown of copy"), "%s", t.s);
  gs_text_free(&t);
}

/* What matrix products take the time of is held against the GEMM rate, and against them. */
Test(bench, a_line_of_products) {
  gs_bench b = {.rates = {.copy = 5e12, .gemm = 5e14}};
  gs_bench_row r = row();
  gs_text t = {0};
  r.by_flops = true;
  r.flops = 4e10; /* in 100 us: 400 TFLOP/s, 80 % */
  r.products = 8e-5;
  r.memory = 3 << 20;
  gs_bench_line(&b, &r, &t);
  cr_assert(strstr(t.s, "400 TFLOP/s") && strstr(t.s, "80.0 % of GEMM") &&
                strstr(t.s, "1.250 x its products alone, 3 MiB"),
            "%s", t.s);
  gs_text_free(&t);
}

/* Lengths of documents give cu_q and cu_k, and the pairs that count: 2 x 64 x 64 / 2. */
Test(bench, documents_of_attention) {
  if (!has_nvrtc()) cr_skip("no NVRTC");
  gs_device *d = NULL;
  gs_meter *m = NULL;
  gs_bench_row *r;
  gs_bench b = {0};
  gs_bench_case c = {.layer = "attention",
                     .pass = GS_PASS_FORWARD,
                     .dims = "T=128,S=128,B1=3,K=2,G=3,D=64",
                     .documents = "2x64"};
  fine(gs_device_open("emu", &(gs_device_options){.arch = "sm_80"}, &d, &err));
  fine(gs_meter_open(d, &m, &err));
  gs_meter_warm_seconds(m, 0);
  fine(gs_bench_run(d, NULL, m, &c, GS_BF16, NULL, &b, &r, &err));
  cr_assert(!r->why[0], "%s", r->why);
  cr_assert(r->by_flops && r->flops == 4.0 * 64 * 64 * 6 * 64, "%g", r->flops);
  c.documents = "2x";
  fine(gs_bench_run(d, NULL, m, &c, GS_BF16, NULL, &b, &r, &err));
  cr_assert(strstr(r->why, "lengths are wanted"), "%s", r->why);
  c.documents = "3x64";
  fine(gs_bench_run(d, NULL, m, &c, GS_BF16, NULL, &b, &r, &err));
  cr_assert(strstr(r->why, "cu_q") && strstr(r->why, "bytes"), "%s", r->why);
  gs_bench_free(&b);
  gs_meter_close(m);
  gs_device_close(d);
}

Test(bench, peers_are_read) {
  static const gs_bench_case c = {
      .layer = "rmsnorm", .pass = GS_PASS_FORWARD, .dims = "T=1", .peer = "rmsnorm.fwd 1x2"};
  const gs_bench_case *list[] = {&c};
  char path[600];
  const char *text =
      "[{\"gpu\": \"G\"}, {\"op\": \"rmsnorm.fwd\", \"shape\": \"1x2\", \"who\": \"torch\", "
      "\"ms\": 0.2},"
      "{\"op\": \"rmsnorm.fwd\", \"shape\": \"1x2\", \"who\": \"liger\", \"ms\": 0.12},"
      "{\"op\": \"rmsnorm.fwd\", \"shape\": \"1x2\", \"who\": \"gradsmith\", \"ms\": 0.1},"
      "{\"op\": \"rmsnorm.fwd\", \"shape\": \"9x9\", \"who\": \"torch\", \"ms\": 0.01},"
      "{\"missing\": {\"unsloth\": \"no folder\"}}]";
  gs_bench_row r = row();
  gs_bench b = {.rates = {.copy = 5e12}, .n = 1, .rows = &r};
  gs_text t = {0};
  snprintf(path, sizeof path, "%s/peers.json", dir);
  fine(gs_file_write(path, text, strlen(text), &err));
  fine(gs_bench_add_peers(&b, list, path, &err));
  cr_assert(r.npeers == 2 && strcmp(r.peers[0].name, "liger") == 0);
  gs_bench_line(&b, &r, &t);
  cr_assert(strstr(t.s, "in turns 100.0 us  1.20 x liger"), "%s", t.s);
  cr_assert(strstr(b.missing, "unsloth (no folder)"), "%s", b.missing);
  gs_text_free(&t);
  fine(gs_file_write(path, text, 40, &err));
  cr_assert(gs_bench_add_peers(&b, list, path, &err) == GS_ERR_INPUT);
}

/* ---- tune ---- */

Test(bench, tuned_and_shown) {
  if (!has_nvrtc()) cr_skip("no NVRTC");
  cr_assert(run("tune --show") == 0 && strstr(said, "no records"), "%s", said);
  cr_assert(run("tune rmsnorm --dims T=64") == 2 && strstr(said, "H"), "%s", said);
  cr_assert(run("tune rmsnorm --dims T=64,H=4096") == 0, "%s", said);
  cr_assert(strstr(said, "2 passes"), "%s", said);
  cr_assert(run("tune --show") == 0, "%s", said);
  cr_assert(strstr(said, "Fake GPU") && strstr(said, "rmsnorm.forward") && strstr(said, "T=64"),
            "%s", said);
  cr_assert(run("tune --export all.json") == 0, "%s", said);
  char *json = file("all.json");
  cr_assert(strstr(json, "\"gpu\": \"Fake GPU\"") && strstr(json, "\"timings\": \"0.0"), "%s",
            json);
  free(json);
  cr_assert(run("tune --import all.json") == 0 && strstr(said, "records taken"), "%s", said);
}

/* "tunables" of the forward in o/bench.json; malloc'ed. */
static char *tunables(void) {
  cr_assert(run("bench rmsnorm --dims T=50,H=4096 --out o") == 0, "%s", said);
  char *text = file("o/bench.json");
  json_t *all = json_loads(text, 0, NULL);
  json_t *first = json_array_get(json_object_get(all, "cases"), 0);
  char *found = strdup(json_string_value(json_object_get(first, "tunables")));
  json_decref(all);
  free(text);
  return found;
}

/* A record that says another choice is faster changes what is compiled; of another GPU, nothing. */
Test(bench, records_are_used) {
  if (!has_nvrtc()) cr_skip("no NVRTC");
  cr_assert(run("tune rmsnorm --pass forward --dims T=64,H=4096 --rounds 1") == 0, "%s", said);
  cr_assert(run("tune --export all.json") == 0, "%s", said);
  char *plain = tunables(), *text = file("all.json"), path[700];
  json_t *all = json_loads(text, 0, NULL), *r;
  size_t i, changed = 0;
  for (int other = 1; other >= 0; other--) {
    json_array_foreach(json_object_get(all, "records"), i, r) {
      json_object_set_new(r, "gpu", json_string(other ? "Another GPU" : "Fake GPU"));
      if (strcmp(json_string_value(json_object_get(r, "tuned")), "row.threads=512") != 0) continue;
      json_object_set_new(r, "median", json_real(1e-3));
      changed++;
    }
    snprintf(path, sizeof path, "%s/changed.json", dir);
    cr_assert(json_dump_file(all, path, 0) == 0);
    cr_assert(run("tune --import changed.json") == 0, "%s", said);
    char *now = tunables();
    cr_assert((strcmp(now, plain) == 0) == other, "%d: %s", other, now);
    free(now);
  }
  cr_assert(changed == 2, "%zu", changed);
  json_decref(all);
  free(plain);
  free(text);
}

/* The benchmark's cases of a layer, with a table of what their defaults are worth. */
Test(bench, the_table_is_tuned) {
  if (!has_nvrtc()) cr_skip("no NVRTC");
  cr_assert(run("tune residual_rmsnorm --table --rounds 1") == 0, "%s", said);
  cr_assert(strstr(said, "| residual_rmsnorm.forward bf16 H=4096") &&
                strstr(said, "0 of 2 defaults are more than 10 % from the best"),
            "%s", said);
  cr_assert(run("tune --table --show") == 2, "%s", said);
}

/* Killed while it measures: what was measured before is there, and the store is whole. */
Test(bench, killed_while_it_measures) {
  if (!has_nvrtc()) cr_skip("no NVRTC");
  for (int k = 0; k < 4; k++) {
    pid_t child = start("tune rmsnorm --dims T=64,H=4096", true);
    usleep((useconds_t)(150000 + 170000 * k));
    kill(child, SIGKILL);
    finish(child);
    cr_assert(run("tune --show") == 0, "%s", said);
  }
}

/* Every pass that a model's step launches, at the sizes that it launches it with. */
Test(bench, a_model_is_tuned) {
  if (!has_nvrtc()) cr_skip("no NVRTC");
  char model[600];
  tiny t = tiny_default();
  t.layers = 1;
  snprintf(model, sizeof model, "%s/model", dir);
  tiny_write(model, &t, 1);
  cr_assert(run("tune --model model --seq 16 --rounds 1") == 0, "%s", said);
  cr_assert(strstr(said, "rmsnorm.forward") && strstr(said, "swiglu.backward"), "%s", said);
  cr_assert(strstr(said, "T=16") && strstr(said, "faster than by default"), "%s", said);
}
