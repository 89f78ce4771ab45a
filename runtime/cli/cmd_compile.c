/* cmd_compile.c: `gradsmith compile`: every kernel of a model's training step, for GPUs that need
 * not be here. */
#include "cli/args.h"
#include "cli/steps.h"

#include "base/clock.h"
#include "device/offline.h"

#include <stdio.h>
#include <string.h>

typedef struct wish {
  const char *model, *archs, *lora;
  int64_t seq, jobs;
  bool verbose;
} wish;

/* Prints the table of one architecture; an error when a kernel keeps values in local memory. */
static gs_status report(const wish *w, const gs_device *d, const char *arch, double seconds,
                        gs_error *err) {
  int n = gs_offline_count(d), most = 0;
  gs_status st = GS_OK;
  for (int i = 0; i < n; i++) {
    const gs_offline_kernel *k = gs_offline_at(d, i);
    if (k->use.registers > most) most = k->use.registers;
    if (w->verbose)
      printf("  %-48s %3d registers %6d shared %4d local\n", k->entry, k->use.registers,
             k->use.shared_bytes, k->use.local_bytes);
    if (k->use.local_bytes > 0 && st == GS_OK)
      st = gs_fail(err, GS_ERR_COMPILE, "%s for %s keeps %d bytes a thread in local memory",
                   k->entry, arch, k->use.local_bytes);
  }
  printf("%-8s %d kernels, at most %d registers%s; recorded and compiled in %.1f s\n", arch, n,
         most, st == GS_OK ? ", no local memory" : "", seconds);
  return st;
}

static gs_status compile_arch(const wish *w, const char *arch, gs_error *err) {
  gs_device *d = NULL;
  gs_device_options o = {.compile_jobs = (int)w->jobs};
  double start = gs_seconds();
  gs_status st = gs_offline_open(arch, &o, &d, err);
  gs_steps_wish steps = {w->model, w->lora, GS_BF16, w->seq};
  if (st == GS_OK) st = gs_make_steps(d, &steps, NULL, NULL, err);
  if (st == GS_OK) st = report(w, d, arch, gs_seconds() - start, err);
  if (d) gs_device_close(d);
  return st;
}

int gs_cmd_compile(int argc, char **argv) {
  wish w = {.archs = "sm_80,sm_90a,sm_100a", .seq = 2048};
  const gs_option options[] = {
      {"--model", "DIR", GS_OPT_STRING, &w.model, "a model folder"},
      {"--arch", "LIST", GS_OPT_STRING, &w.archs,
       "GPU architectures (default sm_80,sm_90a,sm_100a)"},
      {"--lora", "r=16,...", GS_OPT_STRING, &w.lora, "as for train"},
      {"--seq", "N", GS_OPT_INT, &w.seq, "tokens a step (default 2048)"},
      {"--jobs", "N", GS_OPT_INT, &w.jobs, "compiling threads (default: one a core)"},
      {"--verbose", NULL, GS_OPT_FLAG, &w.verbose, "one line a kernel"},
  };
  const gs_usage usage = {
      "compile", "--model DIR [--arch LIST]",
      "Compiles every kernel of a model's training step for GPUs that need not be "
      "here, and fails when one spills.",
      options, sizeof options / sizeof *options};
  int n;
  bool helped;
  gs_error err = {0};
  gs_status st = gs_args_parse(&usage, argc, argv, NULL, 0, &n, &helped, &err);
  if (helped) return 0;
  if (st == GS_OK && !w.model) st = gs_fail(&err, GS_ERR_USE, "compile: --model DIR is needed");
  if (st == GS_OK && w.seq < 1) st = gs_fail(&err, GS_ERR_USE, "compile: --seq takes 1 or more");
  char list[256], *save = NULL;
  snprintf(list, sizeof list, "%s", w.archs);
  for (char *a = strtok_r(list, ",", &save); st == GS_OK && a; a = strtok_r(NULL, ",", &save))
    st = compile_arch(&w, a, &err);
  return st == GS_OK ? 0 : gs_report(&err);
}
