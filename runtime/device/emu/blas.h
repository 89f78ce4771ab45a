/* blas.h: the CBLAS that the emulator multiplies with, opened at run time, or a loop of our own. */
#ifndef GS_EMU_BLAS_H
#define GS_EMU_BLAS_H

#include "gradsmith.h"

#include <stdbool.h>

typedef struct gs_blas gs_blas;

typedef struct gs_blas_info {
  bool present;   /* false: no CBLAS was found and the built-in loop multiplies */
  char name[64];  /* the name it was opened by, "libopenblas.so.0" */
  char path[512]; /* the file, where the loader tells */
  char core[64];  /* OpenBLAS: the kernel in use, "Haswell"; "" where unknown */
  bool core_set;  /* we chose the core, since OpenBLAS did not know this CPU */
} gs_blas_info;

/* Never fails for lack of a library; NULL only without memory. use_library false: the built-in
 * loop. */
gs_blas *gs_blas_open(bool use_library);
void gs_blas_close(gs_blas *b);
const gs_blas_info *gs_blas_about(const gs_blas *b);

/* Row-major C[m,n] = alpha op(A) op(B) + beta C in f32, on the calling thread alone. Several
 * threads may call at once. With beta 0, C is not read. */
void gs_blas_sgemm(const gs_blas *b, bool ta, bool tb, int m, int n, int k, float alpha,
                   const float *A, int lda, const float *B, int ldb, float beta, float *C, int ldc);

#endif
