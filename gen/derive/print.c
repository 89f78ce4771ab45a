/* print.c: a backward as Lua statements: locals for what is used more than once, then the results.
 *
 * requires: simplified roots. promises: text that makes the same nodes again, or an error. */
#include "derive/print.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDE = 100 };

/* ---- what becomes a local ---- */

static bool is_short(const printer *p, gs_id id) {
  const gs_node *n = gs_graph_node(p->g, id);
  switch (n->op) {
  case GS_OP_CONST:
  case GS_OP_INPUT:
  case GS_OP_SCALAR:
  case GS_OP_INDEX:
  case GS_OP_SIZE: return true;
  case GS_OP_NEG: return is_short(p, n->arg[0]);
  case GS_OP_REAL: return gs_graph_node(p->g, n->arg[0])->op == GS_OP_SIZE;
  case GS_OP_MUL: /* a square is a power */ return n->arg[0] == n->arg[1] && is_short(p, n->arg[0]);
  default: return false;
  }
}

/* Both halves, or the even and the odd elements, of one value: a, b = gs.halves(...). */
static void find_pairs(printer *p) {
  int *picked = GS_NEW_N(p->a, int, p->count);
  for (gs_id id = 1; id < p->count; id++) {
    const gs_node *n = gs_graph_node(p->g, id);
    if (!p->reached[id]) continue;
    for (int k = 0; k < n->nargs; k++) {
      const gs_node *s = gs_graph_node(p->g, n->arg[k]);
      if (s->op != GS_OP_SPLIT) continue;
      bool pick = n->op == GS_OP_PICK && (n->dim[0] == s->dim[1] || n->dim[0] == s->dim[2]);
      const gs_dim *d = pick ? gs_graph_dim_at(p->g, n->dim[0]) : NULL;
      bool half = pick && d->size == 2 && strcmp(d->name, "two") == 0;
      picked[n->arg[k]] |= half ? 1 << n->index : 4;
    }
  }
  for (gs_id id = 1; id < p->count; id++) p->is_pair[id] = picked[id] == 3;
}

static void find_locals(printer *p, const gs_derive_result *r, int n) {
  for (gs_id id = 1; id < p->count; id++) {
    const gs_node *node = gs_graph_node(p->g, id);
    if (!p->reached[id]) continue;
    for (int k = 0; k < node->nargs; k++) p->uses[node->arg[k]]++;
  }
  for (int k = 0; k < n; k++) p->uses[r[k].id]++;
  for (gs_id id = 1; id < p->count; id++) {
    bool shared = p->reached[id] && p->uses[id] > 1 && !is_short(p, id) && !p->is_pair[id];
    const gs_node *node = gs_graph_node(p->g, id);
    if (node->op == GS_OP_PICK && p->is_pair[node->arg[0]]) shared = false;
    p->wants_local[id] = shared;
  }
}

/* ---- names ---- */

static bool reads_incoming(const printer *p, gs_id root) {
  bool found = false;
  char *marks = calloc((size_t)p->count, 1);
  if (!marks) return false;
  derive_mark(p->g, &root, 1, marks);
  for (gs_id id = 1; id <= root && !found; id++) {
    const gs_node *n = gs_graph_node(p->g, id);
    found = marks[id] && n->op == GS_OP_INPUT &&
            gs_graph_tensor_at(p->g, (int)n->index)->role == GS_ROLE_UPSTREAM;
  }
  free(marks);
  return found;
}

static const char *stem_of(const printer *p, gs_id id) {
  const gs_node *n = gs_graph_node(p->g, id);
  if (n->type == GS_BOOL) return "ok";
  if (n->type == GS_I64) return "i";
  switch (n->op) {
  case GS_OP_EXP: return "e";
  case GS_OP_SIGMOID: return "sig";
  case GS_OP_TANH: return "th";
  case GS_OP_RSQRT: return "rstd";
  case GS_OP_LOGSUMEXP: return "lse";
  case GS_OP_RMAX: return "max";
  case GS_OP_RMIN: return "min";
  case GS_OP_SUM:
  case GS_OP_SUM_BY: return "sum";
  case GS_OP_ROUND: return "q";
  case GS_OP_REAL: return "hot";
  default: return reads_incoming(p, id) ? "g" : "u";
  }
}

static const char *unique(printer *p, const char *stem) {
  const char *name = stem;
  for (int count = 2;; count++) {
    bool taken = false;
    for (int k = 0; k < p->nnames; k++) taken |= strcmp(p->names[k], name) == 0;
    if (!taken) break;
    name = gs_arena_printf(p->a, "%s%d", stem, count);
  }
  if (p->nnames < (int)(sizeof p->names / sizeof *p->names)) p->names[p->nnames++] = name;
  return name;
}

/* ---- lines ---- */

/* Where a line that is too long is broken: the last space within the limit that stands in the
 * fewest brackets, outside of texts. */
static size_t break_at(const char *s, size_t limit) {
  size_t best = 0;
  int depth = 0, best_depth = 1000;
  bool text = false;
  for (size_t i = 0; s[i] && i < limit; i++) {
    if (s[i] == '"') text = !text;
    if (text) continue;
    if (strchr("({[", s[i])) depth++;
    if (strchr(")}]", s[i])) depth--;
    bool sign = s[i] == ' ' && s[i + 1] && strchr("+-*/", s[i + 1]) && s[i + 2] == ' ';
    bool comma = s[i] == ' ' && i && s[i - 1] == ',';
    if (!sign && !comma) continue;
    if (depth > best_depth || i < limit / 3) continue;
    best_depth = depth;
    best = i;
  }
  return best;
}

static void add_line(printer *p, gs_text *out, const char *more, const char *s) {
  size_t left = strlen(p->opt->indent) + strlen(more), limit = WIDE - left;
  gs_text_printf(out, "%s%s", p->opt->indent, more);
  while (strlen(s) > limit) {
    size_t at = break_at(s, limit);
    if (!at) break;
    gs_text_printf(out, "%.*s\n%s%s  ", (int)at, s, p->opt->indent, more);
    s += at + 1;
    limit = WIDE - left - 2;
  }
  gs_text_printf(out, "%s\n", s);
}

static void write_pair(printer *p, gs_text *out, gs_id id) {
  const gs_node *n = gs_graph_node(p->g, id);
  bool halves = strcmp(derive_dim_name(p, n->dim[1]), "two") == 0;
  gs_text t = {0};
  const char *a = unique(p, "a"), *b = unique(p, "b");
  gs_text_printf(&t, "local %s, %s = gs.%s(", a, b, halves ? "halves" : "pairs");
  derive_expr(p, &t, n->arg[0], 0);
  gs_text_printf(&t, ", \"%s\", \"%s\")", derive_dim_name(p, n->dim[0]),
                 derive_dim_name(p, n->dim[halves ? 2 : 1]));
  add_line(p, out, "", t.s);
  p->half[0][id] = a;
  p->half[1][id] = b;
  gs_text_free(&t);
}

static void write_table(printer *p, gs_text *out, int table) {
  if (p->ntables == MOST_TABLES) return;
  for (int k = 0; k < p->ntables; k++)
    if (p->table[k] == table) return;
  p->table[p->ntables++] = table;
  const gs_table *t = gs_graph_table_at(p->g, table);
  gs_text line = {0};
  gs_text_printf(&line, "local table%d = gs.table { ", p->ntables);
  for (int k = 0; k < t->count; k++) {
    if (k) gs_text_add(&line, ", ");
    gs_derive_number(&line, t->value[k]);
  }
  gs_text_add(&line, " }");
  add_line(p, out, "", line.s);
  gs_text_free(&line);
}

static void write_locals(printer *p, gs_text *out) {
  for (gs_id id = 1; id < p->count && p->st == GS_OK; id++) {
    const gs_node *n = gs_graph_node(p->g, id);
    if (!p->reached[id]) continue;
    if (n->op == GS_OP_BUCKET || n->op == GS_OP_LOOKUP) write_table(p, out, (int)n->index);
    if (p->is_pair[id]) write_pair(p, out, id);
    if (!p->wants_local[id]) continue;
    gs_text t = {0};
    const char *name = unique(p, stem_of(p, id));
    gs_text_printf(&t, "local %s = ", name);
    derive_expr(p, &t, id, 0);
    p->local[id] = name;
    add_line(p, out, "", t.s);
    gs_text_free(&t);
  }
}

/* "{ rstd = u, i = { u2, "i32" } }" */
static void add_saved(printer *p, gs_text *t, const gs_derive_result *r, int n) {
  const char *sep = "{ ";
  for (int k = 0; k < n; k++) {
    if (!r[k].is_saved) continue;
    gs_text_printf(t, "%s%s = %s", sep, r[k].name, r[k].type ? "{ " : "");
    derive_expr(p, t, r[k].id, 0);
    if (r[k].type) gs_text_printf(t, ", \"%s\" }", r[k].type);
    sep = ", ";
  }
  gs_text_add(t, " }");
}

/* The fields of what is returned, each as "name = value". Returns how many. */
static int make_fields(printer *p, const gs_derive_result *r, int n, gs_text *field) {
  size_t longest = 0;
  int count = 0;
  bool saves = false;
  for (int k = 0; k < n; k++) {
    saves |= r[k].is_saved;
    if (!r[k].is_saved && strlen(r[k].name) > longest) longest = strlen(r[k].name);
  }
  for (int k = 0; k < n; k++) {
    if (r[k].is_saved) continue;
    gs_text_printf(&field[count], "%-*s = ", (int)longest, r[k].name);
    derive_expr(p, &field[count++], r[k].id, 0);
  }
  if (!saves) return count;
  gs_text_printf(&field[count], "%-*s = ", (int)longest, "save");
  add_saved(p, &field[count++], r, n);
  return count;
}

static void write_results(printer *p, gs_text *out, const gs_derive_result *r, int n) {
  gs_text *field = GS_NEW_N(p->a, gs_text, n + 2);
  int count = make_fields(p, r, n, field);
  size_t len = strlen(p->opt->indent) + strlen("return { }");
  if (count == 1 && len + field[0].len + 1 <= WIDE) {
    gs_text_printf(out, "%sreturn { %s }\n", p->opt->indent, field[0].s);
  } else {
    gs_text_printf(out, "%sreturn {\n", p->opt->indent);
    for (int k = 0; k < count; k++) {
      gs_text_add(&field[k], ",");
      add_line(p, out, "  ", field[k].s);
    }
    gs_text_printf(out, "%s}\n", p->opt->indent);
  }
  for (int k = 0; k < count; k++) gs_text_free(&field[k]);
}

/* ---- the two ways in ---- */

static printer *printer_new(const gs_derive_print *opt, const gs_id *roots, int n, gs_error *err) {
  gs_arena *a = gs_arena_new();
  printer *p = GS_NEW(a, printer);
  gs_id count = gs_graph_size(opt->g);
  *p = (printer){.opt = opt, .g = opt->g, .a = a, .err = err, .count = count};
  p->reached = GS_NEW_N(a, char, count);
  p->uses = GS_NEW_N(a, int, count);
  p->local = GS_NEW_N(a, const char *, count);
  p->wants_local = GS_NEW_N(a, char, count);
  p->is_pair = GS_NEW_N(a, char, count);
  for (int k = 0; k < 2; k++) p->half[k] = GS_NEW_N(a, const char *, count);
  static const char *const taken[] = {"p", "d", "s", "gs", "out"};
  for (int k = 0; k < 5; k++) p->names[p->nnames++] = taken[k];
  derive_mark(opt->g, roots, n, p->reached);
  return p;
}

gs_status gs_derive_print_body(const gs_derive_print *opt, const gs_derive_result *r, int n,
                               gs_text *out, gs_error *err) {
  gs_id *roots = calloc((size_t)n + 1, sizeof *roots);
  if (!roots) return gs_fail(err, GS_ERR_MEMORY, "derive: out of memory");
  for (int k = 0; k < n; k++) roots[k] = r[k].id;
  printer *p = printer_new(opt, roots, n, err);
  free(roots);
  find_pairs(p);
  find_locals(p, r, n);
  write_locals(p, out);
  if (p->st == GS_OK) write_results(p, out, r, n);
  gs_status st = p->st;
  gs_arena_free(p->a);
  return st;
}

gs_status gs_derive_print_value(const gs_derive_print *opt, gs_id id, gs_text *out, gs_error *err) {
  printer *p = printer_new(opt, &id, 1, err);
  for (gs_id k = 1; k < p->count; k++) {
    gs_op op = gs_graph_node(opt->g, k)->op;
    if (p->reached[k] && (op == GS_OP_BUCKET || op == GS_OP_LOOKUP))
      derive_failed(p, "a value that reads a table of constants: save it in forward");
  }
  derive_expr(p, out, id, 0);
  gs_status st = p->st;
  gs_arena_free(p->a);
  return st;
}
