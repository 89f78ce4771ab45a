/* derived_text.c: the author's file with the derived backward in place of his own. Everything else
 * stays as he wrote it; where other values are to be saved, `save` in what forward returns too. */
#include "check/derived_write.h"
#include "check/source.h"

#include "base/asset.h"
#include "base/file.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_EDITS = 8, WIDE = 100 };

typedef struct edit {
  stretch at;
  gs_text text;
} edit;

typedef struct writer {
  const gs_derived *d;
  source s;
  stretch forward, backward;
  bool has_backward;
  edit edits[MOST_EDITS];
  int nedits;
  gs_error *err;
} writer;

static gs_text *new_edit(writer *w, size_t from, size_t to) {
  edit *e = &w->edits[w->nedits++];
  e->at = (stretch){from, to};
  return &e->text;
}

static gs_derive_print printing(const writer *w, const char *indent) {
  const gs_layer_decl *decl = gs_layer_declaration(w->d->i->layer);
  gs_derive_print p = {.g = w->d->i->g,
                       .free = w->d->free,
                       .site = w->s.strings,
                       .nsites = w->s.nstrings,
                       .indent = indent};
  for (int k = 0; k < decl->ndims; k++) p.declared |= (gs_dims)1 << k;
  return p;
}

/* ---- backward ---- */

/* "for gemma = 1": values of options, and sizes, that are numbers of the derived text. */
void derived_add_values(const gs_derived *d, gs_text *t) {
  const gs_layer_decl *decl = gs_layer_declaration(d->i->layer);
  const char *sep = ", for ";
  for (int k = 0; k < decl->noptions; k++) {
    if (d->option[k] == decl->option_defaults[k]) continue;
    gs_text_printf(t, "%s%s = %.15g", sep, decl->options[k], d->option[k]);
    sep = ", ";
  }
  for (int k = 0; k < decl->ndims; k++) {
    bool chosen = !decl->dim_outer[k] && !decl->dim_size[k] && !(d->free >> k & 1);
    if (!chosen) continue;
    gs_text_printf(t, "%s%s = %lld", sep, decl->dims[k],
                   (long long)gs_graph_dim_at(d->i->g, k)->size);
    sep = ", ";
  }
  gs_text_add(t, decl->noptions ? "; other options at their defaults" : "");
}

bool derived_reads_saved(const gs_derived *d) {
  for (int k = 0; k < d->job.nleaves; k++)
    if (d->job.leaves[k].used) return true;
  return false;
}

static gs_status write_backward(writer *w) {
  const gs_derived *d = w->d;
  gs_text body = {0};
  gs_derive_print p = printing(w, "    ");
  gs_status st = gs_derive_print_body(&p, d->grad, d->n, &body, w->err);
  if (st != GS_OK) {
    gs_text_free(&body);
    return st;
  }
  size_t at = w->has_backward ? w->backward.from : w->forward.to;
  gs_text *t = new_edit(w, at, w->has_backward ? w->backward.to : at);
  if (!w->has_backward) gs_text_add(t, ",\n\n  backward = ");
  gs_text_printf(t, "function(p, d%s)\n    ", derived_reads_saved(d) ? ", s" : "");
  gs_text_add(t, "-- derived by gradsmith from the forward");
  derived_add_values(d, t);
  gs_text_printf(t, "\n%s  end", body.s);
  gs_text_free(&body);
  return GS_OK;
}

/* ---- what is saved ---- */

static const char *name_of(const gs_derived *d, const gs_derive_leaf *l) {
  const gs_node *n = gs_graph_node(d->i->g, l->leaf);
  return gs_graph_tensor_at(d->i->g, (int)n->index)->name;
}

static bool is_new(const gs_derived *d, const gs_derive_leaf *l) {
  return gs_graph_node(d->i->g, l->leaf)->index >= d->job.made_from;
}

static bool is_saved(const gs_derive_leaf *l) {
  return l->used && l->must_be_kept;
}

/* The author saves just what the derived backward reads. */
static bool saves_the_same(const gs_derived *d) {
  int wanted = 0, had = 0;
  for (int k = 0; k < d->job.nleaves; k++) {
    if (!is_saved(&d->job.leaves[k])) continue;
    if (is_new(d, &d->job.leaves[k])) return false;
    wanted++;
  }
  for (int k = 0; k < d->i->nforward; k++) had += d->i->forward[k].is_saved;
  return wanted == had;
}

/* One entry of the new list: the author's own text, his value by its name, or a printed one. */
static gs_status add_entry(writer *w, gs_text *t, const gs_derive_leaf *l, const source_return *r,
                           bool wrapped) {
  const char *name = name_of(w->d, l);
  stretch own;
  gs_derive_print p = printing(w, "");
  if (!is_new(w->d, l) && wrapped) {
    gs_text_printf(t, "%s = out.save.%s", name, name);
    return GS_OK;
  }
  if (!is_new(w->d, l) && source_entry(&w->s, r->save, name, &own)) {
    gs_text_add_n(t, w->s.text + own.from, own.to - own.from);
    return GS_OK;
  }
  gs_text_printf(t, "%s = ", name);
  bool real = gs_graph_node(w->d->i->g, l->expr)->type == GS_F32;
  if (!real) gs_text_add(t, "{ ");
  gs_status st = gs_derive_print_value(&p, l->expr, t, w->err);
  if (!real) gs_text_add(t, ", \"i32\" }");
  return st;
}

static gs_status add_list(writer *w, gs_text *t, const source_return *r, bool wrapped) {
  const char *sep = "{ ";
  gs_status st = GS_OK;
  for (int k = 0; k < w->d->job.nleaves && st == GS_OK; k++) {
    if (!is_saved(&w->d->job.leaves[k])) continue;
    gs_text_add(t, sep);
    st = add_entry(w, t, &w->d->job.leaves[k], r, wrapped);
    sep = ",\n               ";
  }
  gs_text_add(t, *sep == '{' ? "{}" : " }");
  return st;
}

/* Removes `save = {...}` with the comma before it. */
static void drop_save(writer *w, const source_return *r) {
  size_t from = r->save_at, to = r->save.to;
  while (from && strchr(" \n\t", w->s.text[from - 1])) from--;
  if (from && w->s.text[from - 1] == ',') {
    from--;
  } else {
    from = r->save_at;
    while (w->s.text[to] && strchr(" ,", w->s.text[to])) to++;
  }
  new_edit(w, from, to);
}

static gs_status write_save(writer *w) {
  if (saves_the_same(w->d)) return GS_OK;
  source_return r = source_returns(&w->s, w->forward);
  int wanted = w->d->derived_saved;
  bool plain = r.saves == 1 && r.is_written;
  if (plain && wanted == 0) return drop_save(w, &r), GS_OK;
  if (plain) return add_list(w, new_edit(w, r.save.from, r.save.to), &r, false);
  if (r.saves == 0 && r.returns == 1 && r.is_table && r.close) {
    size_t at = r.close;
    while (at && strchr(" \n\t", w->s.text[at - 1])) at--;
    gs_text *t = new_edit(w, at, at);
    gs_text_add(t, r.has_comma ? "\n      save = " : ",\n      save = ");
    return add_list(w, t, &r, false);
  }
  gs_text *t = new_edit(w, w->forward.from, w->forward.from);
  gs_text_add(t, "function(p)\n    local out = (");
  t = new_edit(w, w->forward.to, w->forward.to);
  gs_text_add(t, ")(p)\n    out.save = ");
  gs_status st = add_list(w, t, &r, true);
  gs_text_add(t, "\n    return out\n  end");
  return st;
}

/* ---- the file ---- */

static void put_together(writer *w, gs_text *out) {
  size_t at = 0;
  for (;;) { /* by place; edits at one place in the order made */
    int next = -1;
    for (int k = 0; k < w->nedits; k++)
      if (w->edits[k].at.from >= at && w->edits[k].at.to != (size_t)-1 &&
          (next < 0 || w->edits[k].at.from < w->edits[next].at.from))
        next = k;
    if (next < 0) break;
    edit *e = &w->edits[next];
    gs_text_add_n(out, w->s.text + at, e->at.from - at);
    if (e->text.s) gs_text_add(out, e->text.s);
    at = e->at.to;
    e->at.to = (size_t)-1;
  }
  gs_text_add_n(out, w->s.text + at, w->s.len - at);
}

/* Whether forward, and at most one backward, stand in the file. */
static bool find_fields(writer *w) {
  int backs = source_field(&w->s, "backward", &w->backward);
  w->has_backward = backs == 1;
  return backs <= 1 && source_field(&w->s, "forward", &w->forward) == 1;
}

static gs_status write_text(writer *w, gs_text *out) {
  gs_derive_print p = printing(w, "    ");
  if (!find_fields(w)) return derived_flat(w->d, &p, out, w->err);
  gs_status st = write_save(w);
  if (st == GS_OK) st = write_backward(w);
  if (st == GS_OK) put_together(w, out);
  for (int k = 0; k < w->nedits; k++) gs_text_free(&w->edits[k].text);
  return st;
}

gs_status gs_derived_text(const gs_derived *d, gs_text *out, gs_error *err) {
  const gs_layer_decl *decl = gs_layer_declaration(d->i->layer);
  writer w = {.d = d, .err = err};
  const gs_asset *asset = gs_asset_find(decl->file);
  char *text = NULL;
  size_t len = 0;
  gs_status st = GS_OK;
  if (!asset && gs_path_exists(decl->file)) st = gs_file_read(decl->file, &text, &len, err);
  const char *have = asset ? asset->data : text ? text : "";
  if (st == GS_OK && !source_read(&w.s, have, asset ? asset->len : len))
    st = gs_fail(err, GS_ERR_MEMORY, "derive: out of memory");
  if (st == GS_OK && write_text(&w, out) != GS_OK) st = gs_fail_in(err, "%s", decl->name);
  source_free(&w.s);
  free(text);
  return st;
}
