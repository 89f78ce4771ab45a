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
  bool *seen;                      /* values of this step */
  gs_dims lane;                    /* the dim along which lanes differ */
  int named[512], nnamed;          /* values named in this step */
  const char *out[MAX_STORES * 2]; /* what each term's vector store writes */
  const char *z[MAX_STORES * 2];   /* the values that each term's logsumexp takes */
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

static bool is_vector(const step *t, int v) {
  const val *x = &t->k->e->vals[v];
  return x->kind == VAL_LOAD && lanes(t) && by_lane(t, v) && x->type == GS_F32 &&
         !(x->row >= 0 && (aff_deps(t->k->e, x->row) & t->lane)) &&
         !(x->guard >= 0 && by_lane(t, x->guard)) && is_contiguous(t->k->e, x->mem, x->off, t->s);
}

static void load_vector(step *t, int v) {
  kern *k = t->k;
  const val x = k->e->vals[v];
  int kept = find_kept(k, v), vec = t->s->vec;
  const char *name = kept >= 0 ? fmt(k, "%s%s", k->kept[kept].name, k->chunk)
                               : unique(k, fmt(k, "%s_v", mem_name(k, x.mem)));
  if (kept < 0 || !k->kept[kept].loaded) {
    const char *load = fmt(k, "gs_load<%d>(%s, %s, %s);", vec, name, mem_name(k, x.mem),
                           place_text(k, x.mem, x.row, x.off));
    k->reads[mem_real(k->e, x.mem)] = true;
    if (kept < 0) line(k, "f32 %s[%d]%s;", name, vec, x.guard >= 0 ? " = {}" : "");
    if (x.guard >= 0)
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
  const char *type = x.type == GS_I64 ? "i64" : x.type == GS_BOOL ? "bool" : "f32";
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

static bool stores_vector(const step *t, const term *m) {
  const store *st = m->st;
  return lanes(t) && t->k->e->vals[st->value].type == GS_F32 &&
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

static void add_term(step *t, const term *m) {
  kern *k = t->k;
  const char *lane = lanes(t) ? "[l]" : "";
  const char *acc = fmt(k, "%s_acc%s%s", m->name, m->chunk, lane);
  if (m->op == GS_OP_RMAX || m->op == GS_OP_RMIN) {
    line(k, "%s = %s(%s, %s);", acc, m->op == GS_OP_RMAX ? "gs_max" : "gs_min", acc,
         bare_text(k, m->value));
  } else if (m->op == GS_OP_LOGSUMEXP) {
    if (raw_vector(t, m)) return;
    if (lanes(t))
      line(k, "%s_z[l] = %s;", m->name, bare_text(k, m->value));
    else
      line(k, "const f32 %s_z = %s;", m->name, bare_text(k, m->value));
  } else if (m->compensated) {
    const char *comp = fmt(k, "%s_comp%s%s", m->name, m->chunk, lane);
    line(k, "const f32 %s_term = %s - %s;", m->name, value_text(k, m->value), comp);
    line(k, "const f32 %s_next = %s + %s_term;", m->name, acc, m->name);
    line(k, "%s = (%s_next - %s) - %s_term;", comp, m->name, acc, m->name);
    line(k, "%s = %s_next;", acc, m->name);
  } else {
    line(k, "%s += %s;", acc, bare_text(k, m->value));
  }
}

/* One online step of a logsumexp: raise the maximum, then add. */
static void logsumexp_step(step *t, const term *m) {
  kern *k = t->k;
  int vec = t->s->vec;
  const char *n = m->name, *lane = vec > 1 ? "[l]" : "";
  const char *z = t->z[m - t->terms];
  const char *top = vec > 1 ? fmt(k, "%s_high", n) : z;
  if (vec > 1) {
    line(k, "f32 %s = %s[0];", top, z);
    line(k, "GS_UNROLL");
    line(k, "for (int l = 1; l < %d; l++) %s = gs_max(%s, %s[l]);", vec, top, top, z);
  }
  const char *each = vec > 1 ? fmt(k, "for (int l = 0; l < %d; l++) ", vec) : "";
  open_block(k, "if (%s > %s_top)", top, n);
  line(k, "const f32 %s_old = %s_top;", n, n);
  line(k, "%s_top = %s;", n, top);
  line(k, "const f32 %s_scale = gs_exp(%s_old - %s_top);", n, n, n);
  if (vec > 1) line(k, "GS_UNROLL");
  line(k, "%s%s_acc%s *= %s_scale;", each, n, lane, n);
  if (m->compensated && vec > 1) line(k, "GS_UNROLL");
  if (m->compensated) line(k, "%s%s_comp%s *= %s_scale;", each, n, lane, n);
  close_block(k);
  if (vec > 1) {
    line(k, "GS_UNROLL");
    open_block(k, "for (int l = 0; l < %d; l++)", vec);
  }
  const char *grown = fmt(k, "gs_exp(%s%s - %s_top)", z, lane, n);
  if (m->compensated) {
    line(k, "const f32 %s_term = %s - %s_comp%s;", n, grown, n, lane);
    line(k, "const f32 %s_next = %s_acc%s + %s_term;", n, n, lane, n);
    line(k, "%s_comp%s = (%s_next - %s_acc%s) - %s_term;", n, lane, n, n, lane, n);
    line(k, "%s_acc%s = %s_next;", n, lane, n);
  } else {
    line(k, "%s_acc%s += %s;", n, lane, grown);
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
  if (t->op == GS_OP_LOGSUMEXP) line(k, "f32 %s_top = -3.40282347e+38f;", t->name);
}

/* ---- the step ---- */

static void before_lanes(step *t) {
  kern *k = t->k;
  for (int i = 0; i < t->n; i++) {
    const term *m = &t->terms[i];
    if (m->kind == TERM_STORE && stores_vector(t, m)) {
      t->out[i] = unique(k, fmt(k, "%s_out", k->e->mems[m->st->mem].name));
      line(k, "f32 %s[%d];", t->out[i], t->s->vec);
      if (m->st->add) {
        line(k, "gs_load<%d>(%s, %s, %s);", t->s->vec, t->out[i], mem_name(k, m->st->mem),
             place_text(k, m->st->mem, m->st->row, m->st->off));
        k->reads[mem_real(k->e, m->st->mem)] = true;
      }
    }
    if (m->kind == TERM_REDUCE && m->op == GS_OP_LOGSUMEXP) {
      const char *raw = raw_vector(t, m);
      t->z[i] = raw ? raw : fmt(k, "%s_z", m->name);
      if (lanes(t) && !raw) line(k, "f32 %s[%d];", t->z[i], t->s->vec);
    }
  }
}

static void inside_lanes(step *t) {
  kern *k = t->k;
  for (int v = 0; v < k->e->nvals; v++)
    if (t->seen[v] && by_lane(t, v) && wants_name(t, v)) declare_value(t, v);
  for (int i = 0; i < t->n; i++) {
    const term *m = &t->terms[i];
    if (m->kind == TERM_REDUCE)
      add_term(t, m);
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
    if (m->kind == TERM_REDUCE && m->op == GS_OP_LOGSUMEXP) logsumexp_step(t, m);
    if (m->kind != TERM_STORE || !stores_vector(t, m)) continue;
    k->writes[mem_real(k->e, m->st->mem)] = true;
    line(k, "gs_store<%d>(%s, %s, %s);", t->s->vec, mem_name(k, m->st->mem),
         place_text(k, m->st->mem, m->st->row, m->st->off), t->out[i]);
  }
}

void write_step(kern *k, const space *s, const char *flat, const term *terms, int n) {
  emit *e = k->e;
  step t = {.k = k, .s = s, .terms = terms, .n = n};
  int roots[MAX_STORES * 2], nroots = 0, taken = k->ntaken, counter = k->counter;
  for (int i = 0; i < n; i++) roots[nroots++] = terms[i].value;
  t.seen = GS_NEW_N(e->a, bool, e->nvals + 1);
  collect(e, roots, nroots, t.seen, false, k->name);
  for (int v = 0; v < e->nvals; v++)
    if (k->name[v]) t.seen[v] = false; /* known from the row */
  t.lane = s->n && lanes(&t) ? (gs_dims)1 << s->dim[s->n - 1] : ~(gs_dims)0;
  k->s = s;
  k->flat = flat;
  declare_components(&t);
  for (int v = 0; v < e->nvals && lanes(&t); v++) {
    if (!t.seen[v]) continue;
    if (is_vector(&t, v))
      load_vector(&t, v);
    else if (!by_lane(&t, v) && wants_name(&t, v))
      declare_value(&t, v);
  }
  before_lanes(&t);
  if (lanes(&t)) {
    line(k, "GS_UNROLL");
    open_block(k, "for (int l = 0; l < %d; l++)", s->vec);
  }
  k->in_lane = true;
  inside_lanes(&t);
  k->in_lane = false;
  if (lanes(&t)) close_block(k);
  after_lanes(&t);
  for (int i = 0; i < t.nnamed; i++) k->name[t.named[i]] = NULL;
  k->ntaken = taken;
  k->counter = counter;
  k->s = NULL;
  k->flat = NULL;
}
