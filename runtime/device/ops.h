/* ops.h: what a machine implements; device.c forwards to it. Private to runtime/device. */
#ifndef GS_DEVICE_OPS_H
#define GS_DEVICE_OPS_H

#include "device/device.h"

/* A machine embeds this as its first member. */
struct gs_device {
  const struct gs_device_ops *ops;
  const gs_caps *caps;
  bool is_emulator;
  char name[128];
  size_t bytes_now, bytes_peak;  /* kept by device.c, as is the size of each allocation; */
  struct gs_device_sizes *sizes; /* a machine begins them as zero */
  gs_phases *phases;             /* kept by device.c; may be NULL */
};

typedef struct gs_device_ops {
  void (*close)(gs_device *d);
  gs_status (*alloc)(gs_device *d, size_t bytes, gs_ptr *out, gs_error *err);
  void (*free)(gs_device *d, gs_ptr p);
  gs_status (*upload)(gs_device *d, gs_ptr to, const void *from, size_t bytes, gs_error *err);
  gs_status (*download)(gs_device *d, void *to, gs_ptr from, size_t bytes, gs_error *err);
  gs_status (*copy)(gs_device *d, gs_ptr to, gs_ptr from, size_t bytes, gs_error *err);
  gs_status (*fill)(gs_device *d, gs_ptr to, unsigned char byte, size_t bytes, gs_error *err);
  gs_status (*sync)(gs_device *d, gs_error *err);
  gs_status (*mark)(gs_device *d, int mark, gs_error *err); /* NULL: it runs nothing */
  gs_status (*elapsed)(gs_device *d, int from, int to, double *seconds, gs_error *err);
  void (*about)(gs_device *d, gs_about *out); /* NULL: nothing is known but name and row */
  void (*clocks)(gs_device *d, int *processors, int *memory);
  gs_status (*compile)(gs_device *d, const gs_kernel *const *k, int n, gs_func **out,
                       gs_error *err);
  gs_status (*launch)(gs_device *d, gs_func *f, int64_t grid, const gs_value *args, int nargs,
                      gs_error *err);
  gs_status (*gemm)(gs_device *d, const gs_gemm *g, gs_error *err);
  gs_status (*capture_begin)(gs_device *d, gs_error *err);
  gs_status (*capture_end)(gs_device *d, gs_exec **out, gs_error *err);
  gs_status (*exec_launch)(gs_exec *e, gs_error *err);
  void (*exec_free)(gs_exec *e);
  const char *(*packed)(const gs_device *d, const char *key); /* NULL: this machine takes no pack */
} gs_device_ops;

/* A machine's gs_exec embeds this as its first member. */
struct gs_exec {
  gs_device *device;
};

gs_status gs_emu_open(const gs_device_options *o, gs_device **out, gs_error *err);
gs_status gs_cuda_open(const gs_device_options *o, gs_device **out, gs_error *err);
/* True when a driver, a GPU and (unless kernels come from a pack) NVRTC are there; `why` (cap
 * bytes) says what is missing otherwise.
 */
bool gs_cuda_available(bool packed, char *why, size_t cap);

#endif
