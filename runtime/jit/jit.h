/* jit.h: CUDA C text to machine code for one GPU architecture, through NVRTC opened at run time.
 *
 * Needs no GPU: any machine with NVRTC compiles for every architecture that its NVRTC knows, and
 * gs_jit_resources tells what the code takes, so that spills can fail a build. Knows nothing of
 * layers or of launching. All functions but open and close may run on several threads at once. */
#ifndef GS_JIT_H
#define GS_JIT_H

#include "gradsmith.h"

#include <stdbool.h>

typedef struct gs_jit gs_jit;

/* max_major: the newest NVRTC to take (a driver loads no code of a newer major version than its
 * own); 0 for any. GS_ERR_DEVICE says where it was sought and how to install it. Compiled kernels
 * are kept in the folder that jit/cache.h finds. */
gs_status gs_jit_open(int max_major, gs_jit **out, gs_error *err);
void gs_jit_close(gs_jit *j);
const char *gs_jit_path(const gs_jit *j);                     /* of the library */
void gs_jit_version(const gs_jit *j, int *major, int *minor); /* 13, 0 */
/* With the build, as keys have it: "NVRTC 13.0, libnvrtc.so.13.0.88, 109338064 bytes". */
const char *gs_jit_build(const gs_jit *j);
bool gs_jit_supports(const gs_jit *j, const char *arch); /* "sm_90a", "compute_80" */

typedef struct gs_jit_source {
  const char *prelude; /* put before text; may be NULL */
  const char *text;
  const char *entry; /* names the kernel in messages and in the kept file */
  const char *arch;  /* "sm_90a": a cubin; "compute_80": PTX, which later GPUs take too */
  bool line_info;    /* for profilers */
  bool again;        /* compile though the cache has it, and replace what it has */
} gs_jit_source;

typedef struct gs_jit_code {
  void *data; /* cubin or PTX (NUL-terminated); malloc'ed */
  size_t len;
  char *log;  /* the compiler's; malloc'ed, never NULL after success */
  char *file; /* of the cache that it was read from; malloc'ed. NULL: compiled just now */
} gs_jit_code;
void gs_jit_code_free(gs_jit_code *c); /* harmless when zeroed */

/* Options are fixed: the given architecture, no contraction (-fmad=false), C++17, device code by
 * default, and a resource report in the log. A text that does not compile is GS_ERR_COMPILE with
 * the log; the text as compiled is then kept in a file which the message names. */
gs_status gs_jit_compile(const gs_jit *j, const gs_jit_source *s, gs_jit_code *out, gs_error *err);

/* Compiles n sources on up to `threads` threads (0: one a core). After a failure, every out[i] is
 * empty and err is that of the first failing source, whatever the order in which they ended. */
gs_status gs_jit_compile_many(const gs_jit *j, const gs_jit_source *s, int n, int threads,
                              gs_jit_code *out, gs_error *err);

typedef struct gs_jit_use {
  int registers;    /* a thread */
  int shared_bytes; /* a block, static, with what the architecture keeps for itself (1 KiB from 9.0)
                     */
  int local_bytes;  /* a thread's stack frame: local arrays and spilled registers */
  int spill_bytes;  /* spill stores and loads in the code; -1 where no log says */
  int doubles;      /* instructions of 64-bit floating-point arithmetic */
} gs_jit_use;

/* Reads what kernel `entry` takes out of a cubin; the log (may be NULL) adds the spills. */
gs_status gs_jit_resources(const gs_jit_code *c, const char *entry, gs_jit_use *use, gs_error *err);

/* What tests and CI call: compiles n sources and fails with GS_ERR_COMPILE, naming the kernel and
 * the bytes, when any of them uses local memory. uses (n of them) may be NULL. */
gs_status gs_jit_require_no_spills(const gs_jit *j, const gs_jit_source *s, int n, int threads,
                                   gs_jit_use *uses, gs_error *err);

#endif
