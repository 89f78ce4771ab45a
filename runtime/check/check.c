/* check.c: the rounds of a layer's check: storage types, sizes, moods, devices. */
#include "check/case.h"
#include "check/derived.h"

#include <stdlib.h>

enum { MAX_CASES = 64 };

/* Every mood meets every storage type over the rounds; the first rounds are ordinary. */
static gs_mood mood_of(int round, int type) {
  return round < 2 ? GS_MOOD_ORDINARY : (gs_mood)(1 + (round - 2 + 2 * type) % (GS_MOODS - 1));
}

static gs_status draw_cases(gs_layer *l, const gs_check_options *o, gs_rng *r, gs_case *cases,
                            int *n, gs_error *err) {
  int rounds = o->rounds ? o->rounds : 4;
  static const gs_type types[] = {GS_F32, GS_BF16, GS_F16};
  for (int t = 0; t < 3; t++)
    for (int k = 0; k < rounds && *n < MAX_CASES; k++) {
      gs_status st = gs_case_new(l, types[t], k, mood_of(k, t), o, r, &cases[*n], err);
      (*n)++; /* also a half-made one is freed */
      if (st != GS_OK) return st;
    }
  return GS_OK;
}

/* Beside what is derived for the same options. A forward from which nothing can be derived has no
 * such cost; that is no fault. */
static void compare_costs(gs_layer *l, const gs_case *c, gs_check_report *r) {
  const gs_layer_decl *decl = gs_layer_declaration(l);
  gs_choice choice = {.dtype = GS_F16,
                      .noptions = decl->noptions < MAX_OPTIONS ? decl->noptions : MAX_OPTIONS,
                      .option_names = decl->options,
                      .option_values = c->options};
  gs_derived *d = NULL;
  if (gs_derived_new(l, &choice, &d, NULL) != GS_OK) return;
  r->has_cost = true;
  r->has_closed = d->has_closed;
  r->is_shorter = gs_derived_is_shorter(d);
  r->closed_flops = d->closed.flops / d->elements;
  r->derived_flops = d->derived.flops / d->elements;
  r->closed_read = d->closed.tensors;
  r->derived_read = d->derived.tensors;
  r->closed_saved = d->closed_saved;
  r->derived_saved = d->derived_saved;
  gs_derived_free(d);
}

gs_status gs_check_layer(gs_author *a, const char *name, const gs_check_options *o,
                         gs_check_report *r, gs_error *err) {
  *r = (gs_check_report){0};
  gs_rng rng = {o->seed};
  gs_layer *l = NULL;
  gs_case *cases = calloc(MAX_CASES, sizeof *cases);
  int n = 0;
  gs_status st = cases ? GS_OK : gs_fail(err, GS_ERR_MEMORY, "check: out of host memory");
  if (st == GS_OK) st = gs_layer_open(a, name, &l, err);
  if (st == GS_OK) st = draw_cases(l, o, &rng, cases, &n, err);
  for (int k = 0; st == GS_OK && k < n; k++)
    if (cases[k].i->dtype == GS_F32) {
      st = gs_check_simplified(&cases[k], err);
      if (st == GS_OK) st = gs_check_math(&cases[k], &rng, r, err);
    }
  for (int d = 0; st == GS_OK && d < o->ndevices; d++)
    st = gs_check_runs(cases, n, o->devices[d], o, r, err);
  if (st == GS_OK && r->has_gradient) compare_costs(l, &cases[0], r);
  for (int k = 0; k < n; k++) gs_case_free(&cases[k]);
  free(cases);
  return st;
}
