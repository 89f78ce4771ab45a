/* bench.h: cases timed by the measuring protocol, and what is made of them: a line each, JSON, a
 * Markdown table, a roofline. */
#ifndef GS_BENCH_H
#define GS_BENCH_H

#include "bench/cases.h"
#include "tune/measure.h"
#include "tune/tuned.h"

enum { GS_BENCH_PEERS = 8 };

typedef struct gs_bench_peer {
  char name[48];
  double seconds;
} gs_bench_peer;

typedef struct gs_bench_row {
  char name[96], shape[128]; /* "rmsnorm.forward", "T=16384 H=4096" */
  gs_type dtype;
  char why[1024]; /* why there is no figure; "" else */
  double bytes, flops;
  char formula[512];  /* of the bytes */
  char tunables[256]; /* of its kernels, "row: threads=256 ...; total: ..." */
  int kernels;
  bool by_flops; /* held against the GEMM rate, not the copy rate */
  gs_timing t;
  double products; /* seconds of its matrix products alone, by the vendor's library, in turns with
                      it; 0: not asked */
  size_t memory;   /* bytes beyond inputs and results; 0: not asked */
  int processor_clock, memory_clock; /* MHz right after it; 0: unknown */
  /* of a run beside peers: our own time among them, and theirs, best first */
  double beside;
  int npeers;
  gs_bench_peer peers[GS_BENCH_PEERS];
} gs_bench_row;

typedef struct gs_bench {
  gs_about about;
  gs_rates rates;
  char missing[1024]; /* peers that could not be loaded, and why */
  int n, cap;
  gs_bench_row *rows;
} gs_bench;

/* A case's pass, compiled with what tuning found (t; NULL: nothing). */
typedef struct gs_bench_made {
  gs_author *author;
  gs_instance *instance;
  gs_pass *pass;
  const gs_launch_list *list;
  int64_t sizes[GS_MAX_DIMS];
} gs_bench_made;
/* layer_file: the layer by its path; NULL: by the case's name. Drop it also after a failure. */
gs_status gs_bench_make(gs_device *d, gs_tuned *t, const gs_bench_case *c, gs_type dtype,
                        const char *layer_file, gs_bench_made *out, gs_error *err);
void gs_bench_drop(gs_bench_made *m);

/* Times one case. A case that cannot be made or run leaves why in its row; an error is of the
 * device. */
gs_status gs_bench_run(gs_device *d, gs_tuned *t, gs_meter *m, const gs_bench_case *c,
                       gs_type dtype, const char *layer_file, gs_bench *b, gs_bench_row **row,
                       gs_error *err);
void gs_bench_free(gs_bench *b);
/* The row of linear + cross entropy; size: tokens, width, classes. */
gs_status gs_bench_head(gs_device *d, gs_meter *m, gs_type dtype, const int64_t size[3],
                        gs_bench_row *r, gs_error *err);

/* Reads what tests/bench/peers_kernels.py wrote, into the rows of those cases. */
gs_status gs_bench_add_peers(gs_bench *b, const gs_bench_case *const *cases, const char *path,
                             gs_error *err);

/* One line: us, rate, % of this GPU's copy rate, x best peer. Without newline. */
void gs_bench_line(const gs_bench *b, const gs_bench_row *r, gs_text *out);
/* bench.json, bench.md and bench.svg in the folder. */
gs_status gs_bench_write(const gs_bench *b, const char *folder, gs_error *err);
void gs_bench_svg(const gs_bench *b, gs_text *out); /* the roofline */

#endif
