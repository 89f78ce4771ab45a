/* sum_by.c: template sum_by: sums of rows grouped by an integer key, in the order of the rows.
 *
 * Three kernels: `clear` empties the table of first rows; `chain` has a thread for each row find
 * the next row with its key, and enter the row where it is the first; `gather` has a group of
 * threads for each key follow its chain. So the keys are read rows^2 / 2 times (by words, from
 * cache) and the rows once, whatever the number of keys. Keys out of range are left out. */
#include "emit/emit.h"

#include <string.h>

enum { CHAIN_THREADS = 64, GATHER_THREADS = 128 };

static gs_count one_dim(const emit *e, int d, int64_t times, int64_t div) {
  gs_count c = {.coef = times, .div = div};
  count_dim(e, &c, d);
  return c;
}

static void write_clear(emit *e, unit *u, int first) {
  kern k;
  kern_begin(&k, e, u);
  shape sh = {.template_name = "sum_by", .piece = "clear", .threads = 256, .barrier_free = true};
  hole(&sh, "KEYS", dim_text(&k, u->to));
  hole(&sh, "FIRST", e->mems[first].name);
  k.writes[first] = true;
  sh.grid = one_dim(e, u->to, 1, 256);
  sh.tunables = "threads=256";
  add_kernel(&k, &sh);
}

static void write_chain(emit *e, unit *u, int first, int next) {
  kern k;
  kern_begin(&k, e, u);
  u->rows = (gs_dims)1 << u->from;
  shape sh = {
      .template_name = "sum_by", .piece = "chain", .threads = CHAIN_THREADS, .barrier_free = true};
  k.var[u->from] = "row";
  hole(&sh, "KEY", bare_text(&k, u->key));
  k.var[u->from] = "j";
  hole(&sh, "OTHER", value_text(&k, u->key)); /* compared there */
  hole(&sh, "KEYS", dim_text(&k, u->to));
  hole(&sh, "COUNT", dim_text(&k, u->from));
  hole(&sh, "FIRST", e->mems[first].name);
  hole(&sh, "NEXT", e->mems[next].name);
  k.writes[first] = k.writes[next] = true;
  sh.grid = one_dim(e, u->from, 1, CHAIN_THREADS);
  sh.tunables = fmt(&k, "threads=%d", CHAIN_THREADS);
  add_kernel(&k, &sh);
}

/* The sums start from what is there when they are added to it. */
static void gather_start(kern *k, const store *st, const space *s, const char *place) {
  const char *name = k->e->mems[st->mem].name;
  int vec = s->vec;
  line(k, vec > 1 ? "f32 sum_acc[%d] = {};" : "f32 sum_acc = 0.0f;", vec);
  line(k, vec > 1 ? "f32 sum_comp[%d] = {};" : "f32 sum_comp = 0.0f;", vec);
  if (!st->add) return;
  k->reads[st->mem] = true;
  if (vec > 1)
    line(k, "gs_load<%d>(sum_acc, %s, %s);", vec, name, place);
  else
    line(k, "sum_acc = gs_get(%s, %s);", name, place);
}

/* The indices of the space as text; of a store to which they do not lie in the order of i. */
static void spell_indices(kern *k, const space *s) {
  for (int j = 0; j < s->n; j++) {
    const char *at = s->stride[j] == 1 ? "i" : fmt(k, "i / %lld", (long long)s->stride[j]);
    k->var[s->dim[j]] = j == 0 ? fmt(k, s->n > 1 ? "(%s)" : "%s", at)
                               : fmt(k, "(%s %% %lld)", at, (long long)s->size[j]);
  }
}

/* The row that a store of a key goes to, as text; where the sums start. */
static const char *gather_place(kern *k, const store *st, const space *s, shape *sh) {
  k->u->rows = (gs_dims)1 << k->u->to;
  k->s = s;
  k->flat = "i";
  const char *named[GS_MAX_DIMS];
  memcpy(named, k->var, sizeof named);
  spell_indices(k, s);
  const char *place = place_text(k, st->mem, st->row, st->off);
  gather_start(k, st, s, place);
  k->s = NULL;
  memcpy(k->var, named, sizeof named);
  if (s->n == 1) k->var[s->dim[0]] = "i";
  hole(sh, "SUMS", take_text(k));
  return place;
}

/* What one row of the chain adds. */
static void gather_row(kern *k, const store *st, const space *s, shape *sh) {
  unit *u = k->u;
  term t = {.kind = TERM_REDUCE,
            .value = st->value,
            .op = GS_OP_SUM,
            .name = "sum",
            .chunk = "",
            .compensated = true};
  int stores = u->nstores;
  u->rows = (gs_dims)1 << u->from;
  kern_uses(k, &st->value, 1);
  u->nstores = 0; /* the row's values are those of the sum alone */
  row_values(k, &st->value, 1, 0);
  write_step(k, s, "i", &t, 1);
  u->nstores = stores;
  hole(sh, "BODY", take_text(k));
}

static space gather_space(emit *e, const unit *u) {
  const store *st = &u->stores[0];
  gs_dims inner = 0;
  space s;
  for (int d = 0; d < gs_graph_ndims(e->g); d++)
    if ((st->dims >> d & 1) && d != u->to && dim_size(e, d) != 1) inner |= (gs_dims)1 << d;
  space_of(e, inner, &st->value, 1, &st, 1, &s);
  if (!is_contiguous(e, st->mem, st->off, &s)) s.vec = 1;
  return s;
}

static void write_gather(emit *e, unit *u, int first, int next) {
  kern k;
  store *st = &u->stores[0];
  space s = gather_space(e, u);
  if (e->status) return;
  kern_begin(&k, e, u);
  int64_t vectors = s.count / s.vec, blocks = (vectors + GATHER_THREADS - 1) / GATHER_THREADS;
  const char *index = "GS_TID", *key = k.var[u->to];
  shape sh = {.template_name = "sum_by",
              .piece = "gather",
              .threads = GATHER_THREADS,
              .barrier_free = true};
  const char *place = gather_place(&k, st, &s, &sh);
  gather_row(&k, st, &s, &sh);
  k.writes[st->mem] = k.reads[first] = k.reads[next] = true;
  line(&k, "%s(%s, %s, sum_acc);", s.vec > 1 ? fmt(&k, "gs_store<%d>", s.vec) : "gs_put",
       e->mems[st->mem].name, place);
  hole(&sh, "STORE", take_text(&k));
  hole(&sh, "KEY", key);
  hole(&sh, "ROW", k.var[u->from]);
  hole(&sh, "FIRST", e->mems[first].name);
  hole(&sh, "NEXT", e->mems[next].name);
  if (blocks > 1)
    index = fmt(&k, "((int)(GS_BID %% %lld) * %d + GS_TID)", (long long)blocks, GATHER_THREADS);
  hole(&sh, "INDEX", s.vec > 1 ? fmt(&k, "%s * %d", index, s.vec) : index);
  hole(&sh, "KEY_INDEX", blocks > 1 ? fmt(&k, "GS_BID / %lld", (long long)blocks) : "GS_BID");
  hole_int(&k, &sh, "WIDTH", s.count);
  sh.grid = one_dim(e, u->to, blocks, 1);
  sh.tunables = fmt(&k, "threads=%d vec=%d", GATHER_THREADS, s.vec);
  add_kernel(&k, &sh);
}

void write_sum_by(emit *e, unit *u) {
  gs_dims to = (gs_dims)1 << u->to, from = (gs_dims)1 << u->from;
  int first = mem_temp(e, "first_row", GS_I64, to, u->line, NULL);
  int next = mem_temp(e, "next_row", GS_I64, from, u->line, NULL);
  mem_allocate_temp(e, first, one_dim(e, u->to, 1, 1));
  mem_allocate_temp(e, next, one_dim(e, u->from, 1, 1));
  write_clear(e, u, first);
  write_chain(e, u, first, next);
  write_gather(e, u, first, next);
}
