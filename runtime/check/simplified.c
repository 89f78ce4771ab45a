/* simplified.c: every expression of a layer, as the author wrote it, against what the simplifier
 * makes of it, in float64: kernels and derived gradients are made of the latter. */
#include "check/case.h"

#include <math.h>
#include <stdlib.h>

enum { MOST = 64 };

static gs_status compare(const gs_case *c, const gs_result *r, const gs_array *written,
                         const gs_array *simple, gs_error *err) {
  int64_t n = gs_case_count(c, r->dim, r->ndims);
  double *a = gs_case_order(c, written, written->v, r->dim, r->ndims);
  double *b = gs_case_order(c, simple, simple->v, r->dim, r->ndims);
  double *ea = gs_case_order(c, written, written->err, r->dim, r->ndims);
  double *eb = gs_case_order(c, simple, simple->err, r->dim, r->ndims);
  gs_status st = a && b && ea && eb ? GS_OK : gs_fail(err, GS_ERR_MEMORY, "check: out of memory");
  /* err bounds f32 arithmetic (2^-24); float64 is 2^-29 of that, with room for the order of sums.
   * Whole numbers jump: where a comparison hangs by a bit, x < x·1e30/1e30, by as much in both. */
  bool is_real = gs_graph_node(c->i->g, r->expr)->type == GS_F32;
  for (int64_t i = 0; st == GS_OK && i < n; i++) {
    double bound = (is_real ? 0x1p-26 : 1) * (ea[i] + eb[i]) + 1e-300;
    char index[128];
    if (!isfinite(bound) || !isfinite(a[i]) || fabs(a[i] - b[i]) <= bound) continue;
    gs_case_index(c, r->dim, r->ndims, i, index, sizeof index);
    st = gs_fail(err, GS_ERR_CHECK,
                 "%s: '%s' is simplified wrongly at [%s]: as written it is %.10g, simplified %.10g "
                 "(float64, allowed difference %.2g); sizes %s. This is a fault of the compiler",
                 gs_layer_declaration(c->i->layer)->name, r->name, index, a[i], b[i], bound,
                 c->label);
  }
  free(a);
  free(b);
  free(ea);
  free(eb);
  return st;
}

static gs_status hold(gs_case *c, const gs_result *r, int n, gs_error *err) {
  gs_id roots[2 * MOST];
  gs_array out[2 * MOST] = {0};
  gs_env env = {c->sizes, (const double *const *)c->tensor};
  if (n > MOST) n = MOST;
  for (int k = 0; k < n; k++) roots[k] = roots[n + k] = r[k].expr;
  gs_simplify(c->i->g, roots + n, n);
  gs_status st = gs_eval(c->i->g, roots, 2 * n, &env, out, err);
  for (int k = 0; st == GS_OK && k < n; k++) st = compare(c, &r[k], &out[k], &out[n + k], err);
  for (int k = 0; k < 2 * n; k++) gs_array_free(&out[k]);
  return st;
}

gs_status gs_check_simplified(gs_case *c, gs_error *err) {
  gs_status st = hold(c, c->i->forward, c->i->nforward, err);
  return st == GS_OK ? hold(c, c->i->backward, c->i->nbackward, err) : st;
}
