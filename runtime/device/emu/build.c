/* build.c: kernels' text to code: a few C++ files, compiled at the same time by the host's compiler
 * into shared objects in a private folder, loaded, and the folder removed. A shared object is kept
 * (jit/cache.h) once for each of its kernels, so that whatever kernels a later run wants it finds
 * each by itself. When a text does not compile, that text is kept and the error says where. */
#include "base/asset.h"
#include "base/file.h"
#include "base/hash.h"
#include "device/emu/internal.h"
#include "jit/cache.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PER_UNIT = 8 }; /* kernels of a file: the prelude costs as much as a few */

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

static const char *const flags[] = {
    "-std=c++17",
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
};
enum { NFLAGS = sizeof flags / sizeof *flags };

/* Starts a program with its output and its errors in a file. */
static gs_status start(const char *const *argv, const char *log, pid_t *pid, gs_error *err) {
  posix_spawn_file_actions_t io;
  posix_spawn_file_actions_init(&io);
  posix_spawn_file_actions_addopen(&io, 1, log, O_CREAT | O_WRONLY | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&io, 1, 2);
  int rc = posix_spawn(pid, argv[0], &io, NULL, (char *const *)argv, environ);
  posix_spawn_file_actions_destroy(&io);
  if (rc != 0) return gs_fail(err, GS_ERR_DEVICE, "cannot run %s: %s", argv[0], strerror(rc));
  return GS_OK;
}

static int wait_for(pid_t pid) {
  int rc = 0;
  while (waitpid(pid, &rc, 0) < 0 && errno == EINTR) {
  }
  return rc;
}

static gs_status start_compiler(const emu *e, const char *dir, int unit, pid_t *pid,
                                gs_error *err) {
  char source[600], object[600], log[600], include[600];
  snprintf(source, sizeof source, "%s/unit%d.cpp", dir, unit);
  snprintf(object, sizeof object, "%s/unit%d.o", dir, unit);
  snprintf(log, sizeof log, "%s/unit%d.log", dir, unit);
  snprintf(include, sizeof include, "-I%s", dir);
  const char *argv[NFLAGS + 12] = {e->compiler};
  int n = 1;
  for (int i = 0; i < NFLAGS; i++) argv[n++] = flags[i];
  argv[n++] =
      e->o.checked ? "-O0" : "-O3"; /* checks are calls: compiling costs more than running */
  argv[n++] = e->o.checked ? "-DGS_CHECKED" : "-DGS_PLAIN";
  argv[n++] = include;
  argv[n++] = "-c";
  argv[n++] = source;
  argv[n++] = "-o";
  argv[n++] = object;
  argv[n] = NULL;
  return start(argv, log, pid, err);
}

static bool runs(const char *const *argv, const char *log) {
  pid_t pid;
  return start(argv, log, &pid, NULL) == GS_OK && wait_for(pid) == 0;
}

/* By the linker itself: through the compiler it costs as much as a small unit's whole compilation.
 * Where that does not do (none on PATH, a helper of the compiler's library is needed), through it.
 * Without symbols and padding what is kept is a third smaller. */
static bool link_unit(const emu *e, const char *dir, int unit) {
  char ld[512], object[600], shared[600], log[600];
  snprintf(object, sizeof object, "%s/unit%d.o", dir, unit);
  snprintf(shared, sizeof shared, "%s/unit%d.so", dir, unit);
  snprintf(log, sizeof log, "%s/unit%d.log", dir, unit);
  const char *const alone[] = {ld,    "-shared", "-s",   "-z", "noseparate-code",
                               "-z",  "defs",    object, "-o", shared,
                               "-lm", "-lc",     NULL};
  const char *const through[] = {
      e->compiler, "-shared", "-Wl,-s,-z,noseparate-code", object, "-o", shared, "-lm", NULL};
  return (on_path("ld", ld, sizeof ld) && runs(alone, log)) || runs(through, log);
}

/* ---- what code depends on besides its text ---- */

/* The lines of /proc/cpuinfo that say what the first processor can do, hashed. */
static void processor(char hex[GS_HASH_HEX]) {
  static const char *const what[] = {"vendor_id", "cpu family",      "model",    "stepping",
                                     "flags",     "CPU implementer", "CPU part", "Features"};
  char line[8192];
  gs_text t = {0};
  FILE *f = fopen("/proc/cpuinfo", "r");
  while (f && fgets(line, sizeof line, f) && *line != '\n')
    for (size_t i = 0; i < sizeof what / sizeof *what; i++)
      if (strncmp(line, what[i], strlen(what[i])) == 0) gs_text_add(&t, line);
  if (f) fclose(f);
  const char *const texts[] = {t.s ? t.s : ""};
  gs_hash_texts(texts, 1, hex);
  gs_text_free(&t);
}

/* "Debian clang version 14.0.6, processor 1f0c..." into e->build. */
static void note_build(emu *e, const char *dir) {
  char log[600], hex[GS_HASH_HEX], *said = NULL;
  size_t n = 0;
  pid_t pid;
  snprintf(log, sizeof log, "%s/version", dir);
  const char *const argv[] = {e->compiler, "--version", NULL};
  if (start(argv, log, &pid, NULL) != GS_OK || wait_for(pid) != 0 ||
      gs_file_read(log, &said, &n, NULL) != GS_OK)
    return;
  processor(hex);
  snprintf(e->build, sizeof e->build, "%.*s, processor %.16s", (int)strcspn(said, "\n"), said, hex);
  free(said);
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

/* The folder is private and short-lived: nothing waits for the disk. */
static gs_status write_text(const char *dir, const char *name, const char *s, size_t n,
                            gs_error *err) {
  char path[1024];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  FILE *f = fopen(path, "wb");
  bool ok = f && fwrite(s, 1, n, f) == n;
  if (f && fclose(f) != 0) ok = false;
  return ok ? GS_OK : gs_fail(err, GS_ERR_IO, "cannot write %s: %s", path, strerror(errno));
}

static gs_status write_asset(const char *dir, const char *name, gs_error *err) {
  char asset[64];
  snprintf(asset, sizeof asset, "templates/%s", name);
  const gs_asset *a = gs_asset_find(asset);
  if (a == NULL) return gs_fail(err, GS_ERR_COMPILE, "%s is not in this program", asset);
  return write_text(dir, name, a->data, a->len, err);
}

static gs_status write_prelude(const char *dir, gs_error *err) {
  gs_status s = write_asset(dir, "emu_abi.h", err);
  for (int i = 0; i < GS_PRELUDES && s == GS_OK; i++)
    s = write_asset(dir, gs_prelude_name(true, (gs_prelude_level)i), err);
  return s;
}

/* Kernels unit, unit + units, ... of k: behind what the one that asks for most speaks through. */
static gs_status write_unit(const char *dir, const gs_kernel *const *k, int n, int unit, int units,
                            gs_error *err) {
  char name[32];
  gs_text t = {0};
  gs_prelude_level most = GS_PRELUDE_PLAIN;
  for (int i = unit; i < n; i += units)
    if (k[i]->prelude > most) most = k[i]->prelude;
  gs_text_printf(&t, "#include \"%s\"\n", gs_prelude_name(true, most));
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

/* The kernel of the unit that the log's first error is in. */
static const gs_kernel *culprit(const char *log, const gs_kernel *const *k, int n, int unit,
                                int units) {
  const char *at = strstr(log, "error:");
  if (at == NULL) at = log;
  while (at > log && at[-1] != '\n') at--;
  for (int i = unit; i < n; i += units) {
    char file[300];
    int len = snprintf(file, sizeof file, "%s.cu:", k[i]->entry);
    if (len > 0 && strncmp(at, file, (size_t)len) == 0) return k[i];
  }
  for (int i = unit; i < n; i += units) { /* an error in the prelude: a note names the kernel */
    char file[300];
    snprintf(file, sizeof file, "%s.cu:", k[i]->entry);
    if (strstr(log, file) != NULL) return k[i];
  }
  return k[unit];
}

/* Says what went wrong in a unit; leaves the kernel's text in the folder *kept says. */
static gs_status fail_unit(const emu *e, const char *dir, int unit, int units,
                           const gs_kernel *const *k, int n, gs_error *err) {
  char path[700], kept[256] = "", *log = NULL;
  size_t len = 0;
  snprintf(path, sizeof path, "%s/unit%d.log", dir, unit);
  if (gs_file_read(path, &log, &len, NULL) != GS_OK) log = NULL;
  const gs_kernel *bad = culprit(log ? log : "", k, n, unit, units);
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
               {"GS_NUM(", P_F32},   {"GS_MAP(", P_MAP}};
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
  f->takes = strstr(k->text, "gs_take(") || strstr(k->text, "GS_TICKET(");
  f->tiles = k->prelude != GS_PRELUDE_PLAIN;
  if (!f->entry || !f->text)
    return gs_fail(err, GS_ERR_MEMORY, "no memory for kernel %s", k->entry);
  return emu_read_params(f, err);
}

static gs_status open_object(emu *e, const char *path, void **lib, gs_error *err) {
  void **grown = realloc(e->libs, (e->nlibs + 1) * sizeof *grown);
  if (grown == NULL) return gs_fail(err, GS_ERR_MEMORY, "no memory for compiled kernels");
  e->libs = grown;
  *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (*lib == NULL)
    return gs_fail(err, GS_ERR_COMPILE, "cannot load compiled kernels: %s", dlerror());
  e->libs[e->nlibs++] = *lib;
  return GS_OK;
}

static gs_status load_unit(emu *e, const char *dir, const gs_kernel *const *k, int n, int unit,
                           int units, gs_error *err) {
  char path[1024];
  void *lib;
  snprintf(path, sizeof path, "%s/unit%d.so", dir, unit);
  gs_status s = open_object(e, path, &lib, err);
  for (int i = unit; i < n && s == GS_OK; i += units) s = make_func(e, lib, k[i], err);
  return s;
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

/* Compiles `units` files, several at the same time; the first that fails is the error. */
static gs_status compile_units(const emu *e, const char *dir, const gs_kernel *const *k, int n,
                               int units, gs_error *err) {
  pid_t *pids = calloc((size_t)units, sizeof *pids);
  if (pids == NULL) return gs_fail(err, GS_ERR_MEMORY, "no memory to compile kernels");
  gs_status s = GS_OK;
  int jobs = e->o.compile_jobs;
  for (int u = 0; u < units + jobs; u++) {
    int done = u - jobs; /* the oldest of those that run */
    if (done >= 0 && pids[done] > 0) {
      bool fine = wait_for(pids[done]) == 0 && link_unit(e, dir, done);
      if (!fine && s == GS_OK) s = fail_unit(e, dir, done, units, k, n, err);
    }
    if (u >= units || s != GS_OK) continue;
    s = write_unit(dir, k, n, u, units, err);
    if (s == GS_OK) s = start_compiler(e, dir, u, &pids[u], err);
  }
  free(pids);
  return s;
}

/* ---- kept from earlier runs ---- */

typedef struct keeper {
  gs_cache *cache; /* NULL: none */
  gs_text prelude[GS_PRELUDES], options;
} keeper;

static void open_keeper(keeper *k, emu *e, const char *dir) {
  *k = (keeper){.cache = gs_cache_open(NULL)};
  if (k->cache && !e->build[0]) note_build(e, dir);
  if (!e->build[0]) { /* code of an unknown compiler is not kept */
    gs_cache_close(k->cache);
    k->cache = NULL;
  }
  if (!k->cache) return;
  for (int i = 0; i < GS_PRELUDES; i++) {
    gs_text_add(&k->prelude[i], gs_asset_find("templates/emu_abi.h")->data);
    gs_text_add(&k->prelude[i], gs_prelude(true, (gs_prelude_level)i));
  }
  for (int i = 0; i < NFLAGS; i++) gs_text_printf(&k->options, "%s ", flags[i]);
}

static void close_keeper(keeper *k) {
  gs_cache_close(k->cache);
  for (int i = 0; i < GS_PRELUDES; i++) gs_text_free(&k->prelude[i]);
  gs_text_free(&k->options);
}

static gs_cache_key key_of(const keeper *k, const emu *e, const gs_kernel *of) {
  return (gs_cache_key){.entry = of->entry,
                        .target = e->o.checked ? "emu, checked" : "emu",
                        .compiler = e->build,
                        .options = k->options.s,
                        .prelude = k->prelude[of->prelude].s,
                        .text = of->text};
}

/* Loads the kernel from what was kept; false when it has to be compiled. */
static bool load_kept(emu *e, const keeper *keep, const char *dir, const gs_kernel *k, int number) {
  char name[32], path[600];
  gs_cached kept;
  void *lib;
  if (!keep->cache) return false;
  gs_cache_key key = key_of(keep, e, k);
  if (!gs_cache_read(keep->cache, &key, &kept)) return false;
  snprintf(name, sizeof name, "kept%d.so", number);
  snprintf(path, sizeof path, "%s/%s", dir, name);
  bool ok = write_text(dir, name, kept.code, kept.len, NULL) == GS_OK &&
            open_object(e, path, &lib, NULL) == GS_OK && make_func(e, lib, k, NULL) == GS_OK;
  unlink(path);
  free(kept.code);
  free(kept.log);
  free(kept.file);
  return ok;
}

/* Each kernel of a unit with the object that holds it. */
static void keep_unit(const emu *e, const keeper *keep, const char *dir, const gs_kernel *const *k,
                      int n, int unit, int units) {
  char path[600], *object = NULL;
  size_t len = 0;
  snprintf(path, sizeof path, "%s/unit%d.so", dir, unit);
  if (!keep->cache || gs_file_read(path, &object, &len, NULL) != GS_OK) return;
  for (int i = unit; i < n; i += units) {
    gs_cache_key key = key_of(keep, e, k[i]);
    gs_cache_write(keep->cache, &key, object, len, "");
  }
  free(object);
}

static gs_func *find_func(const emu *e, const char *entry) {
  gs_func *f = e->funcs;
  while (f != NULL && strcmp(f->entry, entry) != 0) f = f->next;
  return f;
}

/* Compiles what is left of k, loads it, and keeps it. */
static gs_status build_rest(emu *e, const keeper *keep, const char *dir, const gs_kernel *const *k,
                            int n, gs_error *err) {
  int jobs = e->o.compile_jobs, units = (n + PER_UNIT - 1) / PER_UNIT;
  if (units < jobs) units = n < jobs ? n : jobs;
  gs_status s = n > 0 ? write_prelude(dir, err) : GS_OK;
  if (s == GS_OK && n > 0) s = compile_units(e, dir, k, n, units, err);
  for (int u = 0; u < units && s == GS_OK; u++) {
    s = load_unit(e, dir, k, n, u, units, err);
    if (s == GS_OK) keep_unit(e, keep, dir, k, n, u, units);
  }
  return s;
}

static gs_status build(emu *e, const gs_kernel **k, int n, gs_error *err) {
  char dir[256];
  keeper keep;
  gs_status s = gs_temp_dir(dir, sizeof dir, err);
  if (s != GS_OK) return s;
  open_keeper(&keep, e, dir);
  int rest = 0;
  for (int i = 0; i < n; i++)
    if (!load_kept(e, &keep, dir, k[i], i)) k[rest++] = k[i];
  s = build_rest(e, &keep, dir, k, rest, err);
  close_keeper(&keep);
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
