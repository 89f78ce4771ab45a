/* state.c: the state file. Tensors: "masters", "m", "v", flat as on the device. Metadata: "format",
 * each setting by its name, "step", "updates", "data-hash". */
#include "step/state.h"

#include "base/file.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT "gradsmith-state-1"

static const struct {
  const char *name;
  gs_param_kind kind;
} buffers[] = {{"masters", GS_MASTER}, {"m", GS_MOMENT1}, {"v", GS_MOMENT2}};

struct gs_state {
  gs_weights *file;
  char *path;
};

gs_status gs_file_hash(const char *path, uint64_t *hash, gs_error *err) {
  gs_map m;
  gs_status s = gs_map_open(&m, path, err);
  if (s) return s;
  uint64_t h = 0xcbf29ce484222325u;
  for (size_t i = 0; i < m.len; i++) h = (h ^ m.data[i]) * 0x100000001b3u;
  *hash = h;
  gs_map_close(&m);
  return GS_OK;
}

/* ---- writing ---- */

/* key, value, ..., NULL; values are malloc'ed, so is the list. */
static char **make_metadata(const gs_settings *s, const gs_progress_mark *mark) {
  size_t n = 0;
  char **list = calloc(2 * GS_NSETTINGS + 9, sizeof *list);
  if (!list) return NULL;
  const struct {
    const char *name;
    unsigned long long value;
  } marks[] = {{"step", (unsigned long long)mark->step},
               {"updates", (unsigned long long)mark->updates},
               {"data-hash", mark->data_hash}};
  list[n++] = "format";
  list[n++] = strdup(FORMAT);
  for (size_t i = 0; i < 3; i++) {
    gs_text t = {0};
    gs_text_printf(&t, "%llu", marks[i].value);
    list[n++] = (char *)marks[i].name;
    list[n++] = t.s;
  }
  for (int i = 0; i < GS_NSETTINGS; i++) {
    char *text = gs_settings_text(s, i);
    if (!text) continue;
    list[n++] = (char *)gs_settings_name(i);
    list[n++] = text;
  }
  return list;
}

static void free_metadata(char **list) {
  if (!list) return;
  for (size_t i = 0; list[i]; i += 2) free(list[i + 1]);
  free(list);
}

gs_status gs_state_write(const char *dir, gs_params *p, const gs_settings *s,
                         const gs_progress_mark *mark, gs_error *err) {
  int64_t count = gs_params_count(p);
  size_t bytes = (size_t)count * sizeof(float);
  gs_weight tensors[3];
  gs_text path = {0};
  gs_status st = GS_OK;
  char **metadata = make_metadata(s, mark);
  float *values = malloc(3 * bytes + 1);
  if (!metadata || !values) {
    st = gs_fail(err, GS_ERR_MEMORY, "out of memory");
    goto cleanup;
  }
  for (int i = 0; i < 3 && !st; i++) {
    float *v = values + (size_t)i * (size_t)count;
    tensors[i] = (gs_weight){.name = buffers[i].name,
                             .type = GS_F32,
                             .ndims = 1,
                             .shape = {count},
                             .data = v,
                             .bytes = bytes};
    st = gs_params_read(p, buffers[i].kind, v, err);
  }
  if (st) goto cleanup;
  gs_text_printf(&path, "%s/%s", dir, GS_STATE_FILE);
  st = gs_safetensors_write(path.s, tensors, 3, (const char *const *)metadata, err);
cleanup:
  gs_text_free(&path);
  free(values);
  free_metadata(metadata);
  return st;
}

/* ---- reading ---- */

static gs_status read_number(const gs_state *st, const char *name, uint64_t *out, gs_error *err) {
  const char *text = gs_weights_metadata(st->file, name);
  char *end = NULL;
  if (text) *out = strtoull(text, &end, 10);
  if (!text || end == text || *end)
    return gs_fail(err, GS_ERR_INPUT, "%s: the metadata have no number \"%s\"", st->path, name);
  return GS_OK;
}

static gs_status read_metadata(const gs_state *st, gs_settings *s, gs_progress_mark *mark,
                               gs_error *err) {
  const char *format = gs_weights_metadata(st->file, "format");
  if (!format || strcmp(format, FORMAT) != 0)
    return gs_fail(err, GS_ERR_INPUT,
                   "%s: not a training state of this program (format \"%s\", not \"%s\")", st->path,
                   format ? format : "", FORMAT);
  uint64_t v[3] = {0};
  gs_status r = read_number(st, "step", &v[0], err);
  if (!r) r = read_number(st, "updates", &v[1], err);
  if (!r) r = read_number(st, "data-hash", &v[2], err);
  *mark = (gs_progress_mark){(int64_t)v[0], (int64_t)v[1], v[2]};
  *s = gs_settings_none();
  for (int i = 0; i < GS_NSETTINGS && !r; i++) {
    const char *text = gs_weights_metadata(st->file, gs_settings_name(i));
    if (text) r = gs_settings_set(s, i, text, err);
    if (r) return gs_fail_in(err, "%s", st->path);
  }
  return r;
}

gs_status gs_state_open(const char *dir, gs_state **out, gs_settings *s, gs_progress_mark *mark,
                        gs_error *err) {
  gs_text path = {0};
  gs_text_printf(&path, "%s/%s", dir, GS_STATE_FILE);
  if (!gs_path_exists(path.s)) {
    gs_status r = gs_fail(err, GS_ERR_USE,
                          "%s: there is no %s to go on from; --resume takes the --out "
                          "folder of a run that was stopped",
                          dir, GS_STATE_FILE);
    gs_text_free(&path);
    return r;
  }
  gs_state *st = calloc(1, sizeof *st);
  if (!st) {
    gs_text_free(&path);
    return gs_fail(err, GS_ERR_MEMORY, "out of memory");
  }
  st->path = path.s;
  gs_status r = gs_weights_open(st->path, &st->file, err);
  if (!r) r = read_metadata(st, s, mark, err);
  if (r) {
    gs_state_close(st);
    return r;
  }
  *out = st;
  return GS_OK;
}

gs_status gs_state_load(const gs_state *st, gs_params *p, gs_error *err) {
  for (int i = 0; i < 3; i++) {
    const gs_weight *w;
    gs_status r = gs_weights_get(st->file, buffers[i].name, &w, err);
    if (r) return r;
    if (w->type != GS_F32 || w->ndims != 1 || w->shape[0] != gs_params_count(p))
      return gs_fail(err, GS_ERR_INPUT,
                     "%s: \"%s\" is not the %lld f32 values that model and --lora want", st->path,
                     w->name, (long long)gs_params_count(p));
    r = gs_params_write(p, buffers[i].kind, w->data, err);
    if (r) return r;
  }
  return GS_OK;
}

void gs_state_close(gs_state *st) {
  if (!st) return;
  gs_weights_close(st->file);
  free(st->path);
  free(st);
}
