/* jsonl.h: a file's lines as JSON objects, read one at a time. */
#ifndef GS_JSONL_H
#define GS_JSONL_H

#include "gradsmith.h"

#include <jansson.h>
#include <stdio.h>

typedef struct gs_jsonl {
  const char *path;
  FILE *f;
  char *buffer;
  size_t n, cap;
  int line; /* of the object last read, from 1 */
} gs_jsonl;

gs_status gs_jsonl_open(gs_jsonl *r, const char *path, gs_error *err);
void gs_jsonl_close(gs_jsonl *r);
/* The next object, to be released with json_decref; NULL at the end. Lines of up to 64 MiB. */
gs_status gs_jsonl_next(gs_jsonl *r, json_t **out, gs_error *err);

#endif
