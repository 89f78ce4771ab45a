/* build.c: kernels' text to code: a few C++ files, compiled at the same time by the host's compiler
 * into shared objects in a private folder, loaded, and the folder removed. When a text does not
 * compile, that text is kept and the error says where. */
#include "base/asset.h"
#include "base/file.h"
#include "device/emu/internal.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- the compiler ---- */

static bool on_path(const char *name, char *out, size_t cap) {
  const char *path = getenv("PATH");
  if (path == NULL) path = "/usr/local/bin:/usr/bin:/bin";
  while (*path != '\0') {
    size_t n = strcspn(path, ":");
    int len = snprintf(out, cap, "%.*s/%s", (int)n, path, name);
    if (n > 0 && (size_t)len < cap && access(out, X_OK) == 0) return true;
    path += n + (path[n] == ':');
  }
  return false;
}

gs_status emu_find_compiler(emu *e, gs_error *err) {
  static const char *const names[] = {"clang++",    "clang++-20", "clang++-19", "clang++-18",
                                      "clang++-17", "clang++-16", "clang++-15", "clang++-14",
                                      "g++",        "c++"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (on_path(names[i], e->compiler, sizeof e->compiler)) return GS_OK;
  return gs_fail(err, GS_ERR_DEVICE,
                 "the emulator needs a C++ compiler and found none on PATH: install clang or g++ "
                 "(Debian, Ubuntu: apt install clang)");
}

static gs_status start_compiler(const emu *e, const char *dir, int unit, pid_t *pid,
                                gs_error *err) {
  char source[600], object[600], log[600], include[600];
  snprintf(source, sizeof source, "%s/unit%d.cpp", dir, unit);
  snprintf(object, sizeof object, "%s/unit%d.so", dir, unit);
  snprintf(log, sizeof log, "%s/unit%d.log", dir, unit);
  snprintf(include, sizeof include, "-I%s", dir);
  const char *const argv[] = {
    e->compiler,
    "-std=c++17",
    e->o.checked ? "-O1" : "-O3",
#if defined(__x86_64__)
    "-march=native",
#elif defined(__aarch64__)
    "-mcpu=native",
#endif
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-fvisibility=hidden",
    "-w",
    "-fPIC",
    "-shared",
    e->o.checked ? "-DGS_CHECKED" : "-DGS_PLAIN",
    include,
    source,
    "-o",
    object,
    "-lm",
    NULL
  };
  posix_spawn_file_actions_t io;
  posix_spawn_file_actions_init(&io);
  posix_spawn_file_actions_addopen(&io, 1, log, O_CREAT | O_WRONLY | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&io, 1, 2);
  int rc = posix_spawn(pid, e->compiler, &io, NULL, (char *const *)argv, environ);
  posix_spawn_file_actions_destroy(&io);
  if (rc != 0) return gs_fail(err, GS_ERR_DEVICE, "cannot run %s: %s", e->compiler, strerror(rc));
  return GS_OK;
}

/* ---- the text of a unit ---- */

/* A kernel's text with its lines numbered from 1 as entry.cu, in a namespace of its own. Its own
 * #line directives become comments: reports speak of this text. */
static void add_kernel(gs_text *t, const gs_kernel *k, int number) {
  gs_text_printf(t, "namespace gs_k%d {\n#line 1 \"%s.cu\"\n", number, k->entry);
  for (const char *p = k->text; *p != '\0';) {
    size_t n = strcspn(p, "\n");
    if (strncmp(p, "#line", 5) == 0) gs_text_add(t, "//");
    gs_text_add_n(t, p, n);
    gs_text_add(t, "\n");
    p += n + (p[n] == '\n');
  }
  gs_text_add(t, "}\n");
}

static gs_status write_text(const char *dir, const char *name, const char *s, size_t n,
                            gs_error *err) {
  char path[1024];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  return gs_file_write(path, s, n, err);
}

static gs_status write_prelude(const char *dir, gs_error *err) {
  static const char *const names[] = {"prelude_emu.h", "emu_abi.h"};
  for (int i = 0; i < 2; i++) {
    char asset[64];
    snprintf(asset, sizeof asset, "templates/%s", names[i]);
    const gs_asset *a = gs_asset_find(asset);
    if (a == NULL) return gs_fail(err, GS_ERR_COMPILE, "%s is not in this program", asset);
    gs_status s = write_text(dir, names[i], a->data, a->len, err);
    if (s != GS_OK) return s;
  }
  return GS_OK;
}

/* Kernels unit, unit + units, ... of k. */
static gs_status write_unit(const char *dir, const gs_kernel *const *k, int n, int unit, int units,
                            gs_error *err) {
  char name[32];
  gs_text t = {0};
  gs_text_add(&t, "#include \"prelude_emu.h\"\n");
  for (int i = unit; i < n; i += units) add_kernel(&t, k[i], i);
  snprintf(name, sizeof name, "unit%d.cpp", unit);
  gs_status s = write_text(dir, name, t.s, t.len, err);
  gs_text_free(&t);
  return s;
}

/* ---- failures ---- */

void emu_origin(const char *text, int line, char *out, size_t cap) {
  int at = 1, from = 0, number = 0;
  char file[128] = "", name[128];
  for (const char *p = text; p && *p && at < line; at++) {
    int n;
    if (sscanf(p, "#line %d \"%127[^\"\n]\"", &n, name) == 2) {
      from = at, number = n;
      memcpy(file, name, sizeof file);
    }
    p = strchr(p, '\n');
    if (p) p++;
  }
  snprintf(out, cap, "%s", "");
  if (from) snprintf(out, cap, " (%s:%d)", file, number + line - from - 1);
}

/* Where the log's first error comes from, if from a layer's file. */
static void error_origin(const char *log, const gs_kernel *bad, char *out, size_t cap) {
  char start[300];
  int len = snprintf(start, sizeof start, "%s.cu:", bad->entry);
  const char *at = strstr(log, start), *error = strstr(log, "error:");
  for (const char *next = at; next && error && next < error; next = strstr(next + 1, start))
    at = next;
  snprintf(out, cap, "%s", "");
  if (at) emu_origin(bad->text, atoi(at + len), out, cap);
}

/* The kernel that the log's first error is in. */
static const gs_kernel *culprit(const char *log, const gs_kernel *const *k, int n) {
  const char *at = strstr(log, "error:");
  if (at == NULL) at = log;
  while (at > log && at[-1] != '\n') at--;
  for (int i = 0; i < n; i++) {
    char file[300];
    int len = snprintf(file, sizeof file, "%s.cu:", k[i]->entry);
    if (len > 0 && strncmp(at, file, (size_t)len) == 0) return k[i];
  }
  for (int i = 0; i < n; i++) { /* an error in the prelude: a note names the kernel */
    char file[300];
    snprintf(file, sizeof file, "%s.cu:", k[i]->entry);
    if (strstr(log, file) != NULL) return k[i];
  }
  return k[0];
}

/* Says what went wrong in a unit; leaves the kernel's text in the folder *kept says. */
static gs_status fail_unit(const emu *e, const char *dir, int unit, const gs_kernel *const *k,
                           int n, gs_error *err) {
  char path[700], kept[256] = "", *log = NULL;
  size_t len = 0;
  snprintf(path, sizeof path, "%s/unit%d.log", dir, unit);
  if (gs_file_read(path, &log, &len, NULL) != GS_OK) log = NULL;
  const gs_kernel *bad = culprit(log ? log : "", k, n);
  if (gs_temp_dir(kept, sizeof kept, NULL) == GS_OK) {
    snprintf(path, sizeof path, "%s.cu", bad->entry);
    write_text(kept, path, bad->text, strlen(bad->text), NULL);
  }
  char origin[160];
  error_origin(log ? log : "", bad, origin, sizeof origin);
  gs_fail(err, GS_ERR_COMPILE,
          "kernel %s%s does not compile with %s (its text is kept as %s/%s.cu):\n%.2500s",
          bad->entry, origin, e->compiler, kept, bad->entry,
          log && len ? log : "(the compiler said nothing)");
  free(log);
  return GS_ERR_COMPILE;
}

/* ---- loading ---- */

gs_status emu_read_params(gs_func *f, gs_error *err) {
  static const struct {
    const char *word;
    param_kind kind;
  } kinds[] = {{"GS_IN(", P_IN},     {"GS_OUT(", P_OUT},    {"GS_INOUT(", P_INOUT},
               {"GS_STEP(", P_STEP}, {"GS_STRIDE(", P_I64}, {"GS_DIM(", P_I64},
               {"GS_NUM(", P_F32}};
  for (const char *p = strstr(f->code->params, "GS_"); p != NULL; p = strstr(p, "GS_")) {
    const char *end = strchr(p, ')');
    size_t i = 0, nkinds = sizeof kinds / sizeof *kinds;
    while (i < nkinds && strncmp(p, kinds[i].word, strlen(kinds[i].word)) != 0) i++;
    if (end == NULL || i == nkinds || f->nparams == MAX_PARAMS)
      return gs_fail(err, GS_ERR_COMPILE, "kernel %s: cannot read its parameters: %s", f->entry,
                     f->code->params);
    param *q = &f->params[f->nparams++];
    q->kind = kinds[i].kind;
    const char *last = end;
    while (last[-1] == ' ') last--;
    const char *first = last;
    while (first[-1] != ' ' && first[-1] != ',' && first[-1] != '(') first--;
    snprintf(q->name, sizeof q->name, "%.*s", (int)(last - first), first);
    p = end;
  }
  return GS_OK;
}

static gs_status make_func(emu *e, void *lib, const gs_kernel *k, gs_error *err) {
  const gs_emu_entry *code = dlsym(lib, k->entry);
  if (code == NULL)
    return gs_fail(err, GS_ERR_COMPILE, "the text of kernel %s defines no kernel of that name",
                   k->entry);
  if (code->abi != GS_EMU_ABI || code->threads != k->threads || code->threads % 32 != 0 ||
      code->threads > MAX_THREADS || code->threads < 32 || code->barrier_free != k->barrier_free)
    return gs_fail(err, GS_ERR_COMPILE,
                   "kernel %s: its text says %d threads, barrier-free %d; its record says %d, %d "
                   "(threads are a multiple of 32, at most %d)",
                   k->entry, code->threads, code->barrier_free, k->threads, k->barrier_free,
                   MAX_THREADS);
  gs_func *f = calloc(1, sizeof *f);
  if (f == NULL) return gs_fail(err, GS_ERR_MEMORY, "no memory for kernel %s", k->entry);
  f->next = e->funcs;
  e->funcs = f;
  f->entry = strdup(k->entry);
  f->text = strdup(k->text);
  f->code = code;
  if (!f->entry || !f->text)
    return gs_fail(err, GS_ERR_MEMORY, "no memory for kernel %s", k->entry);
  return emu_read_params(f, err);
}

static gs_status load_unit(emu *e, const char *dir, const gs_kernel *const *k, int n, int unit,
                           int units, gs_error *err) {
  char path[1024];
  snprintf(path, sizeof path, "%s/unit%d.so", dir, unit);
  void **grown = realloc(e->libs, (e->nlibs + 1) * sizeof *grown);
  if (grown == NULL) return gs_fail(err, GS_ERR_MEMORY, "no memory for compiled kernels");
  e->libs = grown;
  void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (lib == NULL)
    return gs_fail(err, GS_ERR_COMPILE, "cannot load compiled kernels: %s", dlerror());
  e->libs[e->nlibs++] = lib;
  for (int i = unit; i < n; i += units) {
    gs_status s = make_func(e, lib, k[i], err);
    if (s != GS_OK) return s;
  }
  return GS_OK;
}

void emu_free_funcs(emu *e) {
  for (gs_func *f = e->funcs, *next; f != NULL; f = next) {
    next = f->next;
    free(f->entry);
    free(f->text);
    free(f);
  }
  for (size_t i = 0; i < e->nlibs; i++) dlclose(e->libs[i]);
  free(e->libs);
}

/* ---- all together ---- */

/* Compiles `units` files at the same time; the first that fails is the error. */
static gs_status compile_units(const emu *e, const char *dir, const gs_kernel *const *k, int n,
                               int units, gs_error *err) {
  pid_t *pids = calloc((size_t)units, sizeof *pids);
  if (pids == NULL) return gs_fail(err, GS_ERR_MEMORY, "no memory to compile kernels");
  gs_status s = GS_OK;
  for (int u = 0; u < units && s == GS_OK; u++) {
    s = write_unit(dir, k, n, u, units, err);
    if (s == GS_OK) s = start_compiler(e, dir, u, &pids[u], err);
  }
  for (int u = 0; u < units; u++) {
    int rc = 0;
    if (pids[u] <= 0) continue;
    while (waitpid(pids[u], &rc, 0) < 0 && errno == EINTR) {
    }
    if (rc != 0 && s == GS_OK) s = fail_unit(e, dir, u, k, n, err);
  }
  free(pids);
  return s;
}

static gs_func *find_func(const emu *e, const char *entry) {
  gs_func *f = e->funcs;
  while (f != NULL && strcmp(f->entry, entry) != 0) f = f->next;
  return f;
}

static gs_status build(emu *e, const gs_kernel *const *k, int n, gs_error *err) {
  char dir[256];
  gs_status s = gs_temp_dir(dir, sizeof dir, err);
  if (s != GS_OK) return s;
  int units = n < e->o.compile_jobs ? n : e->o.compile_jobs;
  s = write_prelude(dir, err);
  if (s == GS_OK) s = compile_units(e, dir, k, n, units, err);
  for (int u = 0; u < units && s == GS_OK; u++) s = load_unit(e, dir, k, n, u, units, err);
  gs_remove_tree(dir);
  return s;
}

gs_status emu_compile(gs_device *d, const gs_kernel *const *k, int n, gs_func **out,
                      gs_error *err) {
  emu *e = (emu *)d;
  const gs_kernel **fresh = calloc((size_t)n, sizeof(const gs_kernel *));
  if (fresh == NULL) return gs_fail(err, GS_ERR_MEMORY, "no memory to compile kernels");
  int nfresh = 0;
  for (int i = 0; i < n; i++) {
    bool known = find_func(e, k[i]->entry) != NULL;
    for (int j = 0; j < nfresh && !known; j++) known = strcmp(fresh[j]->entry, k[i]->entry) == 0;
    if (!known) fresh[nfresh++] = k[i];
  }
  gs_status s = nfresh > 0 ? build(e, fresh, nfresh, err) : GS_OK;
  for (int i = 0; i < n && s == GS_OK; i++) out[i] = find_func(e, k[i]->entry);
  free(fresh);
  return s;
}
