/* expr.c: one value as a Lua expression: operators, products, means. */
#include "derive/print.h"

#include <math.h>
#include <string.h>

enum { BIND_NONE, BIND_ADD, BIND_MUL, BIND_NEG, BIND_POWER, BIND_ATOM, MOST_FACTORS = 24 };

static const gs_node *node(const printer *p, gs_id id) {
  return gs_graph_node(p->g, id);
}

const char *derive_dim_name(const printer *p, int d) {
  return gs_graph_dim_at(p->g, d)->name;
}

void derive_failed(printer *p, const char *what) {
  if (p->st == GS_OK) p->st = gs_fail(p->err, GS_ERR_USE, "%s", what);
}

/* ---- products ---- */

typedef struct factors {
  gs_id id[MOST_FACTORS];
  int power[MOST_FACTORS], n;
  int mean; /* the factor that is the sum of a mean, or -1 */
  factor_of_sizes coef;
  double c;
} factors;

static void add_factor(factors *f, gs_id id) {
  for (int k = 0; k < f->n; k++)
    if (f->id[k] == id) {
      f->power[k]++;
      return;
    }
  f->id[f->n] = id;
  f->power[f->n++] = 1;
}

static void collect(const printer *p, gs_id id, bool top, factors *f) {
  const gs_node *n = node(p, id);
  if (n->op == GS_OP_CONST && n->type == GS_F32) {
    f->c *= n->value;
  } else if (n->op == GS_OP_MUL && (top || !p->local[id]) && f->n < MOST_FACTORS - 2) {
    collect(p, n->arg[0], false, f);
    collect(p, n->arg[1], false, f);
  } else if (n->op == GS_OP_NEG && n->type == GS_F32 && !p->local[id]) {
    f->c = -f->c;
    collect(p, n->arg[0], false, f);
  } else {
    add_factor(f, id);
  }
}

/* The number of terms of a sum over free inner dims; 0 when it is another kind of number. */
static double terms_of(const printer *p, const gs_node *sum) {
  double terms = 1;
  for (int d = 0; d < gs_graph_ndims(p->g); d++) {
    if (!(sum->rdims >> d & 1)) continue;
    int64_t size = gs_graph_dim_at(p->g, d)->size;
    if (size < 0) return 0;
    terms *= (double)size;
  }
  return terms;
}

static bool is_few_digits(double v) {
  double scaled = v * 4096;
  return fabs(scaled) <= 65536 && fabs(scaled - nearbyint(scaled)) <= 1e-9;
}

/* A coefficient of 1/(number of terms) makes a sum a mean. */
static void find_mean(const printer *p, factors *f) {
  f->mean = -1;
  for (int k = 0; k < f->n && f->mean < 0 && f->c != 1; k++) {
    const gs_node *n = node(p, f->id[k]);
    if (n->op != GS_OP_SUM || p->local[f->id[k]] || f->power[k] != 1) continue;
    double terms = terms_of(p, n);
    if (terms <= 1 || !is_few_digits(f->c * terms) || is_few_digits(f->c)) continue;
    f->c = nearbyint(f->c * terms * 4096) / 4096;
    f->mean = k;
  }
  f->coef = derive_recognise(p, f->c);
}

/* Names first, then what is longer. */
static int place_of(const printer *p, gs_id id) {
  gs_op op = node(p, id)->op;
  return op == GS_OP_INPUT || op == GS_OP_SCALAR || p->local[id] ? 0 : 1;
}

static void print_reduced(printer *p, gs_text *t, const gs_node *n, const char *name) {
  int count = 0, last = 0;
  gs_text_printf(t, "gs.%s(", name);
  derive_expr(p, t, n->arg[0], BIND_NONE);
  for (int d = 0; d < gs_graph_ndims(p->g); d++)
    if (n->rdims >> d & 1) count++, last = d;
  if (count == 1) {
    gs_text_printf(t, ", \"%s\")", derive_dim_name(p, last));
    return;
  }
  const char *sep = ", { ";
  for (int d = 0; d < gs_graph_ndims(p->g); d++) {
    if (!(n->rdims >> d & 1)) continue;
    gs_text_printf(t, "%s\"%s\"", sep, derive_dim_name(p, d));
    sep = ", ";
  }
  gs_text_add(t, " })");
}

static void print_factor(printer *p, gs_text *t, const factors *f, int k) {
  if (k == f->mean) {
    print_reduced(p, t, node(p, f->id[k]), "mean");
    return;
  }
  derive_expr(p, t, f->id[k], f->power[k] > 1 ? BIND_ATOM : BIND_MUL + 1);
  if (f->power[k] > 1) gs_text_printf(t, "^%d", f->power[k]);
}

static void print_sizes(const printer *p, gs_text *t, const factor_of_sizes *f) {
  if (f->up >= 0) gs_text_printf(t, " * gs.size \"%s\"", derive_dim_name(p, f->up));
  for (int k = 0; k < 2; k++)
    if (f->down[k] >= 0) gs_text_printf(t, " / gs.size \"%s\"", derive_dim_name(p, f->down[k]));
}

static void print_factors(printer *p, gs_text *t, const factors *f) {
  const char *sep = "";
  double c = f->coef.c;
  if (c != 1 && c != -1) {
    gs_derive_number(t, c);
    sep = " * ";
  } else if (c == -1) {
    gs_text_add(t, "-");
  }
  for (int now = 0; now < 2; now++)
    for (int k = 0; k < f->n; k++) {
      if (place_of(p, f->id[k]) != now) continue;
      gs_text_add(t, sep);
      print_factor(p, t, f, k);
      sep = " * ";
    }
  print_sizes(p, t, &f->coef);
}

static factors factors_of(const printer *p, gs_id id) {
  factors f = {.c = 1, .mean = -1};
  collect(p, id, true, &f);
  find_mean(p, &f);
  return f;
}

/* How tightly a product binds: a single factor as itself. */
static int product_binding(const factors *f) {
  bool sizes = f->coef.up >= 0 || f->coef.down[0] >= 0;
  if (f->coef.c == 1 && f->n == 1 && !sizes) return f->power[0] > 1 ? BIND_POWER : BIND_ATOM;
  return BIND_MUL;
}

/* ---- sums ---- */

static bool is_product(const printer *p, gs_id id) {
  const gs_node *n = node(p, id);
  return !p->local[id] && n->type == GS_F32 && (n->op == GS_OP_MUL || n->op == GS_OP_NEG);
}

static bool is_negative(const printer *p, gs_id id) {
  const gs_node *n = node(p, id);
  if (n->op == GS_OP_CONST) return n->value < 0;
  return is_product(p, id) && factors_of(p, id).coef.c < 0;
}

/* One term after the first, with its sign. */
static void print_term(printer *p, gs_text *t, gs_id id, bool minus) {
  const gs_node *n = node(p, id);
  if (!is_negative(p, id)) {
    gs_text_add(t, minus ? " - " : " + ");
    derive_expr(p, t, id, minus ? BIND_ADD + 1 : BIND_ADD);
    return;
  }
  gs_text_add(t, minus ? " + " : " - ");
  if (n->op == GS_OP_CONST) {
    factor_of_sizes f = derive_recognise(p, -n->value);
    gs_derive_number(t, f.c);
    print_sizes(p, t, &f);
    return;
  }
  factors f = factors_of(p, id);
  f.coef.c = -f.coef.c;
  print_factors(p, t, &f);
}

static void print_sum(printer *p, gs_text *t, const gs_node *n) {
  gs_id a = n->arg[0], b = n->arg[1];
  bool minus = n->op == GS_OP_SUB;
  if (!minus && is_negative(p, a) && !is_negative(p, b)) {
    a = n->arg[1];
    b = n->arg[0];
  }
  derive_expr(p, t, a, BIND_ADD);
  print_term(p, t, b, minus);
}

/* ---- quotients ---- */

/* sum over T / size of T */
static bool is_outer_mean(const printer *p, const gs_node *n) {
  const gs_node *s = node(p, n->arg[0]), *c = node(p, n->arg[1]);
  if (n->op != GS_OP_DIV || s->op != GS_OP_SUM || p->local[n->arg[0]] || c->op != GS_OP_REAL)
    return false;
  const gs_node *size = node(p, c->arg[0]);
  if (size->op != GS_OP_SIZE || (s->rdims & (s->rdims - 1))) return false;
  int d = 0;
  while (!(s->rdims >> d & 1)) d++;
  return gs_graph_dim_root(p->g, d) == gs_graph_dim_root(p->g, size->dim[0]);
}

static bool is_inner_mean(const printer *p, const gs_node *n) {
  const gs_node *s = node(p, n->arg[0]), *c = node(p, n->arg[1]);
  if (n->op != GS_OP_DIV || s->op != GS_OP_SUM || p->local[n->arg[0]]) return false;
  return c->op == GS_OP_CONST && c->value > 1 && terms_of(p, s) == c->value;
}

/* ---- everything ---- */

static void print_leaf(printer *p, gs_text *t, const gs_node *n) {
  const gs_tensor *x = gs_graph_tensor_at(p->g, (int)n->index);
  switch (x->role) {
  case GS_ROLE_OUTPUT:
  case GS_ROLE_SAVED: gs_text_printf(t, "s.%s", x->name); break;
  case GS_ROLE_UPSTREAM: gs_text_printf(t, "d.%s", x->name + 1); break;
  default: gs_text_printf(t, "p.%s", x->name); break;
  }
}

static void print_const(printer *p, gs_text *t, const gs_node *n) {
  if (n->type == GS_BOOL) {
    gs_text_printf(t, "gs.eq(0, %d)", n->value != 0 ? 0 : 1);
    return;
  }
  factor_of_sizes f = derive_recognise(p, n->value);
  gs_derive_number(t, f.c);
  print_sizes(p, t, &f);
}

static int binding_of(const printer *p, gs_id id, const factors *f) {
  const gs_node *n = node(p, id);
  if (p->local[id]) return BIND_ATOM;
  if (is_product(p, id)) return product_binding(f);
  switch (n->op) {
  case GS_OP_CONST: {
    factor_of_sizes s = derive_recognise(p, n->value);
    if (s.up >= 0 || s.down[0] >= 0) return BIND_MUL;
    return s.c < 0 ? BIND_NEG : BIND_ATOM;
  }
  case GS_OP_ADD:
  case GS_OP_SUB: return BIND_ADD;
  case GS_OP_MUL: return BIND_MUL;
  case GS_OP_DIV: return is_inner_mean(p, n) || is_outer_mean(p, n) ? BIND_ATOM : BIND_MUL;
  case GS_OP_NEG: return BIND_NEG;
  case GS_OP_POW: return BIND_POWER;
  default: return BIND_ATOM;
  }
}

static void print_binary(printer *p, gs_text *t, const gs_node *n, const char *sign, int own) {
  derive_expr(p, t, n->arg[0], own);
  gs_text_add(t, sign);
  derive_expr(p, t, n->arg[1], own + 1);
}

static void print_body(printer *p, gs_text *t, const gs_node *n) {
  switch (n->op) {
  case GS_OP_CONST: print_const(p, t, n); break;
  case GS_OP_INPUT:
  case GS_OP_SCALAR: print_leaf(p, t, n); break;
  case GS_OP_NEG:
    gs_text_add(t, "-");
    derive_expr(p, t, n->arg[0], BIND_POWER);
    break;
  case GS_OP_ADD:
  case GS_OP_SUB: print_sum(p, t, n); break;
  case GS_OP_MUL: print_binary(p, t, n, " * ", BIND_MUL); break; /* of integers */
  case GS_OP_DIV:
    if (is_inner_mean(p, n) || is_outer_mean(p, n))
      print_reduced(p, t, node(p, n->arg[0]), "mean");
    else
      print_binary(p, t, n, " / ", BIND_MUL);
    break;
  case GS_OP_POW:
    derive_expr(p, t, n->arg[0], BIND_ATOM);
    gs_text_add(t, "^");
    derive_expr(p, t, n->arg[1], BIND_ATOM);
    break;
  case GS_OP_SUM: print_reduced(p, t, n, "sum"); break;
  case GS_OP_RMAX: print_reduced(p, t, n, "max"); break;
  case GS_OP_RMIN: print_reduced(p, t, n, "min"); break;
  case GS_OP_LOGSUMEXP: print_reduced(p, t, n, "logsumexp"); break;
  default: derive_call(p, t, n); break;
  }
}

void derive_expr(printer *p, gs_text *t, gs_id id, int bind) {
  if (p->st != GS_OK) return;
  if (p->local[id]) {
    gs_text_add(t, p->local[id]);
    return;
  }
  bool product = is_product(p, id);
  factors f = product ? factors_of(p, id) : (factors){.n = 0};
  bool paren = binding_of(p, id, &f) < bind;
  if (paren) gs_text_add(t, "(");
  if (product)
    print_factors(p, t, &f);
  else
    print_body(p, t, node(p, id));
  if (paren) gs_text_add(t, ")");
}
