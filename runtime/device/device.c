/* device.c: opens a machine by name, forwards to it, and counts the memory it holds. */
#include "device/device.h"
#include "device/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is allocated: an open-addressed table from address to size, kept in gs_device.sizes
 * ---- */

typedef struct size_entry {
  gs_ptr ptr; /* 0: free */
  size_t bytes;
} size_entry;
typedef struct gs_device_sizes {
  size_entry *e;
  size_t cap, n; /* cap: a power of two */
} sizes;

static size_t slot_of(const sizes *s, gs_ptr p) {
  size_t i = (size_t)((p >> 8) * 0x9e3779b97f4a7c15u >> 20) & (s->cap - 1);
  while (s->e[i].ptr != 0 && s->e[i].ptr != p) i = (i + 1) & (s->cap - 1);
  return i;
}

/* Room for one more. */
static bool sizes_reserve(gs_device *d) {
  if (d->sizes == NULL) d->sizes = calloc(1, sizeof *d->sizes);
  sizes *s = d->sizes;
  if (s == NULL) return false;
  if (2 * (s->n + 1) <= s->cap) return true;
  sizes bigger = {.cap = s->cap ? 2 * s->cap : 64, .n = s->n};
  bigger.e = calloc(bigger.cap, sizeof *bigger.e);
  if (bigger.e == NULL) return false;
  for (size_t i = 0; i < s->cap; i++)
    if (s->e[i].ptr != 0) bigger.e[slot_of(&bigger, s->e[i].ptr)] = s->e[i];
  free(s->e);
  *s = bigger;
  return true;
}

/* Takes p out and returns its size; later entries of its run move up. 0 when it is not there. */
static size_t sizes_take(sizes *s, gs_ptr p) {
  if (s == NULL || s->cap == 0) return 0;
  size_t i = slot_of(s, p);
  if (s->e[i].ptr == 0) return 0;
  size_t bytes = s->e[i].bytes;
  s->e[i].ptr = 0;
  s->n--;
  for (size_t k = (i + 1) & (s->cap - 1); s->e[k].ptr != 0; k = (k + 1) & (s->cap - 1)) {
    size_entry moved = s->e[k];
    s->e[k].ptr = 0;
    s->e[slot_of(s, moved.ptr)] = moved;
  }
  return bytes;
}

/* ---- opening ---- */

static bool has_gpu(const gs_device_options *o, bool packed, char *why, size_t cap) {
  bool has = gs_cuda_available(packed, why, cap);
  gs_phase(o ? o->phases : NULL, packed ? "driver" : "driver and NVRTC");
  return has;
}

static gs_status open_device(const char *which, const gs_device_options *o, gs_device **out,
                             gs_error *err) {
  char why[512] = "";
  bool packed = o && o->pack, is_auto = which == NULL || strcmp(which, "auto") == 0;
  if (is_auto && !packed)
    return has_gpu(o, false, why, sizeof why) ? gs_cuda_open(o, out, err)
                                              : gs_emu_open(o, out, err);
  if (!is_auto && strcmp(which, "emu") == 0)
    return packed ? gs_fail(err, GS_ERR_USE,
                            "a pack holds kernels for GPUs: the emulator takes "
                            "none of %s",
                            o->pack)
                  : gs_emu_open(o, out, err);
  if (!is_auto && strcmp(which, "cuda") != 0)
    return gs_fail(err, GS_ERR_USE, "unknown device \"%s\": use cuda, emu or auto", which);
  if (!has_gpu(o, packed, why, sizeof why))
    return gs_fail(err, GS_ERR_DEVICE, "no CUDA device: %s; %s", why,
                   packed ? "a pack runs on GPUs alone" : "--device emu runs on the CPU");
  return gs_cuda_open(o, out, err);
}

gs_status gs_device_open(const char *which, const gs_device_options *o, gs_device **out,
                         gs_error *err) {
  *out = NULL;
  gs_status s = open_device(which, o, out, err);
  if (s == GS_OK && o) (*out)->phases = o->phases;
  return s;
}

void gs_device_close(gs_device *d) {
  if (d == NULL) return;
  if (d->sizes != NULL) free(d->sizes->e);
  free(d->sizes);
  d->ops->close(d);
}

const gs_caps *gs_device_caps(const gs_device *d) {
  return d->caps;
}
const char *gs_device_name(const gs_device *d) {
  return d->name;
}
bool gs_device_is_emulator(const gs_device *d) {
  return d->is_emulator;
}
gs_phases *gs_device_phases(const gs_device *d) {
  return d->phases;
}
const char *gs_device_packed(const gs_device *d, const char *key) {
  return d->ops->packed ? d->ops->packed(d, key) : NULL;
}
size_t gs_device_memory_peak(const gs_device *d) {
  return d->bytes_peak;
}

/* ---- memory ---- */

gs_status gs_device_alloc(gs_device *d, size_t bytes, gs_ptr *out, gs_error *err) {
  *out = 0;
  if (!sizes_reserve(d))
    return gs_fail(err, GS_ERR_MEMORY, "no memory for the list of allocations");
  gs_status s = d->ops->alloc(d, bytes, out, err);
  if (s != GS_OK) return s;
  size_entry *e = &d->sizes->e[slot_of(d->sizes, *out)];
  *e = (size_entry){*out, bytes};
  d->sizes->n++;
  d->bytes_now += bytes;
  if (d->bytes_now > d->bytes_peak) d->bytes_peak = d->bytes_now;
  return GS_OK;
}

void gs_device_free(gs_device *d, gs_ptr p) {
  if (p == 0) return;
  d->bytes_now -= sizes_take(d->sizes, p);
  d->ops->free(d, p);
}

gs_status gs_device_upload(gs_device *d, gs_ptr to, const void *from, size_t bytes, gs_error *err) {
  return d->ops->upload(d, to, from, bytes, err);
}
gs_status gs_device_download(gs_device *d, void *to, gs_ptr from, size_t bytes, gs_error *err) {
  return d->ops->download(d, to, from, bytes, err);
}
gs_status gs_device_copy(gs_device *d, gs_ptr to, gs_ptr from, size_t bytes, gs_error *err) {
  return d->ops->copy(d, to, from, bytes, err);
}
gs_status gs_device_fill(gs_device *d, gs_ptr to, unsigned char byte, size_t bytes, gs_error *err) {
  return d->ops->fill(d, to, byte, bytes, err);
}
gs_status gs_device_sync(gs_device *d, gs_error *err) {
  return d->ops->sync(d, err);
}

/* ---- timing ---- */

static gs_status check_mark(const gs_device *d, int mark, gs_error *err) {
  if (!d->ops->mark) return gs_fail(err, GS_ERR_USE, "%s runs nothing to be timed", d->name);
  if (mark < 0 || mark >= GS_DEVICE_MARKS)
    return gs_fail(err, GS_ERR_USE, "mark %d: there are %d", mark, GS_DEVICE_MARKS);
  return GS_OK;
}

gs_status gs_device_mark(gs_device *d, int mark, gs_error *err) {
  gs_status s = check_mark(d, mark, err);
  return s == GS_OK ? d->ops->mark(d, mark, err) : s;
}
gs_status gs_device_elapsed(gs_device *d, int from, int to, double *seconds, gs_error *err) {
  gs_status s = check_mark(d, from, err);
  if (s == GS_OK) s = check_mark(d, to, err);
  return s == GS_OK ? d->ops->elapsed(d, from, to, seconds, err) : s;
}

gs_status gs_device_about(gs_device *d, gs_about *out, gs_error *err) {
  *out = (gs_about){.driver = "unknown", .compiler = "unknown"};
  snprintf(out->name, sizeof out->name, "%s", d->name);
  out->sm_count = d->caps->sm_count;
  if (!d->ops->about) return gs_fail(err, GS_ERR_USE, "%s is no machine that runs", d->name);
  d->ops->about(d, out);
  return GS_OK;
}
void gs_device_clocks(gs_device *d, int *processors, int *memory) {
  *processors = *memory = 0;
  if (d->ops->clocks) d->ops->clocks(d, processors, memory);
}

/* ---- work ---- */

gs_status gs_device_compile(gs_device *d, const gs_kernel *const *kernels, int n, gs_func **out,
                            gs_error *err) {
  return n > 0 ? d->ops->compile(d, kernels, n, out, err) : GS_OK;
}
gs_status gs_device_launch(gs_device *d, gs_func *f, int64_t grid, const gs_value *args, int nargs,
                           gs_error *err) {
  return d->ops->launch(d, f, grid, args, nargs, err);
}
gs_status gs_device_gemm(gs_device *d, const gs_gemm *g, gs_error *err) {
  return d->ops->gemm(d, g, err);
}
gs_status gs_device_capture_begin(gs_device *d, gs_error *err) {
  return d->ops->capture_begin(d, err);
}
gs_status gs_device_capture_end(gs_device *d, gs_exec **out, gs_error *err) {
  *out = NULL;
  return d->ops->capture_end(d, out, err);
}
gs_status gs_exec_launch(gs_exec *e, gs_error *err) {
  return e->device->ops->exec_launch(e, err);
}
void gs_exec_free(gs_exec *e) {
  if (e != NULL) e->device->ops->exec_free(e);
}
