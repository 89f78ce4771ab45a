/* file.c: a pack opened, verified, and searched (file.h). */
#include "pack/file.h"

#include "base/file.h"
#include "base/hash.h"
#include "pack/index.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gs_pack_file {
  char *data;
  gs_arena *arena;
  gs_pack_about about;
};

/* ---- opening ---- */

static uint64_t little(const char *p) {
  uint64_t v = 0;
  for (int i = 7; i >= 0; i--) v = v << 8 | (unsigned char)p[i];
  return v;
}

/* Whether the bytes are what some writer of a pack wrote. */
static bool is_whole(const char *data, size_t len) {
  uint8_t digest[GS_HASH_BYTES];
  if (len < GS_PACK_HEAD + GS_HASH_BYTES || memcmp(data, GS_PACK_LINE, strlen(GS_PACK_LINE)) != 0)
    return false;
  gs_hash(data, len - GS_HASH_BYTES, digest);
  return memcmp(digest, data + len - GS_HASH_BYTES, GS_HASH_BYTES) == 0;
}

static gs_status read_whole(gs_pack_file *f, const char *path, size_t len, gs_error *err) {
  if (!is_whole(f->data, len))
    return gs_fail(err, GS_ERR_INPUT,
                   "%s is no pack of kernels, or it was cut or altered: its hash does not fit",
                   path);
  int format = atoi(f->data + strlen(GS_PACK_LINE));
  if (format != GS_PACK_FORMAT)
    return gs_fail(err, GS_ERR_INPUT, "%s is a pack of format %d; this program reads format %d",
                   path, format, GS_PACK_FORMAT);
  uint64_t index = little(f->data + 32), room = len - GS_PACK_HEAD - GS_HASH_BYTES;
  uint64_t blobs = (index + GS_PACK_ALIGN - 1) / GS_PACK_ALIGN * GS_PACK_ALIGN;
  const char *json = f->data + GS_PACK_HEAD;
  if (index > room || blobs > room ||
      !gs_pack_read_index(f->arena, json, index, json + blobs, room - blobs, &f->about))
    return gs_fail(err, GS_ERR_INPUT, "%s: its index is not that of a pack of format %d", path,
                   GS_PACK_FORMAT);
  f->about.bytes = len;
  f->about.path = gs_arena_strdup(f->arena, path);
  return GS_OK;
}

gs_status gs_pack_file_open(const char *path, gs_pack_file **out, gs_error *err) {
  size_t len = 0;
  *out = NULL;
  gs_pack_file *f = calloc(1, sizeof *f);
  if (!f) return gs_fail(err, GS_ERR_MEMORY, "no memory for the pack %s", path);
  f->arena = gs_arena_new();
  gs_status st = gs_file_read(path, &f->data, &len, err);
  if (st == GS_OK) st = read_whole(f, path, len, err);
  if (st != GS_OK) {
    gs_pack_file_close(f);
    return st;
  }
  *out = f;
  return GS_OK;
}

void gs_pack_file_close(gs_pack_file *f) {
  if (!f) return;
  if (f->arena) gs_arena_free(f->arena);
  free(f->data);
  free(f);
}

const gs_pack_about *gs_pack_file_about(const gs_pack_file *f) {
  return &f->about;
}

/* ---- which target ---- */

/* "sm_90a": 90 and 'a'; "sm_100": 100 and 0. False for a name of another kind. */
static bool split_target(const char *name, const char *prefix, int *capability, char *suffix) {
  size_t n = strlen(prefix);
  char *end;
  if (strncmp(name, prefix, n) != 0 || !isdigit((unsigned char)name[n])) return false;
  *capability = (int)strtol(name + n, &end, 10);
  *suffix = *end;
  return !*end || !end[1];
}

/* How well the target suits; 0: not at all. Among equals the later capability is better. */
static int fitness(const char *target, int major, int minor) {
  int c, here = 10 * major + minor;
  char suffix;
  if (split_target(target, "sm_", &c, &suffix)) {
    bool below = c / 10 == major && c <= here;
    if (suffix == 'a') return c == here ? 4000 : 0;
    if (suffix == 'f') return below ? 3000 + c : 0;
    return !suffix && below ? 2000 + c : 0;
  }
  if (split_target(target, "compute_", &c, &suffix)) return !suffix && c <= here ? 1 + c : 0;
  return 0;
}

gs_status gs_pack_file_choose(const gs_pack_file *f, int major, int minor,
                              const gs_pack_target **out, gs_error *err) {
  int best = 0;
  char names[512] = "";
  *out = NULL;
  for (int i = 0; i < f->about.ntargets; i++) {
    const gs_pack_target *t = &f->about.targets[i];
    int fit = fitness(t->name, major, minor);
    if (fit > best) *out = t, best = fit;
    size_t n = strlen(names);
    snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "", t->name);
  }
  if (*out) return GS_OK;
  return gs_fail(err, GS_ERR_DEVICE,
                 "the pack %s has no code for a GPU of compute capability %d.%d; it has %s",
                 f->about.path, major, minor, *names ? names : "none");
}

/* ---- finding ---- */

const gs_pack_record *gs_pack_file_record(const gs_pack_file *f, const char *key,
                                          const char *schedule) {
  for (int i = 0; i < f->about.nrecords; i++) {
    const gs_pack_record *r = &f->about.records[i];
    if (strcmp(r->key, key) == 0 && strcmp(r->schedule, schedule) == 0) return r;
  }
  return NULL;
}

const gs_pack_code *gs_pack_file_code(const gs_pack_file *f, const char *entry, const char *text,
                                      const char *target) {
  const gs_pack_code *codes = f->about.codes;
  int low = 0, high = f->about.ncodes;
  while (low < high) { /* the first of that entry */
    int middle = low + (high - low) / 2;
    if (strcmp(codes[middle].entry, entry) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  for (; low < f->about.ncodes && strcmp(codes[low].entry, entry) == 0; low++)
    if (strcmp(codes[low].text, text) == 0 && strcmp(codes[low].target, target) == 0)
      return &codes[low];
  return NULL;
}

/* Letters to change, add or leave out between two keys. */
static int distance(const char *a, const char *b) {
  enum { LONGEST = 400 };
  int row[LONGEST + 1];
  int n = (int)strnlen(a, LONGEST), m = (int)strnlen(b, LONGEST);
  for (int j = 0; j <= m; j++) row[j] = j;
  for (int i = 1; i <= n; i++) {
    int before = row[0];
    row[0] = i;
    for (int j = 1; j <= m; j++) {
      int change = before + (a[i - 1] != b[j - 1]);
      before = row[j];
      int shift = (row[j - 1] < row[j] ? row[j - 1] : row[j]) + 1;
      row[j] = change < shift ? change : shift;
    }
  }
  return row[m];
}

/* Another layer or pass is farther than any other size or option of the same. */
static int key_distance(const char *a, const char *b) {
  size_t n = strcspn(a, " "), m = strcspn(b, " ");
  bool same = n == m && memcmp(a, b, n) == 0;
  return distance(a, b) + (same ? 0 : 1000);
}

const char *gs_pack_file_nearest(const gs_pack_file *f, const char *key, const char *schedule) {
  const char *best = NULL;
  int least = 0;
  for (int i = 0; i < f->about.nrecords; i++) {
    const gs_pack_record *r = &f->about.records[i];
    if (strcmp(r->schedule, schedule) != 0) continue;
    int d = key_distance(key, r->key);
    if (!best || d < least) best = r->key, least = d;
  }
  return best;
}
