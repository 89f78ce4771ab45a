/* cases.c: shapes of models in use, and awkward ones beside them: single and odd numbers of tokens,
 * rows that are no power of two, vocabularies of odd sizes. */
#include "bench/cases.h"

#define FORWARD GS_PASS_FORWARD
#define BACKWARD GS_PASS_BACKWARD
#define TERMINAL GS_PASS_TERMINAL

/* Forward and backward of a layer at one shape; op: what the peers call it. */
#define BOTH(layer, dims, op, shape)                                                               \
  {layer, FORWARD, dims, 0, 0, 0, op ".fwd " shape}, {                                             \
    layer, BACKWARD, dims, 0, 0, 0, op ".bwd " shape                                               \
  }
#define ALONE(layer, dims)                                                                         \
  {layer, FORWARD, dims, 0, 0, 0, 0}, {                                                            \
    layer, BACKWARD, dims, 0, 0, 0, 0                                                              \
  }
#define LOSS(dims, peer)                                                                           \
  { "cross_entropy", TERMINAL, dims, 0, 0, 0, peer }

const gs_bench_case gs_bench_cases[] = {
    BOTH("rmsnorm", "T=16384,H=4096", "rmsnorm", "16384x4096"),
    BOTH("rmsnorm", "T=16384,H=2048", "rmsnorm", "16384x2048"),
    BOTH("rmsnorm", "T=16384,H=5120", "rmsnorm", "16384x5120"),
    BOTH("rmsnorm", "T=8192,H=8192", "rmsnorm", "8192x8192"),
    BOTH("rmsnorm", "T=4097,H=2880", "rmsnorm", "4097x2880"),
    BOTH("layernorm", "T=16384,H=4096", "layernorm", "16384x4096"),
    BOTH("residual_rmsnorm", "T=16384,H=4096", "add_rmsnorm", "16384x4096"),
    BOTH("swiglu", "T=16384,F=14336", "swiglu", "16384x14336"),
    {"swiglu", BACKWARD, "T=16384,F=14336", 0, 0, "dgate,dup,y", "swiglu.bwd_and_h 16384x14336"},
    BOTH("swiglu", "T=8192,F=2880", "swiglu", "8192x2880"),
    {"rope_pair", FORWARD, "T=16384,N=32,K=8,D=128", 0, 0, 0, "rope.fwd 2x8192 q32 k8 d128"},
    ALONE("qk_norm_rope", "T=16384,N=32,K=8,D=128"),
    LOSS("T=8192,V=32000", "ce.loss_and_grad 8192x32000"),
    LOSS("T=8192,V=128256", "ce.loss_and_grad 8192x128256"),
    LOSS("T=8192,V=151936", "ce.loss_and_grad 8192x151936"),
    {"adamw", FORWARD, "N=268435456", 0, 0, 0, 0},
    {"adamw_bf16", FORWARD, "N=268435456", 0, 0, 0, 0},
    {"adamw_storage", FORWARD, "N=268435456", 0, 0, 0, "adamw.step 268435456"},
    {"nf4_dequantize", FORWARD, "N=58720256", 0, 0, 0, 0},
    {"nf4_double_dequantize", FORWARD, "N=58720256", 0, 0, 0, 0},
    /* awkward: each beside a round size above */
    ALONE("rmsnorm", "T=1,H=4096"),
    ALONE("rmsnorm", "T=77,H=4096"),
    ALONE("rmsnorm", "T=4097,H=4096"),
    ALONE("rmsnorm", "T=16384,H=896"),
    ALONE("rmsnorm", "T=16384,H=2304"),
    ALONE("rmsnorm", "T=16384,H=2880"),
    LOSS("T=8192,V=50257", 0),
    LOSS("T=8192,V=151669", 0),
    LOSS("T=4096,V=262144", 0),
};
const int gs_bench_ncases = sizeof gs_bench_cases / sizeof *gs_bench_cases;
