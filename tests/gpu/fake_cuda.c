/* fake_cuda.c: a CUDA driver made of host memory, built as libcuda.so.1, so that the code of
 * runtime/device/cuda runs where there is no GPU: its order of calls, its arguments, its errors.
 *
 * It runs no machine code: of kernels it knows smoke_scale alone; with FAKE_CUDA_ANY=1 it takes any
 * other, which then does nothing; with FAKE_CUDA_BLIND=1 nothing else is done either, only its time
 * is counted. With FAKE_CUDA_REFUSE=N the first N codes do not load. Captured work is kept and run
 * at a replay. It refuses what a driver refuses: calls without a context, freeing what was not
 * allocated, copies out of range, waiting inside a capture. FAKE_CUDA_CAPABILITY=75 makes another
 * GPU of it; FAKE_CUDA_FAIL=N lets the N-th call fail. */
#include "device/cuda/driver_api.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  INVALID = 1,
  NO_CONTEXT = 201,
  NO_BINARY = 209,
  NOT_FOUND = 500,
  ILLEGAL_ADDRESS = 700,
  IN_CAPTURE = 900
};
enum { MAX_BLOCKS = 4096, MAX_WORK = 256 };

typedef struct work {
  enum { FILL, COPY, SCALE, CALL, OTHER } kind;
  gs_cu_ptr to, from, step;
  size_t bytes;
  int64_t n;
  float by;
  unsigned char byte;
  void (*call)(const void *); /* what fake_cublaslt.c does, with its record */
  unsigned char record[256];
} work;

struct gs_cu_graph_tag {
  int n;
  work list[MAX_WORK];
};

static struct {
  gs_cu_ptr at;
  size_t bytes;
} blocks[MAX_BLOCKS];
static int context_mark, stream_mark, calls;
static bool has_context, faulted;
static gs_cu_graph recording;
static double now; /* the fake's clock: 10 ms a launch, 1 ms any other work */

/* Read once: a measured graph makes millions of calls. */
static int failing; /* the number of the call that fails; 0: none */
static bool blind;

__attribute__((constructor)) static void read_settings(void) {
  const char *fail = getenv("FAKE_CUDA_FAIL");
  failing = fail ? atoi(fail) : 0;
  blind = getenv("FAKE_CUDA_BLIND") != NULL;
}

/* What every call begins with; a code other than 0 is returned to the caller. */
static int enter(bool needs_context) {
  calls++;
  if (calls == failing) return GS_CU_OUT_OF_MEMORY;
  if (faulted) return ILLEGAL_ADDRESS;
  return needs_context && !has_context ? NO_CONTEXT : GS_CU_OK;
}

static bool within(gs_cu_ptr p, size_t n) {
  for (int i = 0; i < MAX_BLOCKS; i++)
    if (blocks[i].at && p >= blocks[i].at && p + n <= blocks[i].at + blocks[i].bytes) return true;
  return false;
}

static void *host(gs_cu_ptr p) {
  return (void *)(uintptr_t)p;
}

static void do_scale(const work *w) {
  const float *x = host(w->from), *step = host(w->step);
  float *y = host(w->to);
  for (int64_t i = 0; i < w->n; i++) {
    volatile float v = x[i] * w->by; /* each step rounded */
    v = v + (float)i;
    y[i] = v + *step;
  }
}

static void perform(const work *w) {
  now += w->kind == SCALE || w->kind == OTHER ? 0.010 : 0.001;
  if (blind) return;
  if (w->kind == FILL) memset(host(w->to), w->byte, w->bytes);
  if (w->kind == COPY) memmove(host(w->to), host(w->from), w->bytes);
  if (w->kind == SCALE) do_scale(w);
  if (w->kind == CALL) w->call(w->record);
}

static int submit(const work *w) {
  if (!recording) {
    perform(w);
  } else {
    if (recording->n == MAX_WORK) return INVALID;
    recording->list[recording->n++] = *w;
  }
  return GS_CU_OK;
}

int fake_submit_call(void (*call)(const void *), const void *record, size_t size);
int fake_submit_call(void (*call)(const void *), const void *record, size_t size) {
  work w = {.kind = CALL, .call = call};
  if (size > sizeof w.record || enter(true)) return INVALID;
  memcpy(w.record, record, size);
  return submit(&w);
}

int cuInit(unsigned flags) {
  return flags ? INVALID : enter(false);
}

/* NVRTC opens the driver too and looks for what is not documented: there is none. */
int cuGetExportTable(const void **table, const void *id) {
  *table = NULL;
  return id ? NOT_FOUND : INVALID;
}

int cuGetErrorName(int code, const char **s) {
  *s = code == GS_CU_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
       : code == ILLEGAL_ADDRESS   ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                                   : "CUDA_ERROR_OF_THE_FAKE";
  return GS_CU_OK;
}

int cuGetErrorString(int code, const char **s) {
  static const char *const words = "said by the fake driver";
  *s = words;
  return code ? GS_CU_OK : INVALID;
}

int cuDriverGetVersion(int *version) {
  *version = 13000;
  return enter(false);
}

int cuDeviceGetCount(int *n) {
  *n = 1;
  return enter(false);
}

int cuDeviceGet(gs_cu_device *d, int ordinal) {
  *d = 7;
  return ordinal ? INVALID : enter(false);
}

int cuDeviceGetName(char *name, int cap, gs_cu_device d) {
  snprintf(name, (size_t)cap, "Fake GPU");
  return d == 7 ? enter(false) : INVALID;
}

int cuDeviceTotalMem_v2(size_t *bytes, gs_cu_device d) {
  *bytes = (size_t)1 << 30;
  return d == 7 ? enter(false) : INVALID;
}

int cuDeviceGetAttribute(int *value, int attribute, gs_cu_device d) {
  const char *set = getenv("FAKE_CUDA_CAPABILITY");
  int capability = set ? atoi(set) : 90;
  *value = attribute == GS_CU_MAJOR              ? capability / 10
           : attribute == GS_CU_MINOR            ? capability % 10
           : attribute == GS_CU_SM_COUNT         ? 6
           : attribute == GS_CU_SHARED_PER_BLOCK ? 232448
           : attribute == GS_CU_MEMORY_CLOCK     ? 1000000
           : attribute == GS_CU_L2_BYTES         ? 65536
                                                 : -1;
  return d == 7 && *value >= 0 ? enter(false) : INVALID;
}

int cuDevicePrimaryCtxRetain(gs_cu_context *c, gs_cu_device d) {
  *c = (gs_cu_context)(void *)&context_mark;
  return d == 7 ? enter(false) : INVALID;
}

int cuDevicePrimaryCtxRelease_v2(gs_cu_device d) {
  return d == 7 ? enter(false) : INVALID;
}

int cuCtxSetCurrent(gs_cu_context c) {
  has_context = c == (gs_cu_context)(void *)&context_mark;
  return enter(false);
}

int cuCtxGetCurrent(gs_cu_context *c) {
  *c = has_context ? (gs_cu_context)(void *)&context_mark : NULL;
  return enter(false);
}

int cuCtxGetDevice(gs_cu_device *d) {
  *d = 7;
  return enter(true);
}

int cuStreamCreate(gs_cu_stream *s, unsigned flags) {
  *s = (gs_cu_stream)(void *)&stream_mark;
  return flags == GS_CU_STREAM_NON_BLOCKING ? enter(true) : INVALID;
}

static bool ours(gs_cu_stream s) {
  return !s || s == (gs_cu_stream)(void *)&stream_mark; /* or the default stream */
}

int cuStreamDestroy_v2(gs_cu_stream s) {
  return ours(s) ? enter(true) : INVALID;
}

int cuStreamSynchronize(gs_cu_stream s) {
  if (recording) return IN_CAPTURE;
  return ours(s) ? enter(true) : INVALID;
}

struct gs_cu_event_tag {
  double at;
  bool is_set;
};

int cuDeviceGetPCIBusId(char *text, int cap, gs_cu_device d) {
  snprintf(text, (size_t)cap, "0000:ff:00.0");
  return d == 7 ? enter(false) : INVALID;
}

int cuEventCreate(gs_cu_event *e, unsigned flags) {
  int code = flags ? INVALID : enter(true);
  *e = code ? NULL : calloc(1, sizeof **e);
  return code;
}

int cuEventDestroy_v2(gs_cu_event e) {
  free(e);
  return enter(true);
}

int cuEventRecord(gs_cu_event e, gs_cu_stream s) {
  if (!ours(s) || recording) return INVALID;
  e->at = now;
  e->is_set = true;
  return enter(true);
}

int cuEventSynchronize(gs_cu_event e) {
  if (recording) return IN_CAPTURE;
  return e->is_set ? enter(true) : INVALID;
}

int cuEventElapsedTime(float *ms, gs_cu_event from, gs_cu_event to) {
  *ms = (float)((to->at - from->at) * 1e3);
  return from->is_set && to->is_set ? enter(true) : INVALID;
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
  *free_bytes = (size_t)1 << 29;
  *total = (size_t)1 << 30;
  return enter(true);
}

int cuMemAlloc_v2(gs_cu_ptr *p, size_t bytes) {
  int code = enter(true);
  if (code) return code;
  if (recording) return IN_CAPTURE;
  if (bytes > (size_t)1 << 29) return GS_CU_OUT_OF_MEMORY;
  for (int i = 0; i < MAX_BLOCKS; i++) {
    if (blocks[i].at) continue;
    void *got = NULL;
    if (bytes == 0 || posix_memalign(&got, 256, bytes) != 0) return INVALID;
    blocks[i].at = *p = (gs_cu_ptr)(uintptr_t)got;
    blocks[i].bytes = bytes;
    return GS_CU_OK;
  }
  return GS_CU_OUT_OF_MEMORY;
}

int cuMemFree_v2(gs_cu_ptr p) {
  for (int i = 0; i < MAX_BLOCKS; i++)
    if (p && blocks[i].at == p) {
      free(host(p));
      blocks[i].at = 0;
      return enter(true);
    }
  return INVALID;
}

int cuMemHostAlloc(void **p, size_t bytes, unsigned flags) {
  *p = flags == 0 ? malloc(bytes) : NULL;
  return *p ? enter(true) : INVALID;
}

int cuMemFreeHost(void *p) {
  free(p);
  return enter(true);
}

int cuMemcpyHtoDAsync_v2(gs_cu_ptr to, const void *from, size_t n, gs_cu_stream s) {
  if (!ours(s) || !within(to, n) || recording) return INVALID;
  memcpy(host(to), from, n);
  return enter(true);
}

int cuMemcpyDtoHAsync_v2(void *to, gs_cu_ptr from, size_t n, gs_cu_stream s) {
  if (!ours(s) || !within(from, n) || recording) return INVALID;
  memcpy(to, host(from), n);
  return enter(true);
}

int cuMemcpyDtoDAsync_v2(gs_cu_ptr to, gs_cu_ptr from, size_t n, gs_cu_stream s) {
  work w = {.kind = COPY, .to = to, .from = from, .bytes = n};
  if (!ours(s) || !within(from, n) || !within(to, n)) return INVALID;
  int code = enter(true);
  return code ? code : submit(&w);
}

int cuMemsetD8Async(gs_cu_ptr to, unsigned char byte, size_t n, gs_cu_stream s) {
  work w = {.kind = FILL, .to = to, .byte = byte, .bytes = n};
  if (!ours(s) || !within(to, n)) return INVALID;
  int code = enter(true);
  return code ? code : submit(&w);
}

int cuMemsetD2D8Async(gs_cu_ptr to, size_t pitch, unsigned char byte, size_t width, size_t rows,
                      gs_cu_stream s) {
  int code = ours(s) && width <= pitch ? enter(true) : INVALID;
  for (size_t r = 0; r < rows && !code; r++) {
    work w = {.kind = FILL, .to = to + r * pitch, .byte = byte, .bytes = width};
    code = within(w.to, width) ? submit(&w) : INVALID;
  }
  return code;
}

int cuModuleLoadData(gs_cu_module *m, const void *image) {
  int code = enter(true);
  if (code) return code;
  if (memcmp(image, "\177ELF", 4) != 0 && !strstr(image, ".target")) return INVALID;
  const char *refuse = getenv("FAKE_CUDA_REFUSE");
  static int refused;
  if (refuse && refused < atoi(refuse)) {
    refused++;
    return NO_BINARY;
  }
  *m = malloc(1);
  return GS_CU_OK;
}

int cuModuleUnload(gs_cu_module m) {
  free(m);
  return enter(true);
}

int cuModuleGetFunction(gs_cu_function *f, gs_cu_module m, const char *name) {
  bool known = strcmp(name, "smoke_scale") == 0;
  if (!known && !getenv("FAKE_CUDA_ANY")) return NOT_FOUND;
  *f = (gs_cu_function)(void *)m;
  *(char *)(void *)m = known;
  return enter(true);
}

int cuFuncSetAttribute(gs_cu_function f, int attribute, int value) {
  return f && attribute == GS_CU_FUNCTION_SHARED && value >= 0 && value <= 232448 ? enter(true)
                                                                                  : INVALID;
}

/* Refuses what a driver refuses; the bytes then name the tensor, so that a test can look. */
int cuTensorMapEncodeTiled(gs_cu_map *m, int type, uint32_t rank, gs_cu_ptr p,
                           const uint64_t *extent, const uint64_t *strides, const uint32_t *box,
                           const uint32_t *each, int interleave, int swizzle, int l2, int outside) {
  static const int sizes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2};
  if (type < 0 || type > 9 || rank < 3 || rank > 5 || p == 0 || p % 16 || interleave || l2 < 0 ||
      l2 > 3 || outside || swizzle < 0 || swizzle > 3 || (uintptr_t)m % 64)
    return INVALID;
  uint64_t line = box[0] * (uint64_t)sizes[type];
  if (line % 16 || (swizzle && line > (uint64_t)16 << swizzle)) return INVALID;
  for (uint32_t i = 0; i < rank; i++)
    if (extent[i] < 1 || extent[i] > (uint64_t)1 << 32 || box[i] < 1 || box[i] > 256 ||
        each[i] != 1 || (i > 0 && (strides[i - 1] % 16 || strides[i - 1] >> 40)))
      return INVALID;
  memset(m, 0, sizeof *m);
  memcpy(m->bytes, &p, sizeof p);
  memcpy(m->bytes + 8, extent, 3 * sizeof *extent);
  return enter(false);
}

int cuLaunchKernel(gs_cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                   unsigned by, unsigned bz, unsigned shared, gs_cu_stream s, void **params,
                   void **extra);

int cuLaunchKernelEx(const gs_cu_launch *l, gs_cu_function f, void **params, void **extra) {
  return cuLaunchKernel(f, l->gx, l->gy, l->gz, l->bx, l->by, l->bz, l->shared, l->s, params,
                        extra);
}

int cuLaunchKernel(gs_cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                   unsigned by, unsigned bz, unsigned shared, gs_cu_stream s, void **params,
                   void **extra) {
  work w = {.kind = SCALE};
  int code = enter(true);
  if (code) return code;
  if (f && !*(const char *)(const void *)f) {
    w.kind = OTHER;
    return ours(s) && gx >= 1 && bx >= 1 ? submit(&w) : INVALID;
  }
  if (!f || !ours(s) || gx < 1 || gy != 1 || gz != 1 || bx != 128 || by != 1 || bz != 1 || shared ||
      extra)
    return INVALID;
  w.from = *(gs_cu_ptr *)params[0];
  w.to = *(gs_cu_ptr *)params[1];
  w.n = *(int64_t *)params[2];
  w.by = *(float *)params[3];
  w.step = *(gs_cu_ptr *)params[4];
  if (w.n > (int64_t)gx * bx) w.n = (int64_t)gx * bx;
  size_t bytes = (size_t)w.n * sizeof(float);
  if (!within(w.from, bytes) || !within(w.to, bytes) || !within(w.step, sizeof(float))) {
    faulted = true; /* seen at the next wait, as on a GPU */
    return GS_CU_OK;
  }
  return submit(&w);
}

int cuStreamBeginCapture_v2(gs_cu_stream s, int mode) {
  if (!ours(s) || recording || mode != GS_CU_CAPTURE_RELAXED) return INVALID;
  int code = enter(true);
  if (!code) recording = calloc(1, sizeof *recording);
  return code;
}

int cuStreamEndCapture(gs_cu_stream s, gs_cu_graph *g) {
  if (!ours(s) || !recording) return INVALID;
  *g = recording;
  recording = NULL;
  int code = enter(true);
  if (code) {
    free(*g);
    *g = NULL;
  }
  return code;
}

int cuGraphGetNodes(gs_cu_graph g, gs_cu_node *nodes, size_t *n) {
  if (nodes) return INVALID;
  *n = (size_t)g->n;
  return enter(true);
}

int cuGraphDestroy(gs_cu_graph g) {
  free(g);
  return enter(true);
}

int cuGraphInstantiateWithFlags(gs_cu_exec *e, gs_cu_graph g, unsigned long long flags) {
  int code = flags ? INVALID : enter(true);
  if (code) return code;
  *e = malloc(sizeof *g);
  memcpy(*e, g, sizeof *g);
  return GS_CU_OK;
}

int cuGraphLaunch(gs_cu_exec e, gs_cu_stream s) {
  int code = ours(s) && !recording ? enter(true) : INVALID;
  const struct gs_cu_graph_tag *g = (const void *)e;
  for (int i = 0; i < g->n && !code; i++) perform(&g->list[i]);
  return code;
}

int cuGraphExecDestroy(gs_cu_exec e) {
  free(e);
  return enter(true);
}
