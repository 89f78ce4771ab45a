/* machine.c: opening a CUDA GPU: driver, context, stream, NVRTC, cuBLASLt; and what is missing. */
#include "device/cuda/machine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

gs_status gs_cuda_fail(gs_cuda *m, int code, gs_error *err, const char *doing, ...) {
  char what[512], why[512];
  va_list ap;
  va_start(ap, doing);
  vsnprintf(what, sizeof what, doing, ap);
  va_end(ap);
  gs_driver_explain(&m->driver, code, why, sizeof why);
  if (code < GS_CU_FAULT_FIRST || code > GS_CU_FAULT_LAST)
    return gs_fail(err, code == GS_CU_OUT_OF_MEMORY ? GS_ERR_MEMORY : GS_ERR_DEVICE, "%s: %s", what,
                   why);
  return gs_fail(
      err, GS_ERR_DEVICE,
      "%s: %s\nA kernel failed; the one launched last was %s. With CUDA_LAUNCH_BLOCKING=1 in "
      "the environment the failing one itself is named",
      what, why, m->last ? m->last : "none of ours");
}

gs_status gs_cuda_enter(gs_cuda *m, gs_error *err) {
  int code = m->driver.api.context_set(m->context);
  return code == GS_CU_OK ? GS_OK : gs_cuda_fail(m, code, err, "using %s", m->gpu.name);
}

gs_status gs_cuda_enter_now(gs_cuda *m, const char *doing, gs_error *err) {
  if (m->capturing)
    return gs_fail(err, GS_ERR_USE, "%s can't be captured: end the capture first", doing);
  return gs_cuda_enter(m, err);
}

static void close_machine(gs_device *d) {
  gs_cuda *m = GS_CUDA_OF(d);
  const gs_cu_api *a = &m->driver.api;
  if (m->context) {
    a->context_set(m->context);
    if (m->stream) a->stream_sync(m->stream);
    gs_lt_close(m->lt);
    gs_cuda_drop_funcs(m);
    gs_cuda_drop_marks(m);
    gs_cuda_drop_staging(m);
    if (m->workspace) a->free(m->workspace);
    if (m->stream) a->stream_destroy(m->stream);
    a->context_set(NULL);
    a->context_release(m->device);
  }
  gs_nvml_close(m->nvml);
  gs_jit_close(m->jit);
  gs_pack_file_close(m->pack);
  free(m);
}

static const char *packed(const gs_device *d, const char *key) {
  const gs_cuda *m = (const gs_cuda *)d;
  const gs_pack_record *r = m->pack ? gs_pack_file_record(m->pack, key, m->caps.arch) : NULL;
  return r ? r->tuned : NULL;
}

const char *gs_cuda_compiler(const gs_cuda *m) {
  return m->pack ? gs_pack_file_about(m->pack)->compiler : gs_jit_build(m->jit);
}

static const gs_device_ops ops = {
    .packed = packed,
    .close = close_machine,
    .alloc = gs_cuda_alloc,
    .free = gs_cuda_free,
    .upload = gs_cuda_upload,
    .download = gs_cuda_download,
    .copy = gs_cuda_copy,
    .fill = gs_cuda_fill,
    .sync = gs_cuda_sync,
    .mark = gs_cuda_mark,
    .elapsed = gs_cuda_elapsed,
    .about = gs_cuda_about,
    .clocks = gs_cuda_clocks,
    .compile = gs_cuda_compile,
    .launch = gs_cuda_launch,
    .gemm = gs_cuda_gemm,
    .capture_begin = gs_cuda_capture_begin,
    .capture_end = gs_cuda_capture_end,
    .exec_launch = gs_cuda_exec_launch,
    .exec_free = gs_cuda_exec_free,
};

/* The row of the capability table for this GPU, or of the nearest one below it. Machine code for an
 * "a" target runs on that very GPU alone; plain code of the same major runs on later minors; for a
 * GPU of a major that the table does not know, the driver compiles PTX. */
static const gs_caps *choose_row(const gs_gpu *gpu, char *target, size_t cap) {
  char name[16];
  for (int minor = gpu->minor; minor >= 0; minor--) {
    snprintf(name, sizeof name, "sm_%d%d", gpu->major, minor);
    const gs_caps *row = gs_caps_find(name);
    if (!row) continue;
    snprintf(target, cap, "%s", minor == gpu->minor ? row->arch : name);
    return row;
  }
  snprintf(target, cap, "compute_80");
  return gs_caps_find("sm_80");
}

/* Of a pack: its own choice of target, and that row as it was compiled for. */
static gs_status choose_packed(gs_cuda *m, gs_error *err) {
  const gs_pack_target *t;
  gs_status st = gs_gpu_require(&m->gpu, err);
  if (st == GS_OK) st = gs_pack_file_choose(m->pack, m->gpu.major, m->gpu.minor, &t, err);
  if (st != GS_OK) return st;
  const gs_caps *row = gs_caps_find(t->schedule);
  if (!row)
    return gs_fail(err, GS_ERR_DEVICE, "the pack %s was made for %s, which this program knows not",
                   gs_pack_file_about(m->pack)->path, t->schedule);
  snprintf(m->target, sizeof m->target, "%s", t->name);
  m->caps = *row;
  m->base.caps = &m->caps;
  return GS_OK;
}

static gs_status choose_target(gs_cuda *m, gs_error *err) {
  gs_status st = gs_gpu_require(&m->gpu, err);
  if (st != GS_OK) return st;
  const gs_caps *row = choose_row(&m->gpu, m->target, sizeof m->target);
  if (!row)
    return gs_fail(err, GS_ERR_DEVICE, "%s: no capability row for %d.%d", m->gpu.name, m->gpu.major,
                   m->gpu.minor);
  if (!gs_jit_supports(m->jit, m->target)) /* an NVRTC older than the GPU */
    snprintf(m->target, sizeof m->target, "compute_80");
  m->caps = *row;
  m->caps.sm_count = m->gpu.sm_count;
  int shared = 0; /* what a block may take where the launch asks for it */
  int code = m->driver.api.device_attribute(&shared, GS_CU_SHARED_PER_BLOCK, m->device);
  if (code != GS_CU_OK)
    return gs_cuda_fail(m, code, err, "reading %s's shared memory", m->gpu.name);
  m->caps.shared_per_block = shared;
  m->base.caps = &m->caps;
  return GS_OK;
}

static gs_status open_context(gs_cuda *m, gs_error *err) {
  const gs_cu_api *a = &m->driver.api;
  int code = a->context_retain(&m->context, m->device);
  if (code == GS_CU_OK) code = a->context_set(m->context);
  if (code == GS_CU_OK) code = a->stream_create(&m->stream, GS_CU_STREAM_NON_BLOCKING);
  if (code == GS_CU_OK) code = a->alloc(&m->workspace, GS_LT_WORKSPACE);
  if (code == GS_CU_OK) return GS_OK;
  return gs_cuda_fail(m, code, err,
                      "opening %s (is its memory taken by other programs? nvidia-smi "
                      "lists them)",
                      m->gpu.name);
}

gs_status gs_cuda_open(const gs_device_options *o, gs_device **out, gs_error *err) {
  *out = NULL;
  gs_cuda *m = calloc(1, sizeof *m);
  if (!m) return gs_fail(err, GS_ERR_MEMORY, "no memory to open the GPU");
  m->base.ops = &ops;
  m->compile_jobs = o ? o->compile_jobs : 0;
  gs_status st = gs_driver_open(&m->driver, err);
  int newest = gs_driver_max_major(&m->driver), code = GS_CU_OK;
  if (st == GS_OK) st = gs_driver_gpu(&m->driver, 0, &m->gpu, err);
  if (st == GS_OK) code = m->driver.api.device_get(&m->device, 0);
  if (code != GS_CU_OK) st = gs_cuda_fail(m, code, err, "opening GPU 0");
  bool packed_only = o && o->pack;
  if (st == GS_OK && packed_only) st = gs_pack_file_open(o->pack, &m->pack, err);
  if (st == GS_OK && !packed_only) st = gs_jit_open(newest, &m->jit, err);
  if (st == GS_OK) st = packed_only ? choose_packed(m, err) : choose_target(m, err);
  gs_phase(o ? o->phases : NULL, packed_only ? "pack" : "driver and NVRTC");
  if (st == GS_OK) st = open_context(m, err);
  gs_phase(o ? o->phases : NULL, "context");
  if (st != GS_OK) {
    close_machine(&m->base);
    return st;
  }
  /* Kernels run without cuBLASLt; the first matrix product says what is missing. */
  if (gs_lt_open(newest, m->workspace, &m->lt, &m->lt_missing) != GS_OK) m->lt = NULL;
  gs_phase(o ? o->phases : NULL, "cuBLASLt");
  snprintf(m->base.name, sizeof m->base.name, "%s", m->gpu.name);
  *out = &m->base;
  return GS_OK;
}

bool gs_cuda_available(bool from_pack, char *why, size_t cap) {
  gs_driver driver;
  gs_gpu gpu;
  gs_jit *jit = NULL;
  gs_error err = {0};
  gs_status st = gs_driver_open(&driver, &err);
  if (st == GS_OK) st = gs_driver_gpu(&driver, 0, &gpu, &err);
  if (st == GS_OK) st = gs_gpu_require(&gpu, &err);
  if (st == GS_OK && !from_pack) st = gs_jit_open(gs_driver_max_major(&driver), &jit, &err);
  gs_jit_close(jit);
  if (why && cap) snprintf(why, cap, "%s", st == GS_OK ? "" : err.message);
  return st == GS_OK;
}
