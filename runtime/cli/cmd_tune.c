/* cmd_tune.c: `gradsmith tune`: legal choices of kernels measured on the GPU at hand, and the
 * records of that: shown, exported, imported. */
#include "cli/args.h"
#include "cli/choice.h"
#include "cli/steps.h"

#include "bench/bench.h"
#include "tune/search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct wish {
  gs_wish layer;
  const char *model, *lora, *pass, *export_to, *import_from, *device;
  int64_t seq, rounds;
  bool show, table;
} wish;

typedef struct tuning {
  const wish *w;
  gs_device *device;
  gs_meter *meter;
  gs_store *store;
  gs_about about;
  int passes, gained, far;
  gs_text summary; /* with --table: a Markdown row a pass */
} tuning;

#define FAR 1.1 /* a default so many times slower than the best is said to be far from it */

static void print_line(void *context, const char *line) {
  (void)context;
  printf("    %s\n", line);
  fflush(stdout);
}

static gs_status tune_pass(tuning *t, gs_instance *i, const gs_pass *p, const int64_t *sizes,
                           gs_error *err) {
  const gs_search s = {t->device,         t->meter,   t->store, &t->about,
                       (int)t->w->rounds, print_line, NULL};
  gs_searched r;
  char bucket[64];
  gs_store_bucket(p->g, sizes, bucket, sizeof bucket);
  printf("%s, %s\n", p->key, bucket);
  fflush(stdout);
  gs_status st = gs_search_pass(&s, i, p, sizes, &r, err);
  if (st != GS_OK) return st;
  t->passes++;
  t->far += r.default_seconds > FAR * r.seconds;
  gs_text_printf(&t->summary, "| %s | %s | %.1f | %.1f | %.2f | %s |\n", p->key, bucket,
                 r.default_seconds * 1e6, r.seconds * 1e6, r.default_seconds / r.seconds,
                 r.tuned[0] ? r.tuned : "the default");
  if (r.tunables == 0) {
    printf("  no tunables; %.1f us\n", r.seconds * 1e6);
  } else if (r.tuned[0]) {
    t->gained++;
    printf("  %s: %.1f us; default %.1f us, %.1f %% less; %d measured, %d left early\n", r.tuned,
           r.seconds * 1e6, r.default_seconds * 1e6, 100 * (1 - r.seconds / r.default_seconds),
           r.measured, r.hopeless);
  } else {
    printf("  the default stays: %.1f us; %d measured, %d left early\n", r.seconds * 1e6,
           r.measured, r.hopeless);
  }
  fflush(stdout);
  return GS_OK;
}

/* ---- one layer ---- */

static gs_status tune_instance(tuning *t, gs_instance *i, const int64_t *sizes, gs_error *err) {
  static const char *const names[] = {"forward", "infer", "backward", "terminal"};
  gs_status st = GS_OK;
  bool any = false;
  for (int k = 0; st == GS_OK && k < 4; k++) {
    gs_pass_kind kind = (gs_pass_kind)k;
    bool can = kind == GS_PASS_BACKWARD   ? i->nbackward > 0
               : kind == GS_PASS_TERMINAL ? gs_is_loss(i)
                                          : true;
    bool asked = t->w->pass ? strcmp(t->w->pass, names[k]) == 0 : kind != GS_PASS_INFER;
    if (!can || !asked) continue;
    gs_pass *p = NULL;
    any = true;
    st = gs_layer_pass(i, kind, NULL, 0, NULL, 0, &p, err);
    if (st == GS_OK) st = tune_pass(t, i, p, sizes, err);
  }
  if (st == GS_OK && !any)
    st = gs_fail(err, GS_ERR_USE,
                 "tune: --pass takes forward, infer, backward or terminal, as far as the layer has "
                 "them, not '%s'",
                 t->w->pass);
  return st;
}

static gs_status tune_layer(tuning *t, gs_error *err) {
  gs_chosen c = {0};
  gs_instance *i = NULL;
  gs_status st = gs_chosen_open("tune", &t->w->layer, &c, err);
  const gs_layer_decl *d = st == GS_OK ? gs_layer_declaration(c.layer) : NULL;
  for (int k = 0; st == GS_OK && k < d->ndims; k++)
    if (!d->dim_size[k] && c.sizes[k] < 1)
      st = gs_fail(err, GS_ERR_USE, "tune: --dims: the size of %s is needed too", d->dims[k]);
  if (st == GS_OK) st = gs_layer_instantiate(c.layer, &c.choice, &i, err);
  if (st == GS_OK) {
    int64_t sizes[GS_MAX_DIMS] = {0};
    memcpy(sizes, c.sizes, sizeof(int64_t) * (size_t)d->ndims);
    gs_graph_sizes(i->g, sizes);
    st = tune_instance(t, i, sizes, err);
  }
  gs_instance_free(i);
  gs_chosen_close(&c);
  return st;
}

/* ---- the cases of the benchmark ---- */

static gs_status tune_case(tuning *t, const gs_bench_case *c, gs_error *err) {
  gs_bench_made m;
  gs_error why = {0};
  gs_status st =
      gs_bench_make(t->device, NULL, c, gs_type_from_name(t->w->layer.dtype), NULL, &m, &why);
  if (st == GS_OK) st = tune_pass(t, m.instance, m.pass, m.sizes, &why);
  gs_bench_drop(&m);
  if (st != GS_OK && st != GS_ERR_DEVICE) printf("%s %s: %s\n", c->layer, c->dims, why.message);
  return st == GS_ERR_DEVICE ? gs_fail(err, st, "%s", why.message) : GS_OK;
}

/* name: of one layer; NULL: all. A case that can't be made is said and passed over. */
static gs_status tune_table(tuning *t, const char *name, gs_error *err) {
  gs_status st = GS_OK;
  for (int i = 0; st == GS_OK && i < gs_bench_ncases; i++) {
    const gs_bench_case *c = &gs_bench_cases[i];
    if (!c->is_head && (!name || strcmp(name, c->layer) == 0)) st = tune_case(t, c, err);
  }
  printf("\n| pass | sizes | default, us | best, us | default / best | best |\n"
         "|---|---|---|---|---|---|\n%s\n%d of %d defaults are more than %.0f %% from the best\n",
         t->summary.s ? t->summary.s : "", t->far, t->passes, 100 * (FAR - 1));
  return st;
}

/* ---- all passes of a model's steps ---- */

static gs_status tune_routine(void *context, const gs_routine *r, gs_error *err) {
  tuning *t = context;
  if (!r->sizes) return GS_OK; /* made, but never launched */
  return tune_pass(t, (gs_instance *)r->instance, r->pass, r->sizes, err);
}

static gs_status tune_library(void *context, const gs_library *l, gs_error *err) {
  return gs_library_each(l, tune_routine, context, err);
}

/* ---- records ---- */

static gs_status show(const char *path, gs_error *err) {
  gs_store *s = NULL;
  gs_text t = {0};
  gs_status st = gs_store_open(path, false, &s, err);
  if (st == GS_OK) st = gs_store_show(s, &t, err);
  if (st == GS_OK) printf("%s\n%s", path, t.s ? t.s : "no records\n");
  gs_text_free(&t);
  gs_store_close(s);
  return st;
}

static gs_status transfer(const wish *w, const char *path, gs_error *err) {
  gs_store *s = NULL;
  int n = 0;
  gs_status st = gs_store_open(path, w->import_from != NULL, &s, err);
  if (st == GS_OK && w->import_from) {
    st = gs_store_import(s, w->import_from, &n, err);
    if (st == GS_OK) printf("%s: %d records taken\n", path, n);
  }
  if (st == GS_OK && w->export_to) st = gs_store_export(s, w->export_to, err);
  if (st == GS_OK && w->export_to) printf("%s written\n", w->export_to);
  gs_store_close(s);
  return st;
}

static gs_status measure(const wish *w, const char *path, gs_error *err) {
  tuning t = {.w = w};
  gs_status st = gs_device_open(w->device, NULL, &t.device, err);
  if (st == GS_OK && gs_device_is_emulator(t.device))
    st = gs_fail(err, GS_ERR_USE, "tune: %s: the emulator is a checker and is not timed",
                 gs_device_name(t.device));
  if (st == GS_OK) st = gs_device_about(t.device, &t.about, err);
  if (st == GS_OK) st = gs_store_open(path, true, &t.store, err);
  if (st == GS_OK) st = gs_meter_open(t.device, &t.meter, err);
  gs_steps_wish steps = {w->model, w->lora, gs_type_from_name(w->layer.dtype), w->seq};
  if (st == GS_OK && w->model)
    st = gs_make_steps(t.device, &steps, tune_library, &t, err);
  else if (st == GS_OK && w->table)
    st = tune_table(&t, w->layer.name, err);
  else if (st == GS_OK)
    st = tune_layer(&t, err);
  gs_text_free(&t.summary);
  if (st == GS_OK) printf("%d passes, %d faster than by default; %s\n", t.passes, t.gained, path);
  gs_meter_close(t.meter);
  gs_store_close(t.store);
  if (t.device) gs_device_close(t.device);
  return st;
}

static gs_status run(const wish *w, gs_error *err) {
  char path[4096];
  gs_status st = gs_store_path(path, sizeof path, err);
  if (st != GS_OK) return st;
  if (w->show) return show(path, err);
  if (w->export_to || w->import_from) return transfer(w, path, err);
  return measure(w, path, err);
}

int gs_cmd_tune(int argc, char **argv) {
  wish w = {.layer = {.dtype = "bf16"}, .device = "cuda", .seq = 2048, .rounds = 2};
  const gs_option options[] = {
      {"--dims", "T=16384,...", GS_OPT_STRING, &w.layer.dims, "sizes of all dims"},
      {"--options", "K=V,...", GS_OPT_STRING, &w.layer.options, "the layer's options"},
      {"--dtype", "TYPE", GS_OPT_STRING, &w.layer.dtype, "f32, bf16 or f16 (default bf16)"},
      {"--pass", "NAME", GS_OPT_STRING, &w.pass, "forward, infer, backward or terminal"},
      {"--model", "DIR", GS_OPT_STRING, &w.model, "every pass of this model's training step"},
      {"--lora", "r=16,...", GS_OPT_STRING, &w.lora, "with --model: as for train"},
      {"--seq", "N", GS_OPT_INT, &w.seq, "with --model: tokens a step (default 2048)"},
      {"--table", NULL, GS_OPT_FLAG, &w.table,
       "every case of the benchmark (of that layer), at its sizes"},
      {"--rounds", "N", GS_OPT_INT, &w.rounds, "over all tunables, at most (default 2)"},
      {"--show", NULL, GS_OPT_FLAG, &w.show, "print what is recorded"},
      {"--export", "FILE", GS_OPT_STRING, &w.export_to, "write all records as JSON"},
      {"--import", "FILE", GS_OPT_STRING, &w.import_from, "take records that were exported"},
      {"--device", "NAME", GS_OPT_STRING, &w.device, "cuda (default)"},
  };
  const gs_usage usage = {"tune",
                          "NAME --dims ... | --table | --model DIR | --show | --export FILE",
                          "Measures legal choices of a layer's kernels and keeps what was found.",
                          options, sizeof options / sizeof *options};
  int n = 0;
  bool helped = false;
  gs_error err = {0};
  gs_status st = gs_args_parse(&usage, argc, argv, &w.layer.name, 1, &n, &helped, &err);
  if (helped) return 0;
  bool records = w.show || w.export_to || w.import_from;
  int asked = (n && !w.table) + w.table + (w.model != NULL) + records;
  if (st == GS_OK && asked != 1)
    st = gs_fail(&err, GS_ERR_USE,
                 "tune: one of a layer's name, --table, --model, --show, --export and --import is "
                 "needed");
  if (st == GS_OK && (w.rounds < 1 || w.seq < 1))
    st = gs_fail(&err, GS_ERR_USE, "tune: --rounds and --seq take 1 or more");
  if (st == GS_OK) st = run(&w, &err);
  return st == GS_OK ? 0 : gs_report(&err);
}
