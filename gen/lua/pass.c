/* pass.c: what one launch list computes: the results of a kind of pass, simplified and verified. */
#include "lua/internal.h"

#include <string.h>

static const char *const kind_names[] = {"forward", "infer", "backward", "terminal"};

/* A name that is asked for may be followed by '=' and another. */
static bool is_named(const char *asked, const char *name) {
  size_t n = strcspn(asked, "=");
  return strlen(name) == n && memcmp(asked, name, n) == 0;
}

static bool is_in(const char *name, const char *const *list, int n) {
  for (int k = 0; k < n; k++)
    if (is_named(list[k], name)) return true;
  return false;
}

/* Every name must be one of the results. */
static gs_status check_names(const gs_pass *p, const char *const *names, int n, const gs_result *r,
                             int nr, gs_error *err) {
  for (int k = 0; k < n; k++) {
    bool known = false;
    for (int j = 0; j < nr; j++) known |= is_named(names[k], r[j].name);
    if (known) continue;
    gs_text list = {0};
    for (int j = 0; j < nr; j++) gs_text_printf(&list, "%s%s", j ? ", " : "", r[j].name);
    gs_fail(err, GS_ERR_USE, "%s has no result '%s': it has %s",
            gs_layer_declaration(p->instance->layer)->name, names[k], list.s ? list.s : "none");
    gs_text_free(&list);
    return GS_ERR_USE;
  }
  return GS_OK;
}

static void take(gs_pass *p, const gs_result *r) {
  p->results[p->nresults++] = *r;
}

/* Saved values become the expressions they stand for, upstreams step scalars of the same name. */
static void make_terminal(gs_pass *p, gs_id *roots) {
  gs_graph *g = p->g;
  int n = gs_graph_ntensors(g), count = 0;
  gs_id *from = GS_NEW_N(p->instance->arena, gs_id, n + 1);
  gs_id *to = GS_NEW_N(p->instance->arena, gs_id, n + 1);
  for (int t = 0; t < n; t++) {
    gs_tensor tensor = *gs_graph_tensor_at(g, t);
    if (tensor.role == GS_ROLE_SAVED || tensor.role == GS_ROLE_OUTPUT) {
      from[count] = gs_input(g, t);
      to[count++] = p->instance->saved_expr[t];
    } else if (tensor.role == GS_ROLE_UPSTREAM) {
      from[count] = gs_input(g, t);
      tensor.role = GS_ROLE_STEP_SCALAR;
      tensor.type = GS_F32;
      tensor.ndims = 0;
      to[count++] = gs_input(g, gs_graph_tensor(g, &tensor));
    }
  }
  gs_substitute(g, from, to, count, roots, p->nresults);
}

/* Where an output is made again it is not read from memory as well: it takes its place, as stored.
 */
static void read_recomputed(gs_pass *p, gs_id *roots) {
  const gs_instance *i = p->instance;
  for (int k = 0; k < p->nresults; k++) {
    int r = 0;
    while (r < i->nrecomputed && strcmp(i->recomputed[r].name, p->results[k].name) != 0) r++;
    for (int t = 0; r < i->nrecomputed && t < gs_graph_ntensors(p->g); t++) {
      const gs_tensor *x = gs_graph_tensor_at(p->g, t);
      if (x->role != GS_ROLE_OUTPUT || strcmp(x->name, p->results[k].name) != 0) continue;
      gs_node n = {.op = GS_OP_ROUND, .nargs = 1, .arg = {roots[k]}, .to = x->type};
      gs_id from = gs_input(p->g, t);
      gs_id to = holds_reals(x->type) && x->type != GS_F32 ? gs_apply(p->g, &n, NULL) : roots[k];
      gs_substitute(p->g, &from, &to, 1, roots, p->nresults);
    }
  }
}

static void find_leaves(gs_pass *p, const gs_id *roots) {
  gs_id n = gs_graph_size(p->g);
  bool *seen = GS_NEW_N(p->instance->arena, bool, n + 1);
  bool *read = GS_NEW_N(p->instance->arena, bool, gs_graph_ntensors(p->g) + 1);
  for (int k = 0; k < p->nresults; k++) seen[roots[k]] = true;
  for (gs_id id = n - 1; id > 0; id--) { /* arguments have smaller ids */
    if (!seen[id]) continue;
    const gs_node *node = gs_graph_node(p->g, id);
    if (node->op == GS_OP_INPUT || node->op == GS_OP_SCALAR) read[node->index] = true;
    for (int k = 0; k < node->nargs; k++) seen[node->arg[k]] = true;
  }
  p->leaves = GS_NEW_N(p->instance->arena, int, gs_graph_ntensors(p->g) + 1);
  for (int t = 0; t < gs_graph_ntensors(p->g); t++)
    if (read[t]) p->leaves[p->nleaves++] = t;
}

static bool reads(const gs_pass *p, const char *name) {
  for (int k = 0; k < p->nleaves; k++)
    if (strcmp(gs_graph_tensor_at(p->g, p->leaves[k])->name, name) == 0) return true;
  return false;
}

static const char *key_of(const gs_pass *p) {
  const instance_box *box = (const instance_box *)p->instance;
  gs_text key = {0};
  gs_text_printf(&key, "%s.%s %s", gs_layer_declaration(p->instance->layer)->name,
                 kind_names[p->kind], box->key);
  for (int k = 0; k < p->nresults; k++)
    gs_text_printf(&key, "%s%s%s%s%s", k ? "," : " -> ", p->results[k].name,
                   p->results[k].add ? "+" : "", p->results[k].same ? "=" : "",
                   p->results[k].same ? p->results[k].same : "");
  const char *text = gs_arena_strdup(p->instance->arena, key.s);
  gs_text_free(&key);
  return text;
}

/* Gradients, and in a backward pass outputs that it can make again. */
static gs_status check_wanted(const gs_pass *p, const char *const *wanted, int n, gs_error *err) {
  const gs_instance *i = p->instance;
  int again = p->kind == GS_PASS_BACKWARD ? i->nrecomputed : 0;
  gs_result *all = GS_NEW_N(i->arena, gs_result, i->nbackward + again + 1);
  memcpy(all, i->backward, sizeof *all * (size_t)i->nbackward);
  if (again) memcpy(all + i->nbackward, i->recomputed, sizeof *all * (size_t)again);
  return check_names(p, wanted, n, all, i->nbackward + again, err);
}

static gs_status choose(gs_pass *p, const char *const *wanted, int nwanted, gs_error *err) {
  const gs_instance *i = p->instance;
  bool forward = p->kind != GS_PASS_BACKWARD;
  bool backward = p->kind == GS_PASS_BACKWARD || p->kind == GS_PASS_TERMINAL;
  if (backward && i->is_kernel)
    return gs_fail(err, GS_ERR_USE, "%s is a kernel: it has no backward",
                   gs_layer_declaration(i->layer)->name);
  if (backward && wanted && check_wanted(p, wanted, nwanted, err)) return GS_ERR_USE;
  for (int k = 0; forward && k < i->nforward; k++)
    if (!i->forward[k].is_saved || p->kind == GS_PASS_FORWARD) take(p, &i->forward[k]);
  for (int k = 0; backward && k < i->nbackward; k++)
    if (!wanted || is_in(i->backward[k].name, wanted, nwanted)) take(p, &i->backward[k]);
  for (int k = 0; p->kind == GS_PASS_BACKWARD && wanted && k < i->nrecomputed; k++)
    if (is_in(i->recomputed[k].name, wanted, nwanted)) take(p, &i->recomputed[k]);
  if (p->nresults == 0)
    return gs_fail(err, GS_ERR_USE, "%s.%s: no result is wanted",
                   gs_layer_declaration(i->layer)->name, kind_names[p->kind]);
  return GS_OK;
}

static gs_status mark_added(gs_pass *p, const char *const *add, int nadd, gs_error *err) {
  if (check_names(p, add, nadd, p->results, p->nresults, err)) return GS_ERR_USE;
  for (int k = 0; k < p->nresults; k++) {
    gs_result *r = &p->results[k];
    if (!is_in(r->name, add, nadd)) continue;
    if (r->type != GS_F32)
      return gs_fail(err, GS_ERR_USE, "%s: '%s' is stored as %s, and only f32 can be added to",
                     gs_layer_declaration(p->instance->layer)->name, r->name,
                     gs_type_name(r->type));
    r->add = true;
    r->inplace = NULL;
  }
  return GS_OK;
}

static gs_status join_result(const gs_pass *p, gs_result *r, const char *with, gs_error *err) {
  const gs_result *x = p->results;
  while (x < r && strcmp(x->name, with) != 0) x++;
  bool alike = x < r && x->expr == r->expr && x->type == r->type && x->ndims == r->ndims &&
               memcmp(x->dim, r->dim, sizeof *x->dim * (size_t)x->ndims) == 0;
  if (!alike || x->add || r->add || x->same)
    return gs_fail(err, GS_ERR_USE,
                   "%s: '%s' can't lie in '%s': that is no earlier result of the "
                   "same value and type",
                   gs_layer_declaration(p->instance->layer)->name, r->name, with);
  r->same = x->name;
  r->inplace = NULL;
  return GS_OK;
}

/* Results that are asked for as one. */
static gs_status join_results(gs_pass *p, const char *const *wanted, int n, gs_error *err) {
  for (int w = 0; wanted && w < n; w++) {
    const char *with = strchr(wanted[w], '=');
    for (int k = 0; with && k < p->nresults; k++)
      if (is_named(wanted[w], p->results[k].name) &&
          join_result(p, &p->results[k], with + 1, err) != GS_OK)
        return GS_ERR_USE;
  }
  return GS_OK;
}

gs_status gs_layer_pass(gs_instance *i, gs_pass_kind kind, const char *const *wanted, int nwanted,
                        const char *const *add, int nadd, gs_pass **out, gs_error *err) {
  *out = NULL;
  gs_pass *p = GS_NEW(i->arena, gs_pass);
  *p = (gs_pass){.kind = kind, .instance = i, .g = i->g};
  p->results = GS_NEW_N(i->arena, gs_result, i->nforward + i->nbackward + i->nrecomputed + 1);
  gs_status st = choose(p, wanted, nwanted, err);
  if (!st) st = mark_added(p, add, nadd, err);
  if (st) return st;
  gs_id *roots = GS_NEW_N(i->arena, gs_id, p->nresults);
  for (int k = 0; k < p->nresults; k++) roots[k] = p->results[k].expr;
  if (kind == GS_PASS_TERMINAL) make_terminal(p, roots);
  if (kind == GS_PASS_BACKWARD) read_recomputed(p, roots);
  gs_simplify(i->g, roots, p->nresults);
  if (gs_verify(i->g, roots, p->nresults, err))
    return gs_fail_in(err, "%s.%s", gs_layer_declaration(i->layer)->name, kind_names[kind]);
  find_leaves(p, roots);
  for (int k = 0; k < p->nresults; k++) {
    gs_result *r = &p->results[k];
    r->expr = roots[k];
    if (r->inplace && !reads(p, r->inplace)) r->inplace = NULL;
  }
  if (join_results(p, wanted, nwanted, err)) return GS_ERR_USE;
  p->key = key_of(p);
  *out = p;
  return GS_OK;
}
