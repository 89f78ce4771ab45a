/* store_row.h: what the files of the store share. Private to runtime/tune. */
#ifndef GS_TUNE_STORE_ROW_H
#define GS_TUNE_STORE_ROW_H

#include "tune/store.h"

#include <sqlite3.h>

struct gs_store {
  sqlite3 *db; /* NULL: an absent file */
  char *path;
  bool is_empty; /* opened for reading, and nothing is there */
};

gs_status gs_store_fail(gs_store *s, int code, gs_error *err);
void gs_store_timings(const gs_timing *t, gs_text *out); /* seconds, separated by blanks */

#endif
