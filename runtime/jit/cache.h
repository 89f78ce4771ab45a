/* cache.h: compiled kernels kept between runs, one self-checking file each.
 *
 * The key is SHA-256 over everything that the code follows from: format version, entry, the whole
 * expanded text, options, compiler with build, target. Never over paths or times. A file that is
 * not exactly what was asked for (cut, altered, of another compiler) is a miss, never an error. An
 * absent, full or read-only folder means no cache. Entries are published by one rename and never
 * read back, so any number of processes may share a folder. Who has written leaves at most
 * GS_CACHE_BYTES behind: what was not used for the longest goes first. */
#ifndef GS_JIT_CACHE_H
#define GS_JIT_CACHE_H

#include "gradsmith.h"

#include <stdbool.h>

typedef struct gs_cache gs_cache;
#define GS_CACHE_BYTES ((int64_t)1 << 30)

/* The folder: `dir`, or when NULL $GRADSMITH_CACHE, or $XDG_CACHE_HOME/gradsmith/kernels, or
 * ~/.cache/gradsmith/kernels. GRADSMITH_CACHE=off, or no home, gives NULL: no cache. */
gs_cache *gs_cache_open(const char *dir);
void gs_cache_close(gs_cache *c); /* harmless on NULL, as are read and write */
const char *gs_cache_folder(const gs_cache *c);

/* What an entry is found by; all texts, none NULL, the first four of one line. */
typedef struct gs_cache_key {
  const char *entry, *target, *compiler, *options;
  const char *prelude, *text;
} gs_cache_key;

typedef struct gs_cached {
  void *code; /* malloc'ed; a NUL follows its len bytes */
  size_t len;
  char *log;  /* malloc'ed */
  char *file; /* malloc'ed: where the entry lies, for messages */
} gs_cached;

/* Reads the entry of k. False, with *out empty: it is not there, or not to be trusted. */
bool gs_cache_read(const gs_cache *c, const gs_cache_key *k, gs_cached *out);
/* Puts an entry in place of what is there; best effort. */
void gs_cache_write(gs_cache *c, const gs_cache_key *k, const void *code, size_t len,
                    const char *log);

/* For `gradsmith cache`: entries and bytes in the folder; removing them all. */
gs_status gs_cache_measure(const gs_cache *c, int64_t *entries, int64_t *bytes, gs_error *err);
gs_status gs_cache_clear(const gs_cache *c, int64_t *removed, gs_error *err);
/* Removes the entries that were not used for the longest, until `most` bytes are left; best effort.
 */
void gs_cache_shrink(const gs_cache *c, int64_t most);

#endif
