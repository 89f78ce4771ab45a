/* rows.c: what belongs to a row as a whole: its loop variables, the values that do not differ along
 * it, and stores of one element a row. */
#include "emit/emit.h"

#include <string.h>

const char *rows_text(kern *k) {
  const unit *u = k->u;
  const char *t = "";
  int64_t inner = 1;
  for (int i = 0; i < u->nrow; i++)
    if (dim_is_outer(k->e, u->row_dim[i]))
      t = dim_text(k, u->row_dim[i]);
    else
      inner *= dim_size(k->e, u->row_dim[i]);
  if (!*t) return fmt(k, "%lld", (long long)inner);
  return inner == 1 ? t : fmt(k, "%s * %lld", t, (long long)inner);
}

const char *row_name(kern *k) {
  return k->u->nrow == 1 ? k->var[k->u->row_dim[0]] : "row";
}

void row_bind(kern *k) {
  const unit *u = k->u;
  int64_t stride = 1;
  if (u->nrow < 2) return;
  for (int i = 1; i < u->nrow; i++) stride *= dim_size(k->e, u->row_dim[i]);
  for (int i = 0; i < u->nrow; i++) {
    const char *v = k->var[u->row_dim[i]];
    if (i == 0)
      line(k, "const i64 %s = row / %lld;", v, (long long)stride);
    else if (stride == 1)
      line(k, "const int %s = (int)(row %% %lld);", v, (long long)dim_size(k->e, u->row_dim[i]));
    else
      line(k, "const int %s = (int)(row / %lld %% %lld);", v, (long long)stride,
           (long long)dim_size(k->e, u->row_dim[i]));
    if (i + 1 < u->nrow) stride /= dim_size(k->e, u->row_dim[i + 1]);
  }
}

static bool is_row(const kern *k, gs_dims deps) {
  return (deps & ~k->u->rows) == 0;
}

/* Declares x_at for an access whose row is known at this level. */
static void declare_base(kern *k, int m, int row, int level) {
  emit *e = k->e;
  m = mem_real(e, m);
  if (row < 0 || !is_row(k, aff_deps(e, row)) || aff_level(e, row) > level) return;
  if (e->affs[row].n == 0 && e->affs[row].c == 0) return;
  for (int i = 0; i < k->nbases; i++)
    if (k->bases[i].mem == m && k->bases[i].row == row) return;
  for (int i = 0; i < e->affs[row].n; i++) {
    int v = e->affs[row].var[i];
    if (v >= OPAQUE && !k->name[v - OPAQUE]) return;
  }
  if (k->nbases == 64) return;
  const char *at = aff_text(k, row);
  const char *name = unique(k, fmt(k, "%s_at", e->mems[m].name));
  if (strchr(at, ' ')) at = fmt(k, "(%s)", at);
  at = fmt(k, "%s * %s_ld", at, e->mems[m].name);
  line(k, k->rows_apart ? "const i64 %s = gs_apart(%s);" : "const i64 %s = %s;", name, at);
  k->strides[m] = true;
  k->bases[k->nbases].mem = m;
  k->bases[k->nbases].row = row;
  k->bases[k->nbases++].name = name;
}

void row_bases(kern *k, const int *loads, int n) {
  for (int i = 0; i < n; i++)
    declare_base(k, k->e->vals[loads[i]].mem, k->e->vals[loads[i]].row, 0);
}

/* Loads always get a name, so that they are read here; others when used more than once, or inside.
 */
static bool wants_name(kern *k, int v) {
  const val *x = &k->e->vals[v];
  switch (x->kind) {
  case VAL_LOAD:
  case VAL_QUOTIENT:
  case VAL_REMAINDER:
  case VAL_LEFT:
  case VAL_INSIDE: return true;
  case VAL_SCALAR: return k->e->mems[x->mem].role == GS_ROLE_STEP_SCALAR;
  case VAL_OP: return k->uses[v] > 1 || k->used_inside[v] || strlen(value_text(k, v)) > 64;
  default: return false;
  }
}

static const char *row_value_name(kern *k, int v) {
  const val *x = &k->e->vals[v];
  if (x->kind == VAL_LOAD || x->kind == VAL_SCALAR)
    return unique(k, fmt(k, "%s_v", k->e->mems[x->mem].name));
  if (x->kind == VAL_LEFT)
    return unique(k, fmt(k, "%s_left", gs_graph_dim_at(k->e->g, x->dim)->name));
  for (int i = 0; i < k->u->nstores; i++)
    if (k->u->stores[i].value == v)
      return unique(k, fmt(k, "%s_v", k->e->mems[k->u->stores[i].mem].name));
  return unique(k, fmt(k, "r%d", ++k->counter));
}

const char *late_load(kern *k, int v, const char *when) {
  const val x = k->e->vals[v];
  int real = mem_real(k->e, x.mem);
  const mem *m = &k->e->mems[real];
  const char *name = unique(k, fmt(k, "%s_bits", m->name));
  const char *place = place_text(k, x.mem, x.row, x.off);
  line(k, "gs_packed<1, %s> %s = {};", gs_type_name(m->type), name);
  line(k, when ? "if (%s) gs_fetch(%s, %s, %s);" : "%sgs_fetch(%s, %s, %s);", when ? when : "",
       name, m->name, place);
  k->reads[real] = true;
  return fmt(k, "gs_most_of(%s)", name);
}

/* Where rows follow one another in a ring, the first loop over a row begins at once. */
static bool is_late(const kern *k, const val *x) {
  gs_type type = x->kind == VAL_LOAD ? k->e->mems[x->mem].type : GS_F32;
  return k->rows_apart && x->kind == VAL_LOAD && (type == GS_BF16 || type == GS_F16);
}

void row_values(kern *k, const int *roots, int n, int level) {
  emit *e = k->e;
  bool *seen = GS_NEW_N(e->a, bool, e->nvals + 1);
  collect(e, roots, n, seen, true, NULL);
  for (int v = 0; v < e->nvals; v++) {
    const val x = e->vals[v];
    if (!seen[v] || k->name[v] || x.level > level) continue;
    if (x.kind == VAL_LOAD) declare_base(k, x.mem, x.row, level);
    if (!is_row(k, x.deps) || x.kind == VAL_REDUCE || !wants_name(k, v)) continue;
    if (is_late(k, &x)) {
      k->name[v] = late_load(k, v, x.guard >= 0 ? bare_text(k, x.guard) : NULL);
      continue;
    }
    const char *text = bare_text(k, v), *name = row_value_name(k, v);
    line(k, "const %s %s = %s;", value_type(e, v), name, text);
    k->name[v] = name;
  }
  for (int i = 0; i < k->u->nstores; i++)
    declare_base(k, k->u->stores[i].mem, k->u->stores[i].row, level);
}

void row_store(kern *k, const store *st, const char *when) {
  int real = mem_real(k->e, st->mem);
  const char *name = k->e->mems[real].name;
  const char *at = place_text(k, st->mem, st->row, st->off);
  bool integer = k->e->vals[st->value].type == GS_I64;
  const char *value = bare_text(k, st->value);
  k->writes[real] = true;
  if (st->guard >= 0) {
    const char *in = value_text(k, st->guard);
    when = when ? fmt(k, "%s && %s", when, in) : in;
  }
  if (st->add) {
    k->reads[real] = true;
    value = fmt(k, "gs_get(%s, %s) + %s", name, at, value_text(k, st->value));
  }
  const char *put = fmt(k, "%s(%s, %s, %s);", integer ? "gs_puti" : "gs_put", name, at, value);
  if (when)
    line(k, "if (%s) %s", when, put);
  else
    line(k, "%s", put);
}
