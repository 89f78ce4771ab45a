/* store.h: what was measured, kept in one SQLite file under the user's data folder. A row a
 * measurement, a transaction a row: a process killed at any moment loses at most the measurement in
 * flight. Which tunables are best is a question put to the rows, never a row of its own. */
#ifndef GS_TUNE_STORE_H
#define GS_TUNE_STORE_H

#include "base/text.h"
#include "tune/measure.h"

typedef struct gs_store gs_store;

/* A measurement of one pass with one choice of tunables. */
typedef struct gs_measured {
  const char *key;    /* of the pass: layer, types, inner sizes, options, results */
  const char *bucket; /* of the outer sizes: gs_store_bucket */
  const char *tuned;  /* "row.threads=512"; "" is the default */
  const gs_about *about;
  int protocol;
  gs_timing timing;
} gs_measured;

/* $XDG_DATA_HOME/gradsmith/tuning.db, or ~/.local/share/gradsmith/tuning.db. */
gs_status gs_store_path(char *out, size_t cap, gs_error *err);
/* write: makes folder and file where they are missing. Otherwise an absent file is an empty store.
 * A file that is no store, or damaged, is GS_ERR_INPUT; one that may not be written or that another
 * process holds is GS_ERR_IO; the message names it and says what to do. */
gs_status gs_store_open(const char *path, bool write, gs_store **out, gs_error *err);
void gs_store_close(gs_store *s);

/* Records that have the same pass, bucket, tunables and machine replace each other. */
gs_status gs_store_put(gs_store *s, const gs_measured *m, gs_error *err);

/* The best choice for a pass on this machine: same GPU (name, capability, processors, memory clock,
 * power cap), same NVRTC, same protocol; of the nearest bucket that has records. *tuned: malloc'ed,
 * "" where the default is best (also by less than GS_TIE) or nothing is known. */
#define GS_TIE 0.02
typedef struct gs_found {
  char *tuned;
  char bucket[64];
  double seconds, default_seconds; /* 0: unknown */
} gs_found;
gs_status gs_store_best(gs_store *s, const char *key, const char *bucket, const gs_about *about,
                        gs_found *out, gs_error *err);

/* One line for each pass, bucket and machine: best, default, gain. */
gs_status gs_store_show(gs_store *s, gs_text *out, gs_error *err);
gs_status gs_store_export(gs_store *s, const char *file, gs_error *err);
/* Adds the records of an exported file; all of them or none. *n: how many. */
gs_status gs_store_import(gs_store *s, const char *file, int *n, gs_error *err);

/* Outer sizes to the next power of two, so that near sizes share records: "T=16384 B=2". Every
 * reader and writer of records goes through this. */
void gs_store_bucket(const gs_graph *g, const int64_t *sizes, char *out, size_t cap);

#endif
