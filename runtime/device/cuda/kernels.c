/* kernels.c: kernels compiled, loaded, launched. */
#include "device/cuda/boxes.h"
#include "device/cuda/machine.h"

#include "pack/write.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ARGS 128

static gs_func *find_func(const gs_cuda *m, const char *entry) {
  for (size_t i = 0; i < m->nfuncs; i++)
    if (strcmp(m->funcs[i]->entry, entry) == 0) return m->funcs[i];
  return NULL;
}

static void free_func(gs_cuda *m, gs_func *f) {
  if (!f) return;
  if (f->module) m->driver.api.module_unload(f->module);
  free(f->entry);
  free(f->kinds);
  free(f);
}

void gs_cuda_drop_funcs(gs_cuda *m) {
  for (size_t i = 0; i < m->nfuncs; i++) free_func(m, m->funcs[i]);
  free(m->funcs);
  m->funcs = NULL;
  m->nfuncs = m->func_cap = 0;
}

static unsigned char value_kind(gs_arg_kind k) {
  if (k == GS_ARG_STRIDE || k == GS_ARG_DIM) return GS_VALUE_I64;
  if (k == GS_ARG_MAP) return GS_VALUE_MAP;
  return k == GS_ARG_SCALAR ? GS_VALUE_F32 : GS_VALUE_PTR;
}

static gs_func *make_func(const gs_kernel *k) {
  gs_func *f = calloc(1, sizeof *f);
  if (!f) return NULL;
  f->entry = strdup(k->entry);
  f->kinds = calloc((size_t)k->nargs + 1, 1);
  f->threads = k->threads;
  f->shared_bytes = k->shared_bytes;
  f->follows = k->follows;
  f->nargs = k->nargs;
  for (int i = 0; f->kinds && i < k->nargs; i++) f->kinds[i] = value_kind(k->args[i].kind);
  return f;
}

static gs_status keep_func(gs_cuda *m, gs_func *f) {
  if (m->nfuncs == m->func_cap) {
    size_t cap = m->func_cap ? 2 * m->func_cap : 64;
    gs_func **more = realloc(m->funcs, cap * sizeof *more);
    if (!more) return GS_ERR_MEMORY;
    m->funcs = more;
    m->func_cap = cap;
  }
  m->funcs[m->nfuncs++] = f;
  return GS_OK;
}

static int load_module(gs_cuda *m, gs_func *f, const gs_jit_code *c) {
  int code = m->driver.api.module_load(&f->module, c->data);
  if (code == GS_CU_OK) code = m->driver.api.module_function(&f->function, f->module, f->entry);
  if (code == GS_CU_OK && f->shared_bytes > 0)
    code = m->driver.api.function_set(f->function, GS_CU_FUNCTION_SHARED, f->shared_bytes);
  if (code != GS_CU_OK && f->module) m->driver.api.module_unload(f->module);
  if (code != GS_CU_OK) f->module = NULL;
  return code;
}

static gs_status fail_load(gs_cuda *m, const gs_func *f, int code, const char *file,
                           gs_error *err) {
  return gs_cuda_fail(
      m, code, err, "loading kernel %s (%s, by %s; driver for CUDA %d.%d)%s%s", f->entry, m->target,
      gs_cuda_compiler(m), m->driver.version / 1000, m->driver.version % 1000 / 10,
      file ? "\nIt was compiled again after the kept one was refused: " : "", file ? file : "");
}

/* Code of the cache that the driver refuses is compiled again, once. s: NULL for code of a pack. */
static gs_status load_code(gs_cuda *m, gs_func *f, const gs_jit_source *s, const gs_jit_code *c,
                           gs_error *err) {
  int code = load_module(m, f, c);
  if (code == GS_CU_OK) return GS_OK;
  if (!s || !c->file) return fail_load(m, f, code, NULL, err);
  gs_jit_source again = *s;
  gs_jit_code fresh;
  again.again = true;
  gs_status st = gs_jit_compile(m->jit, &again, &fresh, err);
  if (st != GS_OK) return st;
  code = load_module(m, f, &fresh);
  gs_jit_code_free(&fresh);
  return code == GS_CU_OK ? GS_OK : fail_load(m, f, code, c->file, err);
}

static gs_status load_func(gs_cuda *m, const gs_kernel *k, const gs_jit_source *s,
                           const gs_jit_code *c, gs_error *err) {
  gs_func *f = make_func(k);
  gs_status st = GS_OK;
  if (!f || !f->entry || !f->kinds)
    st = gs_fail(err, GS_ERR_MEMORY, "no memory for kernel %s", k->entry);
  if (st == GS_OK) st = load_code(m, f, s, c, err);
  if (st == GS_OK && keep_func(m, f) != GS_OK)
    st = gs_fail(err, GS_ERR_MEMORY, "no memory for kernel %s", k->entry);
  if (st != GS_OK) free_func(m, f);
  return st;
}

static gs_status check_kernel(const gs_cuda *m, const gs_kernel *k, gs_error *err) {
  if (k->nargs > MAX_ARGS)
    return gs_fail(err, GS_ERR_USE, "kernel %s takes %d arguments; %d is the most", k->entry,
                   k->nargs, MAX_ARGS);
  if (k->threads < 1 || k->threads > m->caps.max_threads)
    return gs_fail(err, GS_ERR_USE, "kernel %s wants %d threads a block; %s has at most %d",
                   k->entry, k->threads, m->gpu.name, m->caps.max_threads);
  return GS_OK;
}

/* The kernels that this device has not compiled yet, each entry once. Returns how many. */
static int list_new(const gs_cuda *m, const gs_kernel *const *k, int n, const gs_kernel **fresh) {
  int count = 0;
  for (int i = 0; i < n; i++) {
    bool known = find_func(m, k[i]->entry) != NULL;
    for (int j = 0; j < count && !known; j++) known = strcmp(fresh[j]->entry, k[i]->entry) == 0;
    if (!known) fresh[count++] = k[i];
  }
  return count;
}

static void count_kept(gs_phases *p, const gs_jit_code *code, int n) {
  for (int i = 0; p && i < n; i++) {
    p->kept += code[i].file != NULL;
    p->compiled += code[i].data && !code[i].file;
  }
}

static gs_status compile_new(gs_cuda *m, const gs_kernel **fresh, int n, gs_error *err) {
  gs_status st = GS_OK;
  gs_jit_source *sources = calloc((size_t)n, sizeof *sources);
  gs_jit_code *code = calloc((size_t)n, sizeof *code);
  if (!sources || !code) {
    st = gs_fail(err, GS_ERR_MEMORY, "no memory to compile %d kernels", n);
    goto done;
  }
  for (int i = 0; i < n; i++)
    sources[i] = (gs_jit_source){.prelude = gs_prelude(false, fresh[i]->prelude),
                                 .text = fresh[i]->text,
                                 .entry = fresh[i]->entry,
                                 .arch = m->target};
  st = gs_jit_compile_many(m->jit, sources, n, m->compile_jobs, code, err);
  count_kept(m->base.phases, code, n);
  for (int i = 0; i < n && st == GS_OK; i++)
    st = load_func(m, fresh[i], &sources[i], &code[i], err);
done:
  for (int i = 0; code && i < n; i++) gs_jit_code_free(&code[i]);
  free(code);
  free(sources);
  return st;
}

/* Where "// key: " of the kernel's text begins a comment of several lines, in one. */
static void key_of(const gs_kernel *k, char *out, size_t cap) {
  const char *p = strstr(k->text, "// key: ");
  size_t n = 0;
  for (p = p ? p + 8 : ""; *p && n + 1 < cap; p++) {
    if (*p == '\n' && strncmp(p + 1, "//     ", 7) == 0) p += 7;
    if (*p == '\n') break;
    out[n++] = *p == '\n' ? ' ' : *p;
  }
  out[n] = 0;
  char *arch = strrchr(out, ','); /* ", sm_90a" */
  if (arch) *arch = 0;
}

static gs_status fail_packed(const gs_cuda *m, const gs_kernel *k, gs_error *err) {
  char key[512];
  key_of(k, key, sizeof key);
  const char *path = gs_pack_file_about(m->pack)->path;
  if (gs_pack_file_record(m->pack, key, m->caps.arch))
    return gs_fail(err, GS_ERR_DEVICE,
                   "the pack %s has another text of \"%s\" for %s: it was made by %s, from other "
                   "layers or templates. Make it again",
                   path, key, m->target, gs_pack_file_about(m->pack)->producer);
  const char *near = gs_pack_file_nearest(m->pack, key, m->caps.arch);
  return gs_fail(err, GS_ERR_DEVICE,
                 "the pack %s has no kernel of \"%s\" for %s; the nearest is %s", path, key,
                 m->target, near ? near : "none");
}

static gs_status load_packed(gs_cuda *m, const gs_kernel **fresh, int n, gs_error *err) {
  gs_status st = GS_OK;
  for (int i = 0; i < n && st == GS_OK; i++) {
    char hash[65];
    gs_pack_text_hash(fresh[i], hash);
    const gs_pack_code *c = gs_pack_file_code(m->pack, fresh[i]->entry, hash, m->target);
    if (!c) return fail_packed(m, fresh[i], err);
    gs_jit_code code = {.data = (void *)c->data, .len = c->len}; /* only read */
    st = load_func(m, fresh[i], NULL, &code, err);
  }
  return st;
}

gs_status gs_cuda_compile(gs_device *d, const gs_kernel *const *k, int n, gs_func **out,
                          gs_error *err) {
  gs_cuda *m = GS_CUDA_OF(d);
  gs_status st = gs_cuda_enter_now(m, "compiling", err);
  if (st != GS_OK || n <= 0) return st;
  for (int i = 0; i < n; i++)
    if ((st = check_kernel(m, k[i], err)) != GS_OK) return st;
  const gs_kernel **fresh = calloc((size_t)n, sizeof *fresh);
  if (!fresh) return gs_fail(err, GS_ERR_MEMORY, "no memory to compile %d kernels", n);
  int count = list_new(m, k, n, fresh);
  if (count) st = m->pack ? load_packed(m, fresh, count, err) : compile_new(m, fresh, count, err);
  free(fresh);
  for (int i = 0; i < n; i++) out[i] = st == GS_OK ? find_func(m, k[i]->entry) : NULL;
  return st;
}

static gs_status fail_args(const gs_func *f, int i, int nargs, gs_error *err) {
  if (i < 0)
    return gs_fail(err, GS_ERR_USE, "kernel %s takes %d arguments and got %d", f->entry, f->nargs,
                   nargs);
  return gs_fail(err, GS_ERR_USE, "kernel %s, argument %d: wrong kind of value", f->entry, i);
}

/* One parameter as the driver takes it, by address. */
typedef union slot {
  gs_cu_map map;
  gs_cu_ptr ptr;
  int64_t i64;
  float f32;
} slot;

static gs_status fill_slot(gs_cuda *m, const gs_func *f, int i, const gs_value *v, slot *out,
                           gs_error *err) {
  int code = GS_CU_OK;
  switch (v->kind) {
  case GS_VALUE_PTR: out->ptr = v->ptr; break;
  case GS_VALUE_I64: out->i64 = v->i64; break;
  case GS_VALUE_F32: out->f32 = v->f32; break;
  case GS_VALUE_MAP: code = gs_cuda_encode_map(&m->driver.api, &v->map, v->ptr, &out->map); break;
  }
  if (code == GS_CU_OK) return GS_OK;
  return gs_cuda_fail(m, code, err, "making the tensor map of kernel %s, argument %d", f->entry, i);
}

/* A kernel that waits itself for what the one before wrote may be there before that has ended. */
static int launch(gs_cuda *m, const gs_func *f, unsigned grid, void **params) {
  if (!f->follows)
    return m->driver.api.launch(f->function, grid, 1, 1, (unsigned)f->threads, 1, 1,
                                (unsigned)f->shared_bytes, m->stream, params, NULL);
  gs_cu_attribute follows = {.id = GS_CU_ATTRIBUTE_FOLLOWS, .value = {.whole = 1}};
  const gs_cu_launch l = {.gx = grid,
                          .gy = 1,
                          .gz = 1,
                          .bx = (unsigned)f->threads,
                          .by = 1,
                          .bz = 1,
                          .shared = (unsigned)f->shared_bytes,
                          .s = m->stream,
                          .attributes = &follows,
                          .nattributes = m->caps.max_cluster > 0}; /* sm_90 has it, as clusters */
  return m->driver.api.launch_with(&l, f->function, params, NULL);
}

gs_status gs_cuda_launch(gs_device *d, gs_func *f, int64_t grid, const gs_value *args, int nargs,
                         gs_error *err) {
  gs_cuda *m = GS_CUDA_OF(d);
  slot values[MAX_ARGS];
  void *params[MAX_ARGS];
  if (nargs != f->nargs) return fail_args(f, -1, nargs, err);
  for (int i = 0; i < nargs; i++) {
    if (args[i].kind != f->kinds[i]) return fail_args(f, i, nargs, err);
    params[i] = &values[i];
    gs_status st = grid == 0 ? GS_OK : fill_slot(m, f, i, &args[i], &values[i], err);
    if (st != GS_OK) return st;
  }
  if (grid == 0) return GS_OK;
  if (grid < 0 || grid > INT_MAX)
    return gs_fail(err, GS_ERR_USE, "kernel %s: a grid of %lld blocks; 2147483647 is the most",
                   f->entry, (long long)grid);
  gs_status st = gs_cuda_enter(m, err);
  if (st != GS_OK) return st;
  m->last = f->entry;
  int code = launch(m, f, (unsigned)grid, params);
  if (code == GS_CU_OK) return GS_OK;
  return gs_cuda_fail(m, code, err, "launching kernel %s (%lld blocks of %d threads)", f->entry,
                      (long long)grid, f->threads);
}
