/* json.h: JSON files read and written whole, with errors that name file, line and column; the
 * Jansson library does the work. Duplicate keys and text that is not UTF-8 are errors. */
#ifndef GS_JSON_H
#define GS_JSON_H

#include "gradsmith.h"

#include <jansson.h>

gs_status gs_json_read(const char *path, json_t **out, gs_error *err); /* json_decref when done */
/* The same on len bytes at text; where: what errors call the place (a file's name). */
gs_status gs_json_parse(const char *text, size_t len, const char *where, json_t **out,
                        gs_error *err);
/* Writes v, indented by two, keys in the order they were set. Complete or not at all. A NULL v (an
 * allocation failed while it was made) is GS_ERR_MEMORY. */
gs_status gs_json_write(const char *path, const json_t *v, gs_error *err);

#endif
