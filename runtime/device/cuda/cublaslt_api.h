/* cublaslt_api.h: the part of cuBLASLt's binary interface that we call, versions 12 and 13. Written
 * from the documented interface, so that building needs no CUDA header. Private to
 * runtime/device/cuda. */
#ifndef GS_CUBLASLT_API_H
#define GS_CUBLASLT_API_H

#include "device/cuda/driver_api.h"

typedef struct gs_lt_handle_tag *gs_lt_handle;
typedef struct gs_lt_desc_tag *gs_lt_desc;
typedef struct gs_lt_layout_tag *gs_lt_layout;
typedef struct gs_lt_pref_tag *gs_lt_pref;

typedef struct gs_lt_algo {
  uint64_t data[8];
} gs_lt_algo;

typedef struct gs_lt_found {
  gs_lt_algo algo;
  size_t workspace;
  int state; /* 0: usable */
  float waves;
  int reserved[4];
} gs_lt_found;

enum { GS_LT_OK = 0, GS_LT_COMPUTE_F32 = 68 };
enum { GS_LT_F32 = 0, GS_LT_F16 = 2, GS_LT_BF16 = 14 }; /* data types */
enum { GS_LT_OP_N = 0, GS_LT_OP_T = 1 };
enum { GS_LT_DESC_OP_A = 3, GS_LT_DESC_OP_B = 4 }; /* attributes of a descriptor */
enum {                                             /* attributes of a preference */
       GS_LT_PREF_WORKSPACE = 1,
       GS_LT_PREF_REDUCTIONS = 3,
       GS_LT_PREF_ALIGN_A = 5,
       GS_LT_PREF_ALIGN_B = 6,
       GS_LT_PREF_ALIGN_C = 7,
       GS_LT_PREF_ALIGN_D = 8,
};
enum { GS_LT_REDUCE_IN_F32 = 2 }; /* split k only with partial sums kept in f32 in the workspace */

/* field, symbol, result, parameters */
#define GS_LT_FUNCTIONS(F)                                                                         \
  F(version, "cublasLtGetVersion", size_t, (void))                                                 \
  F(status_string, "cublasLtGetStatusString", const char *, (int status))                          \
  F(create, "cublasLtCreate", int, (gs_lt_handle * h))                                             \
  F(destroy, "cublasLtDestroy", int, (gs_lt_handle h))                                             \
  F(desc_create, "cublasLtMatmulDescCreate", int, (gs_lt_desc * d, int compute, int scale_type))   \
  F(desc_destroy, "cublasLtMatmulDescDestroy", int, (gs_lt_desc d))                                \
  F(desc_set, "cublasLtMatmulDescSetAttribute", int,                                               \
    (gs_lt_desc d, int attribute, const void *value, size_t size))                                 \
  F(layout_create, "cublasLtMatrixLayoutCreate", int,                                              \
    (gs_lt_layout * l, int type, uint64_t rows, uint64_t cols, int64_t ld))                        \
  F(layout_destroy, "cublasLtMatrixLayoutDestroy", int, (gs_lt_layout l))                          \
  F(pref_create, "cublasLtMatmulPreferenceCreate", int, (gs_lt_pref * p))                          \
  F(pref_destroy, "cublasLtMatmulPreferenceDestroy", int, (gs_lt_pref p))                          \
  F(pref_set, "cublasLtMatmulPreferenceSetAttribute", int,                                         \
    (gs_lt_pref p, int attribute, const void *value, size_t size))                                 \
  F(heuristic, "cublasLtMatmulAlgoGetHeuristic", int,                                              \
    (gs_lt_handle h, gs_lt_desc d, gs_lt_layout a, gs_lt_layout b, gs_lt_layout c,                 \
     gs_lt_layout out, gs_lt_pref p, int wanted, gs_lt_found *found, int *nfound))                 \
  F(matmul, "cublasLtMatmul", int,                                                                 \
    (gs_lt_handle h, gs_lt_desc d, const void *alpha, const void *a, gs_lt_layout la,              \
     const void *b, gs_lt_layout lb, const void *beta, const void *c, gs_lt_layout lc, void *out,  \
     gs_lt_layout lout, const gs_lt_algo *algo, void *workspace, size_t bytes, gs_cu_stream s))

typedef struct gs_lt_api {
#define GS_FIELD(field, symbol, result, params) result(*field) params;
  GS_LT_FUNCTIONS(GS_FIELD)
#undef GS_FIELD
} gs_lt_api;

#endif
