/* offline.c: compiling for a GPU that is not here (offline.h). */
#include "device/offline.h"

#include "device/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gs_func {
  gs_offline_kernel kernel;
  char *entry;
};

typedef struct offline {
  gs_device base;
  gs_jit *jit;
  char target[16]; /* "sm_90a", "compute_80" */
  int jobs;
  gs_func **func;
  int n, cap;
  gs_ptr next; /* address that the next allocation gets */
} offline;

static void close_offline(gs_device *d) {
  offline *o = (offline *)d;
  for (int i = 0; i < o->n; i++) {
    gs_jit_code_free(&o->func[i]->kernel.code);
    free(o->func[i]->entry);
    free(o->func[i]);
  }
  free(o->func);
  if (o->jit) gs_jit_close(o->jit);
  free(o);
}

static gs_status alloc_none(gs_device *d, size_t bytes, gs_ptr *out, gs_error *err) {
  offline *o = (offline *)d;
  (void)err;
  *out = o->next;
  o->next += (bytes + 511) / 256 * 256;
  return GS_OK;
}

static void free_none(gs_device *d, gs_ptr p) {
  (void)d;
  (void)p;
}

static gs_status upload_none(gs_device *d, gs_ptr to, const void *from, size_t n, gs_error *err) {
  (void)d, (void)to, (void)from, (void)n, (void)err;
  return GS_OK;
}

static gs_status download_none(gs_device *d, void *to, gs_ptr from, size_t n, gs_error *err) {
  (void)d, (void)from, (void)err;
  memset(to, 0, n);
  return GS_OK;
}

static gs_status copy_none(gs_device *d, gs_ptr to, gs_ptr from, size_t n, gs_error *err) {
  (void)d, (void)to, (void)from, (void)n, (void)err;
  return GS_OK;
}

static gs_status fill_none(gs_device *d, gs_ptr to, unsigned char b, size_t n, gs_error *err) {
  (void)d, (void)to, (void)b, (void)n, (void)err;
  return GS_OK;
}

static gs_status sync_none(gs_device *d, gs_error *err) {
  (void)d, (void)err;
  return GS_OK;
}

static gs_func *find(const offline *o, const char *entry) {
  for (int i = 0; i < o->n; i++)
    if (strcmp(o->func[i]->entry, entry) == 0) return o->func[i];
  return NULL;
}

static gs_func *add(offline *o, const char *entry) {
  if (o->n == o->cap) {
    o->cap = o->cap ? 2 * o->cap : 64;
    gs_func **more = realloc(o->func, sizeof *more * (size_t)o->cap);
    if (!more) return NULL;
    o->func = more;
  }
  gs_func *f = calloc(1, sizeof *f);
  if (f) f->entry = strdup(entry);
  if (!f || !f->entry) {
    free(f);
    return NULL;
  }
  f->kernel.entry = f->entry;
  return o->func[o->n++] = f;
}

/* Compiles what is new among k; every kernel gets its func in out. */
static gs_status compile(gs_device *d, const gs_kernel *const *k, int n, gs_func **out,
                         gs_error *err) {
  offline *o = (offline *)d;
  int fresh = 0;
  gs_jit_source *sources = calloc((size_t)n + 1, sizeof *sources);
  gs_jit_code *codes = calloc((size_t)n + 1, sizeof *codes);
  gs_status st = sources && codes ? GS_OK : gs_fail(err, GS_ERR_MEMORY, "out of host memory");
  for (int i = 0; st == GS_OK && i < n; i++) {
    out[i] = find(o, k[i]->entry);
    if (out[i]) continue;
    out[i] = add(o, k[i]->entry);
    if (!out[i]) st = gs_fail(err, GS_ERR_MEMORY, "out of host memory");
    sources[fresh++] = (gs_jit_source){.prelude = gs_prelude(false, k[i]->prelude),
                                       .text = k[i]->text,
                                       .entry = k[i]->entry,
                                       .arch = o->target};
  }
  if (st == GS_OK) st = gs_jit_compile_many(o->jit, sources, fresh, o->jobs, codes, err);
  for (int i = 0; st == GS_OK && i < fresh; i++) {
    gs_offline_kernel *made = &find(o, sources[i].entry)->kernel;
    made->code = codes[i];
    codes[i] = (gs_jit_code){0};
    if (memcmp(o->target, "sm_", 3) == 0)
      st = gs_jit_resources(&made->code, made->entry, &made->use, err);
  }
  for (int i = 0; codes && i < fresh; i++) gs_jit_code_free(&codes[i]);
  free(sources);
  free(codes);
  return st;
}

static gs_status launch_none(gs_device *d, gs_func *f, int64_t grid, const gs_value *args,
                             int nargs, gs_error *err) {
  (void)d, (void)f, (void)grid, (void)args, (void)nargs, (void)err;
  return GS_OK;
}

static gs_status gemm_none(gs_device *d, const gs_gemm *g, gs_error *err) {
  (void)d, (void)g, (void)err;
  return GS_OK;
}

static gs_status end_none(gs_device *d, gs_exec **out, gs_error *err) {
  *out = calloc(1, sizeof **out);
  if (!*out) return gs_fail(err, GS_ERR_MEMORY, "out of host memory");
  (*out)->device = d;
  return GS_OK;
}

static gs_status exec_none(gs_exec *e, gs_error *err) {
  (void)e, (void)err;
  return GS_OK;
}

static void exec_free(gs_exec *e) {
  free(e);
}

static const gs_device_ops offline_ops = {
    .close = close_offline,
    .alloc = alloc_none,
    .free = free_none,
    .upload = upload_none,
    .download = download_none,
    .copy = copy_none,
    .fill = fill_none,
    .sync = sync_none,
    .compile = compile,
    .launch = launch_none,
    .gemm = gemm_none,
    .capture_begin = sync_none,
    .capture_end = end_none,
    .exec_launch = exec_none,
    .exec_free = exec_free,
};

gs_status gs_offline_open(const char *arch, const gs_device_options *opt, gs_device **out,
                          gs_error *err) {
  bool ptx = strcmp(arch, "compute_80") == 0;
  const gs_caps *caps = gs_caps_find(ptx ? "sm_80" : arch);
  if (!caps || caps->is_emulator)
    return gs_fail(err, GS_ERR_USE,
                   "no GPU architecture '%s'; known are sm_80 and later, and "
                   "compute_80",
                   arch);
  offline *o = calloc(1, sizeof *o);
  if (!o) return gs_fail(err, GS_ERR_MEMORY, "out of host memory");
  o->base.ops = &offline_ops;
  o->base.caps = caps;
  o->jobs = opt ? opt->compile_jobs : 0;
  o->next = 1 << 20;
  snprintf(o->target, sizeof o->target, "%s", ptx ? arch : caps->arch);
  snprintf(o->base.name, sizeof o->base.name, "compiling for %s", o->target);
  gs_status st = gs_jit_open(0, &o->jit, err);
  if (st != GS_OK) {
    close_offline(&o->base);
    return st;
  }
  *out = &o->base;
  return GS_OK;
}

int gs_offline_count(const gs_device *d) {
  return ((const offline *)d)->n;
}

const gs_offline_kernel *gs_offline_find(const gs_device *d, const char *entry) {
  const gs_func *f = find((const offline *)d, entry);
  return f ? &f->kernel : NULL;
}

const char *gs_offline_compiler(const gs_device *d) {
  return gs_jit_build(((const offline *)d)->jit);
}

const gs_offline_kernel *gs_offline_at(const gs_device *d, int i) {
  return &((const offline *)d)->func[i]->kernel;
}
