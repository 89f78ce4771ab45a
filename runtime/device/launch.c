/* launch.c: a launch list bound to memory and sizes, run kernel by kernel. */
#include "device/launch.h"

enum { MAX_ARGS = 128 };

size_t gs_launch_temp_bytes(const gs_launch_list *l, int t, const int64_t *sizes) {
  return (size_t)gs_count_value(&l->temps[t].count, sizes) * gs_type_size(l->temps[t].type);
}

static gs_status value_of(const gs_launch_list *l, const gs_arg *a, const gs_bound *bound,
                          const int64_t *sizes, const gs_ptr *temps, gs_value *out, gs_error *err) {
  gs_value v = {.kind = GS_VALUE_PTR, .is_read = a->is_read, .is_written = a->is_written};
  gs_status s = GS_OK;
  switch (a->kind) {
  case GS_ARG_TENSOR:
    v.ptr = bound[a->index].ptr;
    v.bytes = bound[a->index].bytes;
    break;
  case GS_ARG_TEMP:
    v.ptr = temps[a->index];
    v.bytes = gs_launch_temp_bytes(l, a->index, sizes);
    break;
  case GS_ARG_STEP_SCALAR:
    v.ptr = bound[a->index].ptr;
    v.bytes = sizeof(float);
    break;
  case GS_ARG_STRIDE:
    v.kind = GS_VALUE_I64;
    v.i64 = bound[a->index].stride;
    break;
  case GS_ARG_DIM:
    v.kind = GS_VALUE_I64;
    v.i64 = sizes[a->index];
    break;
  case GS_ARG_SCALAR:
    v.kind = GS_VALUE_F32;
    v.f32 = bound[a->index].value;
    break;
  case GS_ARG_MAP:
    v.kind = GS_VALUE_MAP;
    v.ptr = bound[a->index].ptr;
    v.bytes = bound[a->index].bytes;
    s = gs_tensor_map_make(&l->bindings[a->index], &a->box, sizes, v.ptr, bound[a->index].stride,
                           &v.map, err);
    break;
  }
  *out = v;
  return s;
}

static gs_status launch_one(gs_device *d, const gs_compiled *c, int k, const gs_bound *bound,
                            const int64_t *sizes, const gs_ptr *temps, gs_error *err) {
  const gs_kernel *kernel = &c->list->kernels[k];
  int64_t grid = gs_count_value(&kernel->grid, sizes);
  if (grid == 0) return GS_OK;
  if (kernel->nargs > MAX_ARGS)
    return gs_fail(err, GS_ERR_USE, "kernel %s has %d arguments: at most %d", kernel->entry,
                   kernel->nargs, MAX_ARGS);
  gs_value args[MAX_ARGS];
  gs_status s = GS_OK;
  for (int i = 0; i < kernel->nargs && s == GS_OK; i++)
    s = value_of(c->list, &kernel->args[i], bound, sizes, temps, &args[i], err);
  if (s != GS_OK) return gs_fail_in(err, "kernel %s", kernel->entry);
  return gs_device_launch(d, c->funcs[k], grid, args, kernel->nargs, err);
}

gs_status gs_launch(gs_device *d, const gs_compiled *c, const gs_bound *bound, const int64_t *sizes,
                    const gs_ptr *temps, gs_error *err) {
  return gs_launch_from(d, c, 0, bound, sizes, temps, err);
}

gs_status gs_launch_from(gs_device *d, const gs_compiled *c, int first, const gs_bound *bound,
                         const int64_t *sizes, const gs_ptr *temps, gs_error *err) {
  const gs_launch_list *l = c->list;
  for (int k = first; k < l->nkernels; k++) {
    gs_status s = launch_one(d, c, k, bound, sizes, temps, err);
    if (s != GS_OK) return s;
  }
  return GS_OK;
}
