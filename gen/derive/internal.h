/* internal.h: what the files of gen/derive share. Promises nothing to anyone else. */
#ifndef GS_DERIVE_INTERNAL_H
#define GS_DERIVE_INTERNAL_H

#include "derive/derive.h"

/* id with all that it reaches; marks has gs_graph_size entries, set to 0 before. */
void derive_mark(const gs_graph *g, const gs_id *roots, int n, char *marks);
bool derive_is_reduction(gs_op op);

/* save.c: appends to job->leaves what could be saved: parts of the raw adjoint d[0..n). */
void derive_find_saves(gs_derive_job *job, const gs_id *d, int n, gs_arena *a);
const char *derive_saved_stem(gs_op op); /* "rstd" for what an rsqrt gives */

#endif
