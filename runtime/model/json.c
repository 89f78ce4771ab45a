/* json.c: reading and writing JSON files by way of Jansson. */
#include "model/json.h"

#include "base/file.h"

#include <stdlib.h>
#include <string.h>

gs_status gs_json_parse(const char *text, size_t len, const char *where, json_t **out,
                        gs_error *err) {
  json_error_t e;
  *out = json_loadb(text, len, JSON_REJECT_DUPLICATES, &e);
  if (*out) return GS_OK;
  if (json_error_code(&e) == json_error_out_of_memory)
    return gs_fail(err, GS_ERR_MEMORY, "%s: out of host memory", where);
  return gs_fail(err, GS_ERR_INPUT, "%s:%d:%d: not valid JSON: %s (byte %d)", where, e.line,
                 e.column, e.text, e.position);
}

gs_status gs_json_read(const char *path, json_t **out, gs_error *err) {
  char *text = NULL;
  size_t len = 0;
  *out = NULL;
  gs_status st = gs_file_read(path, &text, &len, err);
  if (st == GS_OK) st = gs_json_parse(text, len, path, out, err);
  free(text);
  return st;
}

gs_status gs_json_write(const char *path, const json_t *v, gs_error *err) {
  char *text = v ? json_dumps(v, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) : NULL;
  if (!text) return gs_fail(err, GS_ERR_MEMORY, "%s: out of host memory", path);
  gs_file_out o = {0};
  gs_status st = gs_file_create(&o, path, err);
  if (st == GS_OK) st = gs_file_put(&o, text, strlen(text), err);
  if (st == GS_OK) st = gs_file_put(&o, "\n", 1, err);
  if (st == GS_OK)
    st = gs_file_commit(&o, err);
  else
    gs_file_drop(&o);
  free(text);
  return st;
}
