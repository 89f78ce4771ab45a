/* body.c: values and indices as C text. A value that has a name in scope is that name; otherwise
 * its text is built where it is used. Every index is 64-bit where an outer dim enters. */
#include "emit/emit.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- writing lines ---- */

static void indent(kern *k) {
  for (int i = 0; i < 2 * k->depth; i++) gs_text_add_n(&k->o, " ", 1);
}

static void write_formatted(kern *k, const char *f, va_list ap) {
  char small[512];
  va_list again;
  va_copy(again, ap);
  int n = vsnprintf(small, sizeof small, f, ap);
  if (n >= (int)sizeof small) {
    char *big = gs_arena_alloc(k->e->a, (size_t)n + 1);
    vsnprintf(big, (size_t)n + 1, f, again);
    gs_text_add(&k->o, big);
  } else {
    gs_text_add(&k->o, small);
  }
  va_end(again);
}

void line(kern *k, const char *f, ...) {
  va_list ap;
  va_start(ap, f);
  indent(k);
  write_formatted(k, f, ap);
  gs_text_add(&k->o, "\n");
  va_end(ap);
}

void open_block(kern *k, const char *f, ...) {
  va_list ap;
  va_start(ap, f);
  indent(k);
  write_formatted(k, f, ap);
  gs_text_add(&k->o, " {\n");
  k->depth++;
  va_end(ap);
}

void close_block(kern *k) {
  k->depth--;
  line(k, "}");
}

const char *take_text(kern *k) {
  const char *s = gs_arena_strdup(k->e->a, k->o.s ? k->o.s : "");
  gs_text_free(&k->o);
  k->o = (gs_text){0};
  return s;
}

const char *fmt(kern *k, const char *f, ...) {
  char text[4096];
  va_list ap;
  va_start(ap, f);
  int n = vsnprintf(text, sizeof text, f, ap);
  va_end(ap);
  if (n >= (int)sizeof text) emit_fail(k->e, 0, "an expression is too long for one line of C");
  return gs_arena_strdup(k->e->a, text);
}

const char *unique(kern *k, const char *stem) {
  const char *name = stem;
  for (int n = 2;; n++) {
    bool clash = false;
    for (int i = 0; i < k->ntaken; i++) clash |= strcmp(k->taken[i], name) == 0;
    if (!clash) break;
    name = fmt(k, "%s%d", stem, n);
  }
  k->taken = gs_arena_room(k->e->a, k->taken, k->ntaken, &k->cap_taken, sizeof *k->taken);
  k->taken[k->ntaken++] = name;
  return name;
}

/* ---- the kernel ---- */

static bool has_table(const val *v) {
  return v->kind == VAL_OP && (v->op == GS_OP_BUCKET || v->op == GS_OP_LOOKUP);
}

void kern_begin(kern *k, emit *e, unit *u) {
  *k = (kern){.e = e, .u = u, .chunk = ""};
  k->name = GS_NEW_N(e->a, const char *, e->nvals + 1);
  k->uses = GS_NEW_N(e->a, int, e->nvals + 1);
  k->used_inside = GS_NEW_N(e->a, bool, e->nvals + 1);
  k->reads = GS_NEW_N(e->a, bool, e->nmems + 1);
  k->writes = GS_NEW_N(e->a, bool, e->nmems + 1);
  k->strides = GS_NEW_N(e->a, bool, e->nmems + 1);
  for (int v = 0; v < e->nvals; v++)
    if (has_table(&e->vals[v]) && e->vals[v].index >= k->ntables)
      k->ntables = (int)e->vals[v].index + 1;
  k->tables = GS_NEW_N(e->a, bool, k->ntables + 1);
  k->near_tables = GS_NEW_N(e->a, bool, k->ntables + 1);
  for (int d = 0; d < gs_graph_ndims(e->g); d++)
    k->var[d] = gs_arena_printf(e->a, "i_%s", gs_graph_dim_at(e->g, d)->name);
}

static void collect_index(const emit *e, int a, bool *seen) {
  if (a < 0) return;
  for (int i = 0; i < e->affs[a].n; i++)
    if (e->affs[a].var[i] >= OPAQUE) seen[e->affs[a].var[i] - OPAQUE] = true;
}

/* Marks the values below roots. Arguments have smaller numbers, so one sweep down is enough. */
void collect(const emit *e, const int *roots, int n, bool *seen, bool into_reductions,
             const char *const *stop) {
  for (int i = 0; i < n; i++) seen[roots[i]] = true;
  for (int v = e->nvals - 1; v >= 0; v--) {
    const val *x = &e->vals[v];
    if (!seen[v] || (x->kind == VAL_REDUCE && !into_reductions) || (stop && stop[v])) continue;
    for (int i = 0; i < x->nargs; i++) seen[x->arg[i]] = true;
    if (x->guard >= 0) seen[x->guard] = true;
    collect_index(e, x->row, seen);
    collect_index(e, x->off, seen);
  }
}

static void use(kern *k, int v, bool inside) {
  k->uses[v]++;
  if (inside) k->used_inside[v] = true;
}

/* Counts the uses of each value below roots, and whether one of them lies inside a row. */
void kern_uses(kern *k, const int *roots, int n) {
  emit *e = k->e;
  bool *seen = GS_NEW_N(e->a, bool, e->nvals + 1);
  collect(e, roots, n, seen, true, NULL);
  for (int i = 0; i < n; i++) use(k, roots[i], false);
  for (int v = 0; v < e->nvals; v++) {
    const val *x = &e->vals[v];
    if (!seen[v]) continue;
    bool inside = (x->deps & ~k->u->rows) != 0 || x->kind == VAL_REDUCE;
    for (int i = 0; i < x->nargs; i++) use(k, x->arg[i], inside);
    if (x->guard >= 0) use(k, x->guard, inside);
    const int index[2] = {x->row, x->off};
    for (int j = 0; j < 2; j++)
      for (int i = 0; index[j] >= 0 && i < e->affs[index[j]].n; i++)
        if (e->affs[index[j]].var[i] >= OPAQUE)
          k->uses[e->affs[index[j]].var[i] - OPAQUE] += 2, /* always a name */
              k->used_inside[e->affs[index[j]].var[i] - OPAQUE] = true;
  }
}

const char *dim_text(kern *k, int d) {
  d = dim_root(k->e, d);
  if (dim_size(k->e, d) >= 0) return fmt(k, "%lld", (long long)dim_size(k->e, d));
  const gs_dim *dim = gs_graph_dim_at(k->e->g, d);
  if (dim->same_as >= 0) {
    const char *of = dim_text(k, dim->same_as);
    return fmt(k, "((%s + %lld) / %lld)", of, (long long)dim->div - 1, (long long)dim->div);
  }
  k->dims[d] = true;
  return dim->name;
}

/* ---- indices ---- */

/* Whether the dims of the loop's space enter a as the flat index does. */
static bool is_flat(const kern *k, const aff *a) {
  const space *s = k->s;
  if (!s || s->n == 0 || !k->flat) return false;
  for (int j = 0; j < s->n; j++) {
    bool found = false;
    for (int i = 0; i < a->n; i++) found |= a->var[i] == s->dim[j] && a->coef[i] == s->stride[j];
    if (!found && s->size[j] != 1) return false;
  }
  return true;
}

static bool in_space(const kern *k, int var) {
  for (int j = 0; k->s && j < k->s->n; j++)
    if (k->s->dim[j] == var) return true;
  return false;
}

static bool varies_by_lane(const kern *k, int var) {
  return k->in_lane && k->s && k->s->vec > 1 && k->s->n && k->s->dim[k->s->n - 1] == var;
}

static void plus(gs_text *t, const char *s) {
  if (t->len) gs_text_add(t, " + ");
  gs_text_add(t, s);
}

static const char *scaled(kern *k, const char *s, int64_t coef, bool sum) {
  if (coef == 1) return s;
  return fmt(k, sum ? "(%s) * %lld" : "%s * %lld", s, (long long)coef);
}

const char *aff_text(kern *k, int at) {
  const aff a = k->e->affs[at];
  gs_text t = {0};
  bool flat = is_flat(k, &a), fits = aff_fits_int(k->e, at);
  for (int i = 0; i < a.n; i++) {
    int v = a.var[i];
    if (flat && in_space(k, v)) continue;
    const char *s = v >= OPAQUE ? value_text(k, v - OPAQUE) : k->var[v];
    bool sum = v < OPAQUE && varies_by_lane(k, v), wide = v < OPAQUE && dim_is_outer(k->e, v);
    if (sum) s = fmt(k, "%s + l", s);
    if (!fits && !wide) s = fmt(k, sum ? "(i64)(%s)" : "(i64)%s", s), sum = false;
    plus(&t, scaled(k, s, a.coef[i], sum));
  }
  if (flat) {
    plus(&t, k->flat);
    if (k->in_lane && k->s->vec > 1) plus(&t, "l");
  }
  if (a.c || !t.len) plus(&t, fmt(k, "%lld", (long long)a.c));
  const char *text = gs_arena_strdup(k->e->a, t.s);
  gs_text_free(&t);
  return text;
}

/* The base of a row: declared once where the row's variables are known, else spelled out. */
static const char *row_text(kern *k, int m, int row) {
  m = mem_real(k->e, m);
  const mem *x = &k->e->mems[m];
  for (int i = 0; i < k->nbases; i++)
    if (k->bases[i].mem == m && k->bases[i].row == row) return k->bases[i].name;
  k->strides[m] = true;
  bool single = k->e->affs[row].n <= 1 && k->e->affs[row].c == 0;
  const char *t = aff_text(k, row);
  bool sum = strchr(t, ' ') != NULL || !single;
  return fmt(k, sum ? "(i64)(%s) * %s_ld" : "(i64)%s * %s_ld", t, x->name);
}

const char *place_text(kern *k, int m, int row, int off) {
  const char *inner = aff_text(k, off);
  if (row < 0 || (k->e->affs[row].n == 0 && k->e->affs[row].c == 0)) return inner;
  const char *r = row_text(k, m, row);
  return strcmp(inner, "0") == 0 ? r : fmt(k, "%s + %s", r, inner);
}

/* ---- values ---- */

const char *number_text(kern *k, gs_type type, double value) {
  if (type == GS_BOOL) return value != 0 ? "true" : "false";
  if (type == GS_I64) return fmt(k, value < 0 ? "(%lld)" : "%lld", (long long)value);
  float f = (float)value;
  if (isnan(f)) return "(GS_INF - GS_INF)";
  if (isinf(f)) return f > 0 ? "GS_INF" : "(-GS_INF)";
  char s[40];
  snprintf(s, sizeof s, "%.9g", (double)f);
  for (int digits = 1; digits < 9; digits++) { /* the shortest text of this float */
    char shorter[40];
    snprintf(shorter, sizeof shorter, "%.*g", digits, (double)f);
    if (strtof(shorter, NULL) != f) continue;
    strcpy(s, shorter);
    break;
  }
  const char *point = strpbrk(s, ".e") ? "" : ".0";
  return fmt(k, f < 0 || s[0] == '-' ? "(%s%sf)" : "%s%sf", s, point);
}

/* Division by a constant: a shift of a power of two, and what C has where nothing is below 0. */
static const char *division(kern *k, const val *x) {
  const val *a = &k->e->vals[x->arg[0]], *b = &k->e->vals[x->arg[1]];
  bool q = x->op == GS_OP_QUOTIENT;
  if (b->kind != VAL_CONST || b->value < 1 || b->value > INT32_MAX) return NULL;
  int64_t n = (int64_t)b->value;
  int bits = 0;
  while ((int64_t)1 << bits < n) bits++;
  if ((int64_t)1 << bits == n)
    return q ? fmt(k, "($0 >> %d)", bits) : fmt(k, "($0 & %lld)", (long long)n - 1);
  return a->lo < 0 ? NULL : q ? "($0 / $1)" : "($0 % $1)";
}

static const char *op_template(kern *k, const val *x, bool narrow) {
  const char *t = NULL;
  if (x->op == GS_OP_QUOTIENT || x->op == GS_OP_REMAINDER) t = division(k, x);
  if (x->op == GS_OP_INTEGER && narrow) t = "gs_integer32($0)";
  if (t) return t;
  if (x->type == GS_I64) { /* the prelude's are of f32 */
    if (x->op == GS_OP_MIN) return "($1 < $0 ? $1 : $0)";
    if (x->op == GS_OP_MAX) return "($1 > $0 ? $1 : $0)";
    if (x->op == GS_OP_ABS) return "($0 < 0 ? -$0 : $0)";
  }
  return gs_op_row(x->op)->c_text;
}

static const char *table_name(kern *k, int64_t table) {
  k->tables[table] = true;
  return fmt(k, "table%lld", (long long)table);
}

/* An element of a table's copy in shared memory. */
static const char *near_text(kern *k, const val *x) {
  const val *i = &k->e->vals[x->arg[0]];
  int most = gs_graph_table_at(k->e->g, (int)x->index)->count - 1;
  const char *at = bare_text(k, x->arg[0]);
  table_name(k, x->index);
  if (i->lo < 0 || i->hi > most)
    at = fmt(k, "gs_within<%s>(%s, 0, %d)", is_narrow(k->e, x->arg[0]) ? "int" : "i64", at, most);
  return fmt(k, "gs_get(table%lld_at, %s)", (long long)x->index, at);
}

/* x less what holds, as one step: "gs_less(x, condition)". */
static const char *less_text(kern *k, const val *x) {
  const val *y = x->op == GS_OP_SUB ? &k->e->vals[x->arg[1]] : NULL;
  if (!y || k->name[x->arg[1]] || y->kind != VAL_OP || y->op != GS_OP_REAL) return NULL;
  int condition = y->arg[0];
  if (k->e->vals[condition].type != GS_BOOL) return NULL;
  return fmt(k, "gs_less(%s, %s)", bare_text(k, x->arg[0]), bare_text(k, condition));
}

bool is_of_row(const kern *k, int v) {
  return !(k->e->vals[v].deps & ~k->u->rows);
}

/* exp of v less what the row has, one number or the sum of two. */
typedef struct row_exp {
  int v;
  const char *from;
} row_exp;

static bool exp_from_row(kern *k, const val *x, row_exp *out) {
  const emit *e = k->e;
  if (x->kind != VAL_OP || x->op != GS_OP_EXP || k->name[x->arg[0]]) return false;
  const val *d = &e->vals[x->arg[0]], *inner;
  if (d->kind != VAL_OP || d->op != GS_OP_SUB || !is_of_row(k, d->arg[1])) return false;
  *out = (row_exp){d->arg[0], bare_text(k, d->arg[1])};
  inner = &e->vals[d->arg[0]];
  if (inner->kind != VAL_OP || inner->op != GS_OP_SUB || !is_of_row(k, inner->arg[1])) return true;
  *out = (row_exp){inner->arg[0],
                   fmt(k, "%s + %s", value_text(k, inner->arg[1]), value_text(k, d->arg[1]))};
  return true;
}

/* exp of what is rounded to 16 bits next: of a difference from what the row has, in one step. */
static const char *near_exp_text(kern *k, const val *x) {
  row_exp r;
  if (!k->near_exp || x->op != GS_OP_EXP) return NULL;
  if (!exp_from_row(k, x, &r)) return fmt(k, "gs_exp_near(%s)", bare_text(k, x->arg[0]));
  return fmt(k, "gs_exp_near(%s, %s)", bare_text(k, r.v), r.from);
}

/* Such an exp times what the row has: that takes up what the one step leaves over. */
static const char *scaled_exp_text(kern *k, const val *x) {
  row_exp r;
  if (!k->near_exp || x->op != GS_OP_MUL) return NULL;
  for (int i = 0; i < 2; i++) {
    int scale = x->arg[i], exp = x->arg[1 - i];
    if (!k->name[exp] && is_of_row(k, scale) && exp_from_row(k, &k->e->vals[exp], &r))
      return fmt(k, "(gs_near_scale(%s, %s) * %s)", bare_text(k, scale), r.from,
                 value_text(k, exp));
  }
  return NULL;
}

static const char *op_text(kern *k, int v) {
  const val at = k->e->vals[v], *x = &at;
  const char *less = less_text(k, x), *near = near_exp_text(k, x), *scaled = scaled_exp_text(k, x);
  if (less || near || scaled) return less ? less : near ? near : scaled;
  if (x->op == GS_OP_LOOKUP && k->near_tables[x->index]) return near_text(k, x);
  bool narrow = is_narrow(k->e, v);
  const char *c = op_template(k, x, narrow); /* no '$' first before a call's argument */
  if (!c) {
    emit_fail(k->e, x->line, "the operation %s has no text", gs_op_row(x->op)->name);
    return "0";
  }
  gs_text t = {0};
  for (; *c; c++) {
    if (*c != '$') {
      gs_text_add_n(&t, c, 1);
      continue;
    }
    c++;
    if (*c == 't')
      gs_text_add(&t, gs_type_name(x->to));
    else if (*c == 'T')
      gs_text_add(&t, table_name(k, x->index));
    else if (x->type == GS_I64 && !narrow && is_narrow(k->e, x->arg[*c - '0']))
      gs_text_printf(&t, "(i64)%s", value_text(k, x->arg[*c - '0']));
    else { /* an argument of a call needs no parentheses of its own */
      bool call = (c[-2] == '(' || (c[-2] == ' ' && c[-3] == ',')) && (c[1] == ')' || c[1] == ',');
      int a = x->arg[*c - '0'];
      gs_text_add(&t, call ? bare_text(k, a) : value_text(k, a));
    }
  }
  const char *s = gs_arena_strdup(k->e->a, t.s);
  gs_text_free(&t);
  return s;
}

static const char *load_text(kern *k, int v) {
  const val x = k->e->vals[v];
  int real = mem_real(k->e, x.mem);
  k->reads[real] = true;
  bool integer = x.type == GS_I64;
  const char *get = fmt(k, "%s(%s, %s)", integer ? "gs_geti" : "gs_get", k->e->mems[real].name,
                        place_text(k, x.mem, x.row, x.off));
  bool row = (x.deps & ~k->u->rows) == 0;
  const char *when = row && k->live ? k->live : NULL;
  if (x.guard >= 0)
    when = when ? fmt(k, "%s && %s", when, value_text(k, x.guard)) : value_text(k, x.guard);
  return when ? fmt(k, "(%s ? %s : %s)", when, get, integer ? "0" : "0.0f") : get;
}

static const char *scalar_text(kern *k, const val *x) {
  const mem *m = &k->e->mems[x->mem];
  k->reads[x->mem] = true;
  return m->role == GS_ROLE_SCALAR ? m->name : fmt(k, "gs_step(%s)", m->name);
}

const char *value_text(kern *k, int v) {
  if (k->name[v]) return k->name[v];
  const val x = k->e->vals[v];
  switch (x.kind) {
  case VAL_CONST: return number_text(k, x.type, x.value);
  case VAL_SCALAR: return scalar_text(k, &x);
  case VAL_LOAD: return load_text(k, v);
  case VAL_INDEX: {
    const char *t = aff_text(k, x.off), *wide = is_narrow(k->e, v) ? "" : "(i64)";
    return strchr(t, ' ') ? fmt(k, "%s(%s)", wide, t) : fmt(k, "%s%s", wide, t);
  }
  case VAL_SIZE: return dim_text(k, x.dim);
  case VAL_QUOTIENT: return fmt(k, "((%s) / %lld)", aff_text(k, x.off), (long long)x.index);
  case VAL_REMAINDER: return fmt(k, "((%s) %% %lld)", aff_text(k, x.off), (long long)x.index);
  case VAL_LEFT:
    return fmt(k, "(int)gs_within<i64>(%s - (%s), 0, %lld)", dim_text(k, x.dim), aff_text(k, x.off),
               (long long)x.index);
  case VAL_INSIDE: return fmt(k, "gs_inside(%s, %s)", bare_text(k, x.arg[0]), dim_text(k, x.dim));
  case VAL_OP: return op_text(k, v);
  default: emit_fail(k->e, x.line, "a reduction is used before it is made"); return "0";
  }
}

const char *bare_text(kern *k, int v) {
  const char *s = value_text(k, v);
  size_t n = strlen(s);
  if (s[0] != '(' || s[n - 1] != ')') return s;
  int depth = 0;
  for (size_t i = 0; i + 1 < n; i++) {
    depth += s[i] == '(' ? 1 : s[i] == ')' ? -1 : 0;
    if (depth == 0) return s; /* the first parenthesis closes before the end: a cast, a product */
  }
  return fmt(k, "%.*s", (int)n - 2, s + 1);
}

/* ---- limits ---- */

bool is_limit(const emit *e, int guard, const space *s, int64_t apart) {
  const val *g = guard >= 0 ? &e->vals[guard] : NULL;
  if (!g || s->n == 0 || g->kind != VAL_OP || g->op != GS_OP_LT) return false;
  const val *index = &e->vals[g->arg[0]], *left = &e->vals[g->arg[1]];
  int last = s->dim[s->n - 1];
  return index->kind == VAL_INDEX && left->kind == VAL_LEFT && !(left->deps >> last & 1) &&
         aff_coef(e, index->off, last) == apart;
}

const char *guard_limit(kern *k, int guard, const space *s, int64_t apart) {
  if (!is_limit(k->e, guard, s, apart)) return NULL;
  const val *g = &k->e->vals[guard];
  const char *first = aff_text(k, k->e->vals[g->arg[0]].off);
  return fmt(k, strchr(first, ' ') ? "%s - (%s)" : "%s - %s", value_text(k, g->arg[1]), first);
}
