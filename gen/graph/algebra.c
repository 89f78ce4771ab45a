/* algebra.c: products as a coefficient times powers, sums as terms with coefficients.
 *
 * A product or sum is taken apart, like parts are collected, and it is put together again with
 * what varies along fewer dims multiplied first. The result is taken only when it is cheaper (cost
 * of the table, times the points at which a node works), so rewriting ends, and a structure that
 * gains nothing, such as the square of a shared value, stays as the author wrote it.
 *
 * A condition is a factor too, written [c]: where(c, x, 0) is x*[c], and [c]*[c] is [c]. A product
 * with conditions is put together as one where outside of the rest, which masks an infinite rest.
 */
#include "graph/algebra.h"
#include "graph/ops.h"

#include <math.h>
#include <stdlib.h>

#define MOST 24    /* factors or terms; longer ones are left alone */
#define VISITS 96  /* nodes met while taking apart: shared ones are met again and again */
#define REGION 160 /* nodes looked at when costs are compared */
#define OUTER 1024 /* points assumed along an outer dim */

typedef struct product {
  double coef;
  int n, met;
  bool too_long;
  gs_id base[MOST];
  double power[MOST];
} product;

/* ---- cost ---- */

static double weight(const gs_graph *g, gs_dims dims) {
  double w = 1;
  for (int d = 0; d < g->ndims; d++) {
    int64_t size = has(dims, d) ? inner_size(g, d) : 1;
    w *= size > 0 ? (double)size : OUTER;
  }
  return w;
}

typedef struct region {
  gs_id seen[REGION];
  int n;
  bool overflow;
} region;

static bool mark(region *r, gs_id id) {
  for (int i = 0; i < r->n; i++)
    if (r->seen[i] == id) return false;
  if (r->n == REGION)
    r->overflow = true;
  else
    r->seen[r->n++] = id;
  return !r->overflow;
}

static double cost_below(const gs_graph *g, gs_id id, region *r) {
  if (!mark(r, id)) return 0;
  const gs_node *n = node_at(g, id);
  double c = op_cost(n) * weight(g, work_dims(g, n));
  for (int k = 0; k < n->nargs; k++) c += cost_below(g, n->arg[k], r);
  return c;
}

/* Cost of computing id from the atoms, each shared node once; infinite when too large to tell. */
static double cost_from(const gs_graph *g, gs_id id, const gs_id *atoms, int n) {
  region r = {.n = 0};
  for (int i = 0; i < n; i++) mark(&r, atoms[i]);
  double c = cost_below(g, id, &r);
  return r.overflow ? INFINITY : c;
}

static bool cheaper(double a, double b) {
  return isfinite(b) && a < b * (1 - 1e-12);
}

/* ---- products ---- */

static bool is_condition(const gs_graph *g, gs_id id) {
  return node_at(g, id)->type == GS_BOOL;
}

static void add_factor(const gs_graph *g, product *p, gs_id base, double power) {
  for (int i = 0; i < p->n; i++)
    if (p->base[i] == base) {
      p->power[i] = is_condition(g, base) ? power > 0 : p->power[i] + power;
      return;
    }
  if (p->n == MOST) {
    p->too_long = true;
    return;
  }
  p->base[p->n] = base;
  p->power[p->n++] = power;
}

static void take_condition(const gs_graph *g, gs_id c, product *p) {
  const gs_node *n = node_at(g, c);
  if (n->op == GS_OP_AND && ++p->met <= VISITS) {
    take_condition(g, n->arg[0], p);
    take_condition(g, n->arg[1], p);
  } else {
    add_factor(g, p, c, 1);
  }
}

/* A square of a product, which stays one: the squares of its factors may overflow. */
static bool is_square(const gs_graph *g, const gs_node *n) {
  gs_op inner = node_at(g, n->arg[0])->op;
  return n->op == GS_OP_MUL && n->arg[0] == n->arg[1] && (inner == GS_OP_MUL || inner == GS_OP_DIV);
}

/* Multiplies p by id^power; power is 1 or -1. */
static void take_apart(const gs_graph *g, gs_id id, double power, product *p) {
  const gs_node *n = node_at(g, id);
  bool real = n->type == GS_F32;
  if (p->too_long) return;
  p->too_long = ++p->met > VISITS;
  if (n->op == GS_OP_CONST && real && n->value != 0) {
    p->coef *= pow(n->value, power);
  } else if (n->op == GS_OP_WHERE && real && power > 0 && is_value(g, n->arg[2], 0)) {
    take_condition(g, n->arg[0], p);
    take_apart(g, n->arg[1], power, p);
  } else if (n->op == GS_OP_REAL && power > 0 && is_condition(g, n->arg[0])) {
    take_condition(g, n->arg[0], p);
  } else if (real && is_square(g, n)) {
    add_factor(g, p, n->arg[0], 2 * power);
  } else if (n->op == GS_OP_MUL && real) {
    take_apart(g, n->arg[0], power, p);
    take_apart(g, n->arg[1], power, p);
  } else if (n->op == GS_OP_DIV) {
    take_apart(g, n->arg[0], power, p);
    take_apart(g, n->arg[1], -power, p);
  } else if (n->op == GS_OP_NEG && real) {
    p->coef = -p->coef;
    take_apart(g, n->arg[0], power, p);
  } else if (n->op == GS_OP_SQRT) {
    add_factor(g, p, n->arg[0], 0.5 * power);
  } else if (n->op == GS_OP_RSQRT) {
    add_factor(g, p, n->arg[0], -0.5 * power);
  } else if (n->op == GS_OP_POW && is_const(g, n->arg[1])) {
    add_factor(g, p, n->arg[0], node_at(g, n->arg[1])->value * power);
  } else {
    add_factor(g, p, id, power);
  }
}

static int place_of(const product *p, gs_id base) {
  for (int i = 0; i < p->n; i++)
    if (p->base[i] == base) return i;
  return -1;
}

/* Takes apart what is below the square at i where one of its factors also stands beside it. */
static bool open_square(const gs_graph *g, product *p, int i) {
  gs_op op = node_at(g, p->base[i])->op;
  product in = {.coef = 1, .met = p->met};
  bool beside = false;
  if (op != GS_OP_MUL && op != GS_OP_DIV) return false;
  if (p->power[i] != floor(p->power[i])) return false; /* the root of s*s is |s|, not s */
  take_apart(g, p->base[i], 1, &in);
  for (int k = 0; k < in.n; k++) beside |= place_of(p, in.base[k]) >= 0;
  p->met = in.met;
  p->too_long |= in.too_long;
  if (!beside || in.too_long) return false;
  double power = p->power[i];
  p->coef *= pow(in.coef, power);
  p->n--;
  p->base[i] = p->base[p->n];
  p->power[i] = p->power[p->n];
  for (int k = 0; k < in.n; k++) add_factor(g, p, in.base[k], in.power[k] * power);
  return true;
}

static product product_of(const gs_graph *g, gs_id id) {
  product p = {.coef = 1};
  take_apart(g, id, 1, &p);
  for (int i = 0; i < p.n && !p.too_long;) i = open_square(g, &p, i) ? 0 : i + 1;
  return p;
}

static gs_id times(gs_graph *g, gs_id a, gs_id b) {
  if (!a || !b) return a ? a : b;
  return gs_op2(g, GS_OP_MUL, a, b);
}

/* Multiplies *num / *den by base^power. */
static void put_power(gs_graph *g, gs_id base, double power, gs_id *num, gs_id *den) {
  double size = fabs(power), whole = floor(size);
  gs_id *side = power < 0 ? den : num;
  if ((size != whole && size != whole + 0.5) || whole > 4) {
    *num = times(g, *num, gs_op2(g, GS_OP_POW, base, gs_const(g, power)));
    return;
  }
  if (size != whole) {
    gs_op root = power < 0 ? GS_OP_RSQRT : GS_OP_SQRT;
    *num = times(g, *num, gs_op1(g, root, base));
  }
  if (whole == 0) return;
  gs_id all = base;
  for (int k = 1; k < (int)whole; k++) all = gs_op2(g, GS_OP_MUL, all, base);
  *side = times(g, *side, all);
}

/* Factors that vary along fewer points first, older ones first among equals. */
static void sort_factors(const gs_graph *g, product *p) {
  for (int i = 1; i < p->n; i++) {
    gs_id b = p->base[i];
    double w = weight(g, node_at(g, b)->dims), power = p->power[i];
    int j = i;
    for (; j > 0; j--) {
      double wj = weight(g, node_at(g, p->base[j - 1])->dims);
      if (wj < w || (wj == w && p->base[j - 1] < b)) break;
      p->base[j] = p->base[j - 1];
      p->power[j] = p->power[j - 1];
    }
    p->base[j] = b;
    p->power[j] = power;
  }
}

/* Moves the conditions out of p, and gives all of them as one; 0: there are none. */
static gs_id take_conditions(gs_graph *g, product *p) {
  gs_id all = 0;
  int n = 0;
  for (int i = 0; i < p->n; i++) {
    if (!is_condition(g, p->base[i])) {
      p->base[n] = p->base[i];
      p->power[n++] = p->power[i];
    } else if (p->power[i] > 0) {
      all = all ? gs_op2(g, GS_OP_AND, all, p->base[i]) : p->base[i];
    }
  }
  p->n = n;
  return all;
}

static gs_id put_factors(gs_graph *g, const product *p) {
  gs_id all = 0;
  bool coef_used = p->coef == 1;
  for (int i = 0; i < p->n;) {
    gs_dims dims = node_at(g, p->base[i])->dims;
    gs_id num = 0, den = 0;
    for (; i < p->n && node_at(g, p->base[i])->dims == dims; i++)
      put_power(g, p->base[i], p->power[i], &num, &den);
    if (den && !num && !coef_used) {
      num = gs_const(g, p->coef);
      coef_used = true;
    }
    if (den) num = gs_op2(g, GS_OP_DIV, num ? num : gs_const(g, 1), den);
    if (num && !coef_used) {
      num = times(g, num, gs_const(g, p->coef));
      coef_used = true;
    }
    all = times(g, all, num);
  }
  if (!all) return gs_const(g, p->coef);
  return coef_used ? all : times(g, all, gs_const(g, p->coef));
}

static gs_id put_together(gs_graph *g, product *p) {
  sort_factors(g, p);
  gs_id c = take_conditions(g, p), all = put_factors(g, p);
  return c ? gs_where(g, c, all, gs_const(g, 0)) : all;
}

/* x*where(c, y, 0): where an infinite x is not masked, though nothing would come of it. */
static bool masks_half(const gs_graph *g, const gs_node *n) {
  bool masked[2];
  for (int k = 0; k < 2; k++) {
    const gs_node *a = node_at(g, n->arg[k]);
    masked[k] = a->op == GS_OP_WHERE && is_value(g, a->arg[2], 0);
  }
  return n->op == GS_OP_MUL && masked[0] != masked[1];
}

gs_id rewrite_product(gs_graph *g, gs_id id) {
  if (node_at(g, id)->type != GS_F32) return 0;
  product p = product_of(g, id);
  if (p.too_long) return 0;
  product atoms = p;
  gs_id simpler = put_together(g, &p);
  double now = cost_from(g, id, atoms.base, atoms.n);
  double then = cost_from(g, simpler, atoms.base, atoms.n);
  bool masks = masks_half(g, node_at(g, id)) && node_at(g, simpler)->op == GS_OP_WHERE;
  return cheaper(then, now) || (masks && then <= now && isfinite(now)) ? simpler : 0;
}

/* ---- sums ---- */

typedef struct sum {
  double constant;
  int n, consts, met, visits; /* distinct terms, constants, terms met, nodes met */
  bool too_long;
  gs_id term[MOST];
  double coef[MOST];
} sum;

static void add_term(sum *s, gs_id term, double coef) {
  s->met++;
  for (int i = 0; i < s->n; i++)
    if (s->term[i] == term) {
      s->coef[i] += coef;
      return;
    }
  if (s->n == MOST) {
    s->too_long = true;
    return;
  }
  s->term[s->n] = term;
  s->coef[s->n++] = coef;
}

static void take_terms(const gs_graph *g, gs_id id, double coef, sum *s) {
  const gs_node *n = node_at(g, id);
  if (s->too_long) return;
  s->too_long = ++s->visits > VISITS;
  if (n->op == GS_OP_ADD || n->op == GS_OP_SUB) {
    take_terms(g, n->arg[0], coef, s);
    take_terms(g, n->arg[1], n->op == GS_OP_ADD ? coef : -coef, s);
  } else if (n->op == GS_OP_NEG) {
    take_terms(g, n->arg[0], -coef, s);
  } else if (n->op == GS_OP_CONST) {
    s->constant += coef * n->value;
    s->consts++;
  } else if (n->op == GS_OP_MUL && is_const(g, n->arg[1])) {
    add_term(s, n->arg[0], coef * node_at(g, n->arg[1])->value);
  } else {
    add_term(s, id, coef);
  }
}

static gs_id put_terms(gs_graph *g, const sum *s, gs_type type) {
  gs_id all = 0;
  for (int i = 0; i < s->n; i++) {
    if (s->coef[i] == 0) continue;
    double size = fabs(s->coef[i]);
    gs_id t = gs_op2(g, GS_OP_MUL, s->term[i], const_of(g, all ? size : s->coef[i], type));
    if (!all)
      all = t;
    else
      all = gs_op2(g, s->coef[i] < 0 ? GS_OP_SUB : GS_OP_ADD, all, t);
  }
  gs_id c = const_of(g, s->constant, type);
  return all ? gs_op2(g, GS_OP_ADD, all, c) : c;
}

/* Factors that every term has: their least power where the signs agree. */
static product common_factors(const gs_graph *g, const product *p, int n) {
  product common = {.coef = 1};
  for (int i = 0; i < p[0].n; i++) {
    double power = p[0].power[i];
    for (int t = 1; t < n && power != 0; t++) {
      double other = 0;
      for (int j = 0; j < p[t].n; j++)
        if (p[t].base[j] == p[0].base[i]) other = p[t].power[j];
      if (other * power <= 0)
        power = 0;
      else if (fabs(other) < fabs(power))
        power = other;
    }
    if (power != 0) add_factor(g, &common, p[0].base[i], power);
  }
  return common;
}

static bool same_factors(const product *a, const product *b) {
  if (a->n != b->n) return false;
  for (int i = 0; i < a->n; i++) {
    bool found = false;
    for (int j = 0; j < b->n; j++) found |= a->base[i] == b->base[j] && a->power[i] == b->power[j];
    if (!found) return false;
  }
  return true;
}

/* The terms as products; those of the same factors become one. False when one is too long. */
static bool products_of(gs_graph *g, sum *s, product *p) {
  int n = 0;
  for (int i = 0; i < s->n; i++) {
    product q = product_of(g, s->term[i]);
    if (q.too_long) return false;
    q.coef *= s->coef[i];
    int k = 0;
    while (k < n && !same_factors(&p[k], &q)) k++;
    if (k < n) {
      p[k].coef += q.coef;
      s->term[k] = 0; /* no longer as it stood */
    } else {
      s->term[n] = s->term[i];
      s->coef[n] = s->coef[i];
      p[n++] = q;
    }
  }
  s->n = n;
  return true;
}

/* Terms that differ in their coefficient alone, which may hide in a part of the product. */
static gs_id add_up(gs_graph *g, const sum *s, product *p) {
  sum r = {.constant = s->constant};
  for (int i = 0; i < s->n; i++) {
    if (s->term[i]) {
      add_term(&r, s->term[i], s->coef[i]);
      continue;
    }
    double coef = p[i].coef;
    p[i].coef = 1;
    if (coef != 0) add_term(&r, put_together(g, &p[i]), coef);
  }
  return put_terms(g, &r, GS_F32);
}

/* a*c + b*c -> (a + b)*c where that is cheaper. */
static gs_id factor_out(gs_graph *g, gs_id id, const sum *s, product *p) {
  gs_id atoms[MOST * MOST];
  int natoms = 0;
  if (s->n < 2 || s->constant != 0) return 0;
  for (int i = 0; i < s->n; i++)
    for (int k = 0; k < p[i].n; k++) atoms[natoms++] = p[i].base[k];
  product common = common_factors(g, p, s->n);
  if (common.n == 0) return 0;
  gs_id inner = 0;
  for (int i = 0; i < s->n; i++) {
    for (int k = 0; k < common.n; k++) add_factor(g, &p[i], common.base[k], -common.power[k]);
    bool minus = inner && p[i].coef < 0;
    if (minus) p[i].coef = -p[i].coef;
    gs_id t = put_together(g, &p[i]);
    inner = inner ? gs_op2(g, minus ? GS_OP_SUB : GS_OP_ADD, inner, t) : t;
  }
  add_factor(g, &common, inner, 1);
  gs_id simpler = put_together(g, &common);
  bool better = cheaper(cost_from(g, simpler, atoms, natoms), cost_from(g, id, atoms, natoms));
  return better ? simpler : 0;
}

/* where(index(d) == 0, a, 0) + where(index(d) == 1, b, 0) -> join({a, b}, d), when all of d is
 * covered once: what the adjoint of picks leaves. */
static gs_id join_picks(gs_graph *g, const sum *s) {
  gs_node join = {.op = GS_OP_JOIN, .dim = {-1, -1, -1}};
  if (s->constant != 0 || s->n < 2 || s->n > GS_MAX_ARGS) return 0;
  for (int i = 0; i < s->n; i++) {
    const gs_node *w = node_at(g, s->term[i]);
    if (w->op != GS_OP_WHERE || s->coef[i] != 1 || !is_value(g, w->arg[2], 0)) return 0;
    const gs_node *c = node_at(g, w->arg[0]);
    if (c->op != GS_OP_EQ || !is_const(g, c->arg[1])) return 0;
    const gs_node *index = node_at(g, c->arg[0]);
    double at = node_at(g, c->arg[1])->value;
    if (index->op != GS_OP_INDEX || at < 0 || at >= s->n) return 0;
    if (i > 0 && index->dim[0] != join.dim[0]) return 0;
    join.dim[0] = index->dim[0];
    if (join.arg[(int)at] || has(node_at(g, w->arg[1])->dims, join.dim[0])) return 0;
    join.arg[(int)at] = w->arg[1];
  }
  join.nargs = s->n;
  return inner_size(g, join.dim[0]) == s->n ? make(g, &join) : 0;
}

/* where(c, a, 0) + where(c, b, 0) -> where(c, a + b, 0), and the same for differences. */
static gs_id merge_wheres(gs_graph *g, const gs_node *n) {
  const gs_node *a = node_at(g, n->arg[0]), *b = node_at(g, n->arg[1]);
  if (a->op != GS_OP_WHERE || b->op != GS_OP_WHERE || a->arg[0] != b->arg[0]) return 0;
  if (!is_const(g, a->arg[2]) || !is_const(g, b->arg[2])) return 0;
  return gs_where(g, a->arg[0], gs_op2(g, n->op, a->arg[1], b->arg[1]),
                  gs_op2(g, n->op, a->arg[2], b->arg[2]));
}

gs_id rewrite_sum(gs_graph *g, gs_id id) {
  const gs_node *n = node_at(g, id);
  gs_id merged = merge_wheres(g, n);
  if (merged) return merged;
  sum s = {.n = 0};
  take_terms(g, id, 1, &s);
  if (s.too_long) return 0;
  bool cancelled = false;
  for (int i = 0; i < s.n; i++) cancelled |= s.coef[i] == 0;
  if (s.n < s.met || s.consts > 1 || cancelled) return put_terms(g, &s, n->type);
  if (n->type != GS_F32) return 0;
  gs_id joined = join_picks(g, &s);
  if (joined) return joined;
  product p[MOST];
  int terms = s.n;
  if (!products_of(g, &s, p)) return 0;
  return s.n < terms ? add_up(g, &s, p) : factor_out(g, id, &s, p);
}

/* ---- sums over dims ---- */

/* sum(a + b) where one part does not vary along what is summed: that part costs no reduction. */
static gs_id split_terms(gs_graph *g, const gs_node *n, const gs_node *e) {
  bool first = !(node_at(g, e->arg[0])->dims & n->rdims);
  bool second = !(node_at(g, e->arg[1])->dims & n->rdims);
  if (!first && !second) return 0;
  return gs_op2(g, e->op, sum_over(g, e->arg[0], n->rdims), sum_over(g, e->arg[1], n->rdims));
}

/* Takes the factors that do not vary along rdims out of id: returns the rest (0: nothing), whose
 * shape is otherwise kept, and multiplies *out (0: one) by what was taken. */
static gs_id take_out(gs_graph *g, gs_id id, gs_dims rdims, int *visits, gs_id *out) {
  const gs_node *n = node_at(g, id);
  if (++*visits > VISITS) return id;
  if (!(n->dims & rdims)) {
    *out = times(g, *out, id);
    return 0;
  }
  if (n->op == GS_OP_NEG) {
    *out = *out ? gs_op1(g, GS_OP_NEG, *out) : gs_const(g, -1);
    return take_out(g, n->arg[0], rdims, visits, out);
  }
  if (n->op == GS_OP_MUL && !is_square(g, n)) {
    gs_id a = take_out(g, n->arg[0], rdims, visits, out);
    return times(g, a, take_out(g, n->arg[1], rdims, visits, out));
  }
  if (n->op != GS_OP_DIV) return id;
  gs_id below = 0, a = take_out(g, n->arg[0], rdims, visits, out);
  gs_id b = take_out(g, n->arg[1], rdims, visits, &below);
  if (below) *out = gs_op2(g, GS_OP_DIV, *out ? *out : gs_const(g, 1), below);
  return b ? gs_op2(g, GS_OP_DIV, a ? a : gs_const(g, 1), b) : a;
}

/* sum(f*r) -> f*sum(r) for all factors f that do not vary along what is summed. */
static gs_id pull_factors(gs_graph *g, const gs_node *n) {
  int visits = 0;
  gs_id out = 0, rest = take_out(g, n->arg[0], n->rdims, &visits, &out);
  return out ? gs_op2(g, GS_OP_MUL, sum_over(g, rest, n->rdims), out) : 0;
}

/* The value that the condition compares the index along d with, or 0; what else it says goes to
 * *rest (0: nothing). */
static gs_id index_is(gs_graph *g, gs_id c, int d, gs_id *rest) {
  const gs_node *n = node_at(g, c);
  *rest = 0;
  for (int k = 0; k < 2 && n->op == GS_OP_EQ; k++) {
    const gs_node *index = node_at(g, n->arg[k]);
    bool own = index->op == GS_OP_INDEX && index->dim[0] == d;
    if (own && !has(node_at(g, n->arg[1 - k])->dims, d)) return n->arg[1 - k];
  }
  for (int k = 0; k < 2 && n->op == GS_OP_AND; k++) {
    gs_id more, other = n->arg[1 - k], i;
    if (has(node_at(g, other)->dims, d)) continue;
    i = index_is(g, n->arg[k], d, &more);
    *rest = more ? gs_op2(g, GS_OP_AND, more, other) : other;
    if (i) return i;
  }
  return 0;
}

/* sum over d of where(index(d) == i, z, 0) -> z at i, where i is an index of d. */
static gs_id find_gather(gs_graph *g, const gs_node *n, const gs_node *e) {
  gs_id c = e->op == GS_OP_WHERE && is_value(g, e->arg[2], 0) ? e->arg[0] : 0;
  gs_id z = c ? e->arg[1] : gs_const(g, 1), ok;
  if (e->op == GS_OP_REAL) c = e->arg[0];
  for (int d = 0; c && d < g->ndims; d++) {
    gs_id i = has(n->rdims, d) ? index_is(g, c, d, &ok) : 0;
    if (!i || node_at(g, i)->type != GS_I64) continue;
    gs_id size = make(g, &(gs_node){.op = GS_OP_SIZE, .dim = {d}});
    gs_id inside = gs_op2(g, GS_OP_AND, gs_op2(g, GS_OP_GE, i, const_of(g, 0, GS_I64)),
                          gs_op2(g, GS_OP_LT, i, size));
    if (ok) inside = gs_op2(g, GS_OP_AND, ok, inside);
    return sum_over(g, gather(g, z, i, inside, d), n->rdims & ~bit(d));
  }
  return 0;
}

static gs_id rewrite_reduced_sum(gs_graph *g, gs_id id) {
  const gs_node *n = node_at(g, id), *e = node_at(g, n->arg[0]);
  gs_id gathered = find_gather(g, n, e);
  if (gathered) return gathered;
  if (e->op == GS_OP_ADD || e->op == GS_OP_SUB) return split_terms(g, n, e);
  bool guarded = e->op == GS_OP_WHERE && !(node_at(g, e->arg[0])->dims & n->rdims);
  if (guarded)
    return gs_where(g, e->arg[0], sum_over(g, e->arg[1], n->rdims),
                    sum_over(g, e->arg[2], n->rdims));
  return pull_factors(g, n);
}

gs_id rewrite_reduction(gs_graph *g, gs_id id) {
  const gs_node *n = node_at(g, id), *e = node_at(g, n->arg[0]);
  if (n->op == e->op && n->op != GS_OP_FOLD) /* one inside another */
    return make(
        g, &(gs_node){.op = n->op, .nargs = 1, .arg = {e->arg[0]}, .rdims = n->rdims | e->rdims});
  return n->op == GS_OP_SUM ? rewrite_reduced_sum(g, id) : 0;
}
