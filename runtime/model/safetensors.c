/* safetensors.c: the reader. A file is mapped; its header is parsed once and kept, since names and
 * metadata are the header's own strings. Nothing of the data is touched while opening, but for
 * tensors that the file does not align (older writers): those are copied. */
#include "model/safetensors.h"

#include "base/file.h"
#include "base/text.h"
#include "model/json.h"
#include "model/safetensors_types.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_HEADER 100000000u /* the reference's own limit */
#define INDEX "model.safetensors.index.json"

typedef struct shard {
  char *path;
  gs_map map;
  json_t *header;
  uint64_t data_at; /* byte offset of the data in the file */
} shard;

typedef struct entry {
  gs_weight w;
  const char *dtype; /* as the file spells it */
  int shard;
  uint64_t begin, end; /* in the shard's data */
} entry;

struct gs_weights {
  char *path;
  shard *shards;
  int nshards;
  entry *list; /* sorted by name */
  int n, cap;
  void **copies;
  int ncopies;
};

static gs_status no_memory(gs_error *err, const char *path) {
  return gs_fail(err, GS_ERR_MEMORY, "%s: out of host memory", path);
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const entry *)a)->w.name, ((const entry *)b)->w.name);
}

static int by_place(const void *pa, const void *pb) {
  const entry *a = pa, *b = pb;
  if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
  return a->end == b->end ? 0 : a->end < b->end ? -1 : 1;
}

static bool mul_over(uint64_t a, uint64_t b, uint64_t *out) {
  if (a != 0 && b > UINT64_MAX / a) return true;
  *out = a * b;
  return false;
}

static gs_status bad(gs_error *err, const shard *s, const char *name, const char *what) {
  return gs_fail(err, GS_ERR_INPUT,
                 "%s: tensor \"%s\": %s; the file is damaged or was made by a faulty "
                 "writer: get it again",
                 s->path, name, what);
}

/* The header's bytes, held against the file's length. */
static gs_status read_header(shard *s, gs_error *err) {
  uint64_t n = 0;
  if (s->map.len < 8)
    return gs_fail(err, GS_ERR_INPUT,
                   "%s: %zu bytes are too few for a safetensors file (is it cut off?)", s->path,
                   s->map.len);
  for (int i = 7; i >= 0; i--) n = n << 8 | s->map.data[i];
  if (n > MAX_HEADER || n > s->map.len - 8)
    return gs_fail(err, GS_ERR_INPUT,
                   "%s: byte 0: header of %llu bytes, but the file has %zu (cut off, or "
                   "not a safetensors file)",
                   s->path, (unsigned long long)n, s->map.len);
  if (n == 0 || s->map.data[8] != '{')
    return gs_fail(err, GS_ERR_INPUT,
                   "%s: byte 8: the header does not begin with '{' (not a safetensors "
                   "file?)",
                   s->path);
  s->data_at = 8 + n;
  char where[512];
  snprintf(where, sizeof where, "%s (header)", s->path);
  gs_status st = gs_json_parse((const char *)s->map.data + 8, (size_t)n, where, &s->header, err);
  if (st == GS_OK && !json_is_object(s->header))
    st = gs_fail(err, GS_ERR_INPUT, "%s: byte 8: the header is not a JSON object", s->path);
  return st;
}

static gs_status check_metadata(const shard *s, gs_error *err) {
  json_t *meta = json_object_get(s->header, "__metadata__"), *v;
  const char *key;
  if (!meta) return GS_OK;
  if (!json_is_object(meta))
    return gs_fail(err, GS_ERR_INPUT, "%s: __metadata__ is not an object of strings", s->path);
  json_object_foreach(meta, key, v) {
    if (!json_is_string(v))
      return gs_fail(err, GS_ERR_INPUT, "%s: __metadata__ \"%s\" is not a string", s->path, key);
  }
  return GS_OK;
}

/* A whole number that is at least 0. */
static bool natural(const json_t *v, uint64_t *out) {
  if (!json_is_integer(v) || json_integer_value(v) < 0) return false;
  *out = (uint64_t)json_integer_value(v);
  return true;
}

static gs_status read_shape(const shard *s, const char *name, const json_t *shape, entry *e,
                            uint64_t *elements, gs_error *err) {
  uint64_t d;
  if (!json_is_array(shape)) return bad(err, s, name, "\"shape\" is missing or not a list");
  if (json_array_size(shape) > GS_MAX_RANK)
    return gs_fail(err, GS_ERR_INPUT, "%s: tensor \"%s\" has %zu dims; at most %d are supported",
                   s->path, name, json_array_size(shape), GS_MAX_RANK);
  e->w.ndims = (int)json_array_size(shape);
  bool over = false, empty = false;
  *elements = 1;
  for (int i = 0; i < e->w.ndims; i++) {
    if (!natural(json_array_get(shape, (size_t)i), &d))
      return bad(err, s, name, "\"shape\" has a value that is not a whole number");
    e->w.shape[i] = (int64_t)d;
    empty = empty || d == 0;
    over = over || mul_over(*elements, d, elements);
  }
  if (empty) *elements = 0;
  if (over && !empty)
    return bad(err, s, name, "\"shape\" has more elements than any file could hold");
  return GS_OK;
}

static gs_status read_place(const shard *s, const char *name, const json_t *place, entry *e,
                            gs_error *err) {
  uint64_t room = s->map.len - s->data_at;
  if (!json_is_array(place) || json_array_size(place) != 2 ||
      !natural(json_array_get(place, 0), &e->begin) || !natural(json_array_get(place, 1), &e->end))
    return bad(err, s, name, "\"data_offsets\" is not a pair of whole numbers");
  if (e->begin > e->end || e->end > room)
    return gs_fail(err, GS_ERR_INPUT,
                   "%s: tensor \"%s\": data_offsets [%llu, %llu] lie outside the %llu "
                   "bytes of data that begin at byte %llu (is the file cut off?)",
                   s->path, name, (unsigned long long)e->begin, (unsigned long long)e->end,
                   (unsigned long long)room, (unsigned long long)s->data_at);
  return GS_OK;
}

static const gs_st_type *type_named(const char *dtype) {
  for (int i = 0; dtype && i < GS_ST_NTYPES; i++)
    if (strcmp(gs_st_types[i].name, dtype) == 0) return &gs_st_types[i];
  return NULL;
}

static gs_status read_entry(const shard *s, const char *name, const json_t *v, entry *e,
                            gs_error *err) {
  uint64_t elements = 0, bits = 0;
  if (!json_is_object(v)) return bad(err, s, name, "its header entry is not an object");
  const char *dtype = json_string_value(json_object_get(v, "dtype"));
  const gs_st_type *t = type_named(dtype);
  if (!dtype) return bad(err, s, name, "\"dtype\" is missing or not a string");
  if (!t)
    return gs_fail(err, GS_ERR_INPUT, "%s: tensor \"%s\": unknown dtype \"%s\"", s->path, name,
                   dtype);
  if (json_object_size(v) != 3)
    return bad(err, s, name,
               "its header entry has fields other than dtype, shape and data_offsets");
  e->w.name = name;
  e->w.type = t->type;
  e->dtype = t->name;
  gs_status st = read_shape(s, name, json_object_get(v, "shape"), e, &elements, err);
  if (st == GS_OK) st = read_place(s, name, json_object_get(v, "data_offsets"), e, err);
  if (st != GS_OK) return st;
  if (mul_over(elements, t->bits, &bits) || bits % 8 != 0 || bits / 8 != e->end - e->begin)
    return gs_fail(err, GS_ERR_INPUT,
                   "%s: tensor \"%s\": %llu elements of %s do not make the %llu bytes of "
                   "its data_offsets [%llu, %llu]",
                   s->path, name, (unsigned long long)elements, dtype,
                   (unsigned long long)(e->end - e->begin), (unsigned long long)e->begin,
                   (unsigned long long)e->end);
  e->w.bytes = (size_t)(e->end - e->begin);
  e->w.data = e->w.bytes ? s->map.data + s->data_at + e->begin : NULL;
  return GS_OK;
}

/* The entries, sorted by place, must fill the data from its first byte to its last. */
static gs_status check_cover(const shard *s, const entry *e, int n, gs_error *err) {
  uint64_t at = 0, room = s->map.len - s->data_at;
  for (int i = 0; i < n; at = e[i++].end) {
    if (e[i].begin < at)
      return gs_fail(err, GS_ERR_INPUT,
                     "%s: tensors \"%s\" and \"%s\" overlap at byte %llu of the data", s->path,
                     e[i - 1].w.name, e[i].w.name, (unsigned long long)e[i].begin);
    if (e[i].begin > at)
      return gs_fail(err, GS_ERR_INPUT,
                     "%s: bytes %llu to %llu of the data, before tensor \"%s\", belong to "
                     "no tensor",
                     s->path, (unsigned long long)at, (unsigned long long)e[i].begin, e[i].w.name);
  }
  if (at != room)
    return gs_fail(err, GS_ERR_INPUT,
                   "%s: the tensors end at byte %llu of the data, the file has %llu", s->path,
                   (unsigned long long)at, (unsigned long long)room);
  return GS_OK;
}

/* A copy for a tensor whose place in the map does not suit its type. */
static gs_status align_entry(gs_weights *w, entry *e, gs_error *err) {
  size_t size = gs_type_size(e->w.type);
  if (size < 2 || (uintptr_t)e->w.data % size == 0) return GS_OK;
  void **grown = realloc(w->copies, sizeof *grown * (size_t)(w->ncopies + 1));
  if (!grown) return no_memory(err, w->path);
  w->copies = grown;
  void *copy = malloc(e->w.bytes);
  if (!copy) return no_memory(err, w->path);
  memcpy(copy, e->w.data, e->w.bytes);
  w->copies[w->ncopies++] = copy;
  e->w.data = copy;
  return GS_OK;
}

static gs_status reserve(gs_weights *w, size_t more, gs_error *err) {
  size_t want = (size_t)w->n + more;
  if (want > INT32_MAX) return no_memory(err, w->path);
  if (want <= (size_t)w->cap) return GS_OK;
  entry *grown = realloc(w->list, sizeof *grown * want);
  if (!grown) return no_memory(err, w->path);
  memset(grown + w->cap, 0, sizeof *grown * (want - (size_t)w->cap));
  w->list = grown;
  w->cap = (int)want;
  return GS_OK;
}

/* Maps one file and appends its tensors to the list. */
static gs_status add_shard(gs_weights *w, const char *path, gs_error *err) {
  shard *grown = realloc(w->shards, sizeof *grown * (size_t)(w->nshards + 1));
  if (!grown) return no_memory(err, path);
  w->shards = grown;
  shard *s = &w->shards[w->nshards++];
  *s = (shard){.path = malloc(strlen(path) + 1)};
  if (!s->path) return no_memory(err, path);
  strcpy(s->path, path);
  gs_status st = gs_map_open(&s->map, path, err);
  if (st == GS_OK) st = read_header(s, err);
  if (st == GS_OK) st = check_metadata(s, err);
  if (st == GS_OK) st = reserve(w, json_object_size(s->header), err);
  if (st != GS_OK) return st;
  const char *name;
  json_t *v;
  int first = w->n;
  json_object_foreach(s->header, name, v) {
    if (strcmp(name, "__metadata__") == 0) continue;
    entry *e = &w->list[w->n];
    *e = (entry){.shard = w->nshards - 1};
    if ((st = read_entry(s, name, v, e, err)) != GS_OK) return st;
    w->n++;
  }
  if (w->n > first) qsort(w->list + first, (size_t)(w->n - first), sizeof(entry), by_place);
  st = check_cover(s, w->list + first, w->n - first, err);
  for (int i = first; i < w->n && st == GS_OK; i++) st = align_entry(w, &w->list[i], err);
  return st;
}

static entry *find_entry(const gs_weights *w, const char *name) {
  entry key = {.w.name = name};
  return w->n ? bsearch(&key, w->list, (size_t)w->n, sizeof *w->list, by_name) : NULL;
}

/* The shard of this file name, opened on first sight; -1: *st says why not. */
static int shard_of(gs_weights *w, const char *dir, const char *file, gs_status *st,
                    gs_error *err) {
  gs_text path = {0};
  int found = -1;
  gs_text_printf(&path, "%s/%s", dir, file);
  for (int i = 0; i < w->nshards && found < 0; i++)
    if (strcmp(w->shards[i].path, path.s) == 0) found = i;
  if (found < 0) {
    *st = !gs_path_exists(path.s)
              ? gs_fail(err, GS_ERR_INPUT, "%s: the shard is missing, though %s/" INDEX " names it",
                        path.s, dir)
              : add_shard(w, path.s, err);
    if (*st == GS_OK) found = w->nshards - 1;
  }
  gs_text_free(&path);
  return found;
}

/* Every shard that the index names is opened, its file name held to be a plain one. */
static gs_status open_shards(gs_weights *w, const char *dir, const json_t *map, gs_error *err) {
  const char *name;
  json_t *v;
  gs_status st = GS_OK;
  json_object_foreach((json_t *)(uintptr_t)map, name, v) {
    const char *file = json_string_value(v);
    if (!file || !*file || strchr(file, '/') || strcmp(file, "..") == 0 || strcmp(file, ".") == 0)
      return gs_fail(err, GS_ERR_INPUT,
                     "%s/" INDEX ": weight_map \"%s\" does not name a file of this "
                     "folder",
                     dir, name);
    if (shard_of(w, dir, file, &st, err) < 0) return st;
  }
  return st;
}

/* What the index says against what the shards hold; entries it does not list are left out. */
static gs_status match_index(gs_weights *w, const char *dir, const json_t *map, gs_error *err) {
  const char *name;
  json_t *v;
  int kept = 0;
  gs_status st = GS_OK;
  json_object_foreach((json_t *)(uintptr_t)map, name, v) {
    const entry *e = find_entry(w, name);
    int s = shard_of(w, dir, json_string_value(v), &st, err);
    if (s < 0) return st;
    if (!e || e->shard != s)
      return gs_fail(err, GS_ERR_INPUT,
                     "%s/" INDEX ": tensor \"%s\" is not in %s, which the index names "
                     "for it",
                     dir, name, w->shards[s].path);
  }
  for (int i = 0; i < w->n; i++)
    if (json_object_get(map, w->list[i].w.name)) w->list[kept++] = w->list[i];
  w->n = kept;
  return GS_OK;
}

static gs_status sort_names(gs_weights *w, gs_error *err) {
  if (w->n) qsort(w->list, (size_t)w->n, sizeof *w->list, by_name);
  for (int i = 1; i < w->n; i++)
    if (by_name(&w->list[i - 1], &w->list[i]) == 0)
      return gs_fail(err, GS_ERR_INPUT, "%s: tensor \"%s\" is both in %s and in %s", w->path,
                     w->list[i].w.name, w->shards[w->list[i - 1].shard].path,
                     w->shards[w->list[i].shard].path);
  return GS_OK;
}

static gs_status open_index(gs_weights *w, const char *dir, const char *index, gs_error *err) {
  json_t *root = NULL;
  gs_status st = gs_json_read(index, &root, err);
  json_t *map = json_object_get(root, "weight_map");
  if (st == GS_OK && !json_is_object(map))
    st = gs_fail(err, GS_ERR_INPUT, "%s: no \"weight_map\" object", index);
  if (st == GS_OK) st = open_shards(w, dir, map, err);
  if (st == GS_OK) st = sort_names(w, err);
  if (st == GS_OK) st = match_index(w, dir, map, err);
  json_decref(root);
  return st;
}

static gs_status open_folder(gs_weights *w, const char *dir, gs_error *err) {
  gs_text single = {0}, index = {0};
  gs_text_printf(&single, "%s/model.safetensors", dir);
  gs_text_printf(&index, "%s/" INDEX, dir);
  gs_status st;
  if (gs_path_exists(single.s)) {
    st = add_shard(w, single.s, err);
    if (st == GS_OK) st = sort_names(w, err);
  } else if (gs_path_exists(index.s)) {
    st = open_index(w, dir, index.s, err);
  } else {
    st = gs_fail(err, GS_ERR_INPUT, "%s: neither model.safetensors nor " INDEX " is in this folder",
                 dir);
  }
  gs_text_free(&single);
  gs_text_free(&index);
  return st;
}

gs_status gs_weights_open(const char *path, gs_weights **out, gs_error *err) {
  struct stat s;
  *out = NULL;
  gs_weights *w = calloc(1, sizeof *w);
  if (w) w->path = malloc(strlen(path) + 1);
  if (!w || !w->path) {
    free(w);
    return no_memory(err, path);
  }
  strcpy(w->path, path);
  gs_status st;
  if (stat(path, &s) == 0 && S_ISDIR(s.st_mode)) {
    st = open_folder(w, path, err);
  } else {
    st = add_shard(w, path, err);
    if (st == GS_OK) st = sort_names(w, err);
  }
  if (st == GS_OK)
    *out = w;
  else
    gs_weights_close(w);
  return st;
}

void gs_weights_close(gs_weights *w) {
  if (!w) return;
  for (int i = 0; i < w->nshards; i++) {
    json_decref(w->shards[i].header);
    gs_map_close(&w->shards[i].map);
    free(w->shards[i].path);
  }
  for (int i = 0; i < w->ncopies; i++) free(w->copies[i]);
  free(w->copies);
  free(w->shards);
  free(w->list);
  free(w->path);
  free(w);
}

int gs_weights_count(const gs_weights *w) {
  return w->n;
}

const gs_weight *gs_weights_at(const gs_weights *w, int i) {
  return i >= 0 && i < w->n ? &w->list[i].w : NULL;
}

const gs_weight *gs_weights_find(const gs_weights *w, const char *name) {
  const entry *e = find_entry(w, name);
  return e ? &e->w : NULL;
}

gs_status gs_weights_get(const gs_weights *w, const char *name, const gs_weight **out,
                         gs_error *err) {
  const entry *e = find_entry(w, name);
  *out = NULL;
  if (!e)
    return gs_fail(err, GS_ERR_INPUT, "%s: no tensor \"%s\" among its %d", w->path, name, w->n);
  if (e->w.type == GS_TYPE_NONE)
    return gs_fail(err, GS_ERR_INPUT,
                   "%s: tensor \"%s\" is stored as %s, which is not supported (F32, "
                   "BF16, F16, I32, I64, U8, BOOL are)",
                   w->shards[e->shard].path, name, e->dtype);
  *out = &e->w;
  return GS_OK;
}

const char *gs_weights_metadata(const gs_weights *w, const char *key) {
  if (w->nshards != 1) return NULL;
  return json_string_value(
      json_object_get(json_object_get(w->shards[0].header, "__metadata__"), key));
}
