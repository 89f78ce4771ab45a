/* wanted.c: one layer's text to routines (wanted.h). */
#include "cli/wanted.h"

#include "cli/choice.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FIELDS = 24, MAX_GRADIENTS = 32 };

typedef struct request {
  char text[512]; /* cut into fields */
  const char *name;
  char *gradients; /* "dx+dw": a backward of its own; NULL: none */
  int64_t sizes[GS_MAX_DIMS];
  const char *option_names[MAX_FIELDS], *type_names[MAX_FIELDS];
  double option_values[MAX_FIELDS];
  gs_type types[MAX_FIELDS];
  gs_choice choice;
} request;

static int place(const char *name, const char *const *list, int n) {
  for (int k = 0; k < n; k++)
    if (strcmp(list[k], name) == 0) return k;
  return -1;
}

static gs_status unknown_field(const gs_layer_decl *d, const char *name, gs_error *err) {
  gs_text t = {0};
  for (int k = 0; k < d->ndims; k++)
    if (!d->dim_outer[k] && !d->dim_size[k]) gs_text_printf(&t, " %s", d->dims[k]);
  for (int k = 0; k < d->noptions; k++) gs_text_printf(&t, " %s", d->options[k]);
  gs_fail(err, GS_ERR_USE,
          "pack: layer '%s' has no inner dim, option or tensor '%s'; it takes f32, bf16 or f16, "
          "types of tensors, and:%s",
          d->name, name, t.s ? t.s : " nothing else");
  gs_text_free(&t);
  return GS_ERR_USE;
}

/* NAME=VALUE: the size of a dim, an option, or the type of a tensor. */
static gs_status read_field(request *q, const gs_layer_decl *d, char *field, gs_error *err) {
  gs_choice *c = &q->choice;
  char *value = strchr(field, '=');
  if (!value) {
    c->dtype = gs_type_from_name(field);
    if (c->dtype == GS_F32 || c->dtype == GS_BF16 || c->dtype == GS_F16) return GS_OK;
    return unknown_field(d, field, err);
  }
  *value++ = 0;
  if (strcmp(field, "want") == 0) {
    q->gradients = value;
    return GS_OK;
  }
  gs_type type = gs_type_from_name(value);
  if (type != GS_TYPE_NONE) {
    q->type_names[c->ntypes] = field;
    q->types[c->ntypes++] = type;
    return GS_OK;
  }
  char *end;
  errno = 0;
  double v = strtod(value, &end);
  int dim = place(field, d->dims, d->ndims);
  if (errno || *end || end == value || (dim >= 0 && (v < 1 || v > 1e9 || v != (double)(int64_t)v)))
    return gs_fail(err, GS_ERR_USE, "pack: layer '%s': %s=%s is no %s", d->name, field, value,
                   dim >= 0 ? "positive whole number" : "number");
  if (dim >= 0) {
    q->sizes[dim] = (int64_t)v;
  } else if (place(field, d->options, d->noptions) >= 0) {
    q->option_names[c->noptions] = field;
    q->option_values[c->noptions++] = v;
  } else {
    return unknown_field(d, field, err);
  }
  return GS_OK;
}

static gs_status read_request(gs_library *l, const char *text, request *q, gs_error *err) {
  char *save = NULL;
  gs_layer *layer;
  *q = (request){.choice = {.dtype = GS_BF16}};
  if (strlen(text) >= sizeof q->text)
    return gs_fail(err, GS_ERR_USE, "pack: '%.40s...' is too long for one layer", text);
  strcpy(q->text, text);
  q->name = strtok_r(q->text, ":", &save);
  if (!q->name) return gs_fail(err, GS_ERR_USE, "pack: the name of a layer is missing");
  gs_status st = gs_library_layer(l, q->name, &layer, err);
  int fields = 0;
  for (char *f; st == GS_OK && (f = strtok_r(NULL, ":", &save)); fields++) {
    if (fields == MAX_FIELDS)
      return gs_fail(err, GS_ERR_USE, "pack: layer '%s': more than %d fields", q->name, MAX_FIELDS);
    st = read_field(q, gs_layer_declaration(layer), f, err);
  }
  q->choice.sizes = q->sizes;
  q->choice.option_names = q->option_names;
  q->choice.option_values = q->option_values;
  q->choice.type_names = q->type_names;
  q->choice.types = q->types;
  return st;
}

static bool is_weight(const gs_layer_decl *d, const char *gradient) {
  for (int k = 0; k < d->nparams; k++)
    if (strcmp(d->params[k].name, gradient + 1) == 0) return d->params[k].role == GS_ROLE_WEIGHT;
  return false;
}

/* All gradients; those of the inputs alone, for who does not train the weights; and with the
 * outputs that backward can make again. */
static gs_status add_backward(gs_library *l, gs_instance *in, gs_error *err) {
  const gs_layer_decl *d = gs_layer_declaration(in->layer);
  const char *all[2 * MAX_GRADIENTS], *inputs[MAX_GRADIENTS];
  int n = 0, m = 0, more = 0;
  gs_routine *r;
  for (int k = 0; k < in->nbackward && n < MAX_GRADIENTS; k++) {
    all[n++] = in->backward[k].name;
    if (!is_weight(d, in->backward[k].name)) inputs[m++] = in->backward[k].name;
  }
  gs_status st = GS_OK;
  for (; more < in->nrecomputed && more < MAX_GRADIENTS; more++)
    all[n + more] = in->recomputed[more].name;
  if (n) st = gs_library_routine(l, in, GS_PASS_BACKWARD, all, n, NULL, 0, &r, err);
  if (st == GS_OK && more)
    st = gs_library_routine(l, in, GS_PASS_BACKWARD, all, n + more, NULL, 0, &r, err);
  if (st == GS_OK && m && m < n)
    st = gs_library_routine(l, in, GS_PASS_BACKWARD, inputs, m, NULL, 0, &r, err);
  if (st == GS_OK && gs_is_loss(in))
    st = gs_library_routine(l, in, GS_PASS_TERMINAL, all, n, NULL, 0, &r, err);
  return st;
}

static gs_status add_wanted(gs_library *l, gs_instance *in, char *list, gs_error *err) {
  const char *names[MAX_GRADIENTS];
  char *save = NULL;
  int n = 0;
  gs_routine *r;
  for (char *g = strtok_r(list, "+", &save); g && n < MAX_GRADIENTS; g = strtok_r(NULL, "+", &save))
    names[n++] = g;
  return gs_library_routine(l, in, GS_PASS_BACKWARD, names, n, NULL, 0, &r, err);
}

gs_status gs_add_layer(gs_library *l, const char *text, gs_error *err) {
  request q;
  gs_instance *in = NULL;
  gs_routine *r;
  gs_status st = read_request(l, text, &q, err);
  if (st == GS_OK) st = gs_library_instance(l, q.name, &q.choice, &in, err);
  if (st == GS_OK) st = gs_library_routine(l, in, GS_PASS_FORWARD, NULL, 0, NULL, 0, &r, err);
  bool saves = false;
  for (int k = 0; st == GS_OK && k < in->nforward; k++) saves |= in->forward[k].is_saved;
  if (saves) st = gs_library_routine(l, in, GS_PASS_INFER, NULL, 0, NULL, 0, &r, err);
  if (st == GS_OK && !in->is_kernel) st = add_backward(l, in, err);
  if (st == GS_OK && q.gradients) st = add_wanted(l, in, q.gradients, err);
  return st;
}
