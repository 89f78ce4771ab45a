/* jit.c: opening NVRTC and compiling with it, or finding what was compiled before. */
#include "jit/jit.h"

#include "base/file.h"
#include "base/text.h"
#include "jit/cache.h"
#include "jit/library.h"
#include "jit/nvrtc_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LOG_SHOWN 3000 /* bytes of a log that fit into a message */

struct gs_jit {
  gs_library lib;
  gs_nvrtc_api api;
  int major, minor;
  int *archs; /* 75, 80, ... as NVRTC lists them */
  int narchs;
  char build[256];
  gs_cache *cache; /* NULL: none */
};

static gs_status load_api(gs_jit *j, gs_error *err) {
#define GS_LOAD(field, symbol, result, params)                                                     \
  if (!gs_library_symbol(&j->lib, symbol, &j->api.field))                                          \
    return gs_fail(err, GS_ERR_DEVICE, "%s has no function %s", j->lib.path, symbol);
  GS_NVRTC_FUNCTIONS(GS_LOAD)
#undef GS_LOAD
  return GS_OK;
}

static gs_status read_facts(gs_jit *j, gs_error *err) {
  int r = j->api.version(&j->major, &j->minor);
  if (r == GS_NVRTC_OK) r = j->api.narchs(&j->narchs);
  if (r == GS_NVRTC_OK) {
    j->archs = calloc((size_t)j->narchs + 1, sizeof *j->archs);
    if (!j->archs) return gs_fail(err, GS_ERR_MEMORY, "no memory for NVRTC's architecture list");
    r = j->api.archs(j->archs);
  }
  if (r == GS_NVRTC_OK) return GS_OK;
  return gs_fail(err, GS_ERR_DEVICE, "%s does not answer: %s", j->lib.path, j->api.error_string(r));
}

/* Two builds of one version differ in the real file's name (a toolkit) or size (a wheel, which has
 * no build in its name). */
static void note_build(gs_jit *j) {
  struct stat s;
  char *real = realpath(j->lib.path, NULL);
  const char *file = real ? real : j->lib.path, *slash = strrchr(file, '/');
  long long bytes = stat(file, &s) == 0 ? (long long)s.st_size : 0;
  snprintf(j->build, sizeof j->build, "NVRTC %d.%d, %.150s, %lld bytes", j->major, j->minor,
           slash ? slash + 1 : file, bytes);
  free(real);
}

/* NVRTC opens a second library at its first compilation and may not find it beside itself (where
 * another dlopen is put before the system's, as sanitizers do). Once open, it is found by name. */
static void open_builtins(const gs_jit *j) {
  char path[sizeof j->lib.path + 64];
  gs_library builtins;
  const char *slash = strrchr(j->lib.path, '/');
  if (!slash) return;
  snprintf(path, sizeof path, "%.*s/libnvrtc-builtins.so.%d.%d", (int)(slash - j->lib.path),
           j->lib.path, j->major, j->minor);
  gs_library_try(path, &builtins); /* without it, the compilation says what is missing */
}

gs_status gs_jit_open(int max_major, gs_jit **out, gs_error *err) {
  static const int any[] = {13, 12, 0};
  *out = NULL;
  gs_jit *j = calloc(1, sizeof *j);
  if (!j) return gs_fail(err, GS_ERR_MEMORY, "no memory to open NVRTC");
  gs_library_wanted w = {"NVRTC", "libnvrtc.so",
                         "Install the CUDA toolkit, or: python3 -m pip install nvidia-cuda-nvrtc",
                         any};
  if (max_major == 12) {
    w.versions = any + 1;
    w.remedy = "Install a CUDA 12 toolkit, or: python3 -m pip install nvidia-cuda-nvrtc-cu12";
  }
  gs_status st = gs_library_open(&w, &j->lib, err);
  if (st == GS_OK) st = load_api(j, err);
  if (st == GS_OK) st = read_facts(j, err);
  if (st != GS_OK) {
    gs_jit_close(j);
    return st;
  }
  open_builtins(j);
  note_build(j);
  j->cache = gs_cache_open(NULL);
  *out = j;
  return GS_OK;
}

void gs_jit_close(gs_jit *j) {
  if (!j) return;
  gs_cache_close(j->cache);
  free(j->archs);
  free(j);
}

const char *gs_jit_path(const gs_jit *j) {
  return j->lib.path;
}

void gs_jit_version(const gs_jit *j, int *major, int *minor) {
  *major = j->major;
  *minor = j->minor;
}

const char *gs_jit_build(const gs_jit *j) {
  return j->build;
}

bool gs_jit_supports(const gs_jit *j, const char *arch) {
  const char *digits = strchr(arch, '_');
  int number = digits ? atoi(digits + 1) : 0;
  for (int i = 0; i < j->narchs; i++)
    if (j->archs[i] == number) return true;
  return false;
}

void gs_jit_code_free(gs_jit_code *c) {
  free(c->data);
  free(c->log);
  free(c->file);
  memset(c, 0, sizeof *c);
}

/* Writes the text as it was compiled, so that the log's line numbers hold for the file. */
static void keep_text(const char *text, const char *entry, char *path, size_t cap) {
  char dir[512];
  path[0] = 0;
  if (gs_temp_dir(dir, sizeof dir, NULL) != GS_OK) return;
  if (snprintf(path, cap, "%s/%s.cu", dir, entry) >= (int)cap ||
      gs_file_write(path, text, strlen(text), NULL) != GS_OK)
    path[0] = 0;
}

static gs_status fail_compile(const gs_jit *j, const gs_jit_source *s, const char *text, int result,
                              const char *log, gs_error *err) {
  char path[1024];
  if (result != GS_NVRTC_COMPILATION)
    return gs_fail(err, GS_ERR_COMPILE, "kernel %s, %s: NVRTC %d.%d says %s\n%.*s", s->entry,
                   s->arch, j->major, j->minor, j->api.error_string(result), LOG_SHOWN, log);
  keep_text(text, s->entry, path, sizeof path);
  return gs_fail(err, GS_ERR_COMPILE, "kernel %s does not compile for %s; its text: %s\n%.*s",
                 s->entry, s->arch, *path ? path : "(it could not be kept in TMPDIR)", LOG_SHOWN,
                 log);
}

static char *read_log(const gs_jit *j, gs_nvrtc_program p) {
  size_t n = 0;
  if (j->api.log_size(p, &n) != GS_NVRTC_OK) n = 0;
  char *log = calloc(1, n + 1);
  if (log && n && j->api.log(p, log) != GS_NVRTC_OK) log[0] = 0;
  return log;
}

static int read_code(const gs_jit *j, gs_nvrtc_program p, bool ptx, gs_jit_code *out) {
  size_t n = 0;
  int r = ptx ? j->api.ptx_size(p, &n) : j->api.cubin_size(p, &n);
  if (r != GS_NVRTC_OK) return r;
  out->data = calloc(1, n + 1);
  out->len = n;
  if (!out->data) return 1; /* NVRTC's own code for no memory */
  return ptx ? j->api.ptx(p, out->data) : j->api.cubin(p, out->data);
}

enum { ARCH, FMAD, STANDARD, DEVICE, REPORT, LINES, NOPTIONS };

typedef struct options {
  char arch[64];
  const char *list[NOPTIONS];
  int n;
} options;

/* Always in this order: they are part of the key. */
static void set_options(options *o, const gs_jit_source *s) {
  snprintf(o->arch, sizeof o->arch, "--gpu-architecture=%s", s->arch);
  o->list[ARCH] = o->arch;
  o->list[FMAD] = "--fmad=false";
  o->list[STANDARD] = "--std=c++17";
  o->list[DEVICE] = "--device-as-default-execution-space";
  o->list[REPORT] = "--ptxas-options=-v";
  o->list[LINES] = "--generate-line-info";
  o->n = s->line_info ? NOPTIONS : LINES;
}

static gs_status compile(const gs_jit *j, const gs_jit_source *s, const options *o,
                         gs_jit_code *out, gs_error *err) {
  gs_status st = GS_OK;
  gs_nvrtc_program p = NULL;
  gs_text text = {0};
  char name[256];
  if (s->prelude) gs_text_add(&text, s->prelude);
  gs_text_add(&text, s->text);
  snprintf(name, sizeof name, "%.250s.cu", s->entry);
  int r = j->api.create(&p, text.s, name, 0, NULL, NULL);
  if (r == GS_NVRTC_OK) {
    r = j->api.compile(p, o->n, o->list);
    out->log = read_log(j, p);
  }
  if (r == GS_NVRTC_OK) r = read_code(j, p, strncmp(s->arch, "compute_", 8) == 0, out);
  if (r != GS_NVRTC_OK)
    st = fail_compile(j, s, text.s, r, out->log ? out->log : "", err);
  else if (!out->log)
    st = gs_fail(err, GS_ERR_MEMORY, "no memory to compile kernel %s", s->entry);
  if (p) j->api.destroy(&p);
  gs_text_free(&text);
  if (st != GS_OK) gs_jit_code_free(out);
  return st;
}

gs_status gs_jit_compile(const gs_jit *j, const gs_jit_source *s, gs_jit_code *out, gs_error *err) {
  memset(out, 0, sizeof *out);
  if (!gs_jit_supports(j, s->arch))
    return gs_fail(err, GS_ERR_DEVICE, "NVRTC %d.%d (%s) does not know %s; a newer one may",
                   j->major, j->minor, j->lib.path, s->arch);
  options o;
  set_options(&o, s);
  gs_text said = {0};
  for (int i = 0; i < o.n; i++) gs_text_printf(&said, i ? " %s" : "%s", o.list[i]);
  gs_cache_key key = {s->entry, s->arch, j->build, said.s, s->prelude ? s->prelude : "", s->text};
  gs_cached kept = {0};
  gs_status st = GS_OK;
  if (!s->again && gs_cache_read(j->cache, &key, &kept)) {
    *out = (gs_jit_code){kept.code, kept.len, kept.log, kept.file};
  } else {
    st = compile(j, s, &o, out, err);
    if (st == GS_OK) gs_cache_write(j->cache, &key, out->data, out->len, out->log);
  }
  gs_text_free(&said);
  return st;
}
