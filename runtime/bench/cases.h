/* cases.h: what `gradsmith bench` times: rows of one table. */
#ifndef GS_BENCH_CASES_H
#define GS_BENCH_CASES_H

#include "lua/layer.h"

/* One case: a pass of a layer at given sizes. */
typedef struct gs_bench_case {
  const char *layer;
  gs_pass_kind pass;
  const char *dims;    /* "T=16384,H=4096": of every dim that is not derived */
  const char *options; /* or NULL */
  const char *types;   /* storage types of single tensors, "p:bf16,m:bf16", or NULL */
  const char *wanted;  /* backward: the results wanted, "dgate,dup,y"; NULL: all gradients */
  const char *peer;    /* op and shape of the same work in tests/bench/peers_kernels.py,
                          "rmsnorm.fwd 16384x4096"; NULL: no peer is timed */
  /* Attention: lengths of its documents, "8x2048" or "4000,180,64", for its inputs that say where
   * these begin. Products of two matrices are what takes the time: held against this GPU's GEMM
   * rate. */
  const char *documents;
  bool is_head; /* no layer: linear + cross entropy, of T, H and V, as the step has it */
} gs_bench_case;

extern const gs_bench_case gs_bench_cases[];
extern const int gs_bench_ncases;

#endif
