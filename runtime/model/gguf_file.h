/* gguf_file.h: a GGUF file (versions 2 and 3, little-endian), mapped and held against its own
 * length: after gs_gguf_open every string, array and tensor lies inside the file, names are unique,
 * tensors are aligned and do not overlap. Format: github.com/ggml-org/ggml, docs/gguf.md. */
#ifndef GS_GGUF_FILE_H
#define GS_GGUF_FILE_H

#include "base/file.h"
#include "gradsmith.h"

#include <stdbool.h>

typedef enum gs_gguf_kind { /* the file's own numbers */
                            GS_GGUF_U8 = 0,
                            GS_GGUF_I8,
                            GS_GGUF_U16,
                            GS_GGUF_I16,
                            GS_GGUF_U32,
                            GS_GGUF_I32,
                            GS_GGUF_F32,
                            GS_GGUF_BOOL,
                            GS_GGUF_STRING,
                            GS_GGUF_ARRAY,
                            GS_GGUF_U64,
                            GS_GGUF_I64,
                            GS_GGUF_F64,
} gs_gguf_kind;

/* A string of the file: not NUL-terminated. */
typedef struct gs_gguf_string {
  const char *s;
  size_t len;
} gs_gguf_string;

typedef struct gs_gguf_value {
  char *key;
  gs_gguf_kind kind; /* of the value, or of the elements when is_array */
  bool is_array;
  uint64_t count;            /* elements; 1 for a scalar */
  const unsigned char *data; /* unaligned */
  const unsigned char *end;  /* of the value in the file */
} gs_gguf_value;

typedef struct gs_gguf_tensor {
  char *name;
  int type; /* the file's own number: gs_gguf_block_type */
  int ndims;
  uint64_t dims[4]; /* dims[0] is contiguous */
  const unsigned char *data;
  uint64_t bytes, rows; /* rows: the product of dims[1...] */
} gs_gguf_tensor;

typedef struct gs_gguf {
  char *path;
  gs_map map;
  unsigned version;
  gs_gguf_value *values; /* sorted by key */
  size_t nvalues;
  gs_gguf_tensor *tensors; /* sorted by name */
  size_t ntensors;
} gs_gguf;

/* Errors name the file, the byte offset and the key or tensor. */
gs_status gs_gguf_open(const char *path, gs_gguf **out, gs_error *err);
void gs_gguf_close(gs_gguf *g); /* NULL: nothing */

const gs_gguf_value *gs_gguf_find(const gs_gguf *g, const char *key); /* NULL: none */
const gs_gguf_tensor *gs_gguf_tensor_find(const gs_gguf *g, const char *name);

/* Scalars as wider kinds; false when the value is of another kind (or does not fit). */
bool gs_gguf_int(const gs_gguf_value *v, int64_t *out); /* every integer kind and bool */
bool gs_gguf_real(const gs_gguf_value *v, double *out); /* f32, f64 */
bool gs_gguf_str(const gs_gguf_value *v, gs_gguf_string *out);

/* Walks an array of strings or of integers: start with a zero cursor; false at the end, or when the
 * array is of another kind. */
typedef struct gs_gguf_cursor {
  uint64_t i;
  const unsigned char *at;
} gs_gguf_cursor;
bool gs_gguf_next_str(const gs_gguf_value *v, gs_gguf_cursor *c, gs_gguf_string *out);
bool gs_gguf_next_int(const gs_gguf_value *v, gs_gguf_cursor *c, int64_t *out);

#endif
