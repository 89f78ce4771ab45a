/* boxes.h: a tensor map as the CUDA driver encodes it, for kernels that take one by value. */
#ifndef GS_CUDA_BOXES_H
#define GS_CUDA_BOXES_H

#include "device/cuda/driver_api.h"
#include "device/tensor_map.h"

/* Encodes m over the tensor at ptr. Returns the driver's code. A tensor without rows gives zeros,
 * which no kernel may copy through. */
int gs_cuda_encode_map(const gs_cu_api *api, const gs_tensor_map *m, uint64_t ptr, gs_cu_map *out);

#endif
