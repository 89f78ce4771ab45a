/* derived_write.h: what the two ways of writing a derived layer share. Private to check. */
#ifndef GS_DERIVED_WRITE_H
#define GS_DERIVED_WRITE_H

#include "check/derived.h"

/* ", for gemma = 1; ..." where options or sizes are numbers of the derived text. */
void derived_add_values(const gs_derived *d, gs_text *t);
bool derived_reads_saved(const gs_derived *d);
/* The whole layer from its graph (derived_flat.c). */
gs_status derived_flat(const gs_derived *d, const gs_derive_print *how, gs_text *t, gs_error *err);

#endif
