/* step.c: the inside of one step of a loop along a row: vector loads, arithmetic a lane at a time,
 * sums, vector stores. All loads come before all stores, so a value may be written over its input.
 */
#include "emit/emit.h"

#include <string.h>

typedef struct step {
  kern *k;
  const space *s;
  const term *terms;
  int n;
  bool *seen;                          /* values of this step */
  gs_dims lane;                        /* the dim along which lanes differ */
  int named[512], nnamed;              /* values named in this step */
  const char *out[MAX_STORES * 2];     /* what each term's vector store writes */
  const char *element[MAX_STORES * 2]; /* of a part of a joined vector: where its value goes */
  int woven[MAX_STORES * 2];           /* of its first: how many parts there are */
  const char *z[MAX_STORES * 2];       /* the values that each term's logsumexp takes */
  const char *bits;                    /* the vector of value bits_of as it lies in memory */
  int bits_of;
  int when;             /* only where the row has this is there anything but 0 */
  int at, place, there; /* there >= 0: what it is where INDEX at is place */
} step;

static bool lanes(const step *t) {
  return t->s->vec > 1;
}
static bool by_lane(const step *t, int v) {
  return (t->k->e->vals[v].deps & t->lane) != 0;
}

static void name_value(step *t, int v, const char *name) {
  t->k->name[v] = name;
  if (t->nnamed < 512)
    t->named[t->nnamed++] = v;
  else
    emit_fail(t->k->e, 0, "a loop has more than 512 named values");
}

static const char *mem_name(const kern *k, int m) {
  return k->e->mems[mem_real(k->e, m)].name;
}

/* ---- loop variables of the space ---- */

static bool needs_components(const step *t, int a) {
  if (a < 0 || t->s->n < 2) return false;
  const aff *x = &t->k->e->affs[a];
  gs_dims inner = 0;
  int found = 0;
  for (int j = 0; j < t->s->n; j++) inner |= (gs_dims)1 << t->s->dim[j];
  for (int i = 0; i < x->n; i++)
    for (int j = 0; j < t->s->n; j++)
      found += x->var[i] == t->s->dim[j] && x->coef[i] == t->s->stride[j];
  return found < t->s->n && (aff_deps(t->k->e, a) & inner);
}

static void declare_components(step *t) {
  kern *k = t->k;
  const space *s = t->s;
  bool any = false;
  if (s->n == 1) k->var[s->dim[0]] = k->flat;
  for (int v = 0; v < k->e->nvals; v++)
    if (t->seen[v])
      any |= needs_components(t, k->e->vals[v].row) || needs_components(t, k->e->vals[v].off);
  for (int i = 0; i < t->n; i++)
    if (t->terms[i].st)
      any |= needs_components(t, t->terms[i].st->row) || needs_components(t, t->terms[i].st->off);
  if (!any) return;
  for (int j = 0; j < s->n; j++) {
    const char *at =
        s->stride[j] == 1 ? k->flat : fmt(k, "%s / %lld", k->flat, (long long)s->stride[j]);
    if (j == 0)
      line(k, "const int %s = %s;", k->var[s->dim[j]], at);
    else
      line(k, "const int %s = %s %% %lld;", k->var[s->dim[j]], at, (long long)s->size[j]);
  }
}

/* ---- loads ---- */

static int find_kept(const kern *k, int v) {
  for (int i = 0; i < k->nkept; i++)
    if (k->kept[i].value == v) return i;
  return -1;
}

/* Whether a guard leaves vectors whole, or ends them at a limit. */
static bool guards_vector(const step *t, int guard) {
  return guard < 0 || !by_lane(t, guard) || is_limit(t->k->e, guard, t->s, 1);
}

static bool is_vector(const step *t, int v) {
  const val *x = &t->k->e->vals[v];
  return x->kind == VAL_LOAD && lanes(t) && by_lane(t, v) && x->type != GS_BOOL &&
         !(x->row >= 0 && (aff_deps(t->k->e, x->row) & t->lane)) && guards_vector(t, x->guard) &&
         is_contiguous(t->k->e, x->mem, x->off, t->s);
}

/* A guard that matters here: where the rows are known to be whole, limits do not. */
static int guard_here(const step *t, int guard, int64_t apart) {
  return t->k->whole && is_limit(t->k->e, guard, t->s, apart) ? -1 : guard;
}

/* "gs_load", or how it begins for integers, and for what ends within a vector. */
static const char *access(step *t, const char *how, int v, bool limited, int n) {
  const char *of = t->k->e->vals[v].type == GS_I64 ? "i" : "";
  return fmt(t->k, "gs_%s%s%s<%d>", how, of, limited ? "_upto" : "", n);
}

/* ---- joined vectors: accesses at 2i and 2i + 1 are one, twice as wide ---- */

/* The part of accesses that lie `apart`, `part` elements after the first. */
static bool is_part(const step *t, int first, int off, int64_t part) {
  emit *e = t->k->e;
  return aff_add(e, first, aff_const(e, part)) == off;
}

/* Guards of the first and of a part that let pass what one limit lets pass. */
static bool guards_joined(const step *t, int first, int part, int64_t apart) {
  const emit *e = t->k->e;
  if (first == part && (first < 0 || !by_lane(t, first))) return true;
  if (!is_limit(e, first, t->s, apart) || !is_limit(e, part, t->s, apart)) return false;
  return e->vals[first].arg[1] == e->vals[part].arg[1];
}

static bool joins(int64_t n) {
  return n == 2 || n == 4;
}

/* The loads that v is the first of, into parts; how many, or 0. */
static int joined_loads(const step *t, int v, int *parts) {
  emit *e = t->k->e;
  const val x = e->vals[v];
  int last = t->s->dim[t->s->n - 1], found = 1;
  if (x.kind != VAL_LOAD || !lanes(t) || (x.row >= 0 && (aff_deps(e, x.row) & t->lane))) return 0;
  int64_t n = aff_coef(e, x.off, last);
  if (!joins(n) || !lies_apart(e, x.mem, x.off, t->s, n)) return 0;
  parts[0] = v;
  for (int64_t part = 1; part < n; part++)
    for (int p = 0; p < e->nvals; p++) {
      const val y = e->vals[p];
      if (!t->seen[p] || y.kind != VAL_LOAD || y.mem != x.mem || y.row != x.row) continue;
      if (!is_part(t, x.off, y.off, part) || !guards_joined(t, x.guard, y.guard, n)) continue;
      parts[found++] = p;
      break;
    }
  return found == n ? found : 0;
}

/* The stores from number i on that make one vector; how many, or 0. */
static int joined_stores(const step *t, int i) {
  emit *e = t->k->e;
  const term *m = &t->terms[i];
  if (!lanes(t) || m->kind != TERM_STORE || m->st->add) return 0;
  const store *st = m->st;
  gs_type type = e->vals[st->value].type;
  int64_t n = aff_coef(e, st->off, t->s->dim[t->s->n - 1]);
  if (!joins(n) || i + n > t->n || !lies_apart(e, st->mem, st->off, t->s, n)) return 0;
  if (type == GS_BOOL || (st->row >= 0 && (aff_deps(e, st->row) & t->lane))) return 0;
  for (int part = 1; part < n; part++) {
    const term *o = &t->terms[i + part];
    if (o->kind != TERM_STORE || o->st->mem != st->mem || o->st->row != st->row) return 0;
    if (e->vals[o->st->value].type != type || !is_part(t, st->off, o->st->off, part)) return 0;
    if (!guards_joined(t, st->guard, o->st->guard, n)) return 0;
  }
  return (int)n;
}

static void load_joined(step *t, const int *parts, int n) {
  kern *k = t->k;
  const val x = k->e->vals[parts[0]];
  const char *name = unique(k, fmt(k, "%s_v", mem_name(k, x.mem)));
  int guard = guard_here(t, x.guard, n);
  const char *limit = guard_limit(k, guard, t->s, n);
  bool whole = guard < 0 || limit;
  k->reads[mem_real(k->e, x.mem)] = true;
  line(k, "%s %s[%d]%s;", value_type(k->e, parts[0]), name, t->s->vec * n, whole ? "" : " = {}");
  const char *when = whole ? "" : fmt(k, "if (%s) ", value_text(k, x.guard));
  const char *more = limit ? fmt(k, ", %s", limit) : "";
  line(k, "%s%s(%s, %s, %s%s);", when, access(t, "load", parts[0], limit != NULL, t->s->vec * n),
       name, mem_name(k, x.mem), place_text(k, x.mem, x.row, x.off), more);
  name_value(t, parts[0], fmt(k, "%s[l * %d]", name, n));
  for (int i = 1; i < n; i++) name_value(t, parts[i], fmt(k, "%s[l * %d + %d]", name, n, i));
}

/* Whether the maximum of the vector is wanted, which packed elements of 16 bits give sooner. */
static bool wants_top(const step *t, int v) {
  gs_type type = t->k->e->mems[t->k->e->vals[v].mem].type;
  bool wanted = false;
  for (int i = 0; i < t->n; i++)
    wanted |= t->terms[i].op == GS_OP_LOGSUMEXP && !t->terms[i].top && t->terms[i].value == v;
  return wanted && (type == GS_BF16 || type == GS_F16);
}

/* A vector that lies in registers as in memory, or in shared memory. */
static void load_held(step *t, int v, int at) {
  kern *k = t->k;
  const char *name = unique(k, fmt(k, "%s_v", mem_name(k, k->e->vals[v].mem)));
  line(k, "f32 %s[%d];", name, t->s->vec);
  if (!k->kept[at].name && k->place && wants_top(t, v)) {
    t->bits = unique(k, fmt(k, "%s_bits", mem_name(k, k->e->vals[v].mem)));
    t->bits_of = v;
    line(k, "gs_packed<%d, %s> %s;", t->s->vec, gs_type_name(k->e->mems[k->e->vals[v].mem].type),
         t->bits);
    line(k, "gs_fetch(%s, %s, %s);", t->bits, k->kept[at].ring, k->place);
    line(k, "gs_unpack(%s, %s);", name, t->bits);
    name_value(t, v, fmt(k, "%s[l]", name));
    return;
  }
  if (k->kept[at].name)
    line(k, "gs_unpack%s(%s, %s%s);", k->pass ? fmt(k, "<%d>", k->pass) : "", name,
         k->kept[at].name, k->chunk);
  else
    line(k, "gs_load<%d>(%s, %s, %s%s);", t->s->vec, name, k->kept[at].ring, k->kept[at].from,
         k->place ? k->place : k->flat);
  name_value(t, v, fmt(k, "%s[l]", name));
}

static void load_vector(step *t, int v) {
  kern *k = t->k;
  const val x = k->e->vals[v];
  int kept = find_kept(k, v), vec = t->s->vec;
  if (kept >= 0 && k->kept[kept].packed) {
    load_held(t, v, kept);
    return;
  }
  const char *name = kept >= 0 ? fmt(k, "%s%s", k->kept[kept].name, k->chunk)
                               : unique(k, fmt(k, "%s_v", mem_name(k, x.mem)));
  if (kept < 0 || !k->kept[kept].loaded) {
    int guard = guard_here(t, x.guard, 1);
    const char *limit = guard_limit(k, guard, t->s, 1);
    const char *load = fmt(k, "%s(%s, %s, %s%s%s);", access(t, "load", v, limit != NULL, vec), name,
                           mem_name(k, x.mem), place_text(k, x.mem, x.row, x.off),
                           limit ? ", " : "", limit ? limit : "");
    bool whole = guard < 0 || limit;
    k->reads[mem_real(k->e, x.mem)] = true;
    if (kept < 0) line(k, "%s %s[%d]%s;", value_type(k->e, v), name, vec, whole ? "" : " = {}");
    if (!whole)
      line(k, "if (%s) %s", value_text(k, x.guard), load);
    else
      line(k, "%s", load);
    if (kept >= 0) k->kept[kept].loaded = true;
  }
  name_value(t, v, fmt(k, "%s[l]", name));
}

static void declare_value(step *t, int v) {
  kern *k = t->k;
  const val x = k->e->vals[v];
  int kept = x.kind == VAL_LOAD ? find_kept(k, v) : -1;
  const char *type = value_type(k->e, v);
  if (kept >= 0) { /* vec is 1: an array of one element a chunk */
    const char *name = fmt(k, "%s%s", k->kept[kept].name, k->chunk);
    if (!k->kept[kept].loaded) line(k, "%s = %s;", name, bare_text(k, v));
    k->kept[kept].loaded = true;
    name_value(t, v, name);
    return;
  }
  const char *text = bare_text(k, v);
  const char *name = x.kind == VAL_LOAD ? unique(k, fmt(k, "%s_v", k->e->mems[x.mem].name))
                                        : unique(k, fmt(k, "e%d", ++k->counter));
  line(k, "const %s %s = %s;", type, name, text);
  name_value(t, v, name);
}

static bool wants_name(step *t, int v) {
  kern *k = t->k;
  const val *x = &k->e->vals[v];
  if (k->name[v] || x->kind == VAL_CONST || x->kind == VAL_INDEX || x->kind == VAL_SIZE ||
      x->kind == VAL_SCALAR || x->kind == VAL_REDUCE)
    return false;
  if (x->kind != VAL_OP || k->uses[v] > 1) return true;
  if (lanes(t) && !by_lane(t, v)) return true; /* once a vector, not once a lane */
  return strlen(value_text(k, v)) > 64;
}

/* ---- terms ---- */

int term_values(const emit *e, const term *terms, int n, int *out) {
  int m = 0;
  for (int i = 0; i < n; i++) {
    const val *v = terms[i].op == GS_OP_FOLD ? &e->vals[terms[i].made] : NULL;
    for (int j = 0; v && j < v->nargs; j++) out[m++] = v->arg[j];
    if (!v) out[m++] = terms[i].value;
    if (terms[i].st && terms[i].st->guard >= 0) out[m++] = terms[i].st->guard;
  }
  return m;
}

static bool stores_vector(const step *t, const term *m) {
  const store *st = m->st;
  return lanes(t) && t->k->e->vals[st->value].type != GS_BOOL && guards_vector(t, st->guard) &&
         !(st->row >= 0 && (aff_deps(t->k->e, st->row) & t->lane)) &&
         is_contiguous(t->k->e, st->mem, st->off, t->s);
}

/* The array that holds the value of every lane already, or NULL. */
static const char *raw_vector(step *t, const term *m) {
  const char *s = t->k->name[m->value];
  size_t n = s ? strlen(s) : 0;
  if (!lanes(t) || n < 4 || strcmp(s + n - 3, "[l]") != 0) return NULL;
  return fmt(t->k, "%.*s", (int)n - 3, s);
}

/* What a sum adds. */
static const char *summand(kern *k, const term *m) {
  if (!m->top) return value_text(k, m->value);
  return fmt(k, "gs_exp_near(%s - %s)", value_text(k, m->value), m->top);
}

static void add_term(step *t, const term *m) {
  kern *k = t->k;
  const char *lane = lanes(t) ? "[l]" : "";
  const char *acc = fmt(k, "%s_acc%s%s", m->name, m->chunk, lane);
  if (m->op == GS_OP_FOLD) {
    fold_step(k, m);
  } else if (m->op == GS_OP_RMAX || m->op == GS_OP_RMIN) {
    line(k, "%s = %s(%s, %s);", acc, m->op == GS_OP_RMAX ? "gs_max" : "gs_min", acc,
         bare_text(k, m->value));
  } else if (m->op == GS_OP_LOGSUMEXP && !m->top) {
    if (raw_vector(t, m)) return;
    if (lanes(t))
      line(k, "%s_z[l] = %s;", m->name, bare_text(k, m->value));
    else
      line(k, "const f32 %s_z = %s;", m->name, bare_text(k, m->value));
  } else if (m->compensated) {
    const char *comp = fmt(k, "%s_comp%s%s", m->name, m->chunk, lane);
    line(k, "const f32 %s_term = %s - %s;", m->name, summand(k, m), comp);
    line(k, "const f32 %s_next = %s + %s_term;", m->name, acc, m->name);
    line(k, "%s = (%s_next - %s) - %s_term;", comp, m->name, acc, m->name);
    line(k, "%s = %s_next;", acc, m->name);
  } else {
    line(k, "%s += %s;", acc, m->top ? summand(k, m) : bare_text(k, m->value));
  }
}

/* The largest of a vector's values. */
static const char *highest(step *t, const term *m, const char *z) {
  kern *k = t->k;
  if (t->bits && t->bits_of == m->value) return fmt(k, "gs_top_of(%s)", t->bits);
  if (t->s->vec == 1) return z;
  line(k, "f32 %s_high = %s[0];", m->name, z);
  line(k, "GS_UNROLL");
  line(k, "for (int l = 1; l < %d; l++) %s_high = gs_max(%s_high, %s[l]);", t->s->vec, m->name,
       m->name, z);
  return fmt(k, "%s_high", m->name);
}

/* All of a logsumexp's sums in NAME_what; an edge has one of several to add to. */
static void scale_sums(kern *k, const term *m, const char *what, int vec) {
  const char *n = m->name;
  if (vec > 1) line(k, "GS_UNROLL");
  if (vec > 1)
    line(k, "for (int l = 0; l < %d; l++) %s_%s%s[l] *= %s_scale;", vec, n, what, m->chunk, n);
  else if (*m->chunk)
    line(k, "for (f32 &a : %s_%s) a *= %s_scale;", n, what, n);
  else
    line(k, "%s_%s *= %s_scale;", n, what, n);
}

/* One online step of a logsumexp: raise the maximum, then add. Where elements of 16 bits come from
 * shared memory, what is taken from them follows the maximum at a distance, for it is seldom then
 * that the sums change. */
static void logsumexp_step(step *t, const term *m) {
  kern *k = t->k;
  int vec = t->s->vec;
  const char *n = m->name, *lane = vec > 1 ? "[l]" : "";
  const char *z = t->z[m - t->terms];
  line(k, "%s_top = gs_max(%s_top, %s);", n, n, highest(t, m, z));
  open_block(k, t->bits ? "if (%s_top > %s_from + 8.0f)" : "if (%s_top > %s_from)", n, n);
  line(k, "const f32 %s_scale = gs_exp(%s_from - %s_top);", n, n, n);
  line(k, "%s_from = %s_top;", n, n);
  scale_sums(k, m, "acc", vec);
  if (m->compensated) scale_sums(k, m, "comp", vec);
  close_block(k);
  if (vec > 1) {
    line(k, "GS_UNROLL");
    open_block(k, "for (int l = 0; l < %d; l++)", vec);
  }
  const char *grown = fmt(k, "gs_exp_near(%s%s - %s_from)", z, lane, n);
  const char *acc = fmt(k, "%s_acc%s%s", n, m->chunk, lane);
  if (m->compensated) {
    const char *comp = fmt(k, "%s_comp%s%s", n, m->chunk, lane);
    line(k, "const f32 %s_term = %s - %s;", n, grown, comp);
    line(k, "const f32 %s_next = %s + %s_term;", n, acc, n);
    line(k, "%s = (%s_next - %s) - %s_term;", comp, n, acc, n);
    line(k, "%s = %s_next;", acc, n);
  } else {
    line(k, "%s += %s;", acc, grown);
  }
  if (vec > 1) close_block(k);
}

/* Folds the lanes of an array in halves, in place. */
const char *fold_lanes(kern *k, const char *array, int vec, gs_op op) {
  if (vec == 1) return array;
  for (int n = vec / 2; n > 0; n /= 2) {
    bool sum = op != GS_OP_RMAX && op != GS_OP_RMIN;
    if (n > 1) line(k, "GS_UNROLL");
    const char *each = n > 1 ? fmt(k, "for (int l = 0; l < %d; l++) ", n) : "";
    const char *at = n > 1 ? "[l]" : "[0]", *to = fmt(k, n > 1 ? "[l + %d]" : "[%d]", n);
    if (sum)
      line(k, "%s%s%s += %s%s;", each, array, at, array, to);
    else
      line(k, "%s%s%s = %s(%s%s, %s%s);", each, array, at, op == GS_OP_RMAX ? "gs_max" : "gs_min",
           array, at, array, to);
  }
  return fmt(k, "%s[0]", array);
}

/* dims: "[4]" before the lanes' own, for sums that are kept a chunk at a time. */
void declare_sum(kern *k, const term *t, int vec, const char *dims) {
  const char *all = vec > 1 ? fmt(k, "%s[%d]", dims, vec) : dims;
  const char *zero = *all ? "{}" : "0.0f";
  if (t->op == GS_OP_RMAX || t->op == GS_OP_RMIN) {
    const char *start = t->op == GS_OP_RMAX ? "-GS_INF" : "GS_INF";
    if (!*all) {
      line(k, "f32 %s_acc = %s;", t->name, start);
      return;
    }
    line(k, "f32 %s_acc%s;", t->name, all);
    if (*dims) line(k, "for (auto &chunk : %s_acc)", t->name);
    if (*dims && vec > 1)
      line(k, "  for (f32 &a : chunk) a = %s;", start);
    else
      line(k, *dims ? "  chunk = %s;" : "for (f32 &a : %s_acc) a = %s;", *dims ? start : t->name,
           start);
    return;
  }
  line(k, "f32 %s_acc%s = %s;", t->name, all, zero);
  if (t->compensated) line(k, "f32 %s_comp%s = %s;", t->name, all, zero);
  if (t->op == GS_OP_LOGSUMEXP && !t->top)
    line(k, "f32 %s_top = -3.40282347e+38f, %s_from = %s_top;", t->name, t->name, t->name);
}

/* ---- the step ---- */

/* The vector that a store writes, or that it adds to; of n joined ones. */
static void write_access(step *t, const term *m, const char *how, const char *array, int n) {
  kern *k = t->k;
  const store *st = m->st;
  const char *name = mem_name(k, st->mem), *place = place_text(k, st->mem, st->row, st->off);
  int guard = guard_here(t, st->guard, n);
  const char *limit = guard_limit(k, guard, t->s, n);
  bool load = strcmp(how, "load") == 0;
  const char *args =
      load ? fmt(k, "%s, %s, %s", array, name, place) : fmt(k, "%s, %s, %s", name, place, array);
  if (limit) args = fmt(k, "%s, %s", args, limit);
  const char *when = guard < 0 || limit ? "" : fmt(k, "if (%s) ", value_text(k, guard));
  line(k, "%s%s(%s);", when, access(t, how, m->value, limit != NULL, t->s->vec * n), args);
}

static void declare_joined(step *t, int i, int n) {
  kern *k = t->k;
  const char *name = unique(k, fmt(k, "%s_out", k->e->mems[t->terms[i].st->mem].name));
  bool narrow = true;
  for (int j = 0; j < n; j++) narrow &= is_narrow(k->e, t->terms[i + j].value);
  gs_type type = k->e->vals[t->terms[i].value].type;
  line(k, "%s %s[%d];", type == GS_F32 ? "f32" : narrow ? "int" : "i64", name, t->s->vec * n);
  t->woven[i] = n;
  t->out[i] = name;
  for (int j = 0; j < n; j++)
    t->element[i + j] = fmt(k, j ? "%s[l * %d + %d]" : "%s[l * %d]", name, n, j);
}

/* ---- what holds for all of a vector, or for one element of the row ---- */

static const val *where_here(const step *t, int v) {
  const val *x = &t->k->e->vals[v];
  return x->kind == VAL_OP && x->op == GS_OP_WHERE && !t->k->name[v] ? x : NULL;
}

/* The condition that the place along the vector is one that the row has; *place receives that. */
static bool is_one_place(const step *t, int v, int *index, int *place) {
  const emit *e = t->k->e;
  const val *x = &e->vals[v];
  if (x->kind != VAL_OP || x->op != GS_OP_EQ) return false;
  for (int i = 0; i < 2; i++) {
    const val *n = &e->vals[x->arg[i]];
    if (n->kind != VAL_INDEX || !is_of_row(t->k, x->arg[1 - i])) continue;
    *index = x->arg[i];
    *place = x->arg[1 - i];
    return e->vals[*place].type == GS_I64 && is_narrow(e, *place) && is_narrow(e, *index) &&
           aff_coef(e, n->off, t->s->dim[t->s->n - 1]) == 1;
  }
  return false;
}

/* Takes off the one store's value what is asked once a vector, not once a lane. */
static term without_where(step *t, term m) {
  const emit *e = t->k->e;
  const val *x = where_here(t, m.value);
  t->when = t->at = t->there = -1;
  if (x && is_of_row(t->k, x->arg[0]) && e->vals[x->arg[2]].kind == VAL_CONST &&
      e->vals[x->arg[2]].value == 0) {
    t->when = x->arg[0];
    m.value = x->arg[1];
    x = where_here(t, m.value);
  }
  if (x && is_of_row(t->k, x->arg[1]) && is_one_place(t, x->arg[0], &t->at, &t->place)) {
    t->there = x->arg[1];
    m.value = x->arg[2];
  }
  return m;
}

static void before_lanes(step *t) {
  kern *k = t->k;
  for (int i = 0; i < t->n; i++) {
    const term *m = &t->terms[i];
    int n = t->element[i] ? 0 : joined_stores(t, i);
    if (n) declare_joined(t, i, n);
    if (m->kind == TERM_STORE && stores_vector(t, m)) {
      t->out[i] = unique(k, fmt(k, "%s_out", k->e->mems[m->st->mem].name));
      line(k, "%s %s[%d]%s;", value_type(k->e, m->value), t->out[i], t->s->vec,
           t->when >= 0 ? " = {}" : "");
      if (m->st->add) {
        write_access(t, m, "load", t->out[i], 1);
        k->reads[mem_real(k->e, m->st->mem)] = true;
      }
    }
    if (m->kind == TERM_REDUCE && m->op == GS_OP_LOGSUMEXP && !m->top) {
      const char *raw = raw_vector(t, m);
      t->z[i] = raw ? raw : fmt(k, "%s_z", m->name);
      if (lanes(t) && !raw) line(k, "f32 %s[%d];", t->z[i], t->s->vec);
    }
  }
}

/* Whether all that this step does with a difference is to take from it, for an exp, what the row
 * has: gs_exp_near takes both at once. */
static bool goes_into_exp(const step *t, int v, bool twice) {
  const val *x = &t->k->e->vals[v];
  bool only = x->kind == VAL_OP && x->op == GS_OP_SUB && is_of_row(t->k, x->arg[1]);
  for (int u = v + 1; only && u < t->k->e->nvals; u++) {
    const val *y = &t->k->e->vals[u];
    for (int i = 0; t->seen[u] && i < y->nargs; i++)
      if (y->arg[i] == v) only &= twice ? i == 0 && goes_into_exp(t, u, false) : y->op == GS_OP_EXP;
  }
  return only;
}

static void inside_lanes(step *t) {
  kern *k = t->k;
  for (int v = 0; v < k->e->nvals; v++) {
    if (!t->seen[v] || !by_lane(t, v) || !wants_name(t, v)) continue;
    if (!k->near_exp || !goes_into_exp(t, v, true)) declare_value(t, v);
  }
  for (int i = 0; i < t->n; i++) {
    const term *m = &t->terms[i];
    if (m->kind == TERM_REDUCE)
      add_term(t, m);
    else if (t->element[i])
      line(k, "%s = %s;", t->element[i], bare_text(k, m->value));
    else if (!stores_vector(t, m))
      row_store(k, m->st, NULL);
    else
      line(k, "%s[l] %s %s;", t->out[i], m->st->add ? "+=" : "=", bare_text(k, m->value));
  }
}

static void after_lanes(step *t) {
  kern *k = t->k;
  for (int i = 0; i < t->n; i++) {
    const term *m = &t->terms[i];
    if (m->kind == TERM_REDUCE && m->op == GS_OP_LOGSUMEXP && !m->top) logsumexp_step(t, m);
    if (m->kind != TERM_STORE || (t->element[i] ? !t->woven[i] : !stores_vector(t, m))) continue;
    k->writes[mem_real(k->e, m->st->mem)] = true;
    write_access(t, m, "store", t->out[i], t->woven[i] ? t->woven[i] : 1);
  }
}

void write_fetch(kern *k, const space *s, const fetch *f) {
  step t = {.k = k, .s = s, .seen = GS_NEW_N(k->e->a, bool, k->e->nvals + 1)};
  const val x = k->e->vals[f->value];
  const char *own = s->n == 1 ? k->var[s->dim[0]] : NULL;
  const char *to = f->to ? fmt(k, "gs_fetch(%s%s", f->to, k->chunk)
                         : fmt(k, "gs_copy_ahead<%d>(%s, %si", s->vec, f->ring, f->at);
  if (f->to && f->ring) {
    line(k, "%s, %s, %si);", to, f->ring, f->at);
    return;
  }
  t.seen[f->value] = true;
  k->s = s;
  k->flat = "i";
  bool apart = needs_components(&t, x.row) || needs_components(&t, x.off);
  if (apart) line(k, "{"), k->depth++;
  declare_components(&t);
  line(k, "%s, %s, %s);", to, mem_name(k, x.mem), place_text(k, x.mem, x.row, x.off));
  if (apart) close_block(k);
  if (own) k->var[s->dim[0]] = own;
  k->reads[mem_real(k->e, x.mem)] = true;
  k->s = NULL;
  k->flat = NULL;
}

/* Whether all that a step does is to store what is rounded to floats of 16 bits or fewer. */
static bool stores_narrow(const emit *e, const term *terms, int n) {
  bool narrow = true;
  for (int i = 0; i < n && narrow; i++) {
    if (terms[i].kind != TERM_STORE || terms[i].st->add) return false;
    gs_type type = e->mems[terms[i].st->mem].type;
    narrow = type == GS_BF16 || type == GS_F16 || type == GS_E4M3 || type == GS_E5M2;
  }
  return narrow;
}

void write_step(kern *k, const space *s, const char *flat, const term *terms, int n) {
  emit *e = k->e;
  step t = {.k = k, .s = s, .terms = terms, .n = n, .when = -1, .there = -1};
  int roots[MAX_TERM_VALUES], taken = k->ntaken, counter = k->counter;
  term bare;
  t.lane = s->n && lanes(&t) ? (gs_dims)1 << s->dim[s->n - 1] : ~(gs_dims)0;
  if (n == 1 && terms->kind == TERM_STORE && !terms->st->add && stores_vector(&t, terms)) {
    bare = without_where(&t, *terms);
    t.terms = &bare;
  }
  int nroots = term_values(e, t.terms, n, roots);
  t.seen = GS_NEW_N(e->a, bool, e->nvals + 1);
  collect(e, roots, nroots, t.seen, false, k->name);
  for (int v = 0; v < e->nvals; v++)
    if (k->name[v]) t.seen[v] = false;                    /* known from the row */
  const char *own = s->n == 1 ? k->var[s->dim[0]] : NULL; /* the flat index takes its place */
  k->s = s;
  k->flat = flat;
  declare_components(&t);
  for (int v = 0; v < e->nvals && lanes(&t); v++) {
    if (!t.seen[v]) continue;
    int parts[4], joined = k->name[v] ? 0 : joined_loads(&t, v, parts);
    if (k->name[v]) continue;
    if (joined)
      load_joined(&t, parts, joined);
    else if (is_vector(&t, v))
      load_vector(&t, v);
    else if (!by_lane(&t, v) && wants_name(&t, v))
      declare_value(&t, v);
  }
  before_lanes(&t);
  k->near_exp = stores_narrow(e, terms, n);
  if (t.when >= 0) open_block(k, "if (%s)", value_text(k, t.when));
  size_t before = k->o.len, inside;
  if (lanes(&t)) {
    line(k, "GS_UNROLL");
    open_block(k, "for (int l = 0; l < %d; l++)", s->vec);
  }
  inside = k->o.len;
  k->in_lane = true;
  inside_lanes(&t);
  k->in_lane = false;
  bool any = k->o.len > inside;
  if (lanes(&t)) close_block(k);
  if (!any && k->o.s) k->o.s[k->o.len = before] = '\0';
  if (t.there >= 0)
    line(k, "gs_set(%s, %s - %s, %s);", t.out[0], value_text(k, t.place), value_text(k, t.at),
         bare_text(k, t.there));
  if (t.when >= 0) close_block(k);
  after_lanes(&t);
  k->near_exp = false;
  for (int i = 0; i < t.nnamed; i++) k->name[t.named[i]] = NULL;
  k->ntaken = taken;
  k->counter = counter;
  if (own) k->var[s->dim[0]] = own;
  k->s = NULL;
  k->flat = NULL;
}
