/* gguf_file.c: reading a GGUF file's header: metadata and tensor infos, every length and offset
 * held against the file before it is believed. */
#include "model/gguf_file.h"

#include "model/gguf_blocks.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAME 65535 /* of a key or a tensor; the format's own limit for keys */
#define MAX_DEPTH 8    /* of arrays in arrays */

/* Where reading stands. A read past the end sets short_ and yields zeros. */
typedef struct reader {
  gs_gguf *g;
  uint64_t at;
  bool short_;
  gs_error *err;
} reader;

static gs_status bad(reader *r, uint64_t at, const char *fmt, ...) GS_PRINTF(3, 4);
static gs_status bad(reader *r, uint64_t at, const char *fmt, ...) {
  char text[1024];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  return gs_fail(r->err, GS_ERR_INPUT, "%s: byte %llu: %s", r->g->path, (unsigned long long)at,
                 text);
}

static gs_status cut_off(reader *r) {
  return bad(r, r->at, "the file ends here, at %zu bytes, in the middle of its header (cut off?)",
             r->g->map.len);
}

static gs_status no_memory(reader *r) {
  return gs_fail(r->err, GS_ERR_MEMORY, "%s: out of host memory", r->g->path);
}

static const unsigned char *take(reader *r, uint64_t n) {
  if (r->short_ || n > r->g->map.len - r->at) {
    r->short_ = true;
    return NULL;
  }
  const unsigned char *p = r->g->map.data + r->at;
  r->at += n;
  return p;
}

static uint64_t little(const unsigned char *p, int n) {
  uint64_t v = 0;
  for (int i = n - 1; i >= 0; i--) v = v << 8 | p[i];
  return v;
}

static uint64_t take_uint(reader *r, int n) {
  const unsigned char *p = take(r, (uint64_t)n);
  return p ? little(p, n) : 0;
}

/* Bytes of one element; 0 for strings and arrays. */
static unsigned kind_size(uint64_t kind) {
  static const unsigned char sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kind < sizeof sizes ? sizes[kind] : 0;
}

/* A key or tensor name as a C string; NULL when r->short_ or *st tells why not. */
static char *take_name(reader *r, const char *what, gs_status *st) {
  uint64_t at = r->at, n = take_uint(r, 8);
  if (!r->short_ && n > MAX_NAME) {
    *st = bad(r, at, "a %s of %llu characters", what, (unsigned long long)n);
    return NULL;
  }
  const unsigned char *p = take(r, n);
  if (!p) {
    *st = cut_off(r);
    return NULL;
  }
  if (n == 0 || memchr(p, 0, (size_t)n)) {
    *st = bad(r, at, "a %s that is empty or holds a zero byte", what);
    return NULL;
  }
  char *s = malloc((size_t)n + 1);
  if (!s) {
    *st = no_memory(r);
    return NULL;
  }
  memcpy(s, p, (size_t)n);
  s[n] = 0;
  return s;
}

/* Passes over count elements of a kind, checking that they are all there. */
static gs_status skip_elements(reader *r, uint64_t kind, uint64_t count, int depth) {
  uint64_t at = r->at, left = r->g->map.len - r->at;
  unsigned size = kind_size(kind);
  if (size) {
    if (count > left / size) return cut_off(r);
    take(r, count * size);
    return GS_OK;
  }
  if (kind == GS_GGUF_STRING) {
    if (count > left / 8) return cut_off(r);
    for (uint64_t i = 0; i < count && !r->short_; i++) take(r, take_uint(r, 8));
    return r->short_ ? cut_off(r) : GS_OK;
  }
  if (kind != GS_GGUF_ARRAY)
    return bad(r, at, "unknown kind of value %llu", (unsigned long long)kind);
  if (depth >= MAX_DEPTH) return bad(r, at, "arrays in arrays, %d deep", depth);
  if (count > left / 12) return cut_off(r);
  gs_status st = GS_OK;
  for (uint64_t i = 0; i < count && st == GS_OK; i++) {
    uint64_t inner = take_uint(r, 4), n = take_uint(r, 8);
    st = r->short_ ? cut_off(r) : skip_elements(r, inner, n, depth + 1);
  }
  return st;
}

static gs_status read_value(reader *r, gs_gguf_value *v) {
  gs_status st = GS_OK;
  v->key = take_name(r, "metadata key", &st);
  if (!v->key) return st;
  uint64_t kind = take_uint(r, 4);
  v->count = 1;
  if (kind == GS_GGUF_ARRAY) {
    v->is_array = true;
    kind = take_uint(r, 4);
    v->count = take_uint(r, 8);
  }
  if (r->short_) return cut_off(r);
  if (kind > GS_GGUF_F64)
    return bad(r, r->at, "\"%s\": unknown kind of value %llu", v->key, (unsigned long long)kind);
  v->kind = (gs_gguf_kind)kind;
  v->data = r->g->map.data + r->at;
  st = skip_elements(r, kind, v->count, 0);
  v->end = r->g->map.data + r->at;
  return st == GS_OK ? GS_OK : gs_fail_in(r->err, "metadata \"%.200s\"", v->key);
}

/* Sizes, from the type and the dims; each product is held against 2^63. */
static gs_status measure(reader *r, uint64_t at, gs_gguf_tensor *t, uint64_t type) {
  const uint64_t limit = INT64_MAX / 8;
  const gs_gguf_block_type *b = type <= INT32_MAX ? gs_gguf_block((int)type) : NULL;
  if (!b) return bad(r, at, "tensor \"%s\": unknown type %llu", t->name, (unsigned long long)type);
  t->type = b->id;
  t->rows = 1;
  for (int i = 0; i < 4; i++) {
    if (t->dims[i] == 0 || t->dims[i] > limit || (i > 0 && t->rows > limit / t->dims[i]))
      return bad(r, at, "tensor \"%s\": dims that no file could hold", t->name);
    if (i > 0) t->rows *= t->dims[i];
  }
  if (t->dims[0] % b->elements)
    return bad(r, at, "tensor \"%s\": rows of %llu elements are no multiple of %s's block of %u",
               t->name, (unsigned long long)t->dims[0], b->name, b->elements);
  uint64_t row = t->dims[0] / b->elements;
  if (row > limit / b->bytes || t->rows > limit / (row * b->bytes))
    return bad(r, at, "tensor \"%s\": dims that no file could hold", t->name);
  t->bytes = row * b->bytes * t->rows;
  return GS_OK;
}

/* Leaves the tensor's offset in *offset: where the data begin is known only after the last info. */
static gs_status read_tensor(reader *r, gs_gguf_tensor *t, uint64_t *offset) {
  gs_status st = GS_OK;
  uint64_t at = r->at;
  t->name = take_name(r, "tensor name", &st);
  if (!t->name) return st;
  uint64_t ndims = take_uint(r, 4);
  if (!r->short_ && (ndims < 1 || ndims > 4))
    return bad(r, at, "tensor \"%s\": %llu dims; 1 to 4 are legal", t->name,
               (unsigned long long)ndims);
  for (uint64_t i = 0; i < 4; i++) t->dims[i] = i < ndims ? take_uint(r, 8) : 1;
  t->ndims = (int)ndims;
  uint64_t type = take_uint(r, 4);
  *offset = take_uint(r, 8);
  return r->short_ ? cut_off(r) : measure(r, at, t, type);
}

static int by_key(const void *a, const void *b) {
  return strcmp(((const gs_gguf_value *)a)->key, ((const gs_gguf_value *)b)->key);
}
static int by_name(const void *a, const void *b) {
  return strcmp(((const gs_gguf_tensor *)a)->name, ((const gs_gguf_tensor *)b)->name);
}
static int by_place(const void *a, const void *b) {
  const unsigned char *p = ((const gs_gguf_tensor *)a)->data,
                      *q = ((const gs_gguf_tensor *)b)->data;
  return p == q ? 0 : p < q ? -1 : 1;
}

static gs_status read_values(reader *r, uint64_t count) {
  gs_gguf *g = r->g;
  if (count > (g->map.len - r->at) / 13) return cut_off(r); /* the least a value takes */
  g->values = calloc((size_t)count + 1, sizeof *g->values);
  if (!g->values) return no_memory(r);
  for (uint64_t i = 0; i < count; i++) {
    g->nvalues++; /* counted first: close frees what a half-read one holds */
    gs_status st = read_value(r, &g->values[i]);
    if (st != GS_OK) {
      if (!g->values[i].key) g->nvalues--;
      return st;
    }
  }
  if (count) qsort(g->values, (size_t)count, sizeof *g->values, by_key);
  for (uint64_t i = 1; i < count; i++)
    if (by_key(&g->values[i - 1], &g->values[i]) == 0)
      return bad(r, r->at, "metadata \"%s\" is there twice", g->values[i].key);
  return GS_OK;
}

static gs_status alignment_of(reader *r, uint64_t *out) {
  const gs_gguf_value *v = gs_gguf_find(r->g, "general.alignment");
  int64_t a = 32;
  if (v && (!gs_gguf_int(v, &a) || a < 1 || a > 1 << 30 || (a & (a - 1))))
    return bad(r, 0, "general.alignment is not a power of two");
  *out = (uint64_t)a;
  return GS_OK;
}

/* Every tensor inside the file, aligned, none over another. Sorts by place, then by name. */
static gs_status place_tensors(reader *r, const uint64_t *offsets) {
  gs_gguf *g = r->g;
  uint64_t align = 1, n = g->ntensors;
  gs_status st = alignment_of(r, &align);
  if (st != GS_OK || n == 0) return st;
  uint64_t begin = (r->at + align - 1) & ~(align - 1);
  if (begin > g->map.len) return cut_off(r);
  uint64_t room = g->map.len - begin;
  for (uint64_t i = 0; i < n; i++) {
    gs_gguf_tensor *t = &g->tensors[i];
    if (offsets[i] % align)
      return bad(r, begin, "tensor \"%s\": offset %llu is not a multiple of %llu", t->name,
                 (unsigned long long)offsets[i], (unsigned long long)align);
    if (offsets[i] > room || t->bytes > room - offsets[i])
      return bad(r, begin,
                 "tensor \"%s\": its %llu bytes at offset %llu lie outside the %llu bytes of data "
                 "(is the file cut off?)",
                 t->name, (unsigned long long)t->bytes, (unsigned long long)offsets[i],
                 (unsigned long long)room);
    t->data = g->map.data + begin + offsets[i];
  }
  qsort(g->tensors, (size_t)n, sizeof *g->tensors, by_place);
  for (uint64_t i = 1; i < n; i++)
    if (g->tensors[i].data < g->tensors[i - 1].data + g->tensors[i - 1].bytes)
      return bad(r, begin, "tensors \"%s\" and \"%s\" overlap", g->tensors[i - 1].name,
                 g->tensors[i].name);
  qsort(g->tensors, (size_t)n, sizeof *g->tensors, by_name);
  for (uint64_t i = 1; i < n; i++)
    if (by_name(&g->tensors[i - 1], &g->tensors[i]) == 0)
      return bad(r, begin, "tensor \"%s\" is there twice", g->tensors[i].name);
  return GS_OK;
}

static gs_status read_tensors(reader *r, uint64_t count) {
  gs_gguf *g = r->g;
  gs_status st = GS_OK;
  if (count > (g->map.len - r->at) / 33) return cut_off(r); /* the least an info takes */
  uint64_t *offsets = calloc((size_t)count + 1, sizeof *offsets);
  g->tensors = calloc((size_t)count + 1, sizeof *g->tensors);
  if (!offsets || !g->tensors) st = no_memory(r);
  for (uint64_t i = 0; i < count && st == GS_OK; i++) {
    g->ntensors++;
    st = read_tensor(r, &g->tensors[i], &offsets[i]);
  }
  if (st == GS_OK) st = place_tensors(r, offsets);
  free(offsets);
  return st;
}

static gs_status read_header(reader *r) {
  const unsigned char *magic = take(r, 4);
  if (!magic || memcmp(magic, "GGUF", 4) != 0)
    return bad(r, 0, "not a GGUF file (it does not begin with \"GGUF\")");
  uint64_t version = take_uint(r, 4);
  if (r->short_) return cut_off(r);
  if (version >= 1u << 16) return bad(r, 4, "a big-endian GGUF file, which is not supported");
  if (version != 2 && version != 3)
    return bad(r, 4, "GGUF version %llu; 2 and 3 are supported", (unsigned long long)version);
  r->g->version = (unsigned)version;
  uint64_t tensors = take_uint(r, 8), values = take_uint(r, 8);
  if (r->short_) return cut_off(r);
  gs_status st = read_values(r, values);
  return st == GS_OK ? read_tensors(r, tensors) : st;
}

gs_status gs_gguf_open(const char *path, gs_gguf **out, gs_error *err) {
  *out = NULL;
  gs_gguf *g = calloc(1, sizeof *g);
  if (g) g->path = malloc(strlen(path) + 1);
  if (!g || !g->path) {
    free(g);
    return gs_fail(err, GS_ERR_MEMORY, "%s: out of host memory", path);
  }
  strcpy(g->path, path);
  gs_status st = gs_map_open(&g->map, path, err);
  if (st == GS_OK) st = read_header(&(reader){.g = g, .err = err});
  if (st == GS_OK)
    *out = g;
  else
    gs_gguf_close(g);
  return st;
}

void gs_gguf_close(gs_gguf *g) {
  if (!g) return;
  for (size_t i = 0; i < g->nvalues; i++) free(g->values[i].key);
  for (size_t i = 0; i < g->ntensors; i++) free(g->tensors[i].name);
  free(g->values);
  free(g->tensors);
  gs_map_close(&g->map);
  free(g->path);
  free(g);
}

const gs_gguf_value *gs_gguf_find(const gs_gguf *g, const char *key) {
  gs_gguf_value k = {.key = (char *)(uintptr_t)key};
  return g->nvalues ? bsearch(&k, g->values, g->nvalues, sizeof k, by_key) : NULL;
}

const gs_gguf_tensor *gs_gguf_tensor_find(const gs_gguf *g, const char *name) {
  gs_gguf_tensor k = {.name = (char *)(uintptr_t)name};
  return g->ntensors ? bsearch(&k, g->tensors, g->ntensors, sizeof k, by_name) : NULL;
}

static bool int_at(gs_gguf_kind kind, const unsigned char *p, int64_t *out) {
  switch (kind) {
  case GS_GGUF_U8:
  case GS_GGUF_U16:
  case GS_GGUF_U32:
  case GS_GGUF_U64:
  case GS_GGUF_BOOL: {
    uint64_t v = little(p, (int)kind_size(kind));
    if (v > INT64_MAX) return false;
    *out = (int64_t)v;
    return true;
  }
  case GS_GGUF_I8: *out = *p < 128 ? *p : *p - 256; return true;
  case GS_GGUF_I16: *out = (int16_t)little(p, 2); return true;
  case GS_GGUF_I32: *out = (int32_t)little(p, 4); return true;
  case GS_GGUF_I64: *out = (int64_t)little(p, 8); return true;
  default: return false;
  }
}

bool gs_gguf_int(const gs_gguf_value *v, int64_t *out) {
  return v && !v->is_array && int_at(v->kind, v->data, out);
}

bool gs_gguf_real(const gs_gguf_value *v, double *out) {
  float f;
  if (!v || v->is_array) return false;
  if (v->kind == GS_GGUF_F64) {
    memcpy(out, v->data, 8);
    return true;
  }
  if (v->kind != GS_GGUF_F32) return false;
  memcpy(&f, v->data, 4);
  *out = f;
  return true;
}

static void string_at(const unsigned char *p, gs_gguf_string *out) {
  out->len = (size_t)little(p, 8);
  out->s = (const char *)p + 8;
}

bool gs_gguf_str(const gs_gguf_value *v, gs_gguf_string *out) {
  if (!v || v->is_array || v->kind != GS_GGUF_STRING) return false;
  string_at(v->data, out);
  return true;
}

bool gs_gguf_next_str(const gs_gguf_value *v, gs_gguf_cursor *c, gs_gguf_string *out) {
  if (!v || !v->is_array || v->kind != GS_GGUF_STRING || c->i >= v->count) return false;
  if (!c->at) c->at = v->data;
  string_at(c->at, out);
  c->at += 8 + out->len;
  c->i++;
  return true;
}

bool gs_gguf_next_int(const gs_gguf_value *v, gs_gguf_cursor *c, int64_t *out) {
  if (!v || !v->is_array || c->i >= v->count) return false;
  if (!c->at) c->at = v->data;
  bool ok = int_at(v->kind, c->at, out);
  c->at += kind_size(v->kind);
  c->i++;
  return ok;
}
