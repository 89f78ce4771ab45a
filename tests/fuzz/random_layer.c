/* random_layer.c: the whole of a random layer: its inputs, the values that become outputs, what is
 * saved, the text. A layer is a kernel where a gradient has nothing to show; else its backward is
 * the compiler's, or, for a product with a value that is held (gs.stop), written here, so that
 * saved values and outputs are read by it. */
#include "random_layer.h"
#include "random_maker.h"

#include "base/random.h"
#include "gradsmith.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef enum part { INPUT, WEIGHT, SCALAR, CODES } part; /* codes have no gradient */

typedef struct input {
  const char *name, *dims, *more; /* Lua */
  unsigned set;
  kind kind;
  part part;
  unsigned families;
  const char *key;
} input;

static const input inputs[] = {
    {"x", "\"T\", \"H\"", "", T | H, REAL, INPUT, ROWS | ODD, NULL},
    {"x", "\"N\"", "", N, REAL, INPUT, BLOCKS, NULL},
    {"y", "\"T\", \"H\"", "", T | H, REAL, INPUT, ROWS | ODD, NULL},
    {"r", "\"T\"", ", type = \"f32\"", T, REAL, INPUT, ROWS | ODD, NULL},
    {"w", "\"H\"", "", H, REAL, WEIGHT, ROWS | ODD, NULL},
    {"u", "\"e\", \"H\"", "", E | H, REAL, WEIGHT, ROWS | ODD, NULL},
    {"z", "\"T\", \"e\"", "", T | E, REAL, INPUT, ROWS | ODD, NULL},
    {"c", "\"T\", \"e\", \"H\"", "", T | E | H, REAL, INPUT, ROWS | ODD, NULL},
    {"b", "\"T\", \"g\", \"k\"", "", T | G | K, REAL, INPUT, ROWS, NULL},
    {"n", "\"S\"", "", S, REAL, INPUT, ROWS | ODD, NULL},
    {"f", "\"T\", \"H\"", ", type = \"e4m3\"", T | H, REAL, CODES, ROWS | ODD, NULL},
    {"i", "\"T\"", ", type = \"i32\", range = { 0, \"H\" }", T, INT, CODES, ROWS | ODD, "H"},
    {"s", "\"T\"", ", type = \"i32\", range = { 0, \"S\" }", T, INT, CODES, ROWS | ODD, "S"},
    {"q", "\"T\", \"H\"", ", type = \"u8\", range = { 0, 256 }", T | H, INT, CODES, ROWS | ODD,
     NULL},
    {"m", "\"T\", \"e\"", ", type = \"i8\", range = { -8, 8 }", T | E, INT, CODES, ROWS | ODD,
     NULL},
    {"y", "\"N\"", ", type = \"f32\"", N, REAL, INPUT, BLOCKS, NULL},
    {"z", "\"N\", \"e\"", "", N | E, REAL, INPUT, BLOCKS, NULL},
    {"w", "\"e\"", "", E, REAL, WEIGHT, BLOCKS, NULL},
    {"c", "\"B\"", ", type = \"f32\"", B, REAL, INPUT, BLOCKS, NULL},
    {"b", "\"B\", \"k\"", "", B | K, REAL, INPUT, BLOCKS, NULL},
    {"q", "\"P\"", ", type = \"u8\", range = { 0, 256 }", P, INT, CODES, BLOCKS, NULL},
    {"i", "\"N\"", ", type = \"i32\", range = { 0, \"e\" }", N, INT, CODES, BLOCKS, "e"},
    {"a", "0.7, range = { 0.2, 1.2 }", "", 0, REAL, SCALAR, ROWS | ODD | BLOCKS, NULL},
    {"t", "", "", 0, REAL, SCALAR, ROWS | ODD | BLOCKS, NULL},
};
enum { NINPUTS = sizeof inputs / sizeof *inputs };

static void add_inputs(maker *m) {
  bool first = true;
  for (int k = 0; k < NINPUTS; k++) {
    if (!(inputs[k].families & m->family) || (!first && below(m, 2))) continue;
    first = false;
    node *v = &m->v[m->n++];
    snprintf(v->name, sizeof v->name, "p.%s", inputs[k].name);
    v->dims = inputs[k].set;
    v->inputs = 1u << k;
    v->kind = inputs[k].kind;
    v->key = inputs[k].key;
    v->smooth = true;
    v->flows = inputs[k].part < SCALAR;
  }
  m->first = m->n;
}

/* ---- outputs ---- */

typedef struct results {
  char list[256], types[256]; /* "o0 = v7, o1 = v9", "o0 = \"f32\"" */
  unsigned used;              /* inputs */
  bool wanted[MAX_VALUES], smooth;
  int held; /* a value that is saved, or -1 */
} results;

static unsigned tensors(unsigned used) {
  for (int k = 0; k < NINPUTS; k++)
    if (inputs[k].part == SCALAR) used &= ~(1u << k);
  return used;
}

static void want(const maker *m, results *r) {
  for (int k = m->n - 1; k >= m->first; k--)
    for (int j = 0; r->wanted[k] && j < 3; j++)
      if (m->v[k].from[j] >= 0) r->wanted[m->v[k].from[j]] = true;
}

static const char *type_of(maker *m, const node *v, bool is_kernel) {
  static const char *const names[] = {"f32", "bf16", "f16", "e4m3", "e5m2"};
  if (v->kind == BOOL) return "u8";
  if (v->kind == INT) return v->small && below(m, 2) ? (below(m, 2) ? "u8" : "i8") : "i32";
  return names[below(m, is_kernel ? 5 : 3)];
}

/* The last value and up to two more, of at least one tensor each. */
static void choose_outputs(maker *m, bool is_kernel, results *r) {
  int count = 0;
  size_t len = 0, tlen = 0, cap = sizeof r->list;
  r->smooth = true;
  for (int k = m->n - 1; k >= m->first && count < 3; k--) {
    const node *v = &m->v[k];
    if (!tensors(v->inputs) || (!v->flows && !is_kernel) || (count && below(m, 3))) continue;
    const char *comma = count ? ", " : "";
    len += (size_t)snprintf(r->list + len, cap - len, "%so%d = %s", comma, count, v->name);
    tlen += (size_t)snprintf(r->types + tlen, cap - tlen, "%so%d = \"%s\"", comma, count,
                             type_of(m, v, is_kernel));
    r->used |= v->inputs;
    r->smooth &= v->smooth;
    r->wanted[k] = true;
    count++;
  }
  want(m, r);
}

/* A value to be saved, which x can be multiplied by. */
static bool choose_held(maker *m, results *r) {
  for (int tries = 0; tries < 20 && m->n > m->first; tries++) {
    int k = m->first + below(m, m->n - m->first);
    const node *v = &m->v[k];
    if (v->kind != REAL || !tensors(v->inputs) || !fits(v->dims | inputs[m->family == BLOCKS].set))
      continue;
    r->held = k;
    r->used = v->inputs | 1u << (m->family == BLOCKS);
    r->wanted[k] = true;
    want(m, r);
    return true;
  }
  return false;
}

/* ---- the text ---- */

static void add(random_layer *out, size_t *len, const char *fmt, ...) GS_PRINTF(3, 4);
static void add(random_layer *out, size_t *len, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(out->text + *len, sizeof out->text - *len, fmt, ap);
  va_end(ap);
  if (n > 0 && *len + (size_t)n < sizeof out->text) *len += (size_t)n;
}

/* no_grad: none of the inputs has a gradient but x, when x_has. */
static void write_inputs(random_layer *out, size_t *len, unsigned used, bool no_grad, bool x_has) {
  for (int k = 0; k < NINPUTS; k++) {
    const input *in = &inputs[k];
    if (!(used >> k & 1)) continue;
    bool held = no_grad && in->kind == REAL && !(x_has && in->name[0] == 'x');
    if (in->part == SCALAR)
      add(out, len, in->dims[0] ? "  %s = gs.scalar { %s },\n" : "  %s = gs.step_scalar(),\n",
          in->name, in->dims);
    else
      add(out, len, "  %s = gs.%s { %s%s%s },\n", in->name,
          in->part == WEIGHT && !held ? "weight" : "input", in->dims, in->more,
          held && in->part != CODES ? ", grad = false" : "");
  }
}

static void write_values(random_layer *out, size_t *len, const maker *m, const bool *wanted) {
  for (int k = m->first; k < m->n; k++)
    if (wanted[k]) add(out, len, "%s", m->v[k].text);
}

/* o0 = tanh(x)*held, o1 = sigmoid(x), o2 = x where x > 0: their gradients from what is saved. */
static void write_held(random_layer *out, size_t *len, maker *m, const results *r) {
  static const char *const names[] = {"f32", "bf16", "f16"};
  const node *v = &m->v[r->held];
  char extra[64], gradient[200];
  unsigned rest = v->dims & ~inputs[m->family == BLOCKS].set;
  list_dims(rest, extra, sizeof extra);
  bool narrow = below(m, 2), again = below(m, 2);
  snprintf(gradient, sizeof gradient, rest ? "gs.sum(%s, { %s })" : "%s",
           "d.o0 * s.s0 * (1 - gs.tanh(p.x)^2)", extra);
  add(out, len, "  outputs = { o0 = \"%s\", o1 = \"%s\", o2 = \"%s\" },\n", names[below(m, 3)],
      names[below(m, 3)], names[below(m, 3)]);
  add(out, len, "  forward = function(p)\n");
  write_values(out, len, m, r->wanted);
  add(out, len,
      "    return { o0 = gs.tanh(p.x) * gs.stop(%s), o1 = gs.sigmoid(p.x), o2 = gs.relu(p.x),\n"
      "      save = { s0 = %s%s%s, s1 = { gs.gt(p.x, 0), \"u8\" } } }\n  end,\n",
      v->name, narrow ? "{ " : "", v->name, narrow ? ", \"bf16\" }" : "");
  add(out, len,
      "  backward = function(p, d, s)\n    local on = gs.where(gs.ne(s.s1, 0), d.o2, 0)\n"
      "    local y = %s\n    return { x = %s + d.o1 * y * (1 - y) + on }\n  end,\n}\n",
      again ? "gs.sigmoid(p.x)" : "s.o1", gradient);
}

static void write_layer(random_layer *out, maker *m, const results *r, bool is_kernel) {
  static const char *const dims[] = {
      "\"T\", \"S\", \"e\", f = \"e\", \"g\", k = 4, h = \"2*g\", H = \"4*g\", j = 2",
      "\"T\", \"S\", \"e\", f = \"e\", \"H\", j = 2",
      "\"N\", B = \"ceil(N/32)\", P = \"ceil(N/2)\", \"e\", f = \"e\", k = 32, k2 = 16, j = 2"};
  size_t len = 0;
  add(out, &len,
      "local gs = require \"gradsmith\"\nlocal cuts = gs.table { -1.5, -0.25, 0, 0.7, 2 }\n"
      "local codes = gs.table { -1, -0.7, -0.3, 0, 0.2, 0.5, 0.8, 1 }\n"
      "return gs.%s \"random\" {\n  dims = { %s },\n",
      is_kernel ? "kernel" : "layer", dims[m->family / 2]);
  if (m->family != BLOCKS) add(out, &len, "  outer = { \"T\", \"S\" },\n");
  write_inputs(out, &len, r->used, is_kernel || r->held >= 0, r->held >= 0);
  if (r->held >= 0) {
    write_held(out, &len, m, r);
    return;
  }
  add(out, &len, "  outputs = { %s },\n  forward = function(p)\n", r->types);
  write_values(out, &len, m, r->wanted);
  add(out, &len, "    return { %s }\n  end,\n%s}\n", r->list,
      is_kernel ? "" : "  backward = gs.derived,\n");
}

/* ---- sizes ---- */

static int one_in(maker *m, const int *list, int n) {
  return list[below(m, n)];
}

/* Small ones, and now and then those of blocks of threads and of rows too long for registers. */
static void choose_sizes(random_layer *out, maker *m) {
  static const int tokens[] = {1, 2, 5, 17, 33, 70}, groups[] = {1, 2, 3, 8, 17, 40};
  static const int odd[] = {1, 3, 7, 17, 33, 129}, flat[] = {1, 31, 32, 33, 65, 300, 1025};
  static const int large[][3] = {{3, 257, 1}, {2, 750, 2}, {300, 8, 2}, {300, 16, 1}};
  static const int large_odd[][3] = {{2, 1025, 2}, {3, 3001, 1}, {300, 33, 2}, {1, 9001, 1}};
  int e = 1 + below(m, 5), t = one_in(m, tokens, 6), s = 1 + below(m, 9);
  if ((m->twos & E) && e < 2) e = 2;
  int h = m->family == ROWS ? one_in(m, groups, 6) : one_in(m, odd, 6);
  if ((m->twos & H) && h < 2) h = 2;
  if (below(m, 16) == 0) {
    const int *big = m->family == ROWS ? large[below(m, 4)] : large_odd[below(m, 4)];
    t = big[0], h = big[1], e = big[2] < 2 && (m->twos & E) ? 2 : big[2];
  }
  if (m->family == BLOCKS)
    snprintf(out->dims, sizeof out->dims, "N=%d,e=%d",
             below(m, 16) ? one_in(m, flat, 7) : 1 + below(m, 9000), e);
  else
    snprintf(out->dims, sizeof out->dims, "T=%d,%s=%d,e=%d,S=%d", t, m->family == ROWS ? "g" : "H",
             h, e, s);
}

void random_layer_write(random_layer *out, uint64_t seed, int size) {
  static const unsigned families[] = {ROWS, ROWS, ROWS, ODD, ODD, BLOCKS, BLOCKS};
  for (uint64_t attempt = 0;; attempt++) {
    maker m = {.s = seed + attempt * 0x9e3779b97f4a7c15u};
    results r = {.held = -1};
    for (int k = 0; k < 3; k++) below(&m, 2); /* near seeds begin alike */
    m.family = families[below(&m, 7)];
    int form = below(&m, 6); /* 0, 1: a kernel; 2: one that saves */
    bool is_kernel = form < 2;
    add_inputs(&m);
    grow(&m, size);
    if (form != 2 || !choose_held(&m, &r)) choose_outputs(&m, is_kernel, &r);
    if (!r.used) continue;
    is_kernel |= r.held < 0 && !r.smooth;
    write_layer(out, &m, &r, is_kernel);
    out->has_gradient = !is_kernel;
    choose_sizes(out, &m);
    return;
  }
}
