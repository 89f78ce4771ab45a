/* choice.c: reads --dims, --options and --dtype against a layer's declaration. */
#include "cli/choice.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct pairs {
  int n;
  const char *name[GS_MAX_CHOICES], *value[GS_MAX_CHOICES];
} pairs;

/* "T=4096,H=64"; cuts text into pieces. */
static gs_status parse_pairs(const char *command, const char *option, char *text, pairs *p,
                             gs_error *err) {
  char *save = NULL;
  p->n = 0;
  for (char *w = strtok_r(text, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
    char *eq = strchr(w, '=');
    if (!eq || eq == w || !eq[1])
      return gs_fail(err, GS_ERR_USE, "%s: %s takes NAME=VALUE,...; '%s' is none", command, option,
                     w);
    if (p->n == GS_MAX_CHOICES)
      return gs_fail(err, GS_ERR_USE, "%s: %s takes at most %d values", command, option,
                     GS_MAX_CHOICES);
    *eq = '\0';
    p->name[p->n] = w;
    p->value[p->n++] = eq + 1;
  }
  return GS_OK;
}

static gs_status copy_text(const char *command, const char *option, const char *s, char *out,
                           size_t cap, gs_error *err) {
  out[0] = 0;
  if (s && strlen(s) >= cap) return gs_fail(err, GS_ERR_USE, "%s: %s is too long", command, option);
  if (s) strcpy(out, s);
  return GS_OK;
}

static gs_status number(const char *command, const char *option, const char *name, const char *s,
                        double *out, gs_error *err) {
  char *end;
  errno = 0;
  *out = strtod(s, &end);
  if (errno || *end || end == s)
    return gs_fail(err, GS_ERR_USE, "%s: %s: %s=%s is not a number", command, option, name, s);
  return GS_OK;
}

/* The place of name in list, or -1 with a message that lists what there is. */
static int find(const char *command, const char *option, const char *what, const char *name,
                const gs_layer_decl *d, const char *const *list, int n, gs_error *err) {
  for (int k = 0; k < n; k++)
    if (strcmp(list[k], name) == 0) return k;
  gs_text known = {0};
  for (int k = 0; k < n; k++) gs_text_printf(&known, " %s", list[k]);
  gs_fail(err, GS_ERR_USE, "%s: %s: layer '%s' has no %s '%s'; %s%s%s", command, option, d->name,
          what, name, n ? "its " : "it has none", n ? what : "", n ? "s:" : "");
  if (err && known.s) {
    size_t len = strlen(err->message);
    snprintf(err->message + len, sizeof err->message - len, "%s", known.s);
  }
  gs_text_free(&known);
  return -1;
}

static gs_status read_sizes(const char *command, const gs_wish *w, gs_chosen *c, gs_error *err) {
  const gs_layer_decl *d = gs_layer_declaration(c->layer);
  char text[1024];
  pairs p = {.n = 0};
  gs_status st = copy_text(command, "--dims", w->dims, text, sizeof text, err);
  if (st == GS_OK) st = parse_pairs(command, "--dims", text, &p, err);
  for (int i = 0; st == GS_OK && i < p.n; i++) {
    double v = 0;
    int k = find(command, "--dims", "dim", p.name[i], d, d->dims, d->ndims, err);
    if (k < 0) return GS_ERR_USE;
    st = number(command, "--dims", p.name[i], p.value[i], &v, err);
    if (st == GS_OK && (v < 1 || v > 1e12 || v != (double)(int64_t)v))
      st = gs_fail(err, GS_ERR_USE, "%s: --dims: %s=%s is not a positive whole number", command,
                   p.name[i], p.value[i]);
    c->sizes[k] = (int64_t)v;
  }
  return st;
}

static gs_status read_options(const char *command, const gs_wish *w, gs_chosen *c, gs_error *err) {
  const gs_layer_decl *d = gs_layer_declaration(c->layer);
  pairs p = {.n = 0};
  gs_status st = copy_text(command, "--options", w->options, c->text, sizeof c->text, err);
  if (st == GS_OK) st = parse_pairs(command, "--options", c->text, &p, err);
  for (int i = 0; st == GS_OK && i < p.n; i++) {
    if (find(command, "--options", "option", p.name[i], d, d->options, d->noptions, err) < 0)
      return GS_ERR_USE;
    st = number(command, "--options", p.name[i], p.value[i], &c->option_values[i], err);
    c->option_names[i] = p.name[i];
  }
  c->choice.noptions = p.n;
  c->choice.option_names = c->option_names;
  c->choice.option_values = c->option_values;
  return st;
}

gs_status gs_chosen_open(const char *command, const gs_wish *w, gs_chosen *out, gs_error *err) {
  *out = (gs_chosen){.choice = {.dtype = gs_type_from_name(w->dtype)}};
  gs_type t = out->choice.dtype;
  if (t != GS_F32 && t != GS_BF16 && t != GS_F16)
    return gs_fail(err, GS_ERR_USE, "%s: --dtype takes f32, bf16 or f16, not '%s'", command,
                   w->dtype);
  gs_status st = gs_author_new(&out->author, err);
  if (st == GS_OK) st = gs_layer_open(out->author, w->name, &out->layer, err);
  if (st == GS_OK) st = read_sizes(command, w, out, err);
  if (st == GS_OK) st = read_options(command, w, out, err);
  out->choice.sizes = out->sizes;
  return st;
}

void gs_chosen_close(gs_chosen *c) {
  gs_author_free(c->author);
  c->author = NULL;
}

bool gs_is_loss(const gs_instance *in) {
  if (in->is_kernel || in->body || in->nbackward == 0) return false;
  for (int i = 0; i < in->nforward; i++)
    if (!in->forward[i].is_saved && in->forward[i].ndims > 1) return false;
  return true;
}
