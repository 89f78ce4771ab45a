/* random_ops.c: one random operation at a time. Reals are kept within about [-8, 8], so that most
 * values have a finite error bound. In a form $a $b $c are the arguments, $1 $2 $3 words, $v the
 * new value, where the form is more than an expression. */
#include "random_maker.h"

#include "base/random.h"

#include <stdio.h>
#include <string.h>

int below(maker *m, int n) {
  return (int)(gs_random_next(&m->s) % (uint64_t)n);
}

const char *dim_name(unsigned dim) {
  static const char *const names[NDIMS] = {"T", "H", "e", "g", "k", "h", "f",
                                           "j", "S", "N", "B", "P", "k2"};
  int d = 0;
  while (d < NDIMS - 1 && !(dim >> d & 1)) d++;
  return names[d];
}

void list_dims(unsigned dims, char *out, unsigned cap) {
  static const unsigned order[] = {T, S, N, B, P, E, F, G, K, K2, HALF, H, J}; /* of storage */
  size_t len = 0;
  out[0] = 0;
  for (int i = 0; i < NDIMS; i++)
    if ((dims & order[i]) && len < cap)
      len +=
          (size_t)snprintf(out + len, cap - len, "%s\"%s\"", len ? ", " : "", dim_name(order[i]));
}

static int count(unsigned dims) {
  int n = 0;
  for (; dims; dims &= dims - 1) n++;
  return n;
}

/* At most one outer dim and three in all; a dim does not meet its own parts. */
bool fits(unsigned d) {
  if (count(d & OUTER) > 1 || count(d) > 3) return false;
  if ((d & H) && (d & (G | K | HALF))) return false;
  if ((d & HALF) && (d & (G | K))) return false;
  return !((d & (N | P)) && (d & (K | K2))) && !((d & K) && (d & K2));
}

/* A random value of the kind, the later the likelier; NULL when there is none. */
static const node *pick(maker *m, kind wanted) {
  for (int tries = 0; tries < 40; tries++) {
    int a = below(m, m->n), b = below(m, m->n);
    const node *v = &m->v[a > b ? a : b];
    if (v->kind == wanted) return v;
  }
  return NULL;
}

/* One that has all of `dims`. */
static const node *pick_with(maker *m, kind wanted, unsigned dims) {
  for (int tries = 0; tries < 8; tries++) {
    const node *v = pick(m, wanted);
    if (v && (v->dims & dims) == dims) return v;
  }
  return NULL;
}

typedef struct parts {
  const node *arg[3];
  char word[3][96];
} parts;

static void expand(node *v, const char *form, const parts *p) {
  size_t len = 0, cap = sizeof v->text - 64;
  if (!strstr(form, "$v")) expand(v, "    local $v = ", p), len = strlen(v->text);
  for (const char *c = form; *c && len < cap; c++) {
    if (*c != '$') {
      v->text[len++] = *c;
      continue;
    }
    c++;
    const char *s = *c == 'v' ? v->name : *c >= 'a' ? p->arg[*c - 'a']->name : p->word[*c - '1'];
    while (*s && len < cap) v->text[len++] = *s++;
  }
  v->text[len] = 0;
}

/* The new value; NULL where dims do not fit or the pool is full. */
static node *make(maker *m, kind k, unsigned dims, bool smooth, const char *form, const parts *p) {
  if (!fits(dims) || m->n >= MAX_VALUES) return NULL;
  node *v = &m->v[m->n++];
  *v = (node){.dims = dims, .kind = k, .smooth = smooth, .from = {-1, -1, -1}};
  snprintf(v->name, sizeof v->name, "v%d", m->n);
  for (int i = 0; i < 3 && p->arg[i]; i++) {
    v->inputs |= p->arg[i]->inputs;
    v->smooth &= p->arg[i]->smooth;
    v->flows |= p->arg[i]->flows;
    v->from[i] = (int)(p->arg[i] - m->v);
  }
  v->flows &= k == REAL && !strstr(form, "gs.stop");
  expand(v, form, p);
  strcat(v->text, "\n");
  return v;
}

static void number(parts *p, int word, int value) {
  snprintf(p->word[word], sizeof p->word[word], "%d", value);
}
static void name_dim(parts *p, int word, unsigned dim) {
  snprintf(p->word[word], sizeof p->word[word], "\"%s\"", dim_name(dim));
}

/* One of the dims of the set. */
static unsigned one_of(maker *m, unsigned dims) {
  unsigned one;
  do one = 1u << below(m, NDIMS);
  while (!(dims & one));
  return one;
}

/* ---- elementwise ---- */

typedef struct form {
  const char *text;
  bool smooth;
} form;

static bool unary(maker *m) {
  static const form forms[] = {
      {"gs.tanh($a)", true},
      {"gs.sigmoid($a)", true},
      {"gs.sin($a)", true},
      {"gs.cos($a)", true},
      {"gs.erf($a)", true},
      {"-$a", true},
      {"gs.tanh($a)^2", true},
      {"gs.exp(-gs.tanh($a)^2)", true},
      {"gs.rsqrt($a^2 + 0.5)", true},
      {"(gs.sin($a) - 2) * gs.rsqrt((gs.sin($a) - 2) * (gs.sin($a) - 2)) + 0.1 * $a", true},
      {"gs.sqrt((gs.sin($a) - 2)^2) / (gs.sin($a) - 2) - 0.1 * $a", true},
      {"gs.sqrt($a^2 + 1)", true},
      {"gs.log($a^2 + 1)", true},
      {"gs.stop(gs.sin($a))", true},
      {"0.5 * $a", true},
      {"1 / ($a^2 + 1)", true},
      {"gs.softplus(gs.tanh($a))", true},
      {"gs.log_sigmoid($a)", true},
      {"gs.expm1(gs.tanh($a))", true},
      {"gs.log1p(gs.tanh($a)^2)", true},
      {"gs.silu($a)", true},
      {"gs.gelu($a)", true},
      {"gs.gelu_tanh($a)", true},
      {"($a * 1e30) * 1e-30", true}, /* folded constants that f32 does not hold */
      {"$a / 1e-30 / 1e30", true},
      {"$a * 1e-20 * 1e-15 * 1e20 * 1e15", true},
      {"gs.tanh($a * 1e20 * 1e20 * 1e-40)", true},
      {"gs.relu($a)", true},
      {"gs.abs($a)", true},
      {"gs.abs(gs.sin($a))", true},
      {"gs.clamp($a, -2, 1.5)", true},
      {"gs.floor($a)", false},
      {"gs.sign($a)", false},
      {"gs.round($a, \"bf16\")", false},
      {"gs.round($a, \"f32\")", false},
      {"gs.round($a, \"e4m3\")", false},
      {"gs.round($a, \"e5m2\")", false},
      {"0.01 * gs.round(gs.abs($a) + 0.01, \"e8m0\")", false},
      {"gs.round($a, \"bf16\", { rand = gs.rand($1, \"coin\", { $2 }) })", false},
      {"gs.round($a, \"e4m3\", { rand = gs.rand($1, \"die\", { $2 }) })", false}};
  parts p = {.arg = {pick(m, REAL)}};
  const form *f = &forms[below(m, sizeof forms / sizeof *forms)];
  if (!p.arg[0] || (!p.arg[0]->dims && strstr(f->text, "$2"))) return false;
  number(&p, 0, below(m, 1000));
  list_dims(p.arg[0]->dims, p.word[1], sizeof p.word[1]);
  return make(m, REAL, p.arg[0]->dims, f->smooth, f->text, &p);
}

static bool binary(maker *m) {
  static const char *const forms[] = {
      "0.5 * ($a + $b)",
      "gs.sin($a) - gs.tanh($b)",
      "gs.tanh($a) * $b",
      "$a / (1 + gs.abs($b))",
      "gs.min($a, $b)",
      "gs.max($a, $b)",
      "gs.tanh($a * $b)",
      "gs.sigmoid($a)^(1.5 + gs.sin($b))",
      "$a - 0.25 * gs.cos($b)",
      "gs.max($a, gs.min($a, $b + 0.0123))", /* equal arguments, by value or as written */
      "gs.min(gs.max($b + 0.0123, $a), $a)",
      "gs.max($a, $a) - $b",
      "gs.where(gs.lt($a, $b), $a, $a)",
      "gs.where(gs.ge($b, $b), $a, $b)",
      "$a - $b + ($b - $a) * 0.5",
      "0.5 * (gs.max($a, $b) - gs.min($a, $b))"};
  parts p = {.arg = {pick(m, REAL), pick(m, REAL)}};
  if (!p.arg[0] || !p.arg[1]) return false;
  return make(m, REAL, p.arg[0]->dims | p.arg[1]->dims, true,
              forms[below(m, sizeof forms / sizeof *forms)], &p);
}

static bool choose(maker *m) {
  static const char *const forms[] = {"gs.where($b, $a, 0.$1)", "gs.where($b, -0.$1, $a)",
                                      "gs.where(gs.not_($b), $a, 0)", "$a * gs.real($b)"};
  parts p = {.arg = {pick(m, REAL), pick(m, BOOL)}};
  if (!p.arg[0] || !p.arg[1]) return false;
  number(&p, 0, below(m, 100));
  return make(m, REAL, p.arg[0]->dims | p.arg[1]->dims, true, forms[below(m, 4)], &p);
}

static bool compare(maker *m) {
  static const char *const reals[] = {"gs.lt($a, $b)", "gs.le($a, $b)", "gs.gt($a, $b)",
                                      "gs.ge($a, $b)"};
  static const char *const wholes[] = {"gs.eq($a, $1)", "gs.ne($a, $1)", "gs.lt($a, $1)",
                                       "gs.ge(gs.remainder($a, 5), $1)"};
  static const char *const truths[] = {"gs.and_($a, $b)", "gs.or_($a, $b)",
                                       "gs.and_($a, gs.not_($b))"};
  kind k = (kind)below(m, 3);
  parts p = {.arg = {pick(m, k), k == INT ? NULL : pick(m, k)}};
  if (!p.arg[0] || (k != INT && !p.arg[1])) return false;
  unsigned dims = p.arg[0]->dims | (p.arg[1] ? p.arg[1]->dims : 0);
  number(&p, 0, below(m, 8));
  if (k == INT) return make(m, BOOL, dims, true, wholes[below(m, 4)], &p);
  if (k == BOOL) return make(m, BOOL, dims, true, truths[below(m, 3)], &p);
  return make(m, BOOL, dims, false, reals[below(m, 4)], &p);
}

/* ---- reductions ---- */

static bool reduce(maker *m) {
  static const form forms[] = {{"gs.mean($a, $1)", true},
                               {"gs.mean($a, $1)", true},
                               {"gs.tanh(gs.sum($a, $1))", true},
                               {"gs.tanh(gs.sum($a, $1))", true},
                               {"gs.max($a, $1)", false},
                               {"gs.min($a, $1)", false},
                               {"gs.logsumexp($a, $1)", true},
                               {"    local $vm, $vs = gs.moments($a, $1)\n    local $v = $vm * "
                                "gs.rsqrt($vs + 0.1)",
                                true}};
  parts p = {.arg = {pick(m, REAL)}};
  if (!p.arg[0] || !p.arg[0]->dims) return false;
  unsigned dims = p.arg[0]->dims, gone = one_of(m, dims);
  if (below(m, 3) == 0) gone |= one_of(m, dims);
  bool all = below(m, 8) == 0;
  char list[64];
  list_dims(gone, list, sizeof list);
  snprintf(p.word[0], sizeof p.word[0], all ? "\"all\"" : "{ %s }", list);
  const form *f = &forms[below(m, sizeof forms / sizeof *forms)];
  return make(m, REAL, all ? 0 : dims & ~gone, f->smooth, f->text, &p);
}

static bool along_dim(maker *m) {
  static const char *const forms[] = {
      "gs.softmax($a, $1)", "gs.log_softmax($a, $1)",
      "    local $vm, $vs = gs.moments($a, $1)\n    local $v = ($a - $vm) * gs.rsqrt($vs + 0.1)",
      "gs.argmax($a, $1)", "gs.argmin($a, $1)"};
  parts p = {.arg = {pick(m, REAL)}};
  if (!p.arg[0] || !(p.arg[0]->dims & ~(unsigned)OUTER)) return false;
  unsigned one = one_of(m, p.arg[0]->dims & ~(unsigned)OUTER), dims = p.arg[0]->dims;
  int f = below(m, 5);
  name_dim(&p, 0, one);
  return make(m, f < 3 ? REAL : INT, f < 3 ? dims : dims & ~one, f < 3, forms[f], &p);
}

/* Two components, an integer and a real one. */
static bool fold(maker *m) {
  static const char both[] =
      "    local $vr = gs.reduce({ x = $a }, $1, { init = { n = 0, best = -1e30 },\n"
      "      step = function(s, e) return { n = gs.where(gs.gt(e.x, 0), s.n + 1, s.n), best = "
      "gs.max(s.best, e.x) } end,\n"
      "      merge = function(s, t) return { n = s.n + t.n, best = gs.max(s.best, t.best) } end "
      "})\n    local $v = ";
  parts p = {.arg = {pick(m, REAL)}};
  if (!p.arg[0] || !(p.arg[0]->dims & ~(unsigned)OUTER)) return false;
  unsigned inner = p.arg[0]->dims & ~(unsigned)OUTER, gone = one_of(m, inner) | one_of(m, inner);
  char list[64], text[900];
  bool whole = below(m, 2);
  list_dims(gone, list, sizeof list);
  snprintf(p.word[0], sizeof p.word[0], "{ %s }", list);
  snprintf(text, sizeof text, "%s%s", both, whole ? "$vr.n" : "$vr.best - gs.real($vr.n) * 0.01");
  return make(m, whole ? INT : REAL, p.arg[0]->dims & ~gone, false, text, &p);
}

static bool topk(maker *m) {
  parts p = {.arg = {pick(m, REAL)}};
  unsigned where = p.arg[0] ? p.arg[0]->dims & (E | H | K) : 0;
  if (!where || (p.arg[0]->dims & J)) return false;
  unsigned one = one_of(m, where), dims = (p.arg[0]->dims & ~one) | J;
  name_dim(&p, 0, one);
  bool value = below(m, 3) > 0;
  if (!make(m, value ? REAL : INT, dims, value,
            value ? "    local $v = gs.topk($a, $1, \"j=2\")"
                  : "    local _, $v = gs.topk($a, $1, \"j=2\")",
            &p))
    return false;
  m->twos |= one;
  return true;
}

/* ---- views ---- */

typedef struct change { /* what a view does to dims */
  unsigned of, to;
  unsigned family;
  const char *form;
} change;

static bool view(maker *m) {
  static const change changes[] = {
      {H, G | K, ROWS, "gs.split($a, \"H\", \"g\", \"k\")"},
      {H, G, ROWS, "gs.slice($a, \"H\", \"g\", 0)"},
      {H, G, ROWS, "gs.slice($a, \"H\", \"g\", 2)"},
      {G | K, H, ROWS, "gs.merge($a, \"g\", \"k\", \"H\")"},
      {K, 0, ROWS | BLOCKS, "gs.pick($a, \"k\", 3)"},
      {J, 0, ROWS | ODD | BLOCKS, "gs.pick($a, \"j\", 1)"},
      {E, F, ROWS | ODD | BLOCKS, "gs.rename($a, \"e\", \"f\")"},
      {F, E, ROWS | ODD | BLOCKS, "gs.rename($a, \"f\", \"e\")"},
      {N, B | K, BLOCKS, "gs.split($a, \"N\", \"B\", \"k\", { tail = \"mask\" })"},
      {N, B | K, BLOCKS, "gs.split($a, \"N\", \"B\", \"k\", { tail = \"mask\" })"},
      {B | K, N, BLOCKS, "gs.merge($a, \"B\", \"k\", \"N\")"},
      {B | K, N, BLOCKS, "gs.merge($a, \"B\", \"k\", \"N\")"}};
  const change *c = &changes[below(m, sizeof changes / sizeof *changes)];
  if (!(c->family & m->family)) return false;
  kind k = below(m, 4) ? REAL : INT;
  parts p = {.arg = {pick_with(m, k, c->of)}};
  if (!p.arg[0] || (c->to & p.arg[0]->dims)) return false;
  return make(m, k, (p.arg[0]->dims & ~c->of) | c->to, true, c->form, &p);
}

/* Halves and pairs, and back; the parts meet, so that both are read. */
static bool halves(maker *m) {
  static const char *const apart[] = {
      "    local $vl, $vr = gs.halves($a, \"H\", \"h\")\n    local $v = $vl - gs.sin($vr)",
      "    local $vl, $vr = gs.pairs($a, \"H\", \"h\")\n    local $v = gs.tanh($vl) * $vr"};
  static const char *const together[] = {"gs.from_halves($a, $b, \"H\", \"h\")",
                                         "gs.from_pairs($a, $b, \"H\", \"h\")"};
  if (m->family != ROWS) return false;
  if (below(m, 2)) {
    parts p = {.arg = {pick_with(m, REAL, H)}};
    if (!p.arg[0]) return false;
    return make(m, REAL, (p.arg[0]->dims & ~(unsigned)H) | HALF, true, apart[below(m, 2)], &p);
  }
  parts p = {.arg = {pick_with(m, REAL, HALF), pick_with(m, REAL, HALF)}};
  if (!p.arg[0] || !p.arg[1]) return false;
  unsigned dims = p.arg[0]->dims | p.arg[1]->dims;
  if (!fits(dims)) return false;
  return make(m, REAL, (dims & ~(unsigned)HALF) | H, true, together[below(m, 2)], &p);
}

static bool join(maker *m) {
  bool four = m->family == ROWS && below(m, 2);
  parts p = {.arg = {pick(m, REAL), pick(m, REAL)}};
  if (!p.arg[0] || !p.arg[1]) return false;
  unsigned dims = p.arg[0]->dims | p.arg[1]->dims, to = four ? K : J;
  if (dims & (to | H | HALF)) return false;
  return make(m, REAL, dims | to, true,
              four ? "gs.join({ $a, $b, $a + $b, 1.5 }, \"k\")" : "gs.join({ $a, $b }, \"j\")", &p);
}

/* ---- integers, gathers ---- */

static bool integer(maker *m) {
  static const char *const wholes[] = {
      "gs.remainder($a * $1 + $2, $3)", "gs.quotient($a, $1)", "gs.max($a - $1, -$2)",
      "gs.where(gs.gt($a, $1), $a - 1, $a)", "gs.quotient($a - $2, $3) * $1"};
  static const char *const reals[] = {"gs.bucket($a, cuts)", "gs.integer(gs.tanh($a) * 5)",
                                      "gs.integer(gs.sin($a) * 3.5) + $1"};
  bool whole = below(m, 2);
  parts p = {.arg = {pick(m, whole ? INT : REAL)}};
  if (!p.arg[0]) return false;
  number(&p, 0, 1 + below(m, 7));
  number(&p, 1, below(m, 9));
  number(&p, 2, 1 + below(m, 16));
  int f = below(m, whole ? 5 : 3);
  node *v = make(m, INT, p.arg[0]->dims, whole, whole ? wholes[f] : reals[f], &p);
  if (v) v->small = whole && f == 0;
  return v;
}

static bool from_integer(maker *m) {
  static const char *const forms[] = {"gs.real(gs.remainder($a, 16)) * 0.125",
                                      "codes[gs.remainder($a, 8)]", "gs.tanh(gs.real($a) * 0.1)",
                                      "gs.rand($a, \"by\", { $1 })"};
  parts p = {.arg = {pick(m, INT)}};
  int f = below(m, 4);
  if (!p.arg[0] || (f == 3 && (p.arg[0]->dims || m->family == BLOCKS))) return false;
  snprintf(p.word[0], sizeof p.word[0], "\"T\", \"e\"");
  return make(m, REAL, f == 3 ? T | E : p.arg[0]->dims, true, forms[f], &p);
}

static bool gather(maker *m) {
  static const char *const forms[] = {
      "gs.at($a, $1, gs.remainder($b, gs.size $1))",
      "gs.at($a, $1, $b, gs.and_(gs.ge($b, 0), gs.lt($b, gs.size $1)))"};
  parts p = {.arg = {pick(m, REAL), pick(m, INT)}};
  unsigned where = p.arg[0] ? p.arg[0]->dims & (H | E | S) : 0;
  if (!where || !p.arg[1]) return false;
  unsigned one = one_of(m, where);
  if (p.arg[1]->dims & one) return false; /* the language wants one of the two renamed */
  /* no schedule sums over two dims into an outer one */
  if (one == S && p.arg[0]->flows && count(p.arg[1]->dims) > 1) return false;
  name_dim(&p, 0, one);
  return make(m, REAL, (p.arg[0]->dims & ~one) | p.arg[1]->dims, true, forms[below(m, 2)], &p);
}

/* A sum grouped by an input that holds indices. */
static bool grouped(maker *m) {
  for (int tries = 0; tries < 20; tries++) {
    const node *key = &m->v[below(m, m->first ? m->first : 1)];
    if (!key->key) continue;
    unsigned to = key->key[0] == 'H' ? H : key->key[0] == 'S' ? S : E;
    parts p = {.arg = {pick_with(m, REAL, key->dims), key}};
    if (!p.arg[0] || (p.arg[0]->dims & to)) return false;
    name_dim(&p, 0, key->dims);
    name_dim(&p, 1, to);
    return make(m, REAL, (p.arg[0]->dims & ~key->dims) | to, true,
                "gs.tanh(gs.sum_by($a, $b, $1, $2))", &p);
  }
  return false;
}

static bool by_place(maker *m) {
  parts p = {.arg = {NULL}};
  unsigned all = m->family == BLOCKS ? N | E | B : m->family == ODD ? T | E | H : T | E | H | G;
  unsigned one = one_of(m, all);
  if (below(m, 2)) {
    unsigned dims = one | one_of(m, all);
    number(&p, 0, below(m, 1000));
    if (!fits(dims)) return false;
    list_dims(dims, p.word[1], sizeof p.word[1]);
    return make(m, REAL, dims, true, "gs.rand($1, \"site\", { $2 })", &p);
  }
  name_dim(&p, 0, one);
  return make(m, INT, one, true, "gs.index $1", &p);
}

static bool packed(maker *m) {
  bool pack = below(m, 2);
  parts p = {.arg = {pick_with(m, INT, pack ? N : P)}};
  if (m->family != BLOCKS || !p.arg[0]) return false;
  unsigned rest = p.arg[0]->dims & ~(unsigned)(N | P);
  if (!pack)
    return make(m, INT, rest | B | K, true,
                "gs.unpack(gs.split($a, \"P\", \"B\", \"k2\", { tail = \"mask\" }), \"k2\", \"k\", "
                "\"high-first\")",
                &p);
  return make(m, INT, rest | P, true, "gs.pack(gs.remainder($a, 16), \"N\", \"P\", \"low-first\")",
              &p);
}

void grow(maker *m, int size) {
  static bool (*const ops[])(maker *) = {
      unary,  unary,        unary,   unary,  binary, binary,   binary,    binary,
      choose, compare,      reduce,  reduce, reduce, view,     view,      view,
      halves, join,         integer, gather, gather, by_place, along_dim, along_dim,
      fold,   from_integer, grouped, topk,   packed};
  for (int tries = 0; m->n < m->first + size && m->n < MAX_VALUES - 2 && tries < 40 * size;)
    tries += 1 + !ops[below(m, sizeof ops / sizeof *ops)](m);
}
