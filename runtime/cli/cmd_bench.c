/* cmd_bench.c: `gradsmith bench`: kernels timed on the GPU at hand, beside its own copy rate and,
 * with --peers, beside other libraries' kernels in one run. */
#define _GNU_SOURCE 1 /* environ */
#include "cli/args.h"

#include "base/file.h"
#include "base/text.h"
#include "bench/bench.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_CASES = 128, MAX_WORDS = 32 };

typedef struct wish {
  const char *words[MAX_WORDS];
  int nwords;
  const char *dims, *options, *dtype, *device, *out, *script, *ours, *layers;
  bool peers;
} wish;

typedef struct chosen {
  int n;
  const gs_bench_case *list[MAX_CASES];
  gs_bench_case own[MAX_CASES]; /* of layers with --dims */
  const char *file[MAX_CASES];  /* a layer by its path, or NULL */
} chosen;

static void pick(chosen *c, const gs_bench_case *one) {
  if (c->n < MAX_CASES) c->list[c->n++] = one;
}

/* Passes of a layer at the sizes asked for. */
static gs_status pick_own(const wish *w, const char *word, chosen *c, gs_error *err) {
  gs_author *a = NULL;
  gs_layer *l = NULL;
  gs_status st = gs_author_new(&a, err);
  if (st == GS_OK) st = gs_layer_open(a, word, &l, err);
  bool is_kernel = st == GS_OK && gs_layer_declaration(l)->is_kernel;
  gs_author_free(a);
  for (int backward = 0; st == GS_OK && backward < (is_kernel ? 1 : 2) && c->n < MAX_CASES;
       backward++) {
    gs_bench_case *own = &c->own[c->n];
    *own = (gs_bench_case){.layer = word,
                           .pass = backward ? GS_PASS_BACKWARD : GS_PASS_FORWARD,
                           .dims = w->dims,
                           .options = w->options};
    c->file[c->n] = word;
    pick(c, own);
  }
  return st;
}

static gs_status choose(const wish *w, chosen *c, gs_error *err) {
  for (int i = 0; i < gs_bench_ncases && w->nwords == 0; i++) pick(c, &gs_bench_cases[i]);
  for (int k = 0; k < w->nwords; k++) {
    int before = c->n;
    for (int i = 0; i < gs_bench_ncases && !w->dims; i++)
      if (strcmp(gs_bench_cases[i].layer, w->words[k]) == 0) pick(c, &gs_bench_cases[i]);
    gs_status st = GS_OK;
    if (w->dims)
      st = pick_own(w, w->words[k], c, err);
    else if (c->n == before)
      st = gs_fail(err, GS_ERR_USE, "bench: the table has no case of '%s'; give its sizes: --dims",
                   w->words[k]);
    if (st != GS_OK) return st;
  }
  return w->dims && !w->nwords
             ? gs_fail(err, GS_ERR_USE, "bench: --dims is for the layers that are named")
             : GS_OK;
}

/* ---- peers ---- */

static gs_status spawn(char *const *argv, gs_error *err) {
  pid_t pid;
  int state = 0, code = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);
  if (code != 0)
    return gs_fail(err, GS_ERR_USE, "bench: %s does not start: %s", argv[0], strerror(code));
  while (waitpid(pid, &state, 0) < 0) {
  }
  if (WIFEXITED(state) && WEXITSTATUS(state) == 0) return GS_OK;
  return gs_fail(err, GS_ERR_USE, "bench: %s %s failed (status %d)", argv[0], argv[1],
                 WIFEXITED(state) ? WEXITSTATUS(state) : -1);
}

/* Our kernels go into a pack, by which the script runs them between the peers'. */
static gs_status run_peers(const wish *w, gs_device *d, const char *ops, const char *json,
                           gs_error *err) {
  char self[4096], pack[4096];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  self[n > 0 ? n : 0] = 0;
  snprintf(pack, sizeof pack, "%s/bench.pack", w->out);
  char *make[] = {
      self,    "pack", "--file", (char *)w->layers, "--arch", (char *)gs_device_caps(d)->arch,
      "--out", pack,   NULL};
  char *run[] = {"python3",       (char *)w->script, "--ops",      (char *)ops, "--ours",
                 (char *)w->ours, "--out",           (char *)json, NULL};
  gs_status st = gs_mkdirs(w->out, err);
  if (st == GS_OK) st = spawn(make, err);
  if (st == GS_OK && setenv("GRADSMITH_PACK", pack, 1) != 0)
    st = gs_fail(err, GS_ERR_MEMORY, "bench: no memory");
  if (st == GS_OK) st = spawn(run, err);
  return st;
}

static gs_status beside_peers(const wish *w, gs_device *d, const chosen *c, gs_bench *b,
                              gs_error *err) {
  gs_text ops = {0};
  char json[4096];
  for (int i = 0; i < c->n; i++) {
    if (!c->list[i]->peer) continue;
    char op[64];
    snprintf(op, sizeof op, "%.*s", (int)strcspn(c->list[i]->peer, "."), c->list[i]->peer);
    if (ops.s && strstr(ops.s, op)) continue;
    gs_text_printf(&ops, "%s%s", ops.len ? "," : "", op);
  }
  snprintf(json, sizeof json, "%s/bench_peers.json", w->out);
  gs_status st = GS_OK;
  if (!ops.s) st = gs_fail(err, GS_ERR_USE, "bench: no peer has a kernel for these cases");
  if (st == GS_OK) st = run_peers(w, d, ops.s, json, err);
  if (st == GS_OK) st = gs_bench_add_peers(b, c->list, json, err);
  gs_text_free(&ops);
  return st;
}

/* ---- all of it ---- */

static void print_machine(const gs_bench *b) {
  const gs_about *a = &b->about;
  printf("%s, compute capability %d.%d, driver %s, %s; protocol %d\n", a->name, a->major, a->minor,
         a->driver, a->compiler, GS_MEASURE_PROTOCOL);
  printf("copy %.3f TB/s; ", b->rates.copy * 1e-12);
  if (b->rates.gemm > 0)
    printf("cuBLASLt bf16 8192^3 %.0f TFLOP/s; ", b->rates.gemm * 1e-12);
  else
    printf("cuBLASLt rate unknown (%.120s); ", b->rates.no_gemm);
  printf("empty %.1f us; clocks ", b->rates.idle * 1e6);
  if (b->rates.processor_clock)
    printf("%d and %d MHz\n", b->rates.processor_clock, b->rates.memory_clock);
  else
    printf("unknown\n");
  fflush(stdout);
}

static void print_row(const gs_bench *b, const gs_bench_row *r) {
  gs_text t = {0};
  gs_bench_line(b, r, &t);
  puts(t.s);
  fflush(stdout);
  gs_text_free(&t);
}

static gs_status open_gpu(const wish *w, gs_device **d, gs_error *err) {
  gs_status st = gs_device_open(w->device, NULL, d, err);
  if (st != GS_OK) return st;
  if (!gs_device_is_emulator(*d)) return GS_OK;
  return gs_fail(err, GS_ERR_USE,
                 "bench: %s: the emulator is a checker; its times say nothing of a GPU and are not "
                 "printed",
                 gs_device_name(*d));
}

static gs_status run(const wish *w, gs_error *err) {
  static chosen c; /* large */
  gs_device *d = NULL;
  gs_meter *m = NULL;
  gs_tuned *t = NULL;
  char why[1024] = "";
  gs_bench b = {0};
  gs_type dtype = gs_type_from_name(w->dtype);
  gs_status st = choose(w, &c, err);
  if (st == GS_OK && dtype != GS_F32 && dtype != GS_BF16 && dtype != GS_F16)
    st = gs_fail(err, GS_ERR_USE, "bench: --dtype takes f32, bf16 or f16, not '%s'", w->dtype);
  if (st == GS_OK) st = open_gpu(w, &d, err);
  if (st == GS_OK) st = gs_device_about(d, &b.about, err);
  if (st == GS_OK) st = gs_meter_open(d, &m, err);
  if (st == GS_OK) st = gs_meter_rates(m, &b.rates, err);
  if (st == GS_OK) print_machine(&b);
  if (st == GS_OK) t = gs_tuned_open(d, why, sizeof why);
  if (why[0]) fprintf(stderr, "gradsmith: tuning records are not used: %s\n", why);
  int none = 0;
  for (int i = 0; st == GS_OK && i < c.n; i++) {
    gs_bench_row *r;
    st = gs_bench_run(d, t, m, c.list[i], dtype, c.file[i], &b, &r, err);
    if (st == GS_OK && !w->peers) print_row(&b, r);
    none += st == GS_OK && r->why[0];
  }
  if (st == GS_OK && w->peers) st = gs_bench_write(&b, w->out, err); /* should peers not end */
  if (st == GS_OK && w->peers) st = beside_peers(w, d, &c, &b, err);
  for (int i = 0; st == GS_OK && w->peers && i < b.n; i++) print_row(&b, &b.rows[i]);
  if (st == GS_OK) st = gs_bench_write(&b, w->out, err);
  if (st == GS_OK) printf("%s/bench.json, bench.md, bench.svg\n", w->out);
  if (st == GS_OK && none)
    st = gs_fail(err, GS_ERR_CHECK, "bench: %d of %d cases have no figure", none, c.n);
  gs_tuned_close(t);
  gs_meter_close(m);
  if (d) gs_device_close(d);
  gs_bench_free(&b);
  return st;
}

int gs_cmd_bench(int argc, char **argv) {
  wish w = {.dtype = "bf16",
            .device = "cuda",
            .out = "out",
            .script = "tests/bench/peers_kernels.py",
            .ours = "examples/torch/peers.py",
            .layers = "examples/torch/peers.layers"};
  const gs_option options[] = {
      {"--dims", "T=16384,...", GS_OPT_STRING, &w.dims,
       "sizes for the layers named, in place of the table's"},
      {"--options", "K=V,...", GS_OPT_STRING, &w.options, "with --dims: the layer's options"},
      {"--dtype", "TYPE", GS_OPT_STRING, &w.dtype, "f32, bf16 or f16 (default bf16)"},
      {"--peers", NULL, GS_OPT_FLAG, &w.peers, "beside other libraries (PEERS_PATH), in one run"},
      {"--script", "FILE", GS_OPT_STRING, &w.script, "what runs the peers (Python)"},
      {"--ours", "FILE", GS_OPT_STRING, &w.ours, "how it runs ours (Python)"},
      {"--layers", "FILE", GS_OPT_STRING, &w.layers, "what of ours it may run"},
      {"--device", "NAME", GS_OPT_STRING, &w.device, "cuda (default)"},
      {"--out", "DIR", GS_OPT_STRING, &w.out, "where the table goes (default out)"},
  };
  const gs_usage usage = {"bench", "[NAME ...] [--dims ...] [--peers]",
                          "Times kernels on the GPU at hand and holds them against its copy rate.",
                          options, sizeof options / sizeof *options};
  bool helped = false;
  gs_error err = {0};
  gs_status st = gs_args_parse(&usage, argc, argv, w.words, MAX_WORDS, &w.nwords, &helped, &err);
  if (helped) return 0;
  if (st == GS_OK) st = run(&w, &err);
  return st == GS_OK ? 0 : gs_report(&err);
}
