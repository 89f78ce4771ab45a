/* error.c: filling gs_error, and the names and sizes of storage types. */
#include "gradsmith.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#undef gs_fail /* the analyzer's form */

gs_status gs_fail(gs_error *err, gs_status status, const char *fmt, ...) {
  if (!err) return status;
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(err->message, sizeof err->message, fmt, ap);
  va_end(ap);
  err->status = status;
  return status;
}

gs_status gs_fail_in(gs_error *err, const char *fmt, ...) {
  if (!err) return GS_ERR_INPUT;
  char context[512];
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(context, sizeof context, fmt, ap);
  va_end(ap);
  if (n < 0) return err->status;
  size_t len = strlen(context), room = sizeof err->message - len - 3;
  size_t old = strlen(err->message);
  if (old > room) old = room;
  memmove(err->message + len + 2, err->message, old);
  err->message[len + 2 + old] = 0;
  memcpy(err->message, context, len);
  memcpy(err->message + len, ": ", 2);
  return err->status;
}

static const struct {
  gs_type type;
  const char *name;
  size_t size;
} types[] = {{GS_F32, "f32", 4}, {GS_BF16, "bf16", 2}, {GS_F16, "f16", 2},  {GS_I32, "i32", 4},
             {GS_I64, "i64", 8}, {GS_U8, "u8", 1},     {GS_BOOL, "bool", 1},
             {GS_I8, "i8", 1},   {GS_E4M3, "e4m3", 1}, {GS_E5M2, "e5m2", 1}, {GS_E8M0, "e8m0", 1}};

size_t gs_type_size(gs_type t) {
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (types[i].type == t) return types[i].size;
  return 0;
}

const char *gs_type_name(gs_type t) {
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (types[i].type == t) return types[i].name;
  return "none";
}

gs_type gs_type_from_name(const char *s) {
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strcmp(types[i].name, s) == 0) return types[i].type;
  return GS_TYPE_NONE;
}
