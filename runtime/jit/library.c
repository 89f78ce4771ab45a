/* library.c: where a vendor library may lie, and opening it. Looks at folders only: runs nothing.
 */
#define _GNU_SOURCE /* dlinfo: which file the loader took */
#include "jit/library.h"

#include "base/file.h"
#include "base/text.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct folders {
  char **v;
  size_t n, cap;
} folders;

static void add_folder(folders *f, const char *path) {
  if (f->n == f->cap) {
    size_t cap = f->cap ? 2 * f->cap : 16;
    char **v = realloc(f->v, cap * sizeof *v);
    if (!v) return;
    f->v = v;
    f->cap = cap;
  }
  char *copy = strdup(path);
  if (copy) f->v[f->n++] = copy;
}

static void free_folders(folders *f) {
  for (size_t i = 0; i < f->n; i++) free(f->v[i]);
  free(f->v);
}

/* Adds every existing folder that matches base + tail; the last in the alphabet (the newest) first.
 */
static void add_matches(folders *f, const char *base, const char *tail) {
  char pattern[2048];
  if (snprintf(pattern, sizeof pattern, "%s%s", base, tail) >= (int)sizeof pattern) return;
  glob_t g;
  if (glob(pattern, 0, NULL, &g) != 0) return;
  for (size_t i = g.gl_pathc; i > 0; i--) add_folder(f, g.gl_pathv[i - 1]);
  globfree(&g);
}

static void add_toolkit(folders *f, const char *root) {
  if (!root || !*root) return;
  add_matches(f, root, "/lib64");
  add_matches(f, root, "/targets/*/lib");
}

static void add_site(folders *f, const char *base, const char *tail) {
  static const char *const wheels[] = {"/nvidia/cu1[0-9]/lib", "/nvidia/cuda_nvrtc/lib",
                                       "/nvidia/cublas/lib"};
  char full[64];
  for (size_t i = 0; i < sizeof wheels / sizeof *wheels; i++) {
    snprintf(full, sizeof full, "%s%s", tail, wheels[i]);
    add_matches(f, base, full);
  }
}

/* A Python installation or environment. */
static void add_prefix(folders *f, const char *prefix) {
  if (!prefix || !*prefix) return;
  add_site(f, prefix, "/lib/python3*/site-packages");
  add_site(f, prefix, "/lib64/python3*/site-packages");
  add_site(f, prefix, "/lib/python3*/dist-packages");
}

/* The folder two levels above DIR/bin/python3. */
static void add_prefix_of(folders *f, const char *python) {
  char prefix[1024];
  if (strlen(python) >= sizeof prefix) return;
  strcpy(prefix, python);
  for (int up = 0; up < 2; up++) {
    char *slash = strrchr(prefix, '/');
    if (!slash) return;
    *slash = 0;
  }
  add_prefix(f, prefix);
}

/* Calls add for each non-empty part of a ':' list such as $PATH. */
static void each_part(folders *f, const char *list, void (*add)(folders *f, const char *part)) {
  char part[1024];
  while (list && *list) {
    size_t n = strcspn(list, ":");
    if (n > 0 && n < sizeof part) {
      memcpy(part, list, n);
      part[n] = 0;
      add(f, part);
    }
    list += n + (list[n] == ':');
  }
}

/* An environment's python3 is a link: the folder of the link counts, and of what it points to. */
static void add_python_of_bin(folders *f, const char *bin) {
  char python[1100];
  snprintf(python, sizeof python, "%s/python3", bin);
  if (!gs_path_exists(python)) return;
  add_prefix_of(f, python);
  char *real = realpath(python, NULL);
  if (real) add_prefix_of(f, real);
  free(real);
}

static void add_plain_site(folders *f, const char *site) {
  add_site(f, site, "");
}

static void list_folders(folders *f) {
  char local[1024];
  const char *home = getenv("HOME");
  add_toolkit(f, getenv("CUDA_HOME"));
  add_toolkit(f, getenv("CUDA_PATH"));
  add_toolkit(f, "/usr/local/cuda");
  add_toolkit(f, "/usr/local/cuda-*");
  add_toolkit(f, "/opt/cuda");
  each_part(f, getenv("PYTHONPATH"), add_plain_site);
  add_prefix(f, getenv("VIRTUAL_ENV"));
  add_prefix(f, getenv("CONDA_PREFIX"));
  each_part(f, getenv("PATH"), add_python_of_bin);
  if (home && snprintf(local, sizeof local, "%s/.local", home) < (int)sizeof local)
    add_prefix(f, local);
  if (home && snprintf(local, sizeof local, "%s/.pyenv/versions/*", home) < (int)sizeof local)
    add_prefix(f, local);
  add_prefix(f, "/usr/local");
  add_prefix(f, "/usr");
}

bool gs_library_try(const char *path, gs_library *out) {
  void *handle = strlen(path) < sizeof out->path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!handle) return false;
  struct link_map *map = NULL;
  const char *file = path;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name && *map->l_name) file = map->l_name;
  out->handle = handle;
  out->version = 0;
  size_t n = strlen(file);
  if (n >= sizeof out->path) n = sizeof out->path - 1;
  memcpy(out->path, file, n);
  out->path[n] = 0;
  return true;
}

/* Tries each version in one folder ("" is the loader's path). A file that is there and does not
 * load is remembered in `refused`, for the message. */
static bool try_folder(const gs_library_wanted *w, const char *folder, gs_library *out,
                       gs_text *refused) {
  char path[sizeof out->path];
  for (const int *v = w->versions; *v; v++) {
    int n = snprintf(path, sizeof path, "%s%s%s.%d", folder, *folder ? "/" : "", w->stem, *v);
    if (n < 0 || n >= (int)sizeof path) continue;
    if (*folder && !gs_path_exists(path)) continue;
    if (gs_library_try(path, out)) {
      out->version = *v;
      return true;
    }
    const char *why = dlerror();
    if (*folder && !refused->len)
      gs_text_printf(refused, "\nfound, but it does not load: %s", why ? why : path);
  }
  return false;
}

gs_status gs_library_open(const gs_library_wanted *w, gs_library *out, gs_error *err) {
  folders f = {0};
  gs_text refused = {0};
  gs_status st = GS_OK;
  if (try_folder(w, "", out, &refused)) goto done;
  list_folders(&f);
  for (size_t i = 0; i < f.n; i++)
    if (try_folder(w, f.v[i], out, &refused)) goto done;
  st = gs_fail(
      err, GS_ERR_DEVICE,
      "%s (%s.%d) was not found: not on the loader's path, not in $CUDA_HOME, $CUDA_PATH or "
      "/usr/local/cuda*, not among the packages of python3 or $VIRTUAL_ENV%s\n%s",
      w->what, w->stem, w->versions[0], refused.len ? refused.s : "", w->remedy);
done:
  free_folders(&f);
  gs_text_free(&refused);
  return st;
}

bool gs_library_symbol(const gs_library *lib, const char *name, void *function) {
  void *address = dlsym(lib->handle, name);
  if (!address) return false;
  memcpy(function, &address, sizeof address); /* C has no cast from object to function pointer */
  return true;
}
