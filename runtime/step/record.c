/* record.c: variables and actions of a step graph. */
#include "step/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

gs_record *gs_record_new(gs_library *l, gs_params *p, gs_step_mode mode, gs_type dtype,
                         int64_t tokens) {
  gs_arena *a = gs_arena_new();
  gs_record *r = GS_NEW(a, gs_record);
  r->arena = a;
  r->library = l;
  r->params = p;
  r->mode = mode;
  r->dtype = dtype;
  r->tokens = tokens;
  r->head = (gs_head_vars){.logits = -1, .loss = -1, .scale = 1};
  return r;
}

void gs_record_free(gs_record *r) {
  if (r) gs_arena_free(r->arena);
}

/* ---- variables ---- */

int gs_record_var(gs_record *r, const char *name, gs_type type, int ndims, const int64_t *shape) {
  r->vars = gs_arena_room(r->arena, r->vars, r->nvars, &r->cap_vars, sizeof *r->vars);
  gs_var *v = &r->vars[r->nvars];
  *v = (gs_var){.name = gs_arena_strdup(r->arena, name),
                .type = type,
                .ndims = ndims,
                .base = r->nvars,
                .grad = -1};
  for (int i = 0; i < ndims; i++) v->shape[i] = shape[i];
  return r->nvars++;
}

int gs_record_fixed(gs_record *r, const char *name, gs_type type, int ndims, const int64_t *shape,
                    gs_ptr ptr) {
  int v = gs_record_var(r, name, type, ndims, shape);
  r->vars[v].kind = GS_VAR_FIXED;
  r->vars[v].ptr = ptr;
  return v;
}

int gs_record_view(gs_record *r, int var, int ndims, const int64_t *shape) {
  int base = r->vars[var].base;
  int v = gs_record_var(r, r->vars[base].name, r->vars[var].type, ndims, shape);
  r->vars[v].kind = r->vars[base].kind;
  r->vars[v].offset = r->vars[var].offset;
  r->vars[v].ptr = r->vars[base].ptr + r->vars[var].offset;
  r->vars[v].base = base;
  return v;
}

int gs_record_rows(gs_record *r, int var, int64_t from, int64_t n) {
  gs_var of = r->vars[var];
  of.shape[0] = n;
  int v = gs_record_view(r, var, of.ndims, of.shape);
  size_t skipped = (size_t)(from * gs_var_stride(&of)) * gs_type_size(of.type);
  r->vars[v].stride = of.stride;
  r->vars[v].offset += skipped;
  r->vars[v].ptr += skipped;
  return v;
}

int gs_record_columns(gs_record *r, int var, int64_t from, int64_t n) {
  int64_t stride = gs_var_stride(&r->vars[var]);
  int v = gs_record_rows(r, var, 0, r->vars[var].shape[0]);
  size_t skipped = (size_t)from * gs_type_size(r->vars[v].type);
  r->vars[v].shape[1] = n;
  r->vars[v].stride = stride;
  r->vars[v].offset += skipped;
  r->vars[v].ptr += skipped;
  return v;
}

gs_var *gs_record_base(gs_record *r, int var) {
  return &r->vars[r->vars[var].base];
}

int64_t gs_var_count(const gs_var *v) {
  int64_t n = 1;
  for (int i = 0; i < v->ndims; i++) n *= v->shape[i];
  return n;
}

int64_t gs_var_stride(const gs_var *v) {
  if (v->stride) return v->stride;
  int64_t n = 1;
  for (int i = 1; i < v->ndims; i++) n *= v->shape[i];
  return n;
}

size_t gs_var_bytes(const gs_var *v) {
  int64_t n = v->stride ? v->shape[0] * v->stride : gs_var_count(v);
  return (size_t)n * gs_type_size(v->type);
}

const char *gs_var_text(const gs_var *v, char *out, size_t cap) {
  size_t n = (size_t)snprintf(out, cap, "[");
  for (int i = 0; i < v->ndims && n < cap; i++)
    n += (size_t)snprintf(out + n, cap - n, "%s%lld", i ? ", " : "", (long long)v->shape[i]);
  if (n < cap) snprintf(out + n, cap - n, "] %s", gs_type_name(v->type));
  return out;
}

/* ---- actions ---- */

gs_act *gs_record_act(gs_record *r, gs_act_kind kind, const char *what, int nuses) {
  r->acts = gs_arena_room(r->arena, r->acts, r->nacts, &r->cap_acts, sizeof *r->acts);
  gs_act *a = &r->acts[r->nacts++];
  *a = (gs_act){.kind = kind, .what = gs_arena_strdup(r->arena, what), .nuses = nuses};
  a->uses = GS_NEW_N(r->arena, gs_use, nuses + 1);
  for (int i = 0; i < nuses; i++) a->uses[i] = (gs_use){.var = -1, .inplace = -1};
  return a;
}

/* A variable as a matrix: its first dim, and all others together. */
static void matrix(const gs_var *v, int64_t *rows, int64_t *columns) {
  *rows = v->ndims ? v->shape[0] : 1;
  *columns = *rows ? gs_var_count(v) / *rows : 0;
}

/* Elements from one row of that matrix to the next. */
static int64_t row_length(const gs_var *v) {
  return v->ndims ? gs_var_stride(v) : 1;
}

void gs_record_gemm(gs_record *r, const char *what, int a, bool ta, int b, bool tb, int c,
                    double alpha, bool add) {
  gs_act *act = gs_record_act(r, GS_ACT_GEMM, what, 3);
  act->uses[0] = (gs_use){.var = a, .is_read = true, .inplace = -1};
  act->uses[1] = (gs_use){.var = b, .is_read = true, .inplace = -1};
  act->uses[2] = (gs_use){.var = c, .is_read = add, .is_written = true, .inplace = -1};
  gs_gemm *g = &act->gemm;
  int64_t rows, columns;
  matrix(&r->vars[a], &rows, &columns);
  g->k = ta ? rows : columns;
  matrix(&r->vars[c], &g->m, &g->n);
  g->lda = row_length(&r->vars[a]);
  g->ldb = row_length(&r->vars[b]);
  g->ldc = row_length(&r->vars[c]);
  g->ta = ta;
  g->tb = tb;
  g->ab_type = r->vars[a].type;
  g->c_type = r->vars[c].type;
  g->alpha = (float)alpha;
  g->beta = add ? 1 : 0;
}

void gs_record_zero(gs_record *r, const char *what, int var) {
  gs_act *a = gs_record_act(r, GS_ACT_ZERO, what, 1);
  a->uses[0] = (gs_use){.var = var, .is_written = true, .inplace = -1};
}

/* Sizes of all dims of g, of which the first n are given. */
static int64_t *all_sizes(gs_arena *a, const gs_graph *g, const int64_t *sizes, int n) {
  int ndims = gs_graph_ndims(g);
  int64_t *all = GS_NEW_N(a, int64_t, ndims + 1);
  for (int d = 0; d < ndims; d++) all[d] = d < n ? sizes[d] : 1;
  gs_graph_sizes(g, all);
  return all;
}

/* Is the result of that name added to its memory? */
static bool is_added(const gs_pass *p, const char *name) {
  for (int i = 0; i < p->nresults; i++)
    if (strcmp(p->results[i].name, name) == 0) return p->results[i].add;
  return false;
}

/* Memory for each temporary. */
static int *make_temps(gs_record *r, const gs_launch_list *l, const int64_t *sizes) {
  int *temp = GS_NEW_N(r->arena, int, l->ntemps + 1);
  for (int t = 0; t < l->ntemps; t++) {
    int64_t bytes = (int64_t)gs_launch_temp_bytes(l, t, sizes);
    temp[t] = gs_record_var(r, "temporary", GS_U8, 1, &bytes);
  }
  return temp;
}

/* ---- kernels that are launched once a batch ---- */

static int count_once(const gs_launch_list *l) {
  int n = 0;
  while (n < l->nkernels && l->kernels[n].once) n++;
  return n;
}

/* Whether both variables are the same memory, integers of the batch. */
static bool same_integers(const gs_record *r, int a, int b) {
  if (a < 0 || b < 0) return false;
  const gs_var *x = &r->vars[a], *y = &r->vars[b];
  return x->base == y->base && x->offset == y->offset && x->type == GS_I32 && y->type == GS_I32 &&
         r->vars[x->base].kind == GS_VAR_FIXED;
}

/* Whether argument x of a and y of b are the same value; temporaries are paired by their place. */
static bool same_arg(const gs_record *r, const gs_act *a, const gs_arg *x, const gs_act *b,
                     const gs_arg *y) {
  if (x->kind != y->kind) return false;
  switch (x->kind) {
  case GS_ARG_TEMP: return true;
  case GS_ARG_DIM: return a->sizes[x->index] == b->sizes[y->index];
  case GS_ARG_TENSOR: return same_integers(r, a->uses[x->index].var, b->uses[y->index].var);
  default: return false;
  }
}

static bool same_once(const gs_record *r, const gs_act *a, const gs_act *b, int n) {
  const gs_launch_list *l = a->routine->code.list, *m = b->routine->code.list;
  if (count_once(m) != n) return false;
  for (int k = 0; k < n; k++) {
    const gs_kernel *x = &l->kernels[k], *y = &m->kernels[k];
    if (strcmp(x->entry, y->entry) != 0 || x->nargs != y->nargs) return false;
    for (int i = 0; i < x->nargs; i++)
      if (!same_arg(r, a, &x->args[i], b, &y->args[i])) return false;
  }
  return true;
}

/* Takes the temporaries of an earlier action with the same kernels of a batch, and leaves these
 * out.
 */
static void share_once(gs_record *r, int at) {
  gs_act *a = &r->acts[at];
  const gs_launch_list *l = a->routine->code.list;
  int n = count_once(l);
  for (int i = 0; n && i < at; i++) {
    const gs_act *b = &r->acts[i];
    if (b->kind != GS_ACT_LAUNCH || b->had || !same_once(r, a, b, n)) continue;
    const gs_launch_list *m = b->routine->code.list;
    for (int k = 0; k < n; k++)
      for (int j = 0; j < l->kernels[k].nargs; j++) {
        const gs_arg *x = &l->kernels[k].args[j], *y = &m->kernels[k].args[j];
        if (x->kind != GS_ARG_TEMP) continue;
        gs_use *use = &a->uses[l->nbindings + x->index];
        use->var = b->uses[m->nbindings + y->index].var;
        use->is_read = true;
      }
    a->had = n;
    return;
  }
}

gs_status gs_record_launch(gs_record *r, const char *what, gs_routine *routine,
                           const int64_t *sizes, int ndims, gs_find_var find, void *context,
                           gs_error *err) {
  int64_t *all = all_sizes(r->arena, routine->pass->g, sizes, ndims);
  gs_status st = gs_library_sizes(r->library, routine, all, err);
  if (st != GS_OK) return st;
  const gs_launch_list *l = routine->code.list;
  int *temp = make_temps(r, l, all);
  gs_act *a = gs_record_act(r, GS_ACT_LAUNCH, what, l->nbindings + l->ntemps);
  a->routine = routine;
  a->sizes = all;
  a->values = GS_NEW_N(r->arena, float, l->nbindings + 1);
  for (int i = 0; i < l->nbindings; i++) {
    const gs_binding *b = &l->bindings[i];
    double number = 0;
    int var = find(context, b, &number);
    if (var < 0 && b->role != GS_ROLE_SCALAR)
      return gs_fail(err, GS_ERR_USE, "%s: the step has nothing for \"%s\" of %s", what, b->name,
                     l->key);
    a->values[i] = (float)number;
    a->uses[i] = (gs_use){.var = var,
                          .inplace = b->is_result ? b->inplace : -1,
                          .is_read = !b->is_result || is_added(routine->pass, b->name),
                          .is_written = b->is_result};
    if (var >= 0 && r->vars[var].type != b->type)
      return gs_fail(err, GS_ERR_USE, "%s: \"%s\" of %s is %s, but the step has it as %s", what,
                     b->name, l->key, gs_type_name(b->type), gs_type_name(r->vars[var].type));
  }
  for (int t = 0; t < l->ntemps; t++)
    a->uses[l->nbindings + t] = (gs_use){.var = temp[t], .is_written = true, .inplace = -1};
  share_once(r, r->nacts - 1);
  return GS_OK;
}
