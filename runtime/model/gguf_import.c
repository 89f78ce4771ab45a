/* gguf_import.c: gs_gguf_import. All files are made in DIR.tmp.PID beside the target, which is then
 * renamed: a reader sees the whole folder or none. Weights are decoded and written piece by piece.
 */
#include "model/gguf.h"

#include "base/file.h"
#include "base/half.h"
#include "base/text.h"
#include "model/gguf_blocks.h"
#include "model/gguf_llama.h"
#include "model/gguf_tokenizer.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE 8192 /* elements decoded at once: a multiple of every block */

typedef struct piece {
  float f32[PIECE];
  uint16_t half[PIECE];
} piece;

/* Decodes n elements at data (packed) and appends them. */
static gs_status put_piece(gs_safetensors_out *o, const gs_weight *w, const gs_gguf_block_type *b,
                           const unsigned char *data, size_t n, piece *p, const char *file,
                           gs_error *err) {
  gs_gguf_decode(b, data, p->f32, n);
  for (size_t i = 0; i < n; i++)
    if (!isfinite(p->f32[i]))
      return gs_fail(err, GS_ERR_INPUT,
                     "%s: tensor \"%s\" holds a value that is not finite: the file is "
                     "damaged",
                     file, w->name);
  if (w->type == GS_F32) return gs_safetensors_put(o, p->f32, n * 4, err);
  gs_from_f32(p->half, w->type, p->f32, n);
  return gs_safetensors_put(o, p->half, n * 2, err);
}

static gs_status put_tensor(gs_safetensors_out *o, const gs_llama *m, int i, piece *p,
                            const char *file, gs_error *err) {
  const gs_gguf_tensor *t = m->sources[i];
  const gs_gguf_block_type *b = gs_gguf_block(t->type);
  size_t cols = (size_t)t->dims[0], row_bytes = cols / b->elements * b->bytes;
  gs_status st = GS_OK;
  for (int64_t row = 0; row < (int64_t)t->rows && st == GS_OK; row++) {
    const unsigned char *from = t->data + (size_t)gs_llama_source_row(m->half[i], row) * row_bytes;
    for (size_t at = 0; at < cols && st == GS_OK; at += PIECE) {
      size_t n = cols - at < PIECE ? cols - at : PIECE;
      st = put_piece(o, &m->weights[i], b, from + at / b->elements * b->bytes, n, p, file, err);
    }
  }
  return st;
}

static gs_status write_weights(const char *path, const gs_llama *m, const char *file,
                               gs_error *err) {
  static const char *const metadata[] = {"format", "pt", NULL};
  gs_safetensors_out *o = NULL;
  piece *p = malloc(sizeof *p);
  if (!p) return gs_fail(err, GS_ERR_MEMORY, "%s: out of host memory", file);
  gs_status st = gs_safetensors_begin(path, m->weights, m->n, metadata, &o, err);
  for (int i; st == GS_OK && (i = gs_safetensors_next(o)) >= 0;)
    st = put_tensor(o, m, i, p, file, err);
  if (st == GS_OK)
    st = gs_safetensors_end(o, err);
  else
    gs_safetensors_drop(o);
  free(p);
  return st;
}

static void set_ids(json_t *v, const gs_gguf_tokens *t) {
  if (t->bos >= 0) json_object_set_new(v, "bos_token_id", json_integer((json_int_t)t->bos));
  if (t->eos >= 0) json_object_set_new(v, "eos_token_id", json_integer((json_int_t)t->eos));
  if (t->pad >= 0) json_object_set_new(v, "pad_token_id", json_integer((json_int_t)t->pad));
}

/* dir/name := v, which is given up. */
static gs_status write_json(const char *dir, const char *name, json_t *v, gs_error *err) {
  gs_text path = {0};
  gs_text_printf(&path, "%s/%s", dir, name);
  gs_status st = gs_json_write(path.s, v, err);
  gs_text_free(&path);
  json_decref(v);
  return st;
}

static gs_status write_folder(const char *dir, const gs_llama *m, const gs_gguf_tokens *t,
                              gs_type type, const char *file, gs_error *err) {
  json_t *config = gs_llama_config(m, type),
         *generation = json_pack("{s:b}", "_from_model_config", 1);
  gs_text path = {0};
  set_ids(config, t);
  set_ids(generation, t);
  gs_text_printf(&path, "%s/model.safetensors", dir);
  gs_status st = write_json(dir, "config.json", config, err);
  gs_status other = write_json(dir, "generation_config.json", generation, st == GS_OK ? err : NULL);
  if (st == GS_OK) st = other;
  if (st == GS_OK) st = write_json(dir, "tokenizer.json", json_incref(t->tokenizer), err);
  if (st == GS_OK) st = write_json(dir, "tokenizer_config.json", json_incref(t->config), err);
  if (st == GS_OK) st = write_weights(path.s, m, file, err);
  gs_text_free(&path);
  return st;
}

/* Absent, or a folder without files. */
static gs_status check_target(const char *dir, gs_error *err) {
  struct stat s;
  if (stat(dir, &s) != 0)
    return errno == ENOENT
               ? GS_OK
               : gs_fail(err, GS_ERR_IO, "%s: cannot look at it: %s", dir, strerror(errno));
  DIR *d = S_ISDIR(s.st_mode) ? opendir(dir) : NULL;
  if (!d) return gs_fail(err, GS_ERR_USE, "%s: is there and is not a folder that can be read", dir);
  bool empty = true;
  for (struct dirent *e; (e = readdir(d)) != NULL;)
    if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) empty = false;
  closedir(d);
  if (empty) return GS_OK;
  return gs_fail(err, GS_ERR_USE, "%s: has files already; name a folder that is new or empty", dir);
}

/* The name that the folder gets: absolute when it is there (so that "." and links work), no final
 * '/'. */
static char *final_name(const char *dir) {
  char *real = realpath(dir, NULL);
  if (real) return real;
  size_t n = strlen(dir);
  char *s = malloc(n + 1);
  if (!s) return NULL;
  memcpy(s, dir, n + 1);
  while (n > 1 && s[n - 1] == '/') s[--n] = 0;
  return s;
}

static gs_status publish(const char *temp, const char *dir, gs_error *err) {
  if (rename(temp, dir) == 0) return GS_OK;
  return gs_fail(err, GS_ERR_IO,
                 "%s: cannot give the finished folder its name: %s (name a folder that does "
                 "not exist yet)",
                 dir, strerror(errno));
}

static gs_status write_all(const gs_llama *m, const gs_gguf_tokens *t, gs_type type,
                           const char *file, const char *dir, gs_error *err) {
  gs_text temp = {0};
  char *name = final_name(dir);
  if (!name) return gs_fail(err, GS_ERR_MEMORY, "%s: out of host memory", dir);
  gs_text_printf(&temp, "%s.tmp.%ld", name, (long)getpid());
  gs_status st = gs_mkdirs(temp.s, err);
  if (st == GS_OK) {
    st = write_folder(temp.s, m, t, type, file, err);
    if (st == GS_OK) st = publish(temp.s, name, err);
    if (st != GS_OK) gs_remove_tree(temp.s);
  }
  gs_text_free(&temp);
  free(name);
  return st;
}

gs_status gs_gguf_import(const char *file, const char *dir, gs_type type, gs_error *err) {
  gs_gguf *g = NULL;
  gs_llama m;
  gs_gguf_tokens t = {0};
  if (type != GS_BF16 && type != GS_F32)
    return gs_fail(err, GS_ERR_USE, "a model is imported as bf16 or f32, not %s",
                   gs_type_name(type));
  gs_status st = check_target(dir, err);
  if (st == GS_OK) st = gs_gguf_open(file, &g, err);
  if (st != GS_OK) return st;
  gs_arena *a = gs_arena_new();
  st = gs_llama_read(g, type, a, &m, err);
  if (st == GS_OK) st = gs_gguf_tokens_read(g, m.vocab, m.context, &t, err);
  if (st == GS_OK) st = write_all(&m, &t, type, file, dir, err);
  gs_gguf_tokens_free(&t);
  gs_arena_free(a);
  gs_gguf_close(g);
  return st;
}
