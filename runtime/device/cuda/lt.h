/* lt.h: dense matrix products by cuBLASLt. For each shape the algorithm is chosen once and kept, so
 * that its bits repeat. One thread at a time; the CUDA context must be current. */
#ifndef GS_CUDA_LT_H
#define GS_CUDA_LT_H

#include "device/cuda/cublaslt_api.h"
#include "device/device.h"
#include "jit/library.h"

#define GS_LT_WORKSPACE ((size_t)32 << 20)

typedef struct gs_lt gs_lt;

/* Finds and loads the library only: what doctor asks. max_major as in gs_jit_open. */
gs_status gs_lt_find(int max_major, gs_library *lib, gs_lt_api *api, gs_error *err);
/* version: 130000 for 13.0.0 */
void gs_lt_version_text(size_t version, char *out, size_t cap);

/* workspace: GS_LT_WORKSPACE bytes of device memory, owned by the caller. */
gs_status gs_lt_open(int max_major, gs_cu_ptr workspace, gs_lt **out, gs_error *err);
void gs_lt_close(gs_lt *lt);
/* g is checked: positive sizes, known types. */
gs_status gs_lt_gemm(gs_lt *lt, const gs_gemm *g, gs_cu_stream stream, gs_error *err);

#endif
