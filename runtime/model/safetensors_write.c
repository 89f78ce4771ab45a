/* safetensors_write.c: the writer. Its files are byte for byte those of the reference writer for
 * the same tensors and metadata: header keys without spaces, tensors by descending type, then by
 * name, and the header padded with spaces to 8 bytes. */
#include "model/safetensors.h"

#include "base/file.h"
#include "base/text.h"
#include "model/json.h"
#include "model/safetensors_types.h"

#include <stdlib.h>
#include <string.h>

struct gs_safetensors_out {
  gs_file_out file;
  const gs_weight *tensors;
  const gs_weight **order; /* as they lie in the file */
  int n, at;               /* at: the one being written */
  size_t done;             /* bytes of it written */
};

static int rank_of(gs_type t) {
  for (int i = 0; i < GS_ST_NTYPES; i++)
    if (t != GS_TYPE_NONE && gs_st_types[i].type == t) return i;
  return -1;
}

static int by_name(const void *a, const void *b) {
  return strcmp((*(const gs_weight *const *)a)->name, (*(const gs_weight *const *)b)->name);
}

static int by_file_order(const void *a, const void *b) {
  int ra = rank_of((*(const gs_weight *const *)a)->type),
      rb = rank_of((*(const gs_weight *const *)b)->type);
  return ra != rb ? rb - ra : by_name(a, b);
}

/* Each tensor's own shape against its bytes, and no name twice. Leaves order sorted by name. */
static gs_status check_tensors(gs_safetensors_out *o, const char *path, gs_error *err) {
  for (int i = 0; i < o->n; i++) {
    const gs_weight *t = &o->tensors[i];
    size_t bytes = gs_type_size(t->type);
    o->order[i] = t;
    if (rank_of(t->type) < 0 || t->ndims < 0 || t->ndims > GS_MAX_RANK)
      return gs_fail(err, GS_ERR_USE, "%s: tensor \"%s\" has no storage type or too many dims",
                     path, t->name);
    for (int d = 0; d < t->ndims; d++) bytes *= (size_t)t->shape[d];
    if (bytes != t->bytes)
      return gs_fail(err, GS_ERR_USE, "%s: tensor \"%s\": its shape makes %zu bytes, not %zu", path,
                     t->name, bytes, t->bytes);
  }
  if (o->n) qsort(o->order, (size_t)o->n, sizeof *o->order, by_name);
  for (int i = 1; i < o->n; i++)
    if (by_name(&o->order[i - 1], &o->order[i]) == 0)
      return gs_fail(err, GS_ERR_USE, "%s: tensor \"%s\" is given twice", path, o->order[i]->name);
  return GS_OK;
}

/* Appends s as a JSON string. */
static gs_status add_string(gs_text *h, const char *s, const char *path, gs_error *err) {
  json_t *v = json_string(s);
  char *quoted = v ? json_dumps(v, JSON_ENCODE_ANY) : NULL;
  json_decref(v);
  if (!quoted)
    return gs_fail(err, GS_ERR_USE, "%s: a tensor's name or metadata is not UTF-8: %s", path, s);
  gs_text_add(h, quoted);
  free(quoted);
  return GS_OK;
}

static gs_status add_metadata(gs_text *h, const char *const *metadata, const char *path,
                              gs_error *err) {
  gs_status st = GS_OK;
  if (!metadata || !metadata[0]) return GS_OK;
  gs_text_add(h, "\"__metadata__\":{");
  for (int i = 0; metadata[i] && st == GS_OK; i++) {
    if (i > 0) gs_text_add(h, i % 2 ? ":" : ",");
    st = add_string(h, metadata[i], path, err);
  }
  gs_text_add(h, "}");
  return st;
}

static gs_status make_header(const gs_safetensors_out *o, const char *const *metadata, gs_text *h,
                             const char *path, gs_error *err) {
  size_t at = 0;
  gs_text_add(h, "{");
  gs_status st = add_metadata(h, metadata, path, err);
  for (int i = 0; i < o->n && st == GS_OK; i++) {
    const gs_weight *t = o->order[i];
    if (h->len > 1) gs_text_add(h, ",");
    st = add_string(h, t->name, path, err);
    gs_text_printf(h, ":{\"dtype\":\"%s\",\"shape\":[", gs_st_types[rank_of(t->type)].name);
    for (int d = 0; d < t->ndims; d++)
      gs_text_printf(h, d ? ",%lld" : "%lld", (long long)t->shape[d]);
    gs_text_printf(h, "],\"data_offsets\":[%zu,%zu]}", at, at + t->bytes);
    at += t->bytes;
  }
  gs_text_add(h, "}");
  while (h->len % 8) gs_text_add(h, " ");
  return st;
}

/* Tensors without bytes are written by passing over them. */
static void pass_full(gs_safetensors_out *o) {
  while (o->at < o->n && o->done == o->order[o->at]->bytes) {
    o->at++;
    o->done = 0;
  }
}

gs_status gs_safetensors_begin(const char *path, const gs_weight *tensors, int n,
                               const char *const *metadata, gs_safetensors_out **out,
                               gs_error *err) {
  gs_text header = {0};
  unsigned char len[8];
  *out = NULL;
  gs_safetensors_out *o = calloc(1, sizeof *o);
  if (o) o->order = calloc((size_t)n + 1, sizeof *o->order);
  if (!o || !o->order) {
    free(o);
    return gs_fail(err, GS_ERR_MEMORY, "%s: out of host memory", path);
  }
  o->tensors = tensors;
  o->n = n;
  gs_status st = check_tensors(o, path, err);
  if (st != GS_OK) goto done;
  if (n) qsort(o->order, (size_t)n, sizeof *o->order, by_file_order);
  if ((st = make_header(o, metadata, &header, path, err)) != GS_OK) goto done;
  for (int i = 0; i < 8; i++) len[i] = (unsigned char)((uint64_t)header.len >> 8 * i);
  if ((st = gs_file_create(&o->file, path, err)) != GS_OK) goto done;
  st = gs_file_put(&o->file, len, sizeof len, err);
  if (st == GS_OK) st = gs_file_put(&o->file, header.s, header.len, err);
  pass_full(o);
done:
  gs_text_free(&header);
  if (st == GS_OK)
    *out = o;
  else
    gs_safetensors_drop(o);
  return st;
}

int gs_safetensors_next(const gs_safetensors_out *o) {
  return o->at < o->n ? (int)(o->order[o->at] - o->tensors) : -1;
}

gs_status gs_safetensors_put(gs_safetensors_out *o, const void *data, size_t bytes, gs_error *err) {
  if (o->at >= o->n || bytes > o->order[o->at]->bytes - o->done)
    return gs_fail(err, GS_ERR_USE, "%s: more bytes than its tensors have", o->file.final_path);
  gs_status st = gs_file_put(&o->file, data, bytes, err);
  o->done += bytes;
  pass_full(o);
  return st;
}

gs_status gs_safetensors_end(gs_safetensors_out *o, gs_error *err) {
  gs_status st;
  if (o->at < o->n) {
    st = gs_fail(err, GS_ERR_USE, "%s: tensor \"%s\" is incomplete", o->file.final_path,
                 o->order[o->at]->name);
  } else {
    st = gs_file_commit(&o->file, err);
  }
  gs_safetensors_drop(o);
  return st;
}

void gs_safetensors_drop(gs_safetensors_out *o) {
  if (!o) return;
  gs_file_drop(&o->file);
  free(o->order);
  free(o);
}

gs_status gs_safetensors_write(const char *path, const gs_weight *tensors, int n,
                               const char *const *metadata, gs_error *err) {
  gs_safetensors_out *o = NULL;
  gs_status st = gs_safetensors_begin(path, tensors, n, metadata, &o, err);
  if (st != GS_OK) return st;
  for (int i; st == GS_OK && (i = gs_safetensors_next(o)) >= 0;)
    st = gs_safetensors_put(o, tensors[i].data, tensors[i].bytes, err);
  if (st == GS_OK) return gs_safetensors_end(o, err);
  gs_safetensors_drop(o);
  return st;
}
