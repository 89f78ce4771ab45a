/* cmd_lint.c: `gradsmith lint [NAME...]`: shipped layers, or paths of Lua files. */
#include "cli/args.h"
#include "cli/shipped.h"

#include "base/clock.h"
#include "lint/lint.h"

#include <stdio.h>

static int lint_each(gs_lint *l, const char *const *names, int n) {
  static const char *const archs[] = {"sm_90a", "emu"};
  int kernels = 0, findings = 0, failed = 0;
  double start = gs_seconds();
  for (int k = 0; k < n; k++) {
    gs_error err = {0};
    gs_text found = {0};
    int here = 0;
    gs_status st = GS_OK;
    for (int a = 0; st == GS_OK && a < 2; a++)
      st = gs_lint_layer(l, names[k], archs[a], &found, &here, &kernels, &err);
    if (found.s) fputs(found.s, stdout);
    if (st != GS_OK) fprintf(stderr, "gradsmith: %s\n", err.message);
    fflush(stdout);
    findings += here;
    failed += st != GS_OK || here;
    gs_text_free(&found);
  }
  printf("%d layers, %d kernels looked at with %s: %d findings; %.1f s\n", n, kernels,
         gs_lint_path(l), findings, gs_seconds() - start);
  return failed ? 1 : 0;
}

int gs_cmd_lint(int argc, char **argv) {
  static char names[GS_MAX_SHIPPED][64];
  const char *words[GS_MAX_SHIPPED];
  bool require = false, helped = false;
  const gs_option options[] = {
      {"--require", NULL, GS_OPT_FLAG, &require, "fail where there is no libclang"},
  };
  const gs_usage usage = {
      "lint", "[NAME...]",
      "Holds the text of layers' kernels against their records and rules, by libclang: parameters, "
      "barriers, indices. NAME is a shipped layer or a path to a Lua file; none means all shipped "
      "layers.",
      options, sizeof options / sizeof *options};
  int n = 0;
  gs_error err = {0};
  gs_lint *l = NULL;
  gs_status st = gs_args_parse(&usage, argc, argv, words, GS_MAX_SHIPPED, &n, &helped, &err);
  if (helped) return 0;
  if (st != GS_OK) return gs_report(&err);
  if (gs_lint_open(&l, &err) != GS_OK) {
    if (require) return gs_report(&err);
    printf("lint did not look at any kernel: %s\n", err.message);
    return 0;
  }
  if (n == 0) n = gs_shipped_layers(names, words);
  int rc = lint_each(l, words, n);
  gs_lint_close(l);
  return rc;
}
