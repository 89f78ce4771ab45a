/* device.h: the machine that kernels run on: a CUDA GPU through the driver API, or the emulator.
 *
 * All work goes to one stream, in order. Addresses are 64-bit numbers: of device memory for CUDA,
 * of host memory for the emulator. */
#ifndef GS_DEVICE_H
#define GS_DEVICE_H

#include "device/tensor_map.h"
#include "base/phases.h"
#include "emit/compile.h"
#include "gradsmith.h"

typedef uint64_t gs_ptr;
typedef struct gs_device gs_device;
typedef struct gs_func gs_func; /* a compiled kernel; lives as long as its device */
typedef struct gs_exec gs_exec; /* captured work, replayed as one */

typedef struct gs_device_options {
  bool checked;     /* emulator: bounds, uninitialised reads, races, divergent barriers */
  bool reverse;     /* emulator: warps and blocks in reverse order (finds hidden races) */
  int threads;      /* emulator: worker threads; 0: one a core */
  int compile_jobs; /* threads that compile; 0: one a core */
  const char
      *arch; /* emulator: kernels are scheduled as for this GPU ("sm_90a"); NULL: its own way */
  const char *pack; /* cuda: compiled kernels come from this file (gradsmith pack), and no compiler
                       is needed; NULL: from NVRTC */
  gs_phases *phases; /* where the time of opening and compiling is noted; may be NULL */
} gs_device_options;

/* which: "cuda", "emu" or "auto" (CUDA when a GPU and NVRTC are there, else emu). */
gs_status gs_device_open(const char *which, const gs_device_options *o, gs_device **out,
                         gs_error *err);
void gs_device_close(gs_device *d);
const gs_caps *gs_device_caps(const gs_device *d);
const char *gs_device_name(const gs_device *d); /* "NVIDIA H200", "emulator (2 threads)" */
bool gs_device_is_emulator(const gs_device *d);
gs_phases *gs_device_phases(const gs_device *d); /* of its options; may be NULL */
/* Where kernels come from a pack: the tunables of its pass of that key, as gs_compile_tuned takes
 * them, "" for the defaults. NULL: no pack, or none of that key. */
const char *gs_device_packed(const gs_device *d, const char *key);

/* What a measurement depends on. Numbers that could not be read are 0, texts "unknown". */
typedef struct gs_about {
  char name[128];   /* "NVIDIA H200" */
  int major, minor; /* compute capability */
  int sm_count;
  int memory_clock; /* MHz, the highest */
  int power_cap;    /* W */
  size_t l2_bytes;
  char driver[64];    /* "580.159.04" */
  char compiler[192]; /* "NVRTC 13.0, ..." */
} gs_about;
gs_status gs_device_about(gs_device *d, gs_about *out, gs_error *err);
/* Clocks of this moment in MHz; 0: unknown. */
void gs_device_clocks(gs_device *d, int *processors, int *memory);

/* Memory: at least 256-byte aligned. New memory is poisoned (emulator, checked: uninitialised). */
gs_status gs_device_alloc(gs_device *d, size_t bytes, gs_ptr *out, gs_error *err);
void gs_device_free(gs_device *d, gs_ptr p);
gs_status gs_device_upload(gs_device *d, gs_ptr to, const void *from, size_t bytes, gs_error *err);
gs_status gs_device_download(gs_device *d, void *to, gs_ptr from, size_t bytes, gs_error *err);
gs_status gs_device_copy(gs_device *d, gs_ptr to, gs_ptr from, size_t bytes, gs_error *err);
gs_status gs_device_fill(gs_device *d, gs_ptr to, unsigned char byte, size_t bytes, gs_error *err);
gs_status gs_device_sync(gs_device *d, gs_error *err);

/* Timing: a mark lies between the work before and after it, without waiting for it; elapsed waits
 * for mark `to`. Not inside a capture. The emulator's marks are of the wall clock: no measure of a
 * GPU. */
enum { GS_DEVICE_MARKS = 128 };
gs_status gs_device_mark(gs_device *d, int mark, gs_error *err);
gs_status gs_device_elapsed(gs_device *d, int from, int to, double *seconds, gs_error *err);
size_t gs_device_memory_peak(const gs_device *d); /* bytes allocated at the highest point */

/* Compiles n kernels (several at once) into out[0..n). Equal entries of one device are compiled
 * once. An error carries the compiler's log, the kernel's entry, and where its text was kept. */
gs_status gs_device_compile(gs_device *d, const gs_kernel *const *kernels, int n, gs_func **out,
                            gs_error *err);

/* One argument as the kernel takes it. */
typedef struct gs_value {
  enum { GS_VALUE_PTR, GS_VALUE_I64, GS_VALUE_F32, GS_VALUE_MAP } kind;
  gs_ptr ptr; /* of a map: of its tensor */
  size_t bytes; /* extent behind ptr, for the emulator's bounds */
  bool is_read, is_written;
  int64_t i64;
  float f32;
  gs_tensor_map map;
} gs_value;
gs_status gs_device_launch(gs_device *d, gs_func *f, int64_t grid, const gs_value *args, int nargs,
                           gs_error *err);

/* Row-major C[m,n] = alpha * op(A) * op(B) + beta * C, op(A) is [m,k], op(B) is [k,n]; lda etc. are
 * elements between rows as stored. A and B of one type (f32, bf16, f16), C of that type or f32.
 * Accumulation in f32 (never tf32). beta is 0 or 1; with 0, C is not read; with 1 and a 16-bit C
 * the product may be rounded once before it is added (cuBLASLt does so). The algorithm for a shape
 * is chosen once a device and repeats its bits. */
typedef struct gs_gemm {
  int64_t m, n, k;
  bool ta, tb; /* stored transposed: A as [k,m], B as [n,k] */
  gs_ptr a, b, c;
  int64_t lda, ldb, ldc;
  gs_type ab_type, c_type;
  float alpha, beta;
} gs_gemm;
gs_status gs_device_gemm(gs_device *d, const gs_gemm *g, gs_error *err);

/* Between begin and end, launches, gemms, copies and fills are recorded, not run. */
gs_status gs_device_capture_begin(gs_device *d, gs_error *err);
gs_status gs_device_capture_end(gs_device *d, gs_exec **out, gs_error *err);
gs_status gs_exec_launch(gs_exec *e, gs_error *err);
void gs_exec_free(gs_exec *e);

#endif
