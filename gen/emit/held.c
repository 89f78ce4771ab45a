/* held.c: what a kernel of rows holds on the chip: loads that several loops over a row read stay in
 * registers as they lie in memory; what persistent blocks read of each row is copied to shared
 * memory some rows ahead; what all rows read is fetched once. Only the thread that copied an
 * element reads it, so no barrier is needed. */
#include "emit/emit.h"

#include <string.h>

bool same_space(const space *a, const space *b) {
  return a->n == b->n && a->vec == b->vec && a->count == b->count &&
         memcmp(a->dim, b->dim, sizeof(int) * (size_t)a->n) == 0;
}

/* An index that needs no value of the row but its loop variables. */
static bool is_plain(const emit *e, int at) {
  if (at < 0) return true;
  for (int i = 0; i < e->affs[at].n; i++)
    if (e->affs[at].var[i] >= OPAQUE) return false;
  return true;
}

static int vector_bytes(const emit *e, const plan *p, const val *x) {
  return p->main.vec * (int)gs_type_size(e->mems[x->mem].type);
}

/* Whether a load lies along the main space, so that each thread reads its own part in all loops. */
static bool lies_along(const emit *e, const plan *p, const val *x) {
  gs_dims last = p->main.n ? (gs_dims)1 << p->main.dim[p->main.n - 1] : 0;
  if (x->kind != VAL_LOAD || x->type != GS_F32 || !(x->deps & last)) return false;
  if (x->row >= 0 && (aff_deps(e, x->row) & last)) return false;
  if (p->main.vec > 1 && x->guard >= 0 && (e->vals[x->guard].deps & last) &&
      !is_limit(e, x->guard, &p->main, 1))
    return false;
  return p->main.vec == 1 || is_contiguous(e, x->mem, x->off, &p->main);
}

/* Whether an inner dim of the rows is none of the load's: it differs from row to row most often. */
static bool shared_by_rows(const kern *k, const val *x) {
  gs_dims inner = 0;
  for (int d = 0; d < GS_MAX_DIMS; d++)
    if ((k->u->rows >> d & 1) && !dim_is_outer(k->e, d)) inner |= (gs_dims)1 << d;
  return k->u->ncolumns > 0 && (inner & ~x->deps) && (x->deps & k->u->rows & ~inner);
}

/* A row that lanes of one warp have, a vector each. */
static bool is_short(const plan *p) {
  return p->main.vec > 1 && p->main.count <= 32 * (int64_t)p->main.vec;
}

static held describe(const kern *k, const plan *p, int v, int times) {
  const emit *e = k->e;
  const val *x = &e->vals[v];
  gs_dims inner = 0;
  for (int i = 0; i < p->main.n; i++) inner |= (gs_dims)1 << p->main.dim[i];
  held h = {.value = v, .twice = times > 1};
  int bytes = vector_bytes(e, p, x);
  bool at_once = x->guard < 0 && x->level == 0 && is_plain(e, x->row) && is_plain(e, x->off);
  h.packed = at_once && p->main.vec > 1 && bytes >= 4 && e->caps->row_threads > 1;
  h.same = h.packed && !(x->deps & k->u->rows);
  h.near = h.packed && !h.same && is_short(p) && shared_by_rows(k, x);
  h.staged = h.packed && !h.same && !h.near && bytes % 16 == 0 && k->u->ncolumns > 0;
  for (int i = 0; i < p->main.n; i++) /* an element of a ring for each of the row */
    h.staged &= ((x->deps & inner) >> p->main.dim[i] & 1) != 0 || p->main.size[i] == 1;
  return h;
}

static bool has_logsumexp(const loop *l) {
  bool has = false;
  for (int i = 0; i < l->nterms; i++) has |= l->terms[i].op == GS_OP_LOGSUMEXP;
  return has;
}

/* Of a short row what comes last waits for memory as long as what comes first, if it isn't fetched
 * at the same time. */
static bool is_brief(const kern *k, const plan *p) {
  return k->u->ncolumns == 0 && is_short(p);
}

void find_held(kern *k, plan *p) {
  emit *e = k->e;
  int *times = GS_NEW_N(e->a, int, e->nvals + 1);
  for (int i = 0; i < p->nloops; i++) {
    if (!same_space(&p->loops[i]->s, &p->main)) continue;
    bool *seen = GS_NEW_N(e->a, bool, e->nvals + 1);
    int roots[MAX_TERM_VALUES];
    int nroots = term_values(e, p->loops[i]->terms, p->loops[i]->nterms, roots);
    collect(e, roots, nroots, seen, false, NULL);
    int loops = p->main.shifted && has_logsumexp(p->loops[i]) ? 2 : 1; /* its maximum comes first */
    for (int v = 0; v < e->nvals; v++) times[v] += seen[v] ? loops : 0;
  }
  for (int v = 0; v < e->nvals && p->nheld < 32; v++) {
    if (times[v] == 0 || !lies_along(e, p, &e->vals[v])) continue;
    held h = describe(k, p, v, times[v]);
    h.early = !h.twice && h.packed && !h.same && is_brief(k, p);
    bool lasting = k->u->ncolumns && (h.near || h.staged);
    if (h.twice || h.early || h.same || lasting) p->held[p->nheld++] = h;
  }
}

/* What all rows read, in a kernel whose blocks do not last: fetched where it is needed, or, with
 * g.fixed, with what comes first. */
static bool can_wait(const kern *k, const held *h) {
  return h->same && !h->twice && !k->u->ncolumns;
}

static int loop_streams(kern *k, const plan *p, const loop *l, int *work, bool *costly_lanes) {
  const emit *e = k->e;
  bool *seen = GS_NEW_N(e->a, bool, e->nvals + 1);
  int roots[MAX_TERM_VALUES], n = term_values(e, l->terms, l->nterms, roots), streams = 0;
  collect(e, roots, n, seen, false, NULL);
  for (int v = 0; v < e->nvals; v++) {
    if (!seen[v]) continue;
    bool has = false;
    for (int i = 0; i < p->nheld; i++)
      has |= p->held[i].value == v && p->held[i].packed && !can_wait(k, &p->held[i]);
    streams += e->vals[v].kind == VAL_LOAD && !has;
    if (e->vals[v].kind != VAL_OP) continue;
    bool costly = gs_op_row(e->vals[v].op)->cost > 4;
    *work += costly ? 8 : 1;
    *costly_lanes |= costly && (e->vals[v].deps & ~k->u->rows);
  }
  for (int i = 0; i < l->nterms; i++) {
    const term *t = &l->terms[i];
    streams += t->kind == TERM_STORE;
    if (t->op == GS_OP_FOLD || t->op == GS_OP_LOGSUMEXP) *work += 64;
  }
  return streams;
}

void count_demand(kern *k, const plan *p, demand *d) {
  const emit *e = k->e;
  *d = (demand){.count = p->main.count,
                .vec = p->main.vec,
                .persistent = k->u->ncolumns > 0,
                .flat = p->main.n == 1 && p->levels > 0,
                .levels = p->levels};
  for (int i = 0; i < p->nheld; i++) {
    const held *h = &p->held[i];
    int bytes = vector_bytes(e, p, &e->vals[h->value]);
    if (can_wait(k, h)) d->fixed += bytes / 4;
    if (d->persistent && h->same) {
      d->fixed += bytes / 4;
      d->same += bytes / d->vec;
      continue;
    }
    if (h->twice || h->early || h->near) d->kept += h->packed ? bytes / 4 : d->vec;
    d->near += h->near ? bytes / 4 : 0;
    if (!h->staged) continue;
    d->staged += bytes / d->vec;
    d->once += h->twice ? 0 : bytes / 4;
    d->flat &= copied_whole(e, p, &e->vals[h->value]);
  }
  for (int i = 0; i < k->u->ncolumns; i++) d->sums += k->u->columns[i].kept != 0;
  for (int i = 0; i < p->nloops; i++) {
    int work = 0, streams = loop_streams(k, p, p->loops[i], &work, &d->costly);
    if (streams > d->streams) d->streams = streams;
    if (work > d->work) d->work = work;
  }
}

/* ---- text ---- */

static const char *type_of(const kern *k, int v) {
  return gs_type_name(k->e->mems[k->e->vals[v].mem].type);
}

static const char *stem_of(const kern *k, int v) {
  return k->e->mems[mem_real(k->e, k->e->vals[v].mem)].name;
}

const char *declare_ring(kern *k, int v, int64_t elements) {
  const char *name = unique(k, fmt(k, "%s_ring", stem_of(k, v)));
  k->dynamic = fmt(k, "%sGS_DYNAMIC(%s, %s, %lld, %lld);\n", k->dynamic ? k->dynamic : "",
                   type_of(k, v), name, (long long)k->dynamic_bytes, (long long)elements);
  k->dynamic_bytes += elements * (int64_t)gs_type_size(k->e->mems[k->e->vals[v].mem].type);
  k->dynamic_bytes = (k->dynamic_bytes + 15) / 16 * 16;
  return name;
}

static const char *declare_registers(kern *k, const plan *p, const held *h) {
  const char *dims = p->g.chunks > 1 ? fmt(k, "[%d]", p->g.chunks) : "";
  const char *name = unique(k, fmt(k, "%s_v", k->e->mems[k->e->vals[h->value].mem].name));
  if (h->packed) {
    line(k, "gs_packed<%d, %s> %s%s;", p->main.vec, type_of(k, h->value), name, dims);
    return name;
  }
  const char *vec = p->main.vec > 1 ? fmt(k, "[%d]", p->main.vec) : "";
  int guard = k->e->vals[h->value].guard;
  bool skips = p->main.vec > 1 && guard >= 0 && !is_limit(k->e, guard, &p->main, 1);
  line(k, "f32 %s%s%s%s;", name, dims, vec, skips ? " = {}" : "");
  return name;
}

void keep(kern *k, const held *h, const char *name, const char *ring, const char *from) {
  k->kept[k->nkept].value = h->value;
  k->kept[k->nkept].name = name;
  k->kept[k->nkept].ring = ring;
  k->kept[k->nkept].from = from;
  k->kept[k->nkept].packed = h->packed;
  k->kept[k->nkept++].loaded = h->packed;
}

static int find_kept(const kern *k, int v) {
  for (int i = 0; i < k->nkept; i++)
    if (k->kept[i].value == v) return i;
  return -1;
}

static void fetch_all(kern *k, plan *p, const fetch *f, int n) {
  if (n == 0) return;
  bool tested = open_chunks(k, &p->g, &p->main);
  for (int i = 0; i < n; i++) /* the text of open_chunks says which chunk */
    write_fetch(k, &p->main, &f[i]);
  close_chunks(k, &p->g, tested);
}

void hold_same(kern *k, plan *p) {
  fetch f[32];
  int n = 0;
  if (!p->g.resident && !p->g.ahead) return;
  for (int i = 0; i < p->nheld; i++) {
    const held *h = &p->held[i];
    if (!h->same || (!p->g.fixed && !p->g.ahead)) continue;
    const char *name = p->g.fixed ? declare_registers(k, p, h) : NULL;
    const char *ring = p->g.fixed ? NULL : declare_ring(k, h->value, p->main.count);
    keep(k, h, name, ring, "");
    f[n++] = (fetch){.value = h->value, .to = name, .ring = ring, .at = ""};
  }
  fetch_all(k, p, f, n);
  if (n && !p->g.fixed) line(k, "GS_COPY_CLOSE();");
}

/* Begins the copies of a whole row, whose bytes count in the phase of come[place]. */
static void copy_row(kern *k, plan *p) {
  long long width = (long long)p->main.count, bytes = 0;
  for (int i = 0; i < p->nheld; i++)
    if (p->held[i].staged) bytes += vector_bytes(k->e, p, &k->e->vals[p->held[i].value]);
  line(k, "gs_mbar_expect(come, place, %lld);", bytes / p->main.vec * width);
  line(k, "const int i = 0;");
  k->s = &p->main;
  k->flat = "i";
  for (int i = 0; i < k->nkept; i++) {
    const val x = k->e->vals[k->kept[i].value];
    int real = mem_real(k->e, x.mem);
    if (!k->kept[i].ring || !(x.deps & k->u->rows)) continue;
    line(k, "gs_bulk_load(%s, into, %s, %s, %lld, come, place);", k->kept[i].ring,
         k->e->mems[real].name, place_text(k, x.mem, x.row, x.off), width);
    k->reads[real] = true;
  }
  k->s = NULL;
  k->flat = NULL;
}

static void declare_come(kern *k, const geometry *g) {
  k->dynamic = fmt(k, "%sGS_DYNAMIC(gs_mbar, come, %lld, %d);\n", k->dynamic,
                   (long long)k->dynamic_bytes, g->ahead + 1);
  k->dynamic_bytes += ((int64_t)g->ahead + 2) / 2 * 16;
}

void copy_ahead(kern *k, plan *p) {
  fetch f[32];
  int n = 0;
  int64_t each = p->main.count * p->g.per_block * (p->g.ahead + 1);
  for (int i = 0; i < p->nheld; i++) {
    if (!p->held[i].staged) continue;
    const char *ring = declare_ring(k, p->held[i].value, each);
    keep(k, &p->held[i], NULL, ring, "from + ");
    row_bases(k, &p->held[i].value, 1);
    f[n++] = (fetch){.value = p->held[i].value, .ring = ring, .at = "into + "};
  }
  if (p->g.bulk)
    declare_come(k, &p->g), copy_row(k, p);
  else
    fetch_all(k, p, f, n);
}

void hold_row(kern *k, plan *p) {
  fetch f[32];
  int n = 0;
  for (int i = 0; i < p->nheld && p->g.resident && !p->g.ring; i++) {
    const held *h = &p->held[i];
    int at = find_kept(k, h->value);
    bool taken = p->g.bulk && h->staged; /* its place in shared memory goes to a later row */
    bool fixed = p->g.fixed && can_wait(k, h);
    if ((!h->twice && !h->early && !taken && !fixed) || (at >= 0 && k->kept[at].name)) continue;
    const char *name = declare_registers(k, p, h), *ring = at >= 0 ? k->kept[at].ring : NULL;
    const char *from = at >= 0 ? k->kept[at].from : NULL;
    if (at >= 0)
      k->kept[at].name = name;
    else
      keep(k, h, name, NULL, NULL);
    if (h->packed) f[n++] = (fetch){.value = h->value, .to = name, .ring = ring, .at = from};
  }
  fetch_all(k, p, f, n);
}

/* ---- one element a row ---- */

static void find_next(kern *k, plan *p) {
  const emit *e = k->e;
  bool *seen = GS_NEW_N(e->a, bool, e->nvals + 1);
  collect(e, p->roots, p->nroots, seen, true, NULL);
  for (int v = 0; v < e->nvals && p->nnext < MAX_NEXT; v++) {
    const val *x = &e->vals[v];
    if (!seen[v] || x->kind != VAL_LOAD || x->guard >= 0 || x->level > 0 || !x->deps) continue;
    if ((x->deps & ~k->u->rows) || !is_plain(e, x->row) || !is_plain(e, x->off)) continue;
    p->next_name[p->nnext] = unique(k, fmt(k, "%s_next", stem_of(k, v)));
    p->next[p->nnext++] = v;
  }
}

static void fetch_near(kern *k, plan *p) {
  fetch f[32];
  int n = 0;
  for (int i = 0; i < p->nheld; i++) {
    if (!p->held[i].near) continue;
    row_bases(k, &p->held[i].value, 1);
    f[n++] = (fetch){.value = p->held[i].value, .to = p->held[i].next};
  }
  fetch_all(k, p, f, n);
}

static void write_next(kern *k, plan *p, const char *row) {
  int nbases = k->nbases, taken = k->ntaken;
  const char *live = k->live;
  k->live = NULL;
  line(k, "{");
  k->depth++;
  line(k, "const i64 %s = %s;", row_name(k), row);
  open_block(k, "if (%s < %s)", row_name(k), rows_text(k));
  row_bind(k);
  row_bases(k, p->next, p->nnext);
  for (int i = 0; i < p->nnext; i++) line(k, "%s = %s;", p->next_name[i], bare_text(k, p->next[i]));
  fetch_near(k, p);
  close_block(k);
  close_block(k);
  k->live = live;
  k->nbases = nbases;
  k->ntaken = taken;
}

static int declare_near(kern *k, plan *p) {
  int n = 0;
  for (int i = 0; i < p->nheld; i++) {
    held *h = &p->held[i];
    if (!h->near) continue;
    h->next = unique(k, fmt(k, "%s_next", stem_of(k, h->value)));
    line(k, "gs_packed<%d, %s> %s;", p->main.vec, type_of(k, h->value), h->next);
    n++;
  }
  return n;
}

/* What neighbours share has come; it stays in registers while that of the next row comes. */
static int take_near(kern *k, plan *p) {
  int n = 0;
  for (int i = 0; i < p->nheld; i++) {
    const held *h = &p->held[i];
    if (!h->next) continue;
    const char *name = unique(k, fmt(k, "%s_v", stem_of(k, h->value)));
    line(k, "const gs_packed<%d, %s> %s = %s;", p->main.vec, type_of(k, h->value), name, h->next);
    keep(k, h, name, NULL, NULL);
    n++;
  }
  return n;
}

void load_first(kern *k, plan *p) {
  bool group = p->g.per_block > 1;
  const char *row = group              ? fmt(k, "GS_BID * %d + group", p->g.per_block)
                    : p->g.cluster > 1 ? fmt(k, "GS_BID / %d", p->g.cluster)
                                       : "GS_BID";
  if (!p->g.ahead && !p->g.ring) return;
  find_next(k, p);
  for (int i = 0; i < p->nnext; i++)
    line(k, "%s %s = 0;", value_type(k->e, p->next[i]), p->next_name[i]);
  if (declare_near(k, p) + p->nnext) write_next(k, p, row);
}

void load_next(kern *k, plan *p) {
  const char *names[MAX_NEXT];
  if (take_near(k, p) + p->nnext == 0) return;
  for (int i = 0; i < p->nnext; i++) {
    names[i] = unique(k, fmt(k, "%s_v", stem_of(k, p->next[i])));
    line(k, "const %s %s = %s;", value_type(k->e, p->next[i]), names[i], p->next_name[i]);
  }
  write_next(k, p,
             p->g.per_block > 1 ? "first + turn + group"
             : p->g.cluster > 1 ? fmt(k, "first + GS_NBLOCKS / %d", p->g.cluster)
                                : "first + GS_NBLOCKS");
  for (int i = 0; i < p->nnext; i++) k->name[p->next[i]] = names[i];
}
