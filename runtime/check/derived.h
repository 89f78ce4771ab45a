/* derived.h: the backward that gen/derive makes for a layer, its cost beside the author's, and the
 * layer file with it in place of the author's. */
#ifndef GS_DERIVED_H
#define GS_DERIVED_H

#include "derive/derive.h"
#include "lua/layer.h"

typedef struct gs_derived {
  gs_instance *i; /* the layer at sizes that nobody writes, which tell sizes from numbers */
  gs_arena *a;
  gs_derive_job job;
  gs_dims free;   /* dims whose size the caller may choose */
  double *option; /* the value of each option of the declaration */
  int n;          /* gradients */
  gs_derive_result *grad;
  bool has_closed; /* the author wrote a backward, and did not leave it to gs.derived */
  gs_derive_count closed, derived;
  int closed_saved, derived_saved;
  double elements; /* of the largest input, at the same sizes */
} gs_derived;

/* sizes: 0 where none is asked for, or NULL. The message of an error begins with the layer's name.
 * A layer without gradient is GS_ERR_USE. */
gs_status gs_derived_new(gs_layer *l, const gs_choice *c, gs_derived **out, gs_error *err);
void gs_derived_free(gs_derived *d);

/* Whether the derived backward is worth a note: it moves and computes less than the author's. */
bool gs_derived_is_shorter(const gs_derived *d);

/* The author's file with the derived backward, and with what that wants saved (source.c). */
gs_status gs_derived_text(const gs_derived *d, gs_text *out, gs_error *err);

#endif
