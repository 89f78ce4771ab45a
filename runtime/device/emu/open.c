/* open.c: the emulator as a machine: opening, closing, and the small operations. */
#define _GNU_SOURCE 1 /* sched_getaffinity */
#include "base/clock.h"
#include "device/emu/internal.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void close_emu(gs_device *d) {
  emu *e = (emu *)d;
  int nworkers = e->nworkers;
  emu_stop_pool(e);
  emu_free_funcs(e);
  emu_free_all(e);
  if (e->capturing) emu_exec_free(&e->capturing->base);
  for (int i = 0; e->gemm_scratch && i < nworkers; i++) free(e->gemm_scratch[i]);
  free(e->gemm_scratch);
  if (e->blas) gs_blas_close(e->blas);
  free(e);
}

static gs_status upload(gs_device *d, gs_ptr to, const void *from, size_t bytes, gs_error *err) {
  emu *e = (emu *)d;
  if (e->capturing) return gs_fail(err, GS_ERR_USE, "an upload cannot be captured");
  gs_status s = emu_need(e, to, bytes, "upload", err);
  if (s != GS_OK || bytes == 0) return s;
  memcpy((void *)(uintptr_t)to, from, bytes);
  emu_mark(e, to, bytes);
  return GS_OK;
}

static gs_status download(gs_device *d, void *to, gs_ptr from, size_t bytes, gs_error *err) {
  emu *e = (emu *)d;
  if (e->capturing) return gs_fail(err, GS_ERR_USE, "a download cannot be captured");
  gs_status s = emu_need(e, from, bytes, "download", err);
  if (s != GS_OK || bytes == 0) return s;
  memcpy(to, (const void *)(uintptr_t)from, bytes);
  return GS_OK;
}

static gs_status copy(gs_device *d, gs_ptr to, gs_ptr from, size_t bytes, gs_error *err) {
  emu *e = (emu *)d;
  gs_status s = emu_need(e, to, bytes, "copy: destination", err);
  if (s == GS_OK) s = emu_need(e, from, bytes, "copy: source", err);
  if (s != GS_OK || bytes == 0) return s;
  if (e->capturing) {
    record r = {.kind = R_COPY, .to = to, .from = from, .bytes = bytes};
    return emu_record(e, &r, err);
  }
  emu_copy_bytes(e, to, from, bytes);
  return GS_OK;
}

static gs_status fill(gs_device *d, gs_ptr to, unsigned char byte, size_t bytes, gs_error *err) {
  emu *e = (emu *)d;
  gs_status s = emu_need(e, to, bytes, "fill", err);
  if (s != GS_OK || bytes == 0) return s;
  if (e->capturing) {
    record r = {.kind = R_FILL, .to = to, .byte = byte, .bytes = bytes};
    return emu_record(e, &r, err);
  }
  memset((void *)(uintptr_t)to, byte, bytes);
  emu_mark(e, to, bytes);
  return GS_OK;
}

static gs_status wait_all(gs_device *d, gs_error *err) {
  if (((emu *)d)->capturing) return gs_fail(err, GS_ERR_USE, "a wait cannot be captured");
  return GS_OK;
}

static gs_status mark(gs_device *d, int i, gs_error *err) {
  emu *e = (emu *)d;
  if (e->capturing) return gs_fail(err, GS_ERR_USE, "a mark cannot be captured");
  e->marks[i] = gs_seconds();
  return GS_OK;
}

static gs_status elapsed(gs_device *d, int from, int to, double *seconds, gs_error *err) {
  const emu *e = (const emu *)d;
  if (e->marks[from] == 0 || e->marks[to] == 0)
    return gs_fail(err, GS_ERR_USE, "marks %d and %d: one was not set", from, to);
  *seconds = e->marks[to] - e->marks[from];
  return GS_OK;
}

static void about(gs_device *d, gs_about *out) {
  snprintf(out->driver, sizeof out->driver, "emulator");
  snprintf(out->compiler, sizeof out->compiler, "%.190s", ((emu *)d)->compiler);
}

static const gs_device_ops ops = {
    .close = close_emu,
    .alloc = emu_alloc,
    .free = emu_free,
    .upload = upload,
    .download = download,
    .copy = copy,
    .fill = fill,
    .sync = wait_all,
    .mark = mark,
    .elapsed = elapsed,
    .about = about,
    .compile = emu_compile,
    .launch = emu_launch,
    .gemm = emu_gemm,
    .capture_begin = emu_capture_begin,
    .capture_end = emu_capture_end,
    .exec_launch = emu_exec_launch,
    .exec_free = emu_exec_free,
};

/* The cores that this process may use: its affinity, and a container's quota (cgroup v2). */
static int cores(void) {
  cpu_set_t set;
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  if (sched_getaffinity(0, sizeof set, &set) == 0) n = CPU_COUNT(&set);
  FILE *f = fopen("/sys/fs/cgroup/cpu.max", "r");
  long quota, period;
  if (f != NULL && fscanf(f, "%ld %ld", &quota, &period) == 2 && quota > 0 && period > 0) {
    long whole = (quota + period - 1) / period;
    if (whole < n) n = whole;
  }
  if (f != NULL) fclose(f);
  return n < 1 ? 1 : n > 256 ? 256 : (int)n;
}

gs_status gs_emu_open(const gs_device_options *o, gs_device **out, gs_error *err) {
  gs_status s = GS_OK;
  emu *e = calloc(1, sizeof *e);
  if (e == NULL) return gs_fail(err, GS_ERR_MEMORY, "no memory for the emulator");
  if (o) e->o = *o;
  if (e->o.compile_jobs <= 0) e->o.compile_jobs = cores();
  e->nworkers = e->o.threads > 0 ? e->o.threads : cores();
  e->base.ops = &ops;
  e->base.is_emulator = true;
  e->base.caps = gs_caps_find(o != NULL && o->arch != NULL ? o->arch : "emu");
  if (e->base.caps == NULL) {
    s = gs_fail(err, GS_ERR_USE, "unknown architecture \"%s\" for the emulator to stand for",
                e->o.arch ? e->o.arch : "emu");
    goto fail;
  }
  e->blas = gs_blas_open(true);
  e->gemm_scratch = calloc((size_t)e->nworkers, sizeof *e->gemm_scratch);
  if (!e->blas || !e->gemm_scratch) {
    s = gs_fail(err, GS_ERR_MEMORY, "no memory for the emulator");
    goto fail;
  }
  s = emu_find_compiler(e, err);
  if (s == GS_OK) s = emu_start_pool(e, err);
  if (s != GS_OK) goto fail;
  snprintf(e->base.name, sizeof e->base.name, "emulator (%d thread%s%s%s)", e->nworkers,
           e->nworkers == 1 ? "" : "s", e->o.checked ? ", checked" : "",
           e->o.arch ? ", kernels as for a GPU" : "");
  e->o.arch = NULL; /* the caller's string */
  *out = &e->base;
  return GS_OK;
fail:
  close_emu(&e->base);
  return s;
}
