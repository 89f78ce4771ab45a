/* attention.c: a pass of gs.attention: its shape, its tensors under the names that the templates
 * use, and which family of templates writes it. */
#include "emit/attention.h"

#include <string.h>

int att_find(const att *a, const char *name) {
  const emit *e = a->e;
  for (int m = 0; m < e->nmems; m++)
    if (strcmp(e->mems[m].name, name) == 0) return m;
  return -1;
}

bool att_wants(const att *a, const char *result) {
  int m = att_find(a, result);
  const emit *e = a->e;
  return m >= 0 && e->mems[m].binding >= 0 && e->list->bindings[e->mems[m].binding].is_result;
}

int att_temp(att *a, const char *name, gs_type type, gs_count count) {
  int m = mem_temp(a->e, name, type, 0, 0, NULL);
  mem_allocate_temp(a->e, m, count);
  return m;
}

gs_count att_count(int64_t coef, int dim) {
  return (gs_count){.coef = coef, .div = 1, .dims = (gs_dims)1 << dim};
}

/* A tensor that the kernels read though the pass's own expressions may not. */
static void need(att *a, const char *name) {
  emit *e = a->e;
  if (att_find(a, name) >= 0) return;
  for (int i = 0; i < gs_graph_ntensors(e->g); i++)
    if (strcmp(gs_graph_tensor_at(e->g, i)->name, name) == 0) {
      memory_add_leaf(e, i);
      return;
    }
  emit_fail(e, 0, "the template attention needs a tensor '%s'", name);
}

static const char *const known[] = {"q",  "k",  "v",  "y",    "lse",  "dy",
                                    "dq", "dk", "dv", "cu_q", "cu_k", "scale"};

static bool is_known(const char *name) {
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(known[i], name) == 0) return true;
  return false;
}

/* What the author has besides gets names that no template uses, but for the sink's gradient. */
static void rename_others(att *a) {
  emit *e = a->e;
  for (int m = 0; m < e->nmems; m++) {
    mem *x = &e->mems[m];
    if (x->binding < 0 || is_known(e->list->bindings[x->binding].name)) continue;
    if (e->list->bindings[x->binding].is_result)
      a->dsink = x->name;
    else
      x->name = gs_arena_printf(e->a, "in_%s", x->name);
  }
}

static int dim_named(att *a, const char *name) {
  int d = gs_graph_find_dim(a->e->g, name);
  if (d < 0) emit_fail(a->e, 0, "the template attention wants a dim %s", name);
  return d;
}

static void read_shape(att *a) {
  emit *e = a->e;
  a->t = dim_named(a, "T"), a->s = dim_named(a, "S"), a->b = dim_named(a, "B1");
  a->kv = dim_named(a, "K"), a->g = dim_named(a, "G"), a->d = dim_named(a, "D");
  if (e->status) return;
  a->size = dim_size(e, a->d);
  a->groups = dim_size(e, a->g);
  a->kheads = dim_size(e, a->kv);
  a->heads = a->kheads * a->groups;
  a->type = e->mems[att_find(a, "q")].type;
}

static void check_results(att *a) {
  emit *e = a->e;
  const gs_pass *p = e->pass;
  for (int i = 0; i < p->nresults; i++)
    if (p->results[i].add) emit_fail(e, 0, "attention can't add to '%s'", p->results[i].name);
  if (p->kind == GS_PASS_TERMINAL) emit_fail(e, 0, "attention has no terminal pass");
}

void att_sink(att *a, int64_t threads, const char *delta_at) {
  att_kernel x = {.file = "attention_plain",
                  .piece = "sink",
                  .threads = (int)threads,
                  .grid = {.coef = a->heads, .div = 1}};
  att_hole(&x, "DELTA_AT", delta_at);
  att_write(a, &x);
}

static void bind_all(att *a) {
  static const char *const backward[] = {"v", "y", "lse", "dy"};
  static const char *const both[] = {"q", "k", "cu_q", "cu_k", "scale"};
  bool is_backward = a->e->pass->kind == GS_PASS_BACKWARD;
  for (int i = 0; i < 5; i++) need(a, both[i]);
  for (int i = 0; i < (is_backward ? 4 : 1); i++) need(a, backward[i]);
}

gs_status write_attention(emit *e) {
  att *a = GS_NEW(e->a, att);
  a->e = e;
  a->k.e = e;
  if (memory_bind(e)) return e->status;
  bind_all(a);
  check_results(a);
  if (!e->status) read_shape(a);
  if (!e->status) att_lower(a);
  if (e->status) return e->status;
  rename_others(a);
  if (!att_tiles(a)) att_plain(a);
  return e->status;
}
