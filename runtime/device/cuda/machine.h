/* machine.h: what the files of the CUDA machine share. One thread at a time uses a machine. */
#ifndef GS_CUDA_MACHINE_H
#define GS_CUDA_MACHINE_H

#include "device/cuda/driver.h"
#include "device/cuda/lt.h"
#include "device/cuda/nvml.h"
#include "device/ops.h"
#include "jit/jit.h"
#include "pack/file.h"

struct gs_func {
  char *entry;
  gs_cu_module module;
  gs_cu_function function;
  int threads, nargs, shared_bytes;
  unsigned char *kinds; /* of each argument: GS_VALUE_PTR ... */
  bool follows;         /* waits itself for the kernel before it */
};

typedef struct gs_cuda {
  gs_device base;
  gs_driver driver;
  gs_gpu gpu;
  gs_caps caps;       /* the table's row with this GPU's own numbers */
  char target[16];    /* what kernels are compiled for: "sm_90a", or "compute_80" */
  gs_jit *jit;        /* NULL where kernels come from */
  gs_pack_file *pack; /* this */
  gs_lt *lt;          /* NULL when cuBLASLt was not found; lt_missing says why */
  gs_error lt_missing;
  gs_cu_device device;
  gs_cu_context context;
  gs_cu_stream stream;
  gs_cu_ptr workspace;
  gs_func **funcs;
  size_t nfuncs, func_cap;
  int compile_jobs;
  bool capturing;
  gs_cu_event marks[GS_DEVICE_MARKS]; /* NULL: not made yet */
  bool marked[GS_DEVICE_MARKS];
  gs_nvml *nvml;    /* opened when it is first asked */
  struct gs_staging *staging; /* made with the first large upload */
  const char *last; /* entry launched last, for the message of a fault; NULL at first */
} gs_cuda;

#define GS_CUDA_OF(d) ((gs_cuda *)(d))

/* Fills err from a driver code: "doing: CUDA_ERROR_... (...)". Of a kernel's fault, it adds what
 * was launched last. Returns GS_ERR_DEVICE, or GS_ERR_MEMORY for an allocation. */
gs_status gs_cuda_fail(gs_cuda *m, int code, gs_error *err, const char *doing, ...) GS_PRINTF(4, 5);

/* Makes the machine's context current on this thread. */
gs_status gs_cuda_enter(gs_cuda *m, gs_error *err);
/* The same; an error inside a capture. */
gs_status gs_cuda_enter_now(gs_cuda *m, const char *doing, gs_error *err);

const char *gs_cuda_compiler(const gs_cuda *m); /* what made its kernels, with build */

gs_status gs_cuda_compile(gs_device *d, const gs_kernel *const *k, int n, gs_func **out,
                          gs_error *err);
gs_status gs_cuda_launch(gs_device *d, gs_func *f, int64_t grid, const gs_value *args, int nargs,
                         gs_error *err);
void gs_cuda_drop_funcs(gs_cuda *m);

gs_status gs_cuda_capture_begin(gs_device *d, gs_error *err);
gs_status gs_cuda_capture_end(gs_device *d, gs_exec **out, gs_error *err);
gs_status gs_cuda_exec_launch(gs_exec *e, gs_error *err);
void gs_cuda_exec_free(gs_exec *e);

gs_status gs_cuda_alloc(gs_device *d, size_t bytes, gs_ptr *out, gs_error *err);
void gs_cuda_free(gs_device *d, gs_ptr p);
gs_status gs_cuda_upload(gs_device *d, gs_ptr to, const void *from, size_t bytes, gs_error *err);
/* Uploads through page-locked memory and waits. *done false: there is none to be had, and nothing
 * was done. Returns a driver code. */
int gs_cuda_upload_staged(gs_cuda *m, gs_ptr to, const void *from, size_t bytes, bool *done);
void gs_cuda_drop_staging(gs_cuda *m);
gs_status gs_cuda_download(gs_device *d, void *to, gs_ptr from, size_t bytes, gs_error *err);
gs_status gs_cuda_copy(gs_device *d, gs_ptr to, gs_ptr from, size_t bytes, gs_error *err);
gs_status gs_cuda_fill(gs_device *d, gs_ptr to, unsigned char byte, size_t bytes, gs_error *err);
gs_status gs_cuda_sync(gs_device *d, gs_error *err);
gs_status gs_cuda_gemm(gs_device *d, const gs_gemm *g, gs_error *err);

gs_status gs_cuda_mark(gs_device *d, int mark, gs_error *err);
gs_status gs_cuda_elapsed(gs_device *d, int from, int to, double *seconds, gs_error *err);
void gs_cuda_drop_marks(gs_cuda *m);
void gs_cuda_about(gs_device *d, gs_about *out);
void gs_cuda_clocks(gs_device *d, int *processors, int *memory);

#endif
