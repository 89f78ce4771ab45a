/* tuned.c: lookup, then compilation. */
#include "tune/tuned.h"

#include "tune/store.h"

#include <stdio.h>
#include <stdlib.h>

struct gs_tuned {
  gs_store *store; /* NULL: no records */
  gs_about about;
};

gs_tuned *gs_tuned_open(gs_device *d, char *why, size_t cap) {
  gs_tuned *t = calloc(1, sizeof *t);
  gs_error err = {0};
  char path[4096];
  if (why && cap) why[0] = 0;
  if (!t || gs_device_is_emulator(d)) return t;
  if (gs_device_about(d, &t->about, &err) != GS_OK ||
      gs_store_path(path, sizeof path, &err) != GS_OK)
    return t; /* a machine that only compiles; a user without a home */
  if (gs_store_open(path, false, &t->store, &err) != GS_OK && why)
    snprintf(why, cap, "%s", err.message);
  return t;
}

void gs_tuned_close(gs_tuned *t) {
  if (!t) return;
  gs_store_close(t->store);
  free(t);
}

/* malloc'ed; NULL: nothing is known. */
static char *find(gs_tuned *t, const gs_pass *p, const int64_t *sizes) {
  char bucket[64];
  gs_found f = {0};
  gs_store_bucket(p->g, sizes, bucket, sizeof bucket);
  if (p->key && gs_store_best(t->store, p->key, bucket, &t->about, &f, NULL) != GS_OK) {
    gs_store_close(t->store); /* damaged, or held: not asked again */
    t->store = NULL;
  }
  return f.tuned;
}

gs_status gs_tuned_compile(gs_tuned *t, gs_device *d, const gs_pass *p, const int64_t *sizes,
                           const gs_launch_list **out, gs_error *err) {
  char *tuned = t && t->store ? find(t, p, sizes) : NULL;
  gs_launch_list *better = NULL;
  if (tuned && tuned[0] &&
      gs_compile_tuned(p, gs_device_caps(d), tuned, NULL, &better, NULL) == GS_OK)
    *out = better;
  free(tuned);
  if (*out) return GS_OK;
  gs_status st = gs_compile(p, gs_device_caps(d), NULL, &better, err);
  *out = better;
  return st;
}
