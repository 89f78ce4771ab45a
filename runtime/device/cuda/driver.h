/* driver.h: the CUDA driver, found and started, and its errors in words. */
#ifndef GS_CUDA_DRIVER_H
#define GS_CUDA_DRIVER_H

#include "device/cuda/driver_api.h"
#include "jit/library.h"

#include <stdbool.h>

typedef struct gs_driver {
  gs_library lib;
  gs_cu_api api;
  int version; /* the newest CUDA it supports: 13000, 12040 */
  int ngpus;
} gs_driver;

/* Opens libcuda.so.1 and starts it. GS_ERR_DEVICE says what is missing: driver, GPU, or a newer
 * one. */
gs_status gs_driver_open(gs_driver *d, gs_error *err);

/* "CUDA_ERROR_NAME (what it means)" into out. */
void gs_driver_explain(const gs_driver *d, int code, char *out, size_t cap);

/* The newest major version of NVRTC and cuBLASLt that this driver runs; 0 for any that we know. */
int gs_driver_max_major(const gs_driver *d);

typedef struct gs_gpu {
  char name[128];
  int major, minor; /* compute capability */
  int sm_count;
  size_t bytes; /* of memory */
} gs_gpu;
gs_status gs_driver_gpu(const gs_driver *d, int ordinal, gs_gpu *gpu, gs_error *err);
/* Compute capability 8.0 and later; otherwise GS_ERR_DEVICE by the GPU's name. */
gs_status gs_gpu_require(const gs_gpu *gpu, gs_error *err);

#endif
