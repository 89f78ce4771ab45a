/* cmd_check.c: `gradsmith check [NAME...]`: shipped layers, or paths of Lua files. */
#include "cli/args.h"
#include "cli/shipped.h"

#include "base/asset.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "check/check.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

/* The evaluation in float64 makes and drops large arrays all the time. Their pages are kept: from
 * the system they would come cleared each time, which is half of the time of large sizes. */
static void keep_pages(void) {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
#endif
}

/* The emulator twice: a GPU's schedules with every check on, and its own in reverse order; or the
 * one device asked for. */
static gs_status open_devices(const char *which, const char *arch, gs_device **devices, int *n,
                              gs_error *err) {
  gs_device_options checked = {.checked = true, .arch = arch}, reverse = {.reverse = true};
  gs_status st = GS_OK;
  if (strcmp(which, "none") == 0) return GS_OK;
  if (strcmp(which, "emu") != 0) {
    gs_device_options plain = {0};
    st = gs_device_open(which, &plain, &devices[0], err);
    if (st == GS_OK) *n = 1;
    return st;
  }
  st = gs_device_open("emu", &checked, &devices[0], err);
  if (st != GS_OK) return st;
  *n = 1;
  st = gs_device_open("emu", &reverse, &devices[1], err);
  if (st == GS_OK) *n = 2;
  return st;
}

static void print_cost(const char *name, const gs_check_report *r) {
  if (!r->has_cost) return;
  if (r->has_closed)
    printf("; closed %.1f flops an element, saved %d; derived %.1f, saved %d", r->closed_flops,
           r->closed_saved, r->derived_flops, r->derived_saved);
  else
    printf("; derived %.1f flops an element", r->derived_flops);
  if (r->is_shorter)
    printf("\n%-18s note: the derived backward costs less: %.1f flops an element, %d tensors read, "
           "%d saved, against %.1f, %d, %d (gradsmith derive %s)",
           "", r->derived_flops, r->derived_read, r->derived_saved, r->closed_flops, r->closed_read,
           r->closed_saved, name);
}

static void print_ok(const char *name, const gs_check_report *r, double seconds) {
  printf("%-18s ok   ", name);
  if (r->has_gradient && r->has_adjoint)
    printf("closed form = adjoint (%d) = differences (%d); ", r->math_points, r->difference_points);
  else if (r->has_gradient)
    printf("closed form = differences (%d), no adjoint goes through gs.reduce; ",
           r->difference_points);
  else
    printf("no gradient; ");
  printf("%d kernel runs, %.0f values, worst %.2f of its bound; %.1f s", r->kernel_runs, r->values,
         r->worst, seconds);
  print_cost(name, r);
  printf("\n");
  fflush(stdout);
}

/* ---- the table of all layers, in Markdown ---- */

static int lines_of(const char *name) {
  char path[128], *text = NULL;
  size_t len = 0;
  int lines = 0;
  snprintf(path, sizeof path, "lua/layers/%s.lua", name);
  const gs_asset *a = gs_asset_find(path);
  if (!a && gs_file_read(name, &text, &len, NULL) != GS_OK) return 0;
  for (const char *s = a ? a->data : text; *s; s++) lines += *s == '\n';
  free(text);
  return lines;
}

static void add_row(gs_text *t, const char *name, const gs_check_report *r, bool ok) {
  gs_text_printf(t, "| %s | %d | %s | ", name, lines_of(name), ok ? "ok" : "FAILED");
  if (ok)
    gs_text_printf(t, "%.2f | ", r->worst);
  else
    gs_text_add(t, "| ");
  if (ok && r->has_cost && r->has_closed)
    gs_text_printf(t, "%.1f / %.1f | %d / %d |\n", r->closed_flops, r->derived_flops,
                   r->closed_saved, r->derived_saved);
  else if (ok && r->has_cost)
    gs_text_printf(t, "- / %.1f | - / %d |\n", r->derived_flops, r->derived_saved);
  else
    gs_text_add(t, "| |\n");
}

static int check_each(const char *const *names, int n, gs_check_options *o, gs_text *table) {
  int failed = 0;
  gs_text_add(table, "| layer | lines of Lua | check | worst of its bound | flops an element, "
                     "hand / derived | saved, hand / derived |\n|---|---|---|---|---|---|\n");
  for (int k = 0; k < n; k++) {
    gs_error err = {0};
    gs_author *a = NULL;
    gs_check_report r = {0};
    double start = gs_seconds();
    gs_status st = gs_author_new(&a, &err);
    if (st == GS_OK) st = gs_check_layer(a, names[k], o, &r, &err);
    if (st == GS_OK) {
      print_ok(names[k], &r, gs_seconds() - start);
    } else {
      printf("%-18s FAILED\n", names[k]);
      fflush(stdout);
      fprintf(stderr, "gradsmith: %s\n", err.message);
      if (st == GS_ERR_CHECK)
        fprintf(stderr, "(--seed %llu repeats it)\n", (unsigned long long)o->seed);
      failed++;
    }
    add_row(table, names[k], &r, st == GS_OK);
    gs_author_free(a);
  }
  return failed;
}

int gs_cmd_check(int argc, char **argv) {
  static char names[GS_MAX_SHIPPED][64];
  const char *words[GS_MAX_SHIPPED], *device = "emu", *dims = NULL, *choice = NULL;
  const char *table = NULL, *arch = "sm_90a";
  int64_t seed = (int64_t)time(NULL), rounds = 0;
  const gs_option options[] = {
      {"--device", "emu|cuda|none", GS_OPT_STRING, &device, "where kernels run (default emu)"},
      {"--arch", "NAME", GS_OPT_STRING, &arch,
       "whose schedules the emulator runs (default sm_90a)"},
      {"--seed", "N", GS_OPT_INT, &seed, "of sizes and values (default: the time)"},
      {"--dims", "H=4096,...", GS_OPT_STRING, &dims, "these sizes, the others drawn"},
      {"--options", "K=V,...", GS_OPT_STRING, &choice, "these options (default: what layers list)"},
      {"--table", "FILE.md", GS_OPT_STRING, &table, "also writes a row a layer in Markdown"},
      {"--rounds", "N", GS_OPT_INT, &rounds, "choices of sizes a storage type (default 4)"},
  };
  const gs_usage usage = {
      "check", "[NAME...]",
      "Holds layers against float64: gradient, kernels, memory, cost. NAME is a "
      "shipped layer or a path to a Lua file; none means all shipped layers.",
      options, sizeof options / sizeof *options};
  int n = 0, ndevices = 0;
  bool helped;
  gs_error err = {0};
  gs_device *devices[2] = {NULL, NULL};
  gs_status st = gs_args_parse(&usage, argc, argv, words, GS_MAX_SHIPPED, &n, &helped, &err);
  if (helped) return 0;
  if (st == GS_OK && (rounds < 0 || rounds > 16))
    st = gs_fail(&err, GS_ERR_USE, "check: --rounds takes 1 to 16");
  if (st == GS_OK) st = open_devices(device, arch, devices, &ndevices, &err);
  if (st != GS_OK) return gs_report(&err);
  if (n == 0) n = gs_shipped_layers(names, words);
  keep_pages();
  gs_check_options o = {.seed = (uint64_t)seed,
                        .rounds = (int)rounds,
                        .dims = dims,
                        .options = choice,
                        .devices = devices,
                        .ndevices = ndevices};
  gs_text rows = {0};
  int failed = check_each(words, n, &o, &rows);
  for (int k = 0; k < ndevices; k++) gs_device_close(devices[k]);
  printf("%d layers checked, %d failed\n", n, failed);
  if (table) st = gs_file_write(table, rows.s, rows.len, &err);
  gs_text_free(&rows);
  if (st != GS_OK) return gs_report(&err);
  return failed ? 1 : 0;
}
