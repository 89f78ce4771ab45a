/* probe.h: what of driver, GPUs, NVRTC and cuBLASLt is here, for `gradsmith doctor`. Opens nothing
 * on a GPU and changes nothing. */
#ifndef GS_CUDA_PROBE_H
#define GS_CUDA_PROBE_H

#include "device/cuda/driver.h"

#define GS_PROBE_GPUS 16

typedef struct gs_probed_library {
  bool found;
  char path[1024];
  char version[32];
  char why[1024]; /* when not found */
} gs_probed_library;

typedef struct gs_cuda_probe {
  gs_probed_library driver; /* found: it started and sees a GPU; version: of CUDA, "13.0" */
  int ngpus;
  gs_gpu gpus[GS_PROBE_GPUS];
  bool usable; /* the first GPU, the one used, is of a supported kind */
  char unusable_why[512];
  gs_probed_library nvrtc, cublaslt;
} gs_cuda_probe;

void gs_cuda_probe_all(gs_cuda_probe *p);

#endif
