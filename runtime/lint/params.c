/* params.c: a kernel's head against its record: what the runtime passes is what the text takes. */
#include "lint/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct want {
  char what[32]; /* "in bf16": as the prelude for lint annotates it */
  char name[128];
} want;

static const char *how(const gs_arg *a) {
  return a->is_read && a->is_written ? "inout" : a->is_written ? "out" : "in";
}

static want want_of(const look *l, const gs_arg *a) {
  want w = {0};
  const gs_binding *b =
      a->kind == GS_ARG_TEMP || a->kind == GS_ARG_DIM ? NULL : &l->list->bindings[a->index];
  snprintf(w.name, sizeof w.name, "%s", b ? b->name : "");
  switch (a->kind) {
  case GS_ARG_TENSOR:
    snprintf(w.what, sizeof w.what, "%s %s", how(a), gs_type_name(b->type));
    break;
  case GS_ARG_TEMP:
    snprintf(w.what, sizeof w.what, "%s %s", how(a), gs_type_name(l->list->temps[a->index].type));
    break;
  case GS_ARG_STRIDE: snprintf(w.what, sizeof w.what, "stride i64"); break;
  case GS_ARG_DIM:
    snprintf(w.what, sizeof w.what, "dim i64");
    snprintf(w.name, sizeof w.name, "%s", gs_graph_dim_at(l->list->g, a->index)->name);
    break;
  case GS_ARG_SCALAR: snprintf(w.what, sizeof w.what, "num f32"); break;
  case GS_ARG_MAP: snprintf(w.what, sizeof w.what, "map %s", gs_type_name(b->type)); break;
  case GS_ARG_STEP_SCALAR: snprintf(w.what, sizeof w.what, "step f32"); break;
  }
  return w;
}

/* As the layer calls it, with the '_' that sets it apart from the kernel's own names, or with the
 * "in_" of what an author's functions see in a template; a stride with "_ld", a map with "_map". */
static bool is_named(const want *w, const char *name, const char *tail) {
  static const char *const before[] = {"", "", "in_"}, *const behind[] = {"", "_", ""};
  char all[160];
  if (!*w->name) return true; /* temporaries have no name in the record */
  for (int i = 0; i < 3; i++) {
    snprintf(all, sizeof all, "%s%s%s%s", before[i], w->name, behind[i], tail);
    if (strcmp(all, name) == 0) return true;
  }
  return false;
}

static void look_at_param(look *l, gs_cursor c, int number) {
  char name[128], what[64] = "";
  const gs_arg *a = &l->k->args[number];
  want w = want_of(l, a);
  spelling_of(l, c, name, sizeof name);
  annotation_of(l, c, what, sizeof what);
  if (strcmp(what, w.what) != 0)
    complain(l, c,
             "parameter %d, %s, is '%s' and the record passes '%s'%s%s: parameters stand in the "
             "record's order, as GS_IN, GS_OUT, GS_INOUT, GS_STRIDE, GS_DIM, GS_NUM, GS_STEP or "
             "GS_MAP",
             number + 1, name, *what ? what : "not written by the prelude's macros", w.what,
             *w.name ? " of " : "", w.name);
  else if (!is_named(&w, name,
                     a->kind == GS_ARG_STRIDE ? "_ld"
                     : a->kind == GS_ARG_MAP  ? "_map"
                                              : ""))
    complain(l, c, "parameter %d is called %s and the record passes %s%s there", number + 1, name,
             a->kind == GS_ARG_STRIDE ? "the stride of "
             : a->kind == GS_ARG_MAP  ? "a map of "
                                      : "",
             w.name);
}

void lint_params(look *l, gs_cursor function, int threads, int barrier_free) {
  cursors in = children_of(l, function);
  int n = 0;
  for (int i = 0; i < in.n; i++) {
    if (in.v[i].kind != CX_PARAM) continue;
    if (n < l->k->nargs) look_at_param(l, in.v[i], n);
    n++;
  }
  if (n != l->k->nargs)
    complain(l, function, "the text has %d parameters and the record %d", n, l->k->nargs);
  if (threads != l->k->threads)
    complain(l, function, "the text says %d threads and the record %d", threads, l->k->threads);
  if (barrier_free != l->k->barrier_free)
    complain(l, function, "the text says barrier_free %d and the record %d", barrier_free,
             l->k->barrier_free);
}
