/* boxes.c: a tensor map to the driver's 128 bytes (boxes.h). */
#include "device/cuda/boxes.h"

#include <string.h>

static int type_code(gs_type t) {
  switch (t) {
  case GS_F32: return GS_CU_MAP_F32;
  case GS_BF16: return GS_CU_MAP_BF16;
  case GS_F16: return GS_CU_MAP_F16;
  case GS_I32: return GS_CU_MAP_I32;
  default: return GS_CU_MAP_U8; /* what has one byte; copied, never computed with */
  }
}

static int swizzle_code(int bytes) {
  return bytes == 128 ? 3 : bytes == 64 ? 2 : bytes == 32 ? 1 : 0;
}

int gs_cuda_encode_map(const gs_cu_api *api, const gs_tensor_map *m, uint64_t ptr, gs_cu_map *out) {
  memset(out, 0, sizeof *out);
  if (m->rows == 0) return GS_CU_OK;
  uint64_t size = gs_type_size(m->type); /* the innermost dim comes first */
  uint64_t extent[] = {(uint64_t)m->columns, (uint64_t)m->heads, (uint64_t)m->rows};
  uint64_t strides[] = {(uint64_t)m->columns * size, (uint64_t)m->stride * size};
  uint32_t box[] = {(uint32_t)m->box.columns, (uint32_t)m->box.heads, (uint32_t)m->box.rows};
  uint32_t each[] = {1, 1, 1};
  if (m->heads == 1) strides[0] = (strides[0] + 15) / 16 * 16; /* never used, but to be legal */
  return api->map_encode(out, type_code(m->type), 3, ptr, extent, strides, box, each,
                         GS_CU_MAP_NO_INTERLEAVE, swizzle_code(m->box.swizzle), GS_CU_MAP_L2_256,
                         GS_CU_MAP_ZEROS);
}
