/* memory.c: what a pass reads and writes, under the names that its kernels use. */
#include "emit/emit.h"

#include <ctype.h>
#include <string.h>

/* Words that kernels use themselves, or that C++ keeps. */
static const char *const words[] = {
    "i",      "j",      "c",      "l",        "b",     "row",   "lane",     "live",     "scratch",
    "parts",  "need",   "first",  "next",     "key",   "to",    "from",     "into",     "since",
    "group",  "turn",   "sums",   "f32",      "bf16",  "f16",   "i32",      "i64",      "u8",
    "i8",     "e4m3",   "e5m2",   "e8m0",     "int",   "float", "double",   "char",     "long",
    "short",  "auto",   "new",    "delete",   "class", "this",  "template", "operator", "default",
    "union",  "and",    "or",     "not",      "xor",   "for",   "if",       "else",     "do",
    "while",  "return", "switch", "case",     "break", "true",  "false",    "const",    "static",
    "struct", "void",   "using",  "typename", "bool",  "phase", "come",     "gone",     "lap",
    "head",   "edge"};
static const char *const stems[] = {"e",   "r",  "sum", "max", "min",
                                    "lse", "i_", "gs_", "GS_", "table"};
static const char *const ends[] = {"_v",     "_at",   "_ld",   "_acc", "_comp",
                                   "_parts", "_left", "_ring", "_far"};

static bool is_number(const char *s) {
  if (!*s) return false;
  for (; *s; s++)
    if (!isdigit((unsigned char)*s)) return false;
  return true;
}

static bool is_taken(const emit *e, const char *name) {
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strcmp(name, words[i]) == 0) return true;
  for (size_t i = 0; i < sizeof stems / sizeof *stems; i++) {
    size_t n = strlen(stems[i]);
    if (strncmp(name, stems[i], n) == 0 && (is_number(name + n) || stems[i][n - 1] == '_'))
      return true;
  }
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    size_t n = strlen(ends[i]), all = strlen(name);
    if (all > n && strcmp(name + all - n, ends[i]) == 0) return true;
  }
  return gs_graph_find_dim(e->g, name) >= 0;
}

const char *c_name(emit *e, const char *name) {
  return is_taken(e, name) ? gs_arena_printf(e->a, "%s_", name) : name;
}

static int add_mem(emit *e, const mem *m) {
  e->mems = gs_arena_room(e->a, e->mems, e->nmems, &e->cap_mems, sizeof *e->mems);
  e->mems[e->nmems] = *m;
  return e->nmems++;
}

int mem_temp(emit *e, const char *name, gs_type type, gs_dims dims, int source_line, gs_id *input) {
  mem m = {.name = name,
           .type = type,
           .binding = -1,
           .temp = 0,
           .tensor = -1,
           .shares = -1,
           .partials = -1,
           .role = GS_ROLE_INPUT};
  for (int outer = 1; outer >= 0; outer--) /* an outer dim comes first */
    for (int d = 0; d < GS_MAX_DIMS; d++) {
      if (!(dims >> d & 1) || dim_is_outer(e, d) != (outer == 1)) continue;
      if (m.ndims == GS_MAX_RANK) {
        emit_fail(e, source_line, "a temporary would have more than %d dims", GS_MAX_RANK);
        break;
      }
      m.dim[m.ndims++] = d;
    }
  for (int i = 1; i < m.ndims; i++)
    if (dim_is_outer(e, m.dim[i]))
      emit_fail(
          e, source_line,
          "this value depends on two outer dims, %s and %s, and would have to be kept in memory: "
          "only one may be outer",
          gs_graph_dim_at(e->g, m.dim[0])->name, gs_graph_dim_at(e->g, m.dim[i])->name);
  if (input) {
    gs_tensor t = {.name = name, .role = GS_ROLE_INPUT, .type = type, .ndims = m.ndims};
    memcpy(t.dim, m.dim, sizeof m.dim);
    m.tensor = gs_graph_tensor(e->g, &t);
    *input = gs_input(e->g, m.tensor);
  }
  return add_mem(e, &m);
}

void mem_allocate_temp(emit *e, int at, gs_count count) {
  gs_launch_list *l = e->list;
  l->temps = gs_arena_room(e->a, l->temps, l->ntemps, &e->cap_temps, sizeof *l->temps);
  l->temps[l->ntemps] = (gs_temp){.type = e->mems[at].type, .count = count};
  e->mems[at].temp = l->ntemps++;
}

static void bind(emit *e, gs_binding *b, mem *m) {
  m->binding = e->list->nbindings;
  m->temp = m->shares = m->partials = -1;
  m->type = b->type;
  m->ndims = b->ndims;
  memcpy(m->dim, b->dim, sizeof m->dim);
  b->inplace = -1;
  e->list->bindings[e->list->nbindings++] = *b;
}

int memory_add_leaf(emit *e, int tensor) {
  const gs_tensor *t = gs_graph_tensor_at(e->g, tensor);
  gs_binding b = {.name = t->name, .type = t->type, .ndims = t->ndims, .role = t->role};
  memcpy(b.dim, t->dim, sizeof b.dim);
  mem m = {.name = c_name(e, t->name), .tensor = tensor, .role = t->role};
  bind(e, &b, &m);
  return add_mem(e, &m);
}

gs_status memory_bind(emit *e) {
  const gs_pass *p = e->pass;
  e->list->bindings = GS_NEW_N(e->a, gs_binding, gs_graph_ntensors(e->g) + p->nresults);
  e->result_mem = GS_NEW_N(e->a, int, p->nresults);
  for (int i = 0; i < p->nleaves; i++) memory_add_leaf(e, p->leaves[i]);
  for (int i = 0; i < p->nresults; i++) {
    const gs_result *r = &p->results[i];
    gs_binding b = {.name = r->name,
                    .type = r->type,
                    .ndims = r->ndims,
                    .role = GS_ROLE_OUTPUT,
                    .is_result = true};
    memcpy(b.dim, r->dim, sizeof b.dim);
    mem m = {.name = c_name(e, r->name), .tensor = -1, .role = GS_ROLE_OUTPUT};
    bind(e, &b, &m);
    e->result_mem[i] = add_mem(e, &m);
    if (r->add && r->type != GS_F32)
      emit_fail(e, 0, "result '%s' is added to and so must be f32, not %s", r->name,
                gs_type_name(r->type));
    for (int k = 1; k < r->ndims; k++)
      if (dim_is_outer(e, r->dim[k]))
        emit_fail(e, 0, "result '%s': only its first dim may be outer, but %s is", r->name,
                  gs_graph_dim_at(e->g, r->dim[k])->name);
  }
  return e->status;
}

int mem_real(const emit *e, int m) {
  return e->mems[m].shares >= 0 ? e->mems[m].shares : m;
}
