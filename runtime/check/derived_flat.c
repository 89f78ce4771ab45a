/* derived_flat.c: a layer file made from the graph alone, for a layer whose forward does not stand
 * in its file: what gs.fuse composed, or what a helper makes. Options have become numbers. */
#include "check/derived_write.h"

#include <string.h>

static const gs_layer_decl *decl_of(const gs_derived *d) {
  return gs_layer_declaration(d->i->layer);
}

static void add_quoted(gs_text *t, const char *s) {
  gs_text_add(t, "\"");
  for (; *s; s++) {
    if (*s == '"' || *s == '\\') gs_text_add(t, "\\");
    gs_text_add_n(t, s, 1);
  }
  gs_text_add(t, "\"");
}

/* ---- what is declared ---- */

static void add_dims(const gs_derived *d, gs_text *t) {
  const gs_layer_decl *decl = decl_of(d);
  const char *sep = "";
  bool other = false;
  gs_text_add(t, "  dims  = { ");
  for (int k = 0; k < decl->ndims; k++) {
    if (decl->dim_size[k])
      gs_text_printf(t, "%s%s = \"%s\"", sep, decl->dims[k], decl->dim_size[k]);
    else
      gs_text_printf(t, "%s\"%s\"", sep, decl->dims[k]);
    sep = ", ";
    other |= decl->dim_outer[k] != (k == 0);
  }
  gs_text_add(t, " },\n");
  if (!other) return;
  sep = "";
  gs_text_add(t, "  outer = { ");
  for (int k = 0; k < decl->ndims; k++) {
    if (!decl->dim_outer[k] || decl->dim_size[k]) continue;
    gs_text_printf(t, "%s\"%s\"", sep, decl->dims[k]);
    sep = ", ";
  }
  gs_text_add(t, " },\n");
}

static void add_bound(const gs_derived *d, gs_text *t, int dim, double v) {
  if (dim >= 0)
    gs_text_printf(t, "\"%s\"", decl_of(d)->dims[dim]);
  else
    gs_derive_number(t, v);
}

static void add_drawn(const gs_derived *d, gs_text *t, const gs_drawn *r) {
  if (r->has_low || r->has_high) {
    gs_text_add(t, ", range = { ");
    add_bound(d, t, r->low_dim, r->has_low ? r->low : 0);
    if (r->has_high) {
      gs_text_add(t, ", ");
      add_bound(d, t, r->high_dim, r->high);
    }
    gs_text_add(t, " }");
  }
  for (int k = 0; k < r->nalso; k++) {
    gs_text_add(t, k ? ", " : ", also = { ");
    gs_derive_number(t, r->also[k]);
    if (k + 1 == r->nalso) gs_text_add(t, " }");
  }
  if (r->ascending) gs_text_add(t, ", ascending = true");
}

static bool is_float(gs_type t) {
  return t == GS_F32 || t == GS_BF16 || t == GS_F16;
}

static void add_param(const gs_derived *d, gs_text *t, int k) {
  const gs_layer_decl *decl = decl_of(d);
  const gs_tensor *x = &decl->params[k];
  const char *optional = decl->optional[k] ? "optional = true" : "";
  gs_text_printf(t, "  %s = ", x->name);
  if (x->role == GS_ROLE_SCALAR) {
    gs_text_add(t, "gs.scalar(");
    gs_derive_number(t, x->value);
    gs_text_add(t, "),\n");
    return;
  }
  if (x->role == GS_ROLE_STEP_SCALAR) {
    gs_text_printf(t, *optional ? "gs.step_scalar { %s },\n" : "gs.step_scalar(%s),\n", optional);
    return;
  }
  gs_text_printf(t, "gs.%s {", x->role == GS_ROLE_WEIGHT ? "weight" : "input");
  for (int j = 0; j < x->ndims; j++)
    gs_text_printf(t, "%s \"%s\"", j ? "," : "", decl->dims[x->dim[j]]);
  if (!x->is_generic) gs_text_printf(t, ", type = \"%s\"", gs_type_name(x->type));
  if ((x->is_generic || is_float(x->type)) && !decl->differentiable[k])
    gs_text_add(t, ", grad = false");
  if (*optional) gs_text_printf(t, ", %s", optional);
  add_drawn(d, t, &decl->drawn[k]);
  gs_text_add(t, " },\n");
}

static void add_outputs(const gs_derived *d, gs_text *t) {
  const gs_instance *i = d->i;
  gs_text_add(t, "  outputs = {");
  for (int k = 0; k < i->nforward; k++)
    if (!i->forward[k].is_saved) gs_text_printf(t, "%s \"%s\"", k ? "," : "", i->forward[k].name);
  for (int k = 0, n = 0; k < i->nforward; k++) {
    const gs_result *r = &i->forward[k];
    if (r->is_saved) continue;
    bool incoming = d->job.dy[n++] != 0;
    if (r->type == i->dtype && incoming) continue;
    gs_text_printf(t, ",\n    %s = {%s", r->name, r->type == i->dtype ? "" : " type = \"");
    if (r->type != i->dtype)
      gs_text_printf(t, "%s\"%s", gs_type_name(r->type), incoming ? "" : ",");
    gs_text_add(t, incoming ? " }" : " grad = false }");
  }
  gs_text_add(t, " },\n");
}

static void add_inplace(const gs_derived *d, gs_text *t) {
  const gs_instance *i = d->i;
  int n = 0;
  for (int k = 0; k < i->nforward + i->nbackward; k++) {
    const gs_result *r = k < i->nforward ? &i->forward[k] : &i->backward[k - i->nforward];
    if (!r->inplace) continue;
    gs_text_printf(t, "%s%s = \"%s\"", n++ ? ", " : "  inplace = { ", r->name, r->inplace);
  }
  if (n) gs_text_add(t, " },\n");
}

/* ---- forward ---- */

static gs_status add_forward(const gs_derived *d, const gs_derive_print *p, gs_text *t,
                             gs_error *err) {
  const gs_instance *i = d->i;
  gs_derive_result *r = GS_NEW_N(d->a, gs_derive_result, i->nforward + d->job.nleaves + 1);
  int n = 0;
  for (int k = 0; k < i->nforward; k++)
    if (!i->forward[k].is_saved)
      r[n++] = (gs_derive_result){.name = i->forward[k].name, .id = i->forward[k].expr};
  for (int k = 0; k < d->job.nleaves; k++) {
    const gs_derive_leaf *l = &d->job.leaves[k];
    if (!l->used || !l->must_be_kept) continue;
    const gs_node *leaf = gs_graph_node(i->g, l->leaf);
    const gs_tensor *x = gs_graph_tensor_at(i->g, (int)leaf->index);
    bool is_new = leaf->index >= d->job.made_from;
    r[n++] = (gs_derive_result){.name = x->name,
                                .id = is_new ? l->expr : i->saved_expr[leaf->index],
                                .is_saved = true,
                                .type = x->type == GS_F32 ? NULL : gs_type_name(x->type)};
  }
  gs_text_add(t, "\n  forward = function(p)\n");
  gs_status st = gs_derive_print_body(p, r, n, t, err);
  gs_text_add(t, "  end,\n");
  return st;
}

gs_status derived_flat(const gs_derived *d, const gs_derive_print *how, gs_text *t, gs_error *err) {
  const gs_layer_decl *decl = decl_of(d);
  gs_derive_print p = *how;
  p.generic = d->i->dtype;
  for (int k = 0; k < decl->nparams && !p.generic_name; k++)
    if (decl->params[k].is_generic && decl->params[k].role <= GS_ROLE_WEIGHT)
      p.generic_name = decl->params[k].name;
  gs_text_printf(t, "-- %s: written out by gradsmith from the layer's own graph", decl->name);
  derived_add_values(d, t);
  gs_text_printf(t, ".\nlocal gs = require \"gradsmith\"\n\nreturn gs.layer \"%s\" {\n",
                 decl->name);
  if (decl->doc) {
    gs_text_add(t, "  doc   = ");
    add_quoted(t, decl->doc);
    gs_text_add(t, ",\n");
  }
  add_dims(d, t);
  for (int k = 0; k < decl->nparams; k++) add_param(d, t, k);
  add_outputs(d, t);
  add_inplace(d, t);
  gs_status st = add_forward(d, &p, t, err);
  if (st == GS_OK) {
    gs_text_printf(t, "\n  backward = function(p, d%s)\n", derived_reads_saved(d) ? ", s" : "");
    st = gs_derive_print_body(how, d->grad, d->n, t, err);
  }
  gs_text_add(t, "  end,\n}\n");
  return st;
}
