/* expand.h: (template text, bindings) -> text, a pure function.
 *
 * A template file holds pieces, each after a line "//@ NAME". A hole is @{NAME}. A hole alone on
 * its line takes text of any number of lines, indented as the hole is; an empty text removes the
 * line. */
#ifndef GS_EXPAND_H
#define GS_EXPAND_H

#include "base/text.h"
#include "gradsmith.h"

typedef struct gs_hole {
  const char *name;
  const char *text;
} gs_hole;

/* Appends the expansion to out. A hole of the template without a binding, or a binding without a
 * hole, is an error that names the template, the line and the hole. */
gs_status gs_expand(const char *template_name, const char *text, const gs_hole *holes, int nholes,
                    gs_text *out, gs_error *err);

/* The piece NAME of templates/FILE as text (not NUL-terminated): its length, and its first line. */
gs_status gs_piece(const char *file, const char *name, const char **text, size_t *len,
                   gs_error *err);

#endif
