/* plan.c: in place, lifetimes, offsets. */
#include "step/plan.h"

#include <stdlib.h>
#include <string.h>

/* ---- offsets ---- */

static int by_size(const void *x, const void *y) {
  const gs_piece *a = *(gs_piece *const *)x, *b = *(gs_piece *const *)y;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
  if (a->first != b->first) return a->first < b->first ? -1 : 1;
  return a < b ? -1 : a > b;
}

static size_t aligned(size_t n) {
  return (n + GS_PLAN_ALIGN - 1) / GS_PLAN_ALIGN * GS_PLAN_ALIGN;
}

static bool alive_together(const gs_piece *a, const gs_piece *b, bool reuse) {
  return !reuse || (a->first <= b->last && b->first <= a->last);
}

/* The lowest offset at which p meets none of placed[0..n), which are sorted by offset. */
static size_t lowest(const gs_piece *p, gs_piece *const *placed, int n, bool reuse) {
  size_t at = 0;
  for (int i = 0; i < n; i++) {
    if (!alive_together(p, placed[i], reuse)) continue;
    if (at + p->bytes <= placed[i]->offset) return at;
    size_t end = aligned(placed[i]->offset + placed[i]->bytes);
    if (end > at) at = end;
  }
  return at;
}

size_t gs_plan_pieces(gs_piece *pieces, int n, bool reuse) {
  size_t total = 0;
  gs_arena *a = gs_arena_new();
  gs_piece **order = GS_NEW_N(a, gs_piece *, n + 1);
  gs_piece **placed = GS_NEW_N(a, gs_piece *, n + 1);
  for (int i = 0; i < n; i++) order[i] = &pieces[i];
  qsort(order, (size_t)n, sizeof *order, by_size);
  for (int i = 0; i < n; i++) {
    gs_piece *p = order[i];
    p->offset = lowest(p, placed, i, reuse);
    int k = i;
    for (; k > 0 && placed[k - 1]->offset > p->offset; k--) placed[k] = placed[k - 1];
    placed[k] = p;
    if (p->offset + p->bytes > total) total = p->offset + p->bytes;
  }
  gs_arena_free(a);
  return aligned(total);
}

/* ---- in place ---- */

/* The state of settling: for each base variable, what it shares memory with. */
typedef struct settle {
  gs_record *r;
  int *last_use; /* the last action (as recorded) that touches it */
  int *joined;   /* the variable whose memory it takes; itself */
  bool *written;
  int ncopies;
} settle;

static void find_last_uses(settle *s) {
  for (int i = 0; i < s->r->nacts; i++)
    for (int u = 0; u < s->r->acts[i].nuses; u++)
      if (s->r->acts[i].uses[u].var >= 0)
        s->last_use[s->r->vars[s->r->acts[i].uses[u].var].base] = i;
}

/* May the result of use u of action i (as recorded) take the memory of its partner? Only when the
 * partner is dead afterwards, is in the arena, and nothing else of the action touches it. */
static bool is_safe(const settle *s, const gs_act *act, int i, int u) {
  const gs_record *r = s->r;
  int partner = r->vars[act->uses[act->uses[u].inplace].var].base;
  const gs_var *p = &r->vars[partner], *v = &r->vars[r->vars[act->uses[u].var].base];
  if (p->kind == GS_VAR_FIXED || p->keep || s->last_use[partner] > i) return false;
  if (v->kind == GS_VAR_FIXED || s->written[v->base] || gs_var_bytes(v) > gs_var_bytes(p))
    return false;
  for (int k = 0; k < act->nuses; k++)
    if (k != act->uses[u].inplace && act->uses[k].var >= 0 &&
        r->vars[act->uses[k].var].base == partner)
      return false;
  return true;
}

/* Settles one in-place result: shares, or copies its partner into its own memory first. Copies are
 * appended to r->acts before the action itself is. */
static void settle_use(settle *s, gs_act *act, int i, int u) {
  gs_record *r = s->r;
  gs_use *use = &act->uses[u], *partner = &act->uses[use->inplace];
  int base = r->vars[use->var].base, other = r->vars[partner->var].base;
  if (base == other) return;
  if (is_safe(s, act, i, u)) {
    s->joined[base] = other;
    return;
  }
  gs_act *copy = gs_record_act(r, GS_ACT_COPY, act->what, 2);
  copy->uses[0] = (gs_use){.var = use->var, .is_written = true, .inplace = -1};
  copy->uses[1] = (gs_use){.var = partner->var, .is_read = true, .inplace = -1};
  *partner = (gs_use){.var = use->var, .is_read = true, .inplace = -1};
  s->ncopies++;
}

static void settle_all(settle *s) {
  gs_record *r = s->r;
  gs_act *old = r->acts;
  int n = r->nacts;
  r->acts = NULL;
  r->nacts = r->cap_acts = 0;
  for (int i = 0; i < n; i++) {
    gs_act act = old[i];
    for (int u = 0; u < act.nuses; u++)
      if (act.uses[u].inplace >= 0) settle_use(s, &act, i, u);
    for (int u = 0; u < act.nuses; u++)
      if (act.uses[u].var >= 0 && act.uses[u].is_written)
        s->written[r->vars[act.uses[u].var].base] = true;
    gs_use *uses = act.uses;
    gs_act *to = gs_record_act(r, act.kind, act.what, 0);
    *to = act;
    to->uses = uses;
  }
}

/* ---- lifetimes ---- */

/* The variable whose memory var has. */
static int root_of(const settle *s, int var) {
  int v = s->r->vars[var].base;
  while (s->joined[v] != v) v = s->joined[v];
  return v;
}

static gs_status touch(settle *s, gs_plan *p, int i, const gs_use *u, gs_error *err) {
  gs_record *r = s->r;
  int base = r->vars[u->var].base;
  if (r->vars[base].kind == GS_VAR_FIXED) return GS_OK;
  int root = root_of(s, base);
  if (p->piece[root] < 0) {
    if (!u->is_written || u->is_read)
      return gs_fail(err, GS_ERR_USE, "%s reads \"%s\", which nothing has written", r->acts[i].what,
                     r->vars[base].name);
    p->piece[root] = p->npieces;
    p->pieces[p->npieces++] = (gs_piece){.first = i, .bytes = gs_var_bytes(&r->vars[root])};
  }
  gs_piece *q = &p->pieces[p->piece[root]];
  p->piece[base] = p->piece[root];
  q->last = i;
  return GS_OK;
}

static gs_status find_lifetimes(settle *s, gs_plan *p, gs_error *err) {
  gs_record *r = s->r;
  bool *keep = GS_NEW_N(r->arena, bool, r->nvars + 1);
  for (int i = 0; i < r->nacts; i++)
    for (int pass = 0; pass < 2; pass++) /* what an action reads, then what it writes */
      for (int u = 0; u < r->acts[i].nuses; u++) {
        const gs_use *use = &r->acts[i].uses[u];
        if (use->var < 0 || use->is_read != (pass == 0)) continue;
        gs_status st = touch(s, p, i, use, err);
        if (st) return st;
        if (r->vars[r->vars[use->var].base].keep && p->piece[root_of(s, use->var)] >= 0)
          keep[p->piece[root_of(s, use->var)]] = true;
      }
  for (int i = 0; i < p->npieces; i++)
    if (keep[i]) p->pieces[i].last = r->nacts;
  return GS_OK;
}

gs_status gs_plan_record(gs_record *r, bool reuse, gs_plan *out, gs_error *err) {
  settle s = {.r = r};
  s.last_use = GS_NEW_N(r->arena, int, r->nvars + 1);
  s.joined = GS_NEW_N(r->arena, int, r->nvars + 1);
  s.written = GS_NEW_N(r->arena, bool, r->nvars + 1);
  for (int v = 0; v < r->nvars; v++) s.joined[v] = v;
  find_last_uses(&s);
  settle_all(&s);
  *out = (gs_plan){.ncopies = s.ncopies};
  out->pieces = GS_NEW_N(r->arena, gs_piece, r->nvars + 1);
  out->piece = GS_NEW_N(r->arena, int, r->nvars + 1);
  for (int v = 0; v < r->nvars; v++) out->piece[v] = -1;
  gs_status st = find_lifetimes(&s, out, err);
  if (st) return st;
  out->bytes = gs_plan_pieces(out->pieces, out->npieces, reuse);
  return GS_OK;
}

void gs_plan_place(const gs_plan *p, gs_record *r, gs_ptr at) {
  for (int v = 0; v < r->nvars; v++) {
    gs_var *var = &r->vars[v];
    if (var->kind == GS_VAR_FIXED) continue;
    int piece = p->piece[var->base];
    var->ptr = piece < 0 ? 0 : at + p->pieces[piece].offset + var->offset;
  }
}
