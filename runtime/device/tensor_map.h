/* tensor_map.h: a tensor as a map of boxes, for kernels that let the machine copy whole boxes.
 *
 * Both launchers (launch.c and libgradsmith's) fill one from a record; the CUDA driver makes 128
 * bytes of it, which a kernel gets by value, and the emulator looks into it as it is. */
#ifndef GS_DEVICE_TENSOR_MAP_H
#define GS_DEVICE_TENSOR_MAP_H

#include "emit/compile.h"

/* Seen as [rows, heads, columns]; the heads of a row lie one behind the other. */
typedef struct gs_tensor_map {
  gs_type type;
  int64_t rows, heads, columns;
  int64_t stride; /* elements between rows */
  gs_box box;
} gs_tensor_map;

/* The map of a binding at an address. GS_ERR_USE: an address or stride that is no multiple of 16
 * bytes, by the binding's name. */
gs_status gs_tensor_map_make(const gs_binding *b, const gs_box *box, const int64_t *sizes,
                             uint64_t ptr, int64_t stride, gs_tensor_map *out, gs_error *err);

#endif
