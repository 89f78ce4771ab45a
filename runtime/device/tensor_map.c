/* tensor_map.c: a binding and a box to a map, held against what the hardware asks of one. */
#include "device/tensor_map.h"

/* What no record should ask for: a box has at most 256 elements a side. */
static bool fits(const gs_box *x, int64_t size) {
  int64_t line = x->columns * size;
  bool sides = x->rows >= 1 && x->rows <= 256 && x->heads >= 1 && x->heads <= 256 &&
               x->columns >= 1 && x->columns <= 256;
  bool swizzle = x->swizzle == 0 || x->swizzle == 32 || x->swizzle == 64 || x->swizzle == 128;
  return sides && swizzle && line % 16 == 0 && (x->swizzle == 0 || line <= x->swizzle);
}

gs_status gs_tensor_map_make(const gs_binding *b, const gs_box *box, const int64_t *sizes,
                             uint64_t ptr, int64_t stride, gs_tensor_map *out, gs_error *err) {
  int64_t heads = 1, size = (int64_t)gs_type_size(b->type);
  if (b->ndims < 2 || !fits(box, size))
    return gs_fail(err, GS_ERR_USE,
                   "no tensor map: boxes of %d rows, %d heads, %d columns, swizzle %d, of %s",
                   box->rows, box->heads, box->columns, box->swizzle, b->name);
  for (int k = 1; k < b->ndims - 1; k++) heads *= sizes[b->dim[k]];
  *out = (gs_tensor_map){.type = b->type,
                         .rows = sizes[b->dim[0]],
                         .heads = heads,
                         .columns = sizes[b->dim[b->ndims - 1]],
                         .stride = stride,
                         .box = *box};
  int64_t step = stride * size, head = out->columns * size;
  if (out->rows == 0 || (ptr % 16 == 0 && step % 16 == 0 && (heads == 1 || head % 16 == 0)))
    return GS_OK;
  return gs_fail(err, GS_ERR_USE,
                 "%s is copied in boxes, so its address and the bytes between its rows%s must be "
                 "multiples of 16: it lies at 0x%llx, with %lld bytes between rows%s",
                 b->name, heads > 1 ? " and heads" : "", (unsigned long long)ptr, (long long)step,
                 heads > 1 && head % 16 ? " and heads that are no such multiple" : "");
}
