/* cmd_check.c: `gradsmith check [NAME...]`: shipped layers, or paths of Lua files. */
#include "cli/args.h"

#include "base/asset.h"
#include "base/clock.h"
#include "check/check.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MAX_LAYERS = 256 };

/* The names of the layers that the program carries. */
static int shipped(char names[][64], const char **words) {
  int n = 0;
  const gs_asset *a;
  for (size_t i = 0; (a = gs_asset_at(i)) && n < MAX_LAYERS; i++) {
    const char *base = a->path + strlen("lua/layers/"), *dot = strrchr(a->path, '.');
    if (strncmp(a->path, "lua/layers/", 11) != 0 || !dot || dot - base >= 64) continue;
    snprintf(names[n], 64, "%.*s", (int)(dot - base), base);
    words[n] = names[n];
    n++;
  }
  return n;
}

/* The emulator twice: a GPU's schedules with every check on, and its own in reverse order; or the
 * one device asked for. */
static gs_status open_devices(const char *which, gs_device **devices, int *n, gs_error *err) {
  gs_device_options checked = {.checked = true, .arch = "sm_90a"}, reverse = {.reverse = true};
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

static void print_ok(const char *name, const gs_check_report *r, double seconds) {
  printf("%-18s ok   ", name);
  if (r->has_gradient)
    printf("closed form = adjoint (%d) = differences (%d); ", r->math_points, r->difference_points);
  else
    printf("no gradient; ");
  printf("%d kernel runs, %.0f values, worst %.2f of its bound", r->kernel_runs, r->values,
         r->worst);
  if (r->has_gradient)
    printf("; flops %.0f, adjoint %.0f, saved %d", r->closed_flops, r->adjoint_flops, r->nsaved);
  printf("; %.1f s\n", seconds);
  fflush(stdout);
}

static int check_each(const char *const *names, int n, gs_check_options *o) {
  int failed = 0;
  for (int k = 0; k < n; k++) {
    gs_error err = {0};
    gs_author *a = NULL;
    gs_check_report r;
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
    gs_author_free(a);
  }
  return failed;
}

int gs_cmd_check(int argc, char **argv) {
  static char names[MAX_LAYERS][64];
  const char *words[MAX_LAYERS], *device = "emu", *dims = NULL;
  int64_t seed = (int64_t)time(NULL), rounds = 0;
  const gs_option options[] = {
      {"--device", "emu|cuda|none", GS_OPT_STRING, &device, "where kernels run (default emu)"},
      {"--seed", "N", GS_OPT_INT, &seed, "of sizes and values (default: the time)"},
      {"--dims", "H=4096,...", GS_OPT_STRING, &dims, "these sizes, the others drawn"},
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
  gs_status st = gs_args_parse(&usage, argc, argv, words, MAX_LAYERS, &n, &helped, &err);
  if (helped) return 0;
  if (st == GS_OK && (rounds < 0 || rounds > 16))
    st = gs_fail(&err, GS_ERR_USE, "check: --rounds takes 1 to 16");
  if (st == GS_OK) st = open_devices(device, devices, &ndevices, &err);
  if (st != GS_OK) return gs_report(&err);
  if (n == 0) n = shipped(names, words);
  gs_check_options o = {.seed = (uint64_t)seed,
                        .rounds = (int)rounds,
                        .dims = dims,
                        .devices = devices,
                        .ndevices = ndevices};
  int failed = check_each(words, n, &o);
  for (int k = 0; k < ndevices; k++) gs_device_close(devices[k]);
  printf("%d layers checked, %d failed\n", n, failed);
  return failed ? 1 : 0;
}
