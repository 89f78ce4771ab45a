/* index.c: the JSON of a pack to records. Every number that indexes something is held against what
 * it indexes, so that no file makes a reader go out of bounds. */
#include "pack/index.h"

#include "pack/names.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS = 1024, MAX_SHARED = 1 << 20, MAX_ITEMS = 1 << 20 };

typedef struct reader {
  gs_arena *a;
  bool bad; /* once something was not as it should be: sticky */
} reader;

static const char *text(reader *r, const json_t *o, const char *name) {
  const char *s = json_string_value(json_object_get(o, name));
  if (!s) r->bad = true;
  return s ? gs_arena_strdup(r->a, s) : "";
}

static int64_t number(reader *r, const json_t *v, int64_t low, int64_t high) {
  int64_t n = json_integer_value(v);
  if (json_is_integer(v) && n >= low && n <= high) return n;
  r->bad = true;
  return low;
}

static int64_t whole(reader *r, const json_t *o, const char *name, int64_t low, int64_t high) {
  return number(r, json_object_get(o, name), low, high);
}

static bool truth(reader *r, const json_t *o, const char *name) {
  const json_t *v = json_object_get(o, name);
  if (!json_is_boolean(v)) r->bad = true;
  return json_is_true(v);
}

static int choice(reader *r, const char *s, const char *const *names, int n) {
  for (int i = 0; s && i < n; i++)
    if (strcmp(s, names[i]) == 0) return i;
  r->bad = true;
  return 0;
}

/* The array of that name, and room for its elements. */
static const json_t *list(reader *r, const json_t *o, const char *name, int *n, size_t size,
                          void *out) {
  const json_t *v = json_object_get(o, name);
  size_t count = json_array_size(v);
  if (!json_is_array(v) || count > MAX_ITEMS) {
    r->bad = true;
    count = 0;
  }
  void *room = gs_arena_alloc(r->a, (count + 1) * size);
  memcpy(out, &room, sizeof room);
  *n = (int)count;
  return v;
}

static gs_type type_of(reader *r, const json_t *o) {
  gs_type t = gs_type_from_name(text(r, o, "type"));
  if (t == GS_TYPE_NONE || t == GS_BOOL) r->bad = true;
  return t;
}

/* ---- a record ---- */

static void read_dims(reader *r, const json_t *o, gs_pack_record *out) {
  const json_t *v = list(r, o, "dims", &out->ndims, sizeof(gs_dim), &out->dims);
  if (out->ndims > GS_MAX_DIMS) r->bad = true, out->ndims = 0;
  for (int i = 0; i < out->ndims; i++) {
    const json_t *d = json_array_get(v, (size_t)i);
    out->dims[i] = (gs_dim){.name = text(r, d, "name"),
                            .size = whole(r, d, "size", -1, INT64_MAX),
                            .same_as = (int)whole(r, d, "same_as", -1, out->ndims - 1),
                            .div = whole(r, d, "div", 0, INT64_MAX)};
  }
}

static void read_tensors(reader *r, const json_t *o, gs_pack_record *out) {
  gs_launch_list *l = &out->list;
  const json_t *v = list(r, o, "tensors", &l->nbindings, sizeof(gs_binding), &l->bindings);
  for (int i = 0; i < l->nbindings; i++) {
    const json_t *t = json_array_get(v, (size_t)i), *dims = json_object_get(t, "dims");
    gs_binding *b = &l->bindings[i];
    *b = (gs_binding){.name = text(r, t, "name"),
                      .type = type_of(r, t),
                      .role =
                          (gs_role)choice(r, text(r, t, "role"), gs_pack_role_names, GS_PACK_ROLES),
                      .is_result = truth(r, t, "result"),
                      .inplace = (int)whole(r, t, "inplace", -1, l->nbindings - 1)};
    size_t n = json_array_size(dims);
    if (!json_is_array(dims) || n > GS_MAX_RANK) r->bad = true, n = 0;
    b->ndims = (int)n;
    for (int k = 0; k < b->ndims; k++)
      b->dim[k] = (int)number(r, json_array_get(dims, (size_t)k), 0, out->ndims - 1);
  }
}

static gs_dims read_set(reader *r, const json_t *dims, int ndims) {
  gs_dims out = 0;
  if (!json_is_array(dims)) r->bad = true;
  for (size_t i = 0; i < json_array_size(dims); i++)
    out |= (gs_dims)1 << number(r, json_array_get(dims, i), 0, ndims - 1);
  return out;
}

static gs_count read_count(reader *r, const json_t *o, const char *name, int ndims) {
  const json_t *c = json_object_get(o, name);
  gs_count out = {.coef = whole(r, c, "coef", 0, INT64_MAX),
                  .div = whole(r, c, "div", 0, INT64_MAX),
                  .cap = whole(r, c, "cap", 0, INT64_MAX),
                  .each = whole(r, c, "each", 0, INT64_MAX)};
  out.dims = read_set(r, json_object_get(c, "dims"), ndims);
  if (!json_object_get(c, "plus")) return out;
  out.plus = whole(r, c, "plus", 0, INT64_MAX);
  out.plus_dims = read_set(r, json_object_get(c, "plus_dims"), ndims);
  return out;
}

static void read_temps(reader *r, const json_t *o, gs_pack_record *out) {
  gs_launch_list *l = &out->list;
  const json_t *v = list(r, o, "temporaries", &l->ntemps, sizeof(gs_temp), &l->temps);
  for (int i = 0; i < l->ntemps; i++) {
    const json_t *t = json_array_get(v, (size_t)i);
    l->temps[i].type = type_of(r, t);
    l->temps[i].count = read_count(r, t, "count", out->ndims);
  }
}

static gs_box read_box(reader *r, const json_t *o) {
  const json_t *x = json_object_get(o, "box");
  return (gs_box){.rows = (int)whole(r, x, "rows", 1, 256),
                  .heads = (int)whole(r, x, "heads", 1, 256),
                  .columns = (int)whole(r, x, "columns", 1, 256),
                  .swizzle = (int)whole(r, x, "swizzle", 0, 128)};
}

static void read_args(reader *r, const json_t *o, const gs_pack_record *of, gs_kernel *k) {
  const json_t *v = list(r, o, "args", &k->nargs, sizeof(gs_arg), &k->args);
  for (int i = 0; i < k->nargs; i++) {
    const json_t *x = json_array_get(v, (size_t)i);
    gs_arg *a = &k->args[i];
    a->kind = (gs_arg_kind)choice(r, text(r, x, "kind"), gs_pack_arg_names, GS_PACK_ARGS);
    int n = a->kind == GS_ARG_TEMP  ? of->list.ntemps
            : a->kind == GS_ARG_DIM ? of->ndims
                                    : of->list.nbindings;
    a->index = (int)whole(r, x, "index", 0, n - 1);
    a->is_read = truth(r, x, "read");
    a->is_written = truth(r, x, "written");
    if (a->kind == GS_ARG_MAP) a->box = read_box(r, x);
  }
}

/* {"threads": 128, "mode": "resident"} as "threads=128 mode=resident". */
static const char *read_tunables(reader *r, const json_t *o) {
  json_t *all = json_object_get(o, "tunables"), *value;
  const char *name, *out = "";
  if (!json_is_object(all)) r->bad = true;
  json_object_foreach(all, name, value) {
    if (!json_is_string(value)) r->bad = true;
    out = gs_arena_printf(r->a, "%s%s%s=%s", out, *out ? " " : "", name,
                          json_is_string(value) ? json_string_value(value) : "");
  }
  return out;
}

static void read_kernels(reader *r, const json_t *o, gs_pack_record *out) {
  gs_launch_list *l = &out->list;
  const json_t *v = list(r, o, "kernels", &l->nkernels, sizeof(gs_kernel), &l->kernels);
  out->text = GS_NEW_N(r->a, const char *, l->nkernels + 1);
  for (int i = 0; i < l->nkernels; i++) {
    const json_t *x = json_array_get(v, (size_t)i);
    gs_kernel *k = &l->kernels[i];
    *k = (gs_kernel){.entry = text(r, x, "entry"),
                     .template_name = text(r, x, "template"),
                     .tunables = read_tunables(r, x),
                     .grid = read_count(r, x, "grid", out->ndims),
                     .threads = (int)whole(r, x, "threads", 1, MAX_THREADS),
                     .shared_bytes = (int)whole(r, x, "shared", 0, MAX_SHARED),
                     .barrier_free = truth(r, x, "barrier_free")};
    out->text[i] = text(r, x, "text");
    read_args(r, x, out, k);
  }
}

static void read_records(reader *r, const json_t *root, gs_pack_about *out) {
  gs_pack_record *records;
  const json_t *v = list(r, root, "passes", &out->nrecords, sizeof *records, &records);
  for (int i = 0; i < out->nrecords; i++) {
    const json_t *x = json_array_get(v, (size_t)i);
    records[i].key = records[i].list.key = text(r, x, "key");
    records[i].schedule = text(r, x, "schedule");
    records[i].tuned = text(r, x, "tuned");
    read_dims(r, x, &records[i]);
    read_tensors(r, x, &records[i]);
    read_temps(r, x, &records[i]);
    read_kernels(r, x, &records[i]);
  }
  out->records = records;
}

/* ---- targets and code ---- */

static void read_targets(reader *r, const json_t *root, gs_pack_about *out) {
  gs_pack_target *targets;
  const json_t *v = list(r, root, "targets", &out->ntargets, sizeof *targets, &targets);
  for (int i = 0; i < out->ntargets; i++) {
    const json_t *x = json_array_get(v, (size_t)i);
    targets[i] = (gs_pack_target){text(r, x, "name"), text(r, x, "schedule")};
  }
  out->targets = targets;
}

static int by_entry(const void *a, const void *b) {
  const gs_pack_code *x = a, *y = b;
  return strcmp(x->entry, y->entry);
}

static void read_codes(reader *r, const json_t *root, const char *blobs, size_t bytes,
                       gs_pack_about *out) {
  gs_pack_code *codes;
  const json_t *v = list(r, root, "code", &out->ncodes, sizeof *codes, &codes);
  for (int i = 0; i < out->ncodes; i++) {
    const json_t *x = json_array_get(v, (size_t)i);
    int64_t at = whole(r, x, "at", 0, (int64_t)bytes);
    codes[i] = (gs_pack_code){.entry = text(r, x, "entry"),
                              .text = text(r, x, "text"),
                              .target = text(r, x, "target"),
                              .data = blobs + at,
                              .len = (size_t)whole(r, x, "bytes", 1, (int64_t)bytes - at)};
    if (!r->bad && strncmp(codes[i].target, "compute_", 8) == 0 &&
        blobs[at + (int64_t)codes[i].len - 1] != 0)
      r->bad = true;
  }
  if (!r->bad && out->ncodes) qsort(codes, (size_t)out->ncodes, sizeof *codes, by_entry);
  out->codes = codes;
}

bool gs_pack_read_index(gs_arena *a, const char *json, size_t len, const char *blobs, size_t bytes,
                        gs_pack_about *out) {
  reader r = {a, false};
  json_t *root = json_loadb(json, len, JSON_REJECT_DUPLICATES, NULL);
  if (!root) return false;
  out->producer = text(&r, root, "producer");
  out->compiler = text(&r, root, "compiler");
  out->licence = text(&r, root, "licence");
  out->licence_text = text(&r, root, "licence_text");
  read_targets(&r, root, out);
  read_records(&r, root, out);
  read_codes(&r, root, blobs, bytes, out);
  json_decref(root);
  return !r.bad;
}
