/* uses: gs_step */
/* The memory plan on random lifetimes: no two pieces alive together overlap, alignment holds, the
 * arena is no larger than without reuse and no smaller than what is alive at any moment. And
 * in-place results: shared where the partner is dead, copied where it is still wanted. */
#include "step/plan.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 0x1234567;
static uint64_t random_below(uint64_t n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (state >> 33) % n;
}

static bool alive_together(const gs_piece *a, const gs_piece *b) {
  return a->first <= b->last && b->first <= a->last;
}

static void check_pieces(gs_piece *p, int n, int nacts, bool reuse) {
  size_t total = gs_plan_pieces(p, n, reuse), sum = 0, most = 0;
  for (int i = 0; i < n; i++) {
    sum += (p[i].bytes + GS_PLAN_ALIGN - 1) / GS_PLAN_ALIGN * GS_PLAN_ALIGN;
    cr_assert(p[i].offset % GS_PLAN_ALIGN == 0);
    cr_assert(p[i].offset + p[i].bytes <= total);
    for (int k = 0; k < i; k++)
      if (!reuse || alive_together(&p[i], &p[k]))
        cr_assert(p[i].offset + p[i].bytes <= p[k].offset ||
                      p[k].offset + p[k].bytes <= p[i].offset,
                  "pieces %d and %d overlap", i, k);
  }
  for (int t = 0; t < nacts; t++) {
    size_t now = 0;
    for (int i = 0; i < n; i++)
      if (p[i].first <= t && t <= p[i].last) now += p[i].bytes;
    if (now > most) most = now;
  }
  cr_assert(total >= most && total <= sum);
  if (reuse && n > 20)
    cr_assert(total < 2 * most + (size_t)n * GS_PLAN_ALIGN, "%zu for %zu", total, most);
}

Test(plan, random_pieces_do_not_overlap) {
  for (int round = 0; round < 40; round++) {
    int n = 1 + (int)random_below(120), nacts = 1 + (int)random_below(80);
    gs_piece *p = calloc((size_t)n, sizeof *p);
    for (int i = 0; i < n; i++) {
      p[i].first = (int)random_below((uint64_t)nacts);
      p[i].last = p[i].first + (int)random_below(12);
      p[i].bytes = 1 + random_below(round % 2 ? 50000 : 300);
    }
    check_pieces(p, n, nacts + 12, true);
    check_pieces(p, n, nacts + 12, false);
    free(p);
  }
}

Test(plan, nothing_takes_nothing) {
  cr_assert(gs_plan_pieces(NULL, 0, true) == 0);
}

/* ---- in place ---- */

static gs_record *new_record(void) {
  return gs_record_new(NULL, NULL, GS_STEP_EVAL, GS_F32, 4);
}

static int value(gs_record *r, const char *name) {
  int64_t shape[2] = {4, 8};
  return gs_record_var(r, name, GS_F32, 2, shape);
}

/* to = f(from), to may take from's memory. */
static void act_inplace(gs_record *r, int from, int to) {
  gs_act *a = gs_record_act(r, GS_ACT_LAUNCH, "f", 2);
  a->uses[0] = (gs_use){.var = from, .is_read = true, .inplace = -1};
  a->uses[1] = (gs_use){.var = to, .is_written = true, .inplace = 0};
}

static void act_read(gs_record *r, int from) {
  gs_act *a = gs_record_act(r, GS_ACT_LAUNCH, "g", 1);
  a->uses[0] = (gs_use){.var = from, .is_read = true, .inplace = -1};
}

static gs_plan plan_of(gs_record *r) {
  gs_plan p;
  gs_error err = {0};
  cr_assert(gs_plan_record(r, true, &p, &err) == GS_OK, "%s", err.message);
  gs_plan_place(&p, r, 4096);
  return p;
}

Test(plan, dead_partner_shares) {
  gs_record *r = new_record();
  int x = value(r, "x"), y = value(r, "y");
  gs_record_zero(r, "x", x);
  act_inplace(r, x, y);
  act_read(r, y);
  gs_plan p = plan_of(r);
  cr_assert(p.ncopies == 0 && p.npieces == 1 && r->vars[x].ptr == r->vars[y].ptr);
  gs_record_free(r);
}

Test(plan, partner_wanted_later_is_copied) {
  gs_record *r = new_record();
  int x = value(r, "x"), y = value(r, "y");
  gs_record_zero(r, "x", x);
  act_inplace(r, x, y);
  act_read(r, y);
  act_read(r, x);
  gs_plan p = plan_of(r);
  cr_assert(p.ncopies == 1 && r->nacts == 5);
  cr_assert(r->acts[1].kind == GS_ACT_COPY && r->acts[1].uses[0].var == y);
  cr_assert(r->acts[2].uses[0].var == y, "the kernel reads the copy");
  cr_assert(r->vars[x].ptr != r->vars[y].ptr);
  gs_record_free(r);
}

Test(plan, fixed_kept_and_twice_read_partners_are_copied) {
  for (int which = 0; which < 3; which++) {
    gs_record *r = new_record();
    int64_t shape[2] = {4, 8};
    int x = which ? value(r, "x") : gs_record_fixed(r, "w", GS_F32, 2, shape, 1 << 20),
        y = value(r, "y");
    if (which) gs_record_zero(r, "x", x);
    if (which == 1) r->vars[x].keep = true;
    gs_act *a = gs_record_act(r, GS_ACT_LAUNCH, "f", 3);
    a->uses[0] = (gs_use){.var = x, .is_read = true, .inplace = -1};
    a->uses[1] = (gs_use){.var = y, .is_written = true, .inplace = 0};
    if (which == 2) a->uses[2] = (gs_use){.var = x, .is_read = true, .inplace = -1};
    gs_plan p = plan_of(r);
    cr_assert(p.ncopies == 1 && r->vars[x].ptr != r->vars[y].ptr, "case %d", which);
    gs_record_free(r);
  }
}

Test(plan, kept_results_outlive_the_step) {
  gs_record *r = new_record();
  int x = value(r, "x"), y = value(r, "y"), z = value(r, "z");
  gs_record_zero(r, "x", x);
  r->vars[x].keep = true;
  gs_record_zero(r, "y", y);
  act_read(r, y);
  gs_record_zero(r, "z", z);
  plan_of(r);
  cr_assert(r->vars[x].ptr != r->vars[y].ptr && r->vars[x].ptr != r->vars[z].ptr);
  cr_assert(r->vars[y].ptr == r->vars[z].ptr, "dead memory is used again");
  gs_record_free(r);
}

Test(plan, reading_the_unwritten_is_an_error) {
  gs_record *r = new_record();
  gs_error err = {0};
  gs_plan p;
  act_read(r, value(r, "ghost"));
  cr_assert(gs_plan_record(r, true, &p, &err) == GS_ERR_USE);
  cr_assert(strstr(err.message, "ghost"), "%s", err.message);
  gs_record_free(r);
}
