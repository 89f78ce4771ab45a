/* driver_api.h: the part of the CUDA driver's binary interface that we call. Written from the
 * documented interface, so that building needs no CUDA header. Symbols carry the suffix that the
 * interface of CUDA 12 gives them. Private to runtime/device/cuda. */
#ifndef GS_CUDA_DRIVER_API_H
#define GS_CUDA_DRIVER_API_H

#include <stddef.h>
#include <stdint.h>

typedef int gs_cu_device;
typedef uint64_t gs_cu_ptr;
typedef struct gs_cu_context_tag *gs_cu_context;
typedef struct gs_cu_stream_tag *gs_cu_stream;
typedef struct gs_cu_module_tag *gs_cu_module;
typedef struct gs_cu_function_tag *gs_cu_function;
typedef struct gs_cu_graph_tag *gs_cu_graph;
typedef struct gs_cu_node_tag *gs_cu_node;
typedef struct gs_cu_exec_tag *gs_cu_exec;
typedef struct gs_cu_event_tag *gs_cu_event;

enum {
  GS_CU_OK = 0,
  GS_CU_OUT_OF_MEMORY = 2,
  GS_CU_NO_DEVICE = 100,
  GS_CU_FAULT_FIRST = 700, /* 700 to 719: what a kernel did, or could not get */
  GS_CU_FAULT_LAST = 719,
};

enum {                              /* device attributes */
       GS_CU_SHARED_PER_BLOCK = 97, /* with what a launch asks for */
       GS_CU_SM_COUNT = 16,
       GS_CU_MEMORY_CLOCK = 36, /* kHz */
       GS_CU_L2_BYTES = 38,
       GS_CU_MAJOR = 75,
       GS_CU_MINOR = 76,
};

enum { GS_CU_FUNCTION_SHARED = 8 }; /* a function's attribute: bytes given at its launch */
enum { GS_CU_STREAM_NON_BLOCKING = 1, GS_CU_CAPTURE_RELAXED = 2 };

/* A tensor map as a kernel takes it, by value. */
typedef struct gs_cu_map {
  _Alignas(64) unsigned char bytes[128];
} gs_cu_map;
enum {
  GS_CU_MAP_U8 = 0,
  GS_CU_MAP_I32 = 3,
  GS_CU_MAP_F16 = 6,
  GS_CU_MAP_F32 = 7,
  GS_CU_MAP_BF16 = 9
}; /* element types */
enum { GS_CU_MAP_NO_INTERLEAVE = 0, GS_CU_MAP_L2_256 = 3, GS_CU_MAP_ZEROS = 0 };

/* A launch with attributes. */
typedef struct gs_cu_attribute {
  int id, pad;
  _Alignas(8) union {
    int whole;
    char bytes[64];
  } value;
} gs_cu_attribute;
enum { GS_CU_ATTRIBUTE_FOLLOWS = 6 }; /* begins while the kernel before is still running */
typedef struct gs_cu_launch {
  unsigned gx, gy, gz, bx, by, bz, shared;
  gs_cu_stream s;
  gs_cu_attribute *attributes;
  unsigned nattributes;
} gs_cu_launch;

/* field, symbol, parameters; the result is an error code */
#define GS_CU_FUNCTIONS(F)                                                                         \
  F(init, "cuInit", (unsigned flags))                                                              \
  F(error_name, "cuGetErrorName", (int code, const char **s))                                      \
  F(error_string, "cuGetErrorString", (int code, const char **s))                                  \
  F(driver_version, "cuDriverGetVersion", (int *version))                                          \
  F(device_count, "cuDeviceGetCount", (int *n))                                                    \
  F(device_get, "cuDeviceGet", (gs_cu_device * d, int ordinal))                                    \
  F(device_name, "cuDeviceGetName", (char *name, int cap, gs_cu_device d))                         \
  F(device_memory, "cuDeviceTotalMem_v2", (size_t * bytes, gs_cu_device d))                        \
  F(device_attribute, "cuDeviceGetAttribute", (int *value, int attribute, gs_cu_device d))         \
  F(device_pci, "cuDeviceGetPCIBusId", (char *text, int cap, gs_cu_device d))                      \
  F(context_retain, "cuDevicePrimaryCtxRetain", (gs_cu_context * c, gs_cu_device d))               \
  F(context_release, "cuDevicePrimaryCtxRelease_v2", (gs_cu_device d))                             \
  F(context_set, "cuCtxSetCurrent", (gs_cu_context c))                                             \
  F(context_get, "cuCtxGetCurrent", (gs_cu_context * c))                                           \
  F(context_device, "cuCtxGetDevice", (gs_cu_device * d))                                          \
  F(stream_create, "cuStreamCreate", (gs_cu_stream * s, unsigned flags))                           \
  F(stream_destroy, "cuStreamDestroy_v2", (gs_cu_stream s))                                        \
  F(stream_sync, "cuStreamSynchronize", (gs_cu_stream s))                                          \
  F(event_create, "cuEventCreate", (gs_cu_event * e, unsigned flags))                              \
  F(event_destroy, "cuEventDestroy_v2", (gs_cu_event e))                                           \
  F(event_record, "cuEventRecord", (gs_cu_event e, gs_cu_stream s))                                \
  F(event_sync, "cuEventSynchronize", (gs_cu_event e))                                             \
  F(event_elapsed, "cuEventElapsedTime", (float *ms, gs_cu_event from, gs_cu_event to))            \
  F(memory_info, "cuMemGetInfo_v2", (size_t * free_bytes, size_t * total))                         \
  F(alloc, "cuMemAlloc_v2", (gs_cu_ptr * p, size_t bytes))                                         \
  F(free, "cuMemFree_v2", (gs_cu_ptr p))                                                           \
  F(host_alloc, "cuMemHostAlloc", (void **p, size_t bytes, unsigned flags))                        \
  F(host_free, "cuMemFreeHost", (void *p))                                                         \
  F(upload, "cuMemcpyHtoDAsync_v2", (gs_cu_ptr to, const void *from, size_t n, gs_cu_stream s))    \
  F(download, "cuMemcpyDtoHAsync_v2", (void *to, gs_cu_ptr from, size_t n, gs_cu_stream s))        \
  F(copy, "cuMemcpyDtoDAsync_v2", (gs_cu_ptr to, gs_cu_ptr from, size_t n, gs_cu_stream s))        \
  F(fill, "cuMemsetD8Async", (gs_cu_ptr to, unsigned char byte, size_t n, gs_cu_stream s))         \
  F(fill_rows, "cuMemsetD2D8Async",                                                                \
    (gs_cu_ptr to, size_t pitch, unsigned char byte, size_t width, size_t rows, gs_cu_stream s))   \
  F(module_load, "cuModuleLoadData", (gs_cu_module * m, const void *image))                        \
  F(module_unload, "cuModuleUnload", (gs_cu_module m))                                             \
  F(module_function, "cuModuleGetFunction",                                                        \
    (gs_cu_function * f, gs_cu_module m, const char *name))                                        \
  F(function_set, "cuFuncSetAttribute", (gs_cu_function f, int attribute, int value))              \
  F(map_encode, "cuTensorMapEncodeTiled",                                                          \
    (gs_cu_map * m, int type, uint32_t rank, gs_cu_ptr p, const uint64_t *extent,                  \
     const uint64_t *strides, const uint32_t *box, const uint32_t *each, int interleave,           \
     int swizzle, int l2, int outside))                                                            \
  F(launch, "cuLaunchKernel",                                                                      \
    (gs_cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,            \
     unsigned bz, unsigned shared, gs_cu_stream s, void **params, void **extra))                   \
  F(launch_with, "cuLaunchKernelEx",                                                               \
    (const gs_cu_launch *l, gs_cu_function f, void **params, void **extra))                        \
  F(capture_begin, "cuStreamBeginCapture_v2", (gs_cu_stream s, int mode))                          \
  F(capture_end, "cuStreamEndCapture", (gs_cu_stream s, gs_cu_graph * g))                          \
  F(graph_nodes, "cuGraphGetNodes", (gs_cu_graph g, gs_cu_node * nodes, size_t * n))               \
  F(graph_destroy, "cuGraphDestroy", (gs_cu_graph g))                                              \
  F(exec_create, "cuGraphInstantiateWithFlags",                                                    \
    (gs_cu_exec * e, gs_cu_graph g, unsigned long long flags))                                     \
  F(exec_launch, "cuGraphLaunch", (gs_cu_exec e, gs_cu_stream s))                                  \
  F(exec_destroy, "cuGraphExecDestroy", (gs_cu_exec e))

typedef struct gs_cu_api {
#define GS_FIELD(field, symbol, params) int(*field) params;
  GS_CU_FUNCTIONS(GS_FIELD)
#undef GS_FIELD
} gs_cu_api;

#endif
