/* library.h: the layers that a step uses, each specialisation and each pass made and compiled once.
 *
 * Several step graphs of one model (training, evaluation, generation) share a library, so that
 * equal kernels are compiled once. Knows no model and no memory. */
#ifndef GS_LIBRARY_H
#define GS_LIBRARY_H

#include "device/launch.h"

typedef struct gs_library gs_library;

/* A pass that has been turned into a launch list. `code` can be launched after gs_library_compile.
 */
typedef struct gs_routine {
  const gs_instance *instance;
  const gs_pass *pass;
  gs_compiled code;
  const int64_t *sizes; /* that it is first launched at, of each dim; NULL: never */
} gs_routine;

gs_status gs_library_new(gs_device *d, gs_library **out, gs_error *err);
void gs_library_free(gs_library *l);

gs_status gs_library_layer(gs_library *l, const char *name, gs_layer **out, gs_error *err);
/* The instance of a layer for a choice; an equal choice gives the same one. */
gs_status gs_library_instance(gs_library *l, const char *name, const gs_choice *c,
                              gs_instance **out, gs_error *err);
/* The routine of a pass: its text is made here, its kernels are compiled by gs_library_compile. */
gs_status gs_library_routine(gs_library *l, gs_instance *i, gs_pass_kind kind,
                             const char *const *wanted, int nwanted, const char *const *add,
                             int nadd, gs_routine **out, gs_error *err);
/* Says what a routine is launched at. The first time, and before it is compiled, what tuning found
 * for sizes near these (tune/tuned.h) takes the place of the defaults. */
gs_status gs_library_sizes(gs_library *l, gs_routine *r, const int64_t *sizes, gs_error *err);
/* Compiles every kernel that is not yet compiled, several at once. */
gs_status gs_library_compile(gs_library *l, gs_error *err);
int gs_library_kernels(const gs_library *l); /* distinct kernels made so far */
/* Calls what with every routine made so far, in the order in which they were made; stops at the
 * first failure. */
typedef gs_status (*gs_with_routine)(void *context, const gs_routine *r, gs_error *err);
gs_status gs_library_each(const gs_library *l, gs_with_routine what, void *context, gs_error *err);

#endif
