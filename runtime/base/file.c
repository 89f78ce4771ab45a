/* file.c: whole files in, whole files out, through the system's calls. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static gs_status io_error(gs_error *err, const char *what, const char *path) {
  const char *hint = errno == ENOSPC || errno == EDQUOT ? " (free some room and run again)" : "";
  return gs_fail(err, GS_ERR_IO, "%s: cannot %s: %s%s", path, what, strerror(errno), hint);
}

gs_status gs_file_read(const char *path, char **data, size_t *len, gs_error *err) {
  gs_status st = GS_OK;
  char *buf = NULL;
  struct stat s;
  FILE *f = fopen(path, "rb");
  if (!f) return io_error(err, "open", path);
  if (fstat(fileno(f), &s) != 0) {
    st = io_error(err, "read", path);
    goto done;
  }
  if (!S_ISREG(s.st_mode)) {
    st = gs_fail(err, GS_ERR_IO, "%s: not a regular file", path);
    goto done;
  }
  buf = malloc((size_t)s.st_size + 1);
  if (!buf) {
    st =
        gs_fail(err, GS_ERR_MEMORY, "%s: no memory for its %lld bytes", path, (long long)s.st_size);
    goto done;
  }
  size_t n = fread(buf, 1, (size_t)s.st_size, f);
  if (n != (size_t)s.st_size && ferror(f)) {
    st = io_error(err, "read", path);
    goto done;
  }
  buf[n] = 0;
  *data = buf;
  *len = n;
  buf = NULL;
done:
  free(buf);
  fclose(f);
  return st;
}

gs_status gs_file_create(gs_file_out *o, const char *path, gs_error *err) {
  size_t n = strlen(path) + 32;
  o->final_path = malloc(n);
  o->temp_path = malloc(n);
  o->f = NULL;
  if (!o->final_path || !o->temp_path) {
    gs_file_drop(o);
    return gs_fail(err, GS_ERR_MEMORY, "%s: out of host memory", path);
  }
  snprintf(o->final_path, n, "%s", path);
  snprintf(o->temp_path, n, "%s.tmp.%ld", path, (long)getpid());
  o->f = fopen(o->temp_path, "wb");
  if (!o->f) {
    gs_status st = io_error(err, "create", path);
    gs_file_drop(o);
    return st;
  }
  return GS_OK;
}

gs_status gs_file_put(gs_file_out *o, const void *data, size_t len, gs_error *err) {
  if (len == 0 || fwrite(data, 1, len, o->f) == len) return GS_OK;
  return io_error(err, "write", o->final_path);
}

gs_status gs_file_commit(gs_file_out *o, gs_error *err) {
  gs_status st = GS_OK;
  FILE *f = o->f;
  o->f = NULL;
  bool ok = fflush(f) == 0 && fsync(fileno(f)) == 0;
  if (!ok) st = io_error(err, "write", o->final_path);
  if (fclose(f) != 0 && ok) st = io_error(err, "write", o->final_path);
  if (st == GS_OK && rename(o->temp_path, o->final_path) != 0)
    st = io_error(err, "rename to its final name", o->final_path);
  if (st != GS_OK) unlink(o->temp_path);
  free(o->final_path);
  free(o->temp_path);
  *o = (gs_file_out){0};
  return st;
}

void gs_file_drop(gs_file_out *o) {
  if (o->f) {
    fclose(o->f);
    unlink(o->temp_path);
  }
  free(o->final_path);
  free(o->temp_path);
  *o = (gs_file_out){0};
}

gs_status gs_file_write(const char *path, const void *data, size_t len, gs_error *err) {
  gs_file_out o = {0};
  gs_status st = gs_file_create(&o, path, err);
  if (st == GS_OK) st = gs_file_put(&o, data, len, err);
  if (st == GS_OK) return gs_file_commit(&o, err);
  gs_file_drop(&o);
  return st;
}

gs_status gs_map_open(gs_map *m, const char *path, gs_error *err) {
  *m = (gs_map){0};
  struct stat s;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return io_error(err, "open", path);
  gs_status st = GS_OK;
  if (fstat(fd, &s) != 0) {
    st = io_error(err, "read", path);
  } else if (!S_ISREG(s.st_mode)) {
    st = gs_fail(err, GS_ERR_IO, "%s: not a regular file", path);
  } else if (s.st_size > 0) {
    void *p = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED) {
      st = io_error(err, "map", path);
    } else {
      m->data = p;
      m->len = (size_t)s.st_size;
    }
  }
  close(fd);
  return st;
}

void gs_map_close(gs_map *m) {
  if (m->data) munmap((void *)(uintptr_t)m->data, m->len);
  *m = (gs_map){0};
}

bool gs_path_exists(const char *path) {
  struct stat s;
  return stat(path, &s) == 0;
}

gs_status gs_mkdirs(const char *path, gs_error *err) {
  char part[PATH_MAX];
  size_t n = strlen(path);
  if (n == 0 || n >= sizeof part) return gs_fail(err, GS_ERR_USE, "%s: not a usable path", path);
  memcpy(part, path, n + 1);
  for (size_t i = 1; i <= n; i++) {
    if (part[i] != '/' && part[i] != 0) continue;
    char kept = part[i];
    part[i] = 0;
    if (mkdir(part, 0777) != 0 && errno != EEXIST) return io_error(err, "create the folder", part);
    part[i] = kept;
  }
  struct stat s;
  if (stat(path, &s) != 0 || !S_ISDIR(s.st_mode))
    return gs_fail(err, GS_ERR_IO, "%s: is there and is not a folder", path);
  return GS_OK;
}

gs_status gs_temp_dir(char *out, size_t cap, gs_error *err) {
  const char *base = getenv("TMPDIR");
  if (!base || !*base) base = "/tmp";
  int n = snprintf(out, cap, "%s/gradsmith.XXXXXX", base);
  if (n < 0 || (size_t)n >= cap) return gs_fail(err, GS_ERR_USE, "TMPDIR is too long: %s", base);
  if (!mkdtemp(out)) return io_error(err, "create a folder here (is TMPDIR writable?)", base);
  return GS_OK;
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *where) {
  (void)s;
  (void)kind;
  (void)where;
  remove(path);
  return 0;
}

void gs_remove_tree(const char *path) {
  nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
