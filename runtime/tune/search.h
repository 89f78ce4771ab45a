/* search.h: legal tunables of a pass measured on the GPU at hand, one after the other from the
 * default outwards, each choice beside the best so far. */
#ifndef GS_TUNE_SEARCH_H
#define GS_TUNE_SEARCH_H

#include "tune/store.h"

typedef struct gs_search {
  gs_device *device;
  gs_meter *meter;
  gs_store *store; /* every measurement goes there at once; NULL: nowhere */
  const gs_about *about;
  int rounds; /* over all tunables; it ends earlier when one changes nothing */
  /* A line about each choice measured; NULL: silence. */
  void (*say)(void *context, const char *line);
  void *context;
} gs_search;

#define GS_HOPELESS 1.3 /* a choice so many times slower than the best is left after 3 samples */

typedef struct gs_searched {
  char tuned[512]; /* the best, "" where the default is, or ties */
  double seconds, default_seconds;
  int tunables, measured, hopeless, refused;
} gs_searched;

gs_status gs_search_pass(const gs_search *s, gs_instance *i, const gs_pass *p, const int64_t *sizes,
                         gs_searched *out, gs_error *err);

#endif
