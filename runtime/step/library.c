/* library.c: caches over the authoring library: name -> layer, choice -> instance, pass -> routine.
 * Keys are printable texts; there are some dozens, so a list is searched. */
#include "step/library.h"

#include "tune/tuned.h"

#include <stdlib.h>
#include <string.h>

typedef struct entry {
  struct entry *next;
  const char *key;
  void *value;
} entry;

typedef struct made {
  struct made *next;
  gs_routine routine;
} made;

struct gs_library {
  gs_device *device;
  gs_author *author;
  gs_tuned *tuned; /* opened when it is first asked */
  gs_arena *arena;
  entry *layers, *instances, *routines;
  made *pending; /* routines whose kernels are not compiled yet */
  int nkernels;
};

static void *lookup(const entry *e, const char *key) {
  for (; e; e = e->next)
    if (strcmp(e->key, key) == 0) return e->value;
  return NULL;
}

static void insert(gs_library *l, entry **list, const char *key, void *value) {
  entry *e = GS_NEW(l->arena, entry);
  e->key = gs_arena_strdup(l->arena, key);
  e->value = value;
  e->next = *list;
  *list = e;
}

gs_status gs_library_new(gs_device *d, gs_library **out, gs_error *err) {
  gs_library *l = calloc(1, sizeof *l);
  if (!l) return gs_fail(err, GS_ERR_MEMORY, "out of memory");
  l->device = d;
  l->arena = gs_arena_new();
  gs_status s = gs_author_new(&l->author, err);
  if (s) {
    gs_library_free(l);
    return s;
  }
  *out = l;
  return GS_OK;
}

void gs_library_free(gs_library *l) {
  if (!l) return;
  for (entry *e = l->instances; e; e = e->next) gs_instance_free(e->value);
  gs_tuned_close(l->tuned);
  gs_author_free(l->author);
  gs_arena_free(l->arena);
  free(l);
}

gs_status gs_library_layer(gs_library *l, const char *name, gs_layer **out, gs_error *err) {
  *out = lookup(l->layers, name);
  if (*out) return GS_OK;
  gs_status s = gs_layer_open(l->author, name, out, err);
  if (s) return s;
  insert(l, &l->layers, name, *out);
  return GS_OK;
}

/* Everything that a choice says, in one line. */
static void choice_key(gs_text *t, const char *name, const gs_layer_decl *d, const gs_choice *c) {
  gs_text_printf(t, "%s %s", name, gs_type_name(c->dtype));
  for (int i = 0; i < d->ndims; i++)
    if (!d->dim_outer[i]) gs_text_printf(t, " %s=%lld", d->dims[i], (long long)c->sizes[i]);
  for (int i = 0; i < c->ntypes; i++)
    gs_text_printf(t, " %s:%s", c->type_names[i], gs_type_name(c->types[i]));
  for (int i = 0; i < c->noptions; i++)
    gs_text_printf(t, " %s=%.17g", c->option_names[i], c->option_values[i]);
}

gs_status gs_library_instance(gs_library *l, const char *name, const gs_choice *c,
                              gs_instance **out, gs_error *err) {
  gs_layer *layer;
  gs_status s = gs_library_layer(l, name, &layer, err);
  if (s) return s;
  gs_text key = {0};
  choice_key(&key, name, gs_layer_declaration(layer), c);
  *out = lookup(l->instances, key.s);
  if (!*out) {
    s = gs_layer_instantiate(layer, c, out, err);
    if (!s) insert(l, &l->instances, key.s, *out);
  }
  gs_text_free(&key);
  return s;
}

static void names_key(gs_text *t, const char *what, const char *const *names, int n) {
  gs_text_printf(t, " %s", what);
  for (int i = 0; i < n; i++) gs_text_printf(t, ",%s", names[i]);
}

gs_status gs_library_routine(gs_library *l, gs_instance *i, gs_pass_kind kind,
                             const char *const *wanted, int nwanted, const char *const *add,
                             int nadd, gs_routine **out, gs_error *err) {
  gs_text key = {0};
  gs_text_printf(&key, "%p %d", (void *)i, (int)kind);
  names_key(&key, "wanted", wanted, nwanted);
  names_key(&key, "add", add, nadd);
  gs_status s = GS_OK;
  *out = lookup(l->routines, key.s);
  if (*out) goto cleanup;

  gs_pass *pass;
  gs_launch_list *list;
  s = gs_layer_pass(i, kind, wanted, nwanted, add, nadd, &pass, err);
  if (!s)
    s = gs_compile_tuned(pass, gs_device_caps(l->device), gs_device_packed(l->device, pass->key),
                         NULL, &list, err);
  if (s) goto cleanup;
  made *m = GS_NEW(l->arena, made);
  m->routine = (gs_routine){.instance = i, .pass = pass, .code = {.list = list}};
  m->next = l->pending;
  l->pending = m;
  l->nkernels += list->nkernels;
  *out = &m->routine;
  insert(l, &l->routines, key.s, *out);
cleanup:
  gs_text_free(&key);
  return s;
}

gs_status gs_library_sizes(gs_library *l, gs_routine *r, const int64_t *sizes, gs_error *err) {
  if (r->sizes || r->code.funcs) return GS_OK;
  const gs_launch_list *list = r->code.list;
  size_t bytes = sizeof *sizes * (size_t)gs_graph_ndims(r->pass->g);
  r->sizes = gs_arena_copy(l->arena, sizes, bytes);
  if (gs_device_packed(l->device, r->pass->key)) return GS_OK; /* the very text of the pack */
  if (!l->tuned) l->tuned = gs_tuned_open(l->device, NULL, 0);
  gs_status s = gs_tuned_compile(l->tuned, l->device, r->pass, sizes, &list, err);
  if (s) return s;
  l->nkernels += list->nkernels - r->code.list->nkernels;
  r->code.list = list;
  return GS_OK;
}

gs_status gs_library_compile(gs_library *l, gs_error *err) {
  int n = 0;
  for (made *m = l->pending; m; m = m->next) n += m->routine.code.list->nkernels;
  if (n == 0) {
    l->pending = NULL;
    return GS_OK;
  }
  const gs_kernel **kernels = GS_NEW_N(l->arena, const gs_kernel *, n);
  gs_func **funcs = GS_NEW_N(l->arena, gs_func *, n);
  int k = 0;
  for (made *m = l->pending; m; m = m->next)
    for (int i = 0; i < m->routine.code.list->nkernels; i++)
      kernels[k++] = &m->routine.code.list->kernels[i];
  gs_status s = gs_device_compile(l->device, kernels, n, funcs, err);
  if (s) return s;
  for (made *m = l->pending; m; m = m->next) {
    m->routine.code.funcs = funcs;
    funcs += m->routine.code.list->nkernels;
  }
  l->pending = NULL;
  return GS_OK;
}

/* The list has the newest first. */
static gs_status each(const entry *e, gs_with_routine what, void *context, gs_error *err) {
  if (!e) return GS_OK;
  gs_status s = each(e->next, what, context, err);
  return s ? s : what(context, e->value, err);
}

gs_status gs_library_each(const gs_library *l, gs_with_routine what, void *context, gs_error *err) {
  return each(l->routines, what, context, err);
}

int gs_library_kernels(const gs_library *l) {
  return l->nkernels;
}
