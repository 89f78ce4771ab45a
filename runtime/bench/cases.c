/* cases.c: shapes of models in use, and awkward ones beside them: single and odd numbers of tokens,
 * rows that are no power of two, vocabularies of odd sizes. */
#include "bench/cases.h"

#define CASE(l, p, d, w, who)                                                                      \
  { .layer = l, .pass = GS_PASS_##p, .dims = d, .wanted = w, .peer = who }
/* Forward and backward of a layer at one shape; op: what the peers call it. */
#define BOTH(layer, dims, op, shape)                                                               \
  CASE(layer, FORWARD, dims, 0, op ".fwd " shape), CASE(layer, BACKWARD, dims, 0, op ".bwd " shape)
#define ALONE(layer, dims) CASE(layer, FORWARD, dims, 0, 0), CASE(layer, BACKWARD, dims, 0, 0)
#define LOSS(dims, peer) CASE("cross_entropy", TERMINAL, dims, 0, peer)
/* Causal; packed: documents of T tokens in all. */
#define ATTEND_(p, d, docs, who)                                                                   \
  { .layer = "attention", .pass = GS_PASS_##p, .dims = d, .documents = docs, .peer = who }
#define ATTEND(d, docs, op, shape)                                                                 \
  ATTEND_(FORWARD, d, docs, op ".fwd " shape), ATTEND_(BACKWARD, d, docs, op ".bwd " shape), {     \
    .layer = "attention", .pass = GS_PASS_BACKWARD, .dims = d, .documents = docs,                  \
    .options = "fast_dq=1"                                                                         \
  }
#define HEAD(d, who)                                                                               \
  { .layer = "linear_cross_entropy", .dims = d, .peer = who, .is_head = true }

const gs_bench_case gs_bench_cases[] = {
    BOTH("rmsnorm", "T=16384,H=4096", "rmsnorm", "16384x4096"),
    BOTH("rmsnorm", "T=16384,H=2048", "rmsnorm", "16384x2048"),
    BOTH("rmsnorm", "T=16384,H=5120", "rmsnorm", "16384x5120"),
    BOTH("rmsnorm", "T=8192,H=8192", "rmsnorm", "8192x8192"),
    BOTH("rmsnorm", "T=4097,H=2880", "rmsnorm", "4097x2880"),
    BOTH("layernorm", "T=16384,H=4096", "layernorm", "16384x4096"),
    CASE("residual_rmsnorm", FORWARD, "T=16384,H=4096", 0, "add_rmsnorm.fwd 16384x4096"),
    CASE("residual_rmsnorm", BACKWARD, "T=16384,H=4096", "dx,dr=dx,dw",
         "add_rmsnorm.bwd 16384x4096"),
    BOTH("swiglu", "T=16384,F=14336", "swiglu", "16384x14336"),
    CASE("swiglu", BACKWARD, "T=16384,F=14336", "dgate,dup,y", "swiglu.bwd_and_h 16384x14336"),
    BOTH("swiglu", "T=8192,F=2880", "swiglu", "8192x2880"),
    CASE("rope_pair", FORWARD, "T=16384,N=32,K=8,D=128", 0, "rope.fwd 2x8192 q32 k8 d128"),
    ALONE("qk_norm_rope", "T=16384,N=32,K=8,D=128"),
    LOSS("T=8192,V=32000", "ce.loss_and_grad 8192x32000"),
    LOSS("T=8192,V=128256", "ce.loss_and_grad 8192x128256"),
    LOSS("T=8192,V=151936", "ce.loss_and_grad 8192x151936"),
    HEAD("T=8192,H=4096,V=128256", "linear_ce.loss_and_dx 8192x4096x128256"),
    HEAD("T=8192,H=5120,V=151936", "linear_ce.loss_and_dx 8192x5120x151936"),
    ATTEND("T=16384,S=16384,B1=3,K=8,G=4,D=128", "2x8192", "attention", "B2 S8192 q32 kv8 d128"),
    ATTEND("T=16384,S=16384,B1=5,K=8,G=4,D=128", "4x4096", "attention", "B4 S4096 q32 kv8 d128"),
    ATTEND("T=16384,S=16384,B1=2,K=8,G=5,D=128", "16384", "attention", "B1 S16384 q40 kv8 d128"),
    ATTEND("T=16384,S=16384,B1=3,K=8,G=4,D=64", "2x8192", "attention", "B2 S8192 q32 kv8 d64"),
    ATTEND("T=4096,S=4096,B1=2,K=4,G=7,D=128", "4096", "attention", "B1 S4096 q28 kv4 d128"),
    ATTEND("T=16384,S=16384,B1=9,K=8,G=4,D=128", "8x2048", "packed", "8x2048"),
    ATTEND("T=16384,S=16384,B1=11,K=8,G=4,D=128", "4000,180,1700,512,64,900,333,4000,1700,2995",
           "packed", "mixed"),
    ATTEND("T=16384,S=16384,B1=65,K=8,G=4,D=128", "64x256", "packed", "64x256"),
    CASE("adamw", FORWARD, "N=268435456", 0, 0),
    CASE("adamw_bf16", FORWARD, "N=268435456", 0, 0),
    CASE("adamw_storage", FORWARD, "N=268435456", 0, "adamw.step 268435456"),
    CASE("nf4_dequantize", FORWARD, "N=58720256", 0, "nf4.dequantize 58720256"),
    CASE("nf4_double_dequantize", FORWARD, "N=58720256", 0, "nf4.double 58720256"),
    /* awkward: each beside a round size, here or above */
    ALONE("rmsnorm", "T=4096,H=4096"),
    ALONE("rmsnorm", "T=4096,H=3072"),
    ALONE("rmsnorm", "T=16384,H=1024"),
    LOSS("T=8192,V=49152", 0),
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
