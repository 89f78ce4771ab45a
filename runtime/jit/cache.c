/* cache.c: the kernel cache (cache.h).
 *
 * A file is KEY.gsk, KEY in hex. Its bytes: the line "gradsmith kernel 1", one line a field
 * "name value" (entry, target, compiler, options, key, log bytes, code bytes), an empty line, the
 * log, the code, and the SHA-256 of all that in 32 bytes. */
#include "jit/cache.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FORMAT "gradsmith kernel 1"
#define SUFFIX ".gsk"

struct gs_cache {
  atomic_bool has_written;
  char folder[1024];
};

/* ---- the folder ---- */

static bool find_folder(const char *dir, char *out, size_t cap) {
  const char *set = dir ? dir : getenv("GRADSMITH_CACHE");
  const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int n;
  if (set && *set)
    n = strcmp(set, "off") == 0 && !dir ? -1 : snprintf(out, cap, "%s", set);
  else if (xdg && *xdg == '/')
    n = snprintf(out, cap, "%s/gradsmith/kernels", xdg);
  else
    n = home && *home == '/' ? snprintf(out, cap, "%s/.cache/gradsmith/kernels", home) : -1;
  return n > 0 && (size_t)n < cap;
}

gs_cache *gs_cache_open(const char *dir) {
  gs_cache *c = calloc(1, sizeof *c);
  if (c && find_folder(dir, c->folder, sizeof c->folder)) return c;
  free(c);
  return NULL;
}

void gs_cache_close(gs_cache *c) {
  if (c && c->has_written) gs_cache_shrink(c, GS_CACHE_BYTES);
  free(c);
}

const char *gs_cache_folder(const gs_cache *c) {
  return c->folder;
}

/* ---- the key ---- */

static void key_hex(const gs_cache_key *k, char hex[GS_HASH_HEX]) {
  const char *const fields[] = {FORMAT,     k->entry,   k->target, k->compiler,
                                k->options, k->prelude, k->text};
  gs_hash_texts(fields, sizeof fields / sizeof *fields, hex);
}

/* ---- one entry ---- */

/* The fields in clear: what a reader compares byte for byte, and `strings` shows. */
static void add_head(gs_text *t, const gs_cache_key *k, const char *hex, size_t log, size_t code) {
  gs_text_printf(t,
                 FORMAT "\nentry %s\ntarget %s\ncompiler %s\noptions %s\nkey %s\nlog %zu\n"
                        "code %zu\n\n",
                 k->entry, k->target, k->compiler, k->options, hex, log, code);
}

/* Reads "\nNAME NUMBER\n" of the head; false when it is not there. */
static bool number_of(const char *head, size_t len, const char *name, size_t *out) {
  char line[32];
  snprintf(line, sizeof line, "\n%s ", name);
  size_t n = strlen(line);
  for (size_t i = 0; i + n < len; i++) {
    if (memcmp(head + i, line, n) != 0) continue;
    char *end;
    errno = 0;
    unsigned long long v = strtoull(head + i + n, &end, 10);
    *out = (size_t)v;
    return errno == 0 && end != head + i + n && *end == '\n';
  }
  return false;
}

/* Where the log begins: past the empty line; 0 when there is none. */
static size_t head_length(const char *data, size_t len) {
  for (size_t i = 1; i < len; i++)
    if (data[i] == '\n' && data[i - 1] == '\n') return i + 1;
  return 0;
}

/* Whether the bytes are exactly the entry of k. */
static bool is_entry(const char *data, size_t len, const gs_cache_key *k, const char *hex,
                     size_t *log, size_t *code) {
  uint8_t digest[GS_HASH_BYTES];
  size_t head = head_length(data, len);
  if (!head || !number_of(data, head, "log", log) || !number_of(data, head, "code", code))
    return false;
  if (*log > len || *code > len || head + *log + *code + GS_HASH_BYTES != len) return false;
  gs_hash(data, len - GS_HASH_BYTES, digest);
  if (memcmp(digest, data + len - GS_HASH_BYTES, GS_HASH_BYTES) != 0) return false;
  gs_text wanted = {0};
  add_head(&wanted, k, hex, *log, *code);
  bool same = wanted.len == head && memcmp(wanted.s, data, head) == 0;
  gs_text_free(&wanted);
  return same;
}

static bool path_of(const gs_cache *c, const char *hex, char *out, size_t cap) {
  int n = snprintf(out, cap, "%s/%s" SUFFIX, c->folder, hex);
  return n > 0 && (size_t)n < cap;
}

static void *copy_of(const char *s, size_t n) {
  char *p = malloc(n + 1);
  if (!p) return NULL;
  memcpy(p, s, n);
  p[n] = 0;
  return p;
}

bool gs_cache_read(const gs_cache *c, const gs_cache_key *k, gs_cached *out) {
  char hex[GS_HASH_HEX], path[1200], *data = NULL;
  size_t n = 0, nlog = 0;
  memset(out, 0, sizeof *out);
  if (!c) return false;
  key_hex(k, hex);
  if (!path_of(c, hex, path, sizeof path) || gs_file_read(path, &data, &n, NULL) != GS_OK)
    return false;
  if (is_entry(data, n, k, hex, &nlog, &out->len)) {
    size_t code = n - GS_HASH_BYTES - out->len;
    out->log = copy_of(data + code - nlog, nlog);
    out->code = copy_of(data + code, out->len);
    out->file = copy_of(path, strlen(path));
  }
  free(data);
  if (out->code && out->log && out->file) {
    utimensat(AT_FDCWD, path, NULL, 0); /* it was used; its key does not know of times */
    return true;
  }
  free(out->log);
  free(out->code);
  free(out->file);
  memset(out, 0, sizeof *out);
  return false;
}

/* Into a file of its own, then one rename. Nothing is synced: what a crash leaves is no entry. */
static bool publish(const gs_cache *c, const char *path, const gs_text *t) {
  char temp[1200];
  if (snprintf(temp, sizeof temp, "%s/.part-XXXXXX", c->folder) >= (int)sizeof temp) return false;
  int fd = mkstemp(temp);
  if (fd < 0) return false;
  size_t done = 0;
  while (done < t->len) {
    ssize_t n = write(fd, t->s + done, t->len - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += (size_t)n;
  }
  bool ok = close(fd) == 0 && done == t->len && rename(temp, path) == 0;
  if (!ok) unlink(temp);
  return ok;
}

void gs_cache_write(gs_cache *c, const gs_cache_key *k, const void *code, size_t len,
                    const char *log) {
  char hex[GS_HASH_HEX], path[1200];
  uint8_t digest[GS_HASH_BYTES];
  gs_text t = {0};
  if (!c) return;
  key_hex(k, hex);
  if (!path_of(c, hex, path, sizeof path) || gs_mkdirs(c->folder, NULL) != GS_OK) return;
  add_head(&t, k, hex, strlen(log), len);
  gs_text_add(&t, log);
  gs_text_add_n(&t, code, len);
  gs_hash(t.s, t.len, digest);
  gs_text_add_n(&t, (const char *)digest, GS_HASH_BYTES);
  if (publish(c, path, &t)) c->has_written = true;
  gs_text_free(&t);
}

/* ---- the whole folder ---- */

static bool has_suffix(const char *name, const char *suffix) {
  size_t n = strlen(name), m = strlen(suffix);
  return n > m && strcmp(name + n - m, suffix) == 0;
}

/* Ours: entries, and parts that a killed process left. */
static bool is_ours(const char *name) {
  return has_suffix(name, SUFFIX) || strncmp(name, ".part-", 6) == 0;
}

static gs_status each_file(const gs_cache *c, bool remove, int64_t *count, int64_t *bytes,
                           gs_error *err) {
  *count = *bytes = 0;
  DIR *d = opendir(c->folder);
  if (!d && errno == ENOENT) return GS_OK;
  if (!d) return gs_fail(err, GS_ERR_IO, "cannot read %s: %s", c->folder, strerror(errno));
  gs_status st = GS_OK;
  for (struct dirent *f = readdir(d); f && st == GS_OK; f = readdir(d)) {
    char path[1400];
    struct stat s;
    snprintf(path, sizeof path, "%s/%s", c->folder, f->d_name);
    if (!is_ours(f->d_name) || stat(path, &s) != 0) continue;
    if (remove && unlink(path) != 0 && errno != ENOENT)
      st = gs_fail(err, GS_ERR_IO, "cannot remove %s: %s", path, strerror(errno));
    ++*count;
    *bytes += s.st_size;
  }
  closedir(d);
  return st;
}

gs_status gs_cache_measure(const gs_cache *c, int64_t *entries, int64_t *bytes, gs_error *err) {
  return each_file(c, false, entries, bytes, err);
}

gs_status gs_cache_clear(const gs_cache *c, int64_t *removed, gs_error *err) {
  int64_t bytes;
  return each_file(c, true, removed, &bytes, err);
}

/* ---- not growing for ever ---- */

typedef struct used {
  char name[72];
  int64_t at, bytes;
} used;

static int oldest_first(const void *a, const void *b) {
  const used *x = a, *y = b;
  return x->at < y->at ? -1 : x->at > y->at;
}

/* The entries of the folder, malloc'ed; *n of them, *total bytes. */
static used *list_entries(const gs_cache *c, size_t *n, int64_t *total) {
  used *list = NULL;
  size_t cap = 0;
  DIR *d = opendir(c->folder);
  *n = 0;
  *total = 0;
  for (struct dirent *f = d ? readdir(d) : NULL; f; f = readdir(d)) {
    struct stat s;
    if (!has_suffix(f->d_name, SUFFIX) || strlen(f->d_name) >= sizeof list->name ||
        fstatat(dirfd(d), f->d_name, &s, 0) != 0)
      continue;
    if (*n == cap) {
      cap = cap ? 2 * cap : 256;
      used *more = realloc(list, cap * sizeof *list);
      if (!more) break;
      list = more;
    }
    strcpy(list[*n].name, f->d_name);
    list[*n].at = (int64_t)s.st_mtim.tv_sec * 1000000000 + s.st_mtim.tv_nsec;
    *total += list[(*n)++].bytes = s.st_size;
  }
  if (d) closedir(d);
  return list;
}

void gs_cache_shrink(const gs_cache *c, int64_t most) {
  size_t n;
  int64_t total;
  used *list = list_entries(c, &n, &total);
  if (total > most && list) {
    qsort(list, n, sizeof *list, oldest_first);
    most -= most / 4; /* so that not every run has to */
    for (size_t i = 0; i < n && total > most; i++) {
      char path[1200];
      snprintf(path, sizeof path, "%s/%s", c->folder, list[i].name);
      if (unlink(path) == 0) total -= list[i].bytes;
    }
  }
  free(list);
}
