/* file.h: whole files in, whole files out. A file appears under its final name complete or not at
 * all: it is written beside it as NAME.tmp.PID, synced, then renamed. */
#ifndef GS_FILE_H
#define GS_FILE_H

#include "gradsmith.h"

#include <stdbool.h>

/* Reads all of path. *data is malloc'ed and has a NUL after its *len bytes. */
gs_status gs_file_read(const char *path, char **data, size_t *len, gs_error *err);
gs_status gs_file_write(const char *path, const void *data, size_t len, gs_error *err);

/* The same in pieces: open, fwrite to f, then commit or drop. */
typedef struct gs_file_out {
  void *f; /* FILE * */
  char *final_path, *temp_path;
} gs_file_out;
gs_status gs_file_create(gs_file_out *o, const char *path, gs_error *err);
gs_status gs_file_put(gs_file_out *o, const void *data, size_t len, gs_error *err);
gs_status gs_file_commit(gs_file_out *o, gs_error *err);
void gs_file_drop(gs_file_out *o); /* harmless after commit */

/* A read-only memory map of a whole file. */
typedef struct gs_map {
  const unsigned char *data;
  size_t len;
} gs_map;
gs_status gs_map_open(gs_map *m, const char *path, gs_error *err);
void gs_map_close(gs_map *m);

bool gs_path_exists(const char *path);
gs_status gs_mkdirs(const char *path, gs_error *err); /* like mkdir -p */
gs_status gs_temp_dir(char *out, size_t cap,
                      gs_error *err);  /* a fresh private folder under TMPDIR */
void gs_remove_tree(const char *path); /* best effort */

#endif
