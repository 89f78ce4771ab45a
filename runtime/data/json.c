/* json.c: small readers over Jansson that refuse by name what they do not expect. */
#include "base/file.h"
#include "data/parts.h"

#include <stdlib.h>
#include <string.h>

/* keys: "a b c"; a key of o that is not among them is an error. */
gs_status gs_json_only(const json_t *o, const char *where, const char *keys, gs_error *err) {
  const char *key;
  json_t *value;
  if (!json_is_object(o)) return gs_fail(err, GS_ERR_INPUT, "%s: expected an object", where);
  json_object_foreach((json_t *)o, key, value) {
    size_t n = strlen(key);
    bool known = false, word = n > 0 && strchr(key, ' ') == NULL;
    for (const char *k = keys; word && !known && (k = strstr(k, key)) != NULL; k += n)
      known = (k == keys || k[-1] == ' ') && (k[n] == ' ' || k[n] == 0);
    if (!known)
      return gs_fail(err, GS_ERR_INPUT, "%s: field \"%.100s\" is not supported (known: %s)", where,
                     key, keys);
  }
  return GS_OK;
}

gs_status gs_json_bool(const json_t *o, const char *where, const char *key, bool fallback,
                       bool *out, gs_error *err) {
  const json_t *v = json_object_get(o, key);
  *out = fallback;
  if (v == NULL || json_is_null(v)) return GS_OK;
  if (!json_is_boolean(v))
    return gs_fail(err, GS_ERR_INPUT, "%s.%s: expected true or false", where, key);
  *out = json_is_true(v);
  return GS_OK;
}

gs_status gs_json_text(const json_t *o, const char *where, const char *key, const char **s,
                       size_t *n, gs_error *err) {
  const json_t *v = json_object_get(o, key);
  if (!json_is_string(v)) return gs_fail(err, GS_ERR_INPUT, "%s.%s: expected a string", where, key);
  *s = json_string_value(v);
  *n = json_string_length(v);
  return GS_OK;
}

gs_status gs_json_file(const char *path, json_t **out, gs_error *err) {
  char *data = NULL;
  size_t n = 0;
  json_error_t e;
  gs_status st = gs_file_read(path, &data, &n, err);
  *out = NULL;
  if (st != GS_OK) return st;
  *out = json_loadb(data, n, JSON_ALLOW_NUL, &e);
  if (*out == NULL)
    st = gs_fail(err, GS_ERR_INPUT, "%s: not JSON: line %d, byte %d of the file: %s", path, e.line,
                 e.position, e.text);
  else if (!json_is_object(*out)) {
    st = gs_fail(err, GS_ERR_INPUT, "%s: expected an object at the top", path);
    json_decref(*out);
    *out = NULL;
  }
  free(data);
  return st;
}
