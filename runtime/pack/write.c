/* write.c: launch lists and code to one file (write.h). The same passes in the same order give the
 * same bytes. */
#include "pack/write.h"

#include "base/asset.h"
#include "base/file.h"
#include "base/hash.h"
#include "pack/names.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct gs_pack_writer {
  json_t *root, *targets, *passes, *code;
  json_t *known; /* an object with a field for each pass and each code that is there */
  gs_text blobs;
};

static gs_status no_memory(gs_error *err) {
  return gs_fail(err, GS_ERR_MEMORY, "no memory for the pack's index");
}

gs_status gs_pack_writer_new(const char *producer, const char *compiler, gs_pack_writer **out,
                             gs_error *err) {
  const gs_asset *licence = gs_asset_find("LICENSE");
  gs_pack_writer *w = calloc(1, sizeof *w);
  *out = NULL;
  if (!w) return no_memory(err);
  w->known = json_object();
  w->targets = json_array();
  w->passes = json_array();
  w->code = json_array();
  w->root =
      json_pack("{s:s, s:s, s:s, s:s, s:O, s:O, s:O}", "producer", producer, "compiler", compiler,
                "licence", "Apache-2.0", "licence_text", licence ? licence->data : "", "targets",
                w->targets, "passes", w->passes, "code", w->code);
  if (!w->root || !w->known) {
    gs_pack_writer_free(w);
    return no_memory(err);
  }
  *out = w;
  return GS_OK;
}

void gs_pack_writer_free(gs_pack_writer *w) {
  if (!w) return;
  json_decref(w->root);
  json_decref(w->targets);
  json_decref(w->passes);
  json_decref(w->code);
  json_decref(w->known);
  gs_text_free(&w->blobs);
  free(w);
}

/* Notes that something is there; false when it already was. */
static bool note(gs_pack_writer *w, const char *what, const char *a, const char *b, const char *c) {
  gs_text name = {0};
  gs_text_printf(&name, "%s|%s|%s|%s", what, a, b, c);
  bool is_new = !json_object_get(w->known, name.s);
  if (is_new) json_object_set_new(w->known, name.s, json_true());
  gs_text_free(&name);
  return is_new;
}

gs_status gs_pack_writer_target(gs_pack_writer *w, const char *name, const char *schedule,
                                gs_error *err) {
  if (!note(w, "target", name, "", "")) return GS_OK;
  json_t *t = json_pack("{s:s, s:s}", "name", name, "schedule", schedule);
  return json_array_append_new(w->targets, t) == 0 ? GS_OK : no_memory(err);
}

/* ---- a pass ---- */

static json_t *dims_of(const gs_graph *g) {
  json_t *out = json_array();
  for (int i = 0; i < gs_graph_ndims(g); i++) {
    const gs_dim *d = gs_graph_dim_at(g, i);
    json_array_append_new(out, json_pack("{s:s, s:I, s:i, s:I}", "name", d->name, "size",
                                         (json_int_t)d->size, "same_as", d->same_as, "div",
                                         (json_int_t)d->div));
  }
  return out;
}

static json_t *tensors_of(const gs_launch_list *l) {
  json_t *out = json_array();
  for (int i = 0; i < l->nbindings; i++) {
    const gs_binding *b = &l->bindings[i];
    json_t *dims = json_array();
    for (int k = 0; k < b->ndims; k++) json_array_append_new(dims, json_integer(b->dim[k]));
    json_array_append_new(out, json_pack("{s:s, s:s, s:s, s:b, s:i, s:o}", "name", b->name, "type",
                                         gs_type_name(b->type), "role", gs_pack_role_names[b->role],
                                         "result", b->is_result, "inplace",
                                         b->is_result ? b->inplace : -1, "dims", dims));
  }
  return out;
}

static json_t *count_of(const gs_count *c) {
  json_t *dims = json_array();
  for (int d = 0; d < GS_MAX_DIMS; d++)
    if (c->dims >> d & 1) json_array_append_new(dims, json_integer(d));
  json_t *out = json_pack("{s:I, s:I, s:I, s:I, s:o}", "coef", (json_int_t)c->coef, "div",
                          (json_int_t)c->div, "cap", (json_int_t)c->cap, "each",
                          (json_int_t)c->each, "dims", dims);
  if (!c->plus) return out;
  dims = json_array();
  for (int d = 0; d < GS_MAX_DIMS; d++)
    if (c->plus_dims >> d & 1) json_array_append_new(dims, json_integer(d));
  json_object_set_new(out, "plus", json_integer((json_int_t)c->plus));
  json_object_set_new(out, "plus_dims", dims);
  return out;
}

static json_t *temps_of(const gs_launch_list *l) {
  json_t *out = json_array();
  for (int i = 0; i < l->ntemps; i++)
    json_array_append_new(out, json_pack("{s:s, s:o}", "type", gs_type_name(l->temps[i].type),
                                         "count", count_of(&l->temps[i].count)));
  return out;
}

static json_t *args_of(const gs_kernel *k) {
  json_t *out = json_array();
  for (int i = 0; i < k->nargs; i++) {
    const gs_arg *a = &k->args[i];
    json_t *arg = json_pack("{s:s, s:i, s:b, s:b}", "kind", gs_pack_arg_names[a->kind], "index",
                            a->index, "read", a->is_read, "written", a->is_written);
    if (a->kind == GS_ARG_MAP)
      json_object_set_new(arg, "box",
                          json_pack("{s:i, s:i, s:i, s:i}", "rows", a->box.rows, "heads",
                                    a->box.heads, "columns", a->box.columns, "swizzle",
                                    a->box.swizzle));
    json_array_append_new(out, arg);
  }
  return out;
}

/* "threads=128 mode=resident": by name, so that no order matters to who reads them. */
static json_t *tunables_of(const gs_kernel *k) {
  json_t *out = json_object();
  for (const char *p = k->tunables; *p;) {
    size_t word = strcspn(p, " "), name = strcspn(p, "= ");
    if (name < word) {
      char copy[64];
      size_t n = name < sizeof copy ? name : sizeof copy - 1;
      memcpy(copy, p, n);
      copy[n] = 0;
      json_object_set_new(out, copy, json_stringn(p + name + 1, word - name - 1));
    }
    p += word + (p[word] == ' ');
  }
  return out;
}

void gs_pack_text_hash(const gs_kernel *k, char hex[65]) {
  const char *const texts[] = {gs_prelude(false, k->prelude), k->text};
  gs_hash_texts(texts, 2, hex);
}

static json_t *kernels_of(const gs_launch_list *l) {
  json_t *out = json_array();
  for (int i = 0; i < l->nkernels; i++) {
    const gs_kernel *k = &l->kernels[i];
    char hash[GS_HASH_HEX];
    gs_pack_text_hash(k, hash);
    json_array_append_new(out, json_pack("{s:s, s:s, s:s, s:o, s:o, s:i, s:i, s:b, s:o}", "entry",
                                         k->entry, "text", hash, "template", k->template_name,
                                         "tunables", tunables_of(k), "grid", count_of(&k->grid),
                                         "threads", k->threads, "shared", k->shared_bytes,
                                         "barrier_free", k->barrier_free, "args", args_of(k)));
  }
  return out;
}

/* What differs from the defaults: the planner can make the same text again. */
static void add_tuned(gs_text *t, const gs_launch_list *l) {
  gs_text_add(t, "");
  for (int i = 0; i < l->ntunables; i++) {
    const gs_tunable *x = &l->tunables[i];
    if (x->chosen != x->by_default)
      gs_text_printf(t, "%s%s=%lld", t->len ? "," : "", x->name, (long long)x->chosen);
  }
}

gs_status gs_pack_writer_pass(gs_pack_writer *w, const gs_launch_list *l, const char *schedule,
                              gs_error *err) {
  if (!note(w, "pass", l->key, schedule, "")) return GS_OK;
  gs_text tuned = {0};
  add_tuned(&tuned, l);
  json_t *pass = json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o}", "key", l->key, "schedule",
                           schedule, "tuned", tuned.s, "dims", dims_of(l->g), "tensors",
                           tensors_of(l), "temporaries", temps_of(l), "kernels", kernels_of(l));
  gs_text_free(&tuned);
  return json_array_append_new(w->passes, pass) == 0 ? GS_OK : no_memory(err);
}

/* ---- code ---- */

static void pad(gs_text *t) {
  static const char zeros[GS_PACK_ALIGN] = {0};
  if (t->len % GS_PACK_ALIGN) gs_text_add_n(t, zeros, GS_PACK_ALIGN - t->len % GS_PACK_ALIGN);
}

gs_status gs_pack_writer_code(gs_pack_writer *w, const gs_kernel *k, const char *target,
                              const void *data, size_t len, gs_error *err) {
  char hash[GS_HASH_HEX];
  gs_pack_text_hash(k, hash);
  if (!note(w, "code", k->entry, hash, target)) return GS_OK;
  size_t at = w->blobs.len;
  gs_text_add_n(&w->blobs, data, len);
  if (strncmp(target, "compute_", 8) == 0) gs_text_add_n(&w->blobs, "", 1);
  json_t *code = json_pack("{s:s, s:s, s:s, s:I, s:I}", "entry", k->entry, "text", hash, "target",
                           target, "at", (json_int_t)at, "bytes", (json_int_t)(w->blobs.len - at));
  pad(&w->blobs);
  return json_array_append_new(w->code, code) == 0 ? GS_OK : no_memory(err);
}

/* ---- the file ---- */

gs_status gs_pack_writer_save(const gs_pack_writer *w, const char *path, gs_error *err) {
  gs_text t = {0};
  uint8_t digest[GS_HASH_BYTES];
  char head[GS_PACK_HEAD] = GS_PACK_LINE;
  char *json = json_dumps(w->root, JSON_COMPACT);
  if (!json) return no_memory(err);
  size_t n = strlen(json);
  head[strlen(GS_PACK_LINE)] = '0' + GS_PACK_FORMAT;
  head[strlen(GS_PACK_LINE) + 1] = '\n';
  for (int i = 0; i < 8; i++) head[32 + i] = (char)((uint64_t)n >> 8 * i & 255);
  gs_text_add_n(&t, head, sizeof head);
  gs_text_add_n(&t, json, n);
  pad(&t);
  if (w->blobs.len) gs_text_add_n(&t, w->blobs.s, w->blobs.len);
  gs_hash(t.s, t.len, digest);
  gs_text_add_n(&t, (const char *)digest, sizeof digest);
  gs_status st = gs_file_write(path, t.s, t.len, err);
  gs_text_free(&t);
  free(json);
  return st;
}
