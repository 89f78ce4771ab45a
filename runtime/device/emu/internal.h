/* internal.h: the emulator's own records. Private to runtime/device/emu.
 *
 * A launch is a job; workers take its blocks. A worker runs one block at a time: a barrier-free one
 * as a loop, any other as fibers, one a CUDA thread. See fiber.c for how fibers meet. */
#ifndef GS_EMU_INTERNAL_H
#define GS_EMU_INTERNAL_H

#include "../../../templates/emu_abi.h"
#include "base/text.h"
#include "device/emu/blas.h"
#include "device/emu/emu.h"
#include "device/ops.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
  MAX_THREADS = 1024,
  MAX_WARPS = 32,
  MAX_CLUSTER = GS_EMU_CLUSTER,
  MAX_PARAMS = 128,
  MAX_SHARED = 32
};

/* ---- checked mode: what is known of one element ---- */

/* Who touched an element last. A stamp names the launch (global) or the block run (shared) it is
 * of; an old stamp is no record. Epochs count barriers: `cluster` of the cluster, `sync` of the
 * block, `warp` of the warp. */
typedef struct who {
  uint32_t stamp, block, cluster, sync, warp;
  uint16_t tid, line;
  uint8_t span;      /* readers: one thread, lanes of one warp, or several warps */
  bool peers;        /* readers: of more than one block of the cluster, in this epoch */
  bool other_blocks; /* readers: of more than one cluster */
} who;
typedef struct cell {
  who writer, reader;
} cell;

typedef struct allocation {
  gs_ptr ptr;
  size_t bytes;
  unsigned char *init; /* checked: 1 for each byte that something wrote */
  cell *cells;         /* checked: one a byte, pages appear when touched */
} allocation;

/* ---- kernels ---- */

typedef enum param_kind { P_IN, P_OUT, P_INOUT, P_STEP, P_I64, P_F32, P_MAP } param_kind;
typedef struct param {
  param_kind kind;
  char name[48];
} param;

struct gs_func {
  struct gs_func *next;
  char *entry, *text;
  const gs_emu_entry *code;
  int nparams;
  param params[MAX_PARAMS];
  bool takes; /* its blocks take items from a list */
  bool tiles; /* speaks through a further prelude: its order is kept by clocks (order.c) */
};

/* A pointer argument as the checks see it. */
typedef struct view {
  char *ptr;
  size_t bytes;
  unsigned char *init;
  cell *cells; /* NULL: nobody writes here in this launch */
} view;

typedef struct job {
  const gs_func *f; /* a launch: blocks of f */
  const gs_emu_arg *args;
  const view *views;                           /* checked */
  void (*task)(void *data, int64_t i, int by); /* or: plain tasks */
  void *data;
  int64_t count, chunk; /* clusters or tasks, and how many a worker takes at once */
  int64_t grid;         /* blocks */
  int cluster;          /* blocks that a worker runs together */
  atomic_llong next;
  atomic_bool failed;
  bool reverse;
  uint32_t stamp;
} job;

/* ---- workers and fibers ---- */

typedef struct fiber {
  gs_emu_thread t; /* first: kernels see this */
  void *sp;
  const uint32_t *gen; /* runnable when *gen is no longer `seen` */
  uint32_t seen;
  int lane, line;
  int index; /* among those of the cluster */
  char what; /* why it waits: 's' barrier, 'k' cluster barrier, 'w' warp barrier, 'c' collective,
                'g' warpgroup, 'm' barrier that counts, 'n' named barrier, 't' turn, 'e' ended */
  struct fiber *next; /* the next lane of its warp, in running order */
  struct warp *warp;
  struct block *block;
  struct worker *w;
  /* checked: copies ahead: groups closed and waited for, in the block run of that stamp */
  uint32_t closed, landed, copies_of;
  const void *at;    /* which barrier or turn it waits for; */
  int want;          /* for which value */
  struct lore *lore; /* checked, of tiles: what it knows of the others */
} fiber;

typedef struct warp {
  float in[32], out[32];
  void *mine[32];
  uint32_t gen;
  int arrived, op, lanes, line;
} warp;

/* Four warps. */
typedef struct warpgroup {
  void *mine[128];
  uint32_t gen;
  int arrived, line, registers; /* 0: not said */
  bool up;
  /* checked */
  bool opened;             /* since the last wait */
  bool begun;              /* products that are in no group yet */
  uint32_t closed, waited; /* groups */
  struct pending *pending; /* accumulators, a few a lane */
} warpgroup;

typedef struct named_bar {
  uint32_t gen;
  int arrived, threads, line;
  struct clocks *joining, *ended; /* checked: what those who came knew */
} named_bar;

/* A barrier that counts: eight bytes of a kernel's shared memory name it by its number. */
typedef struct counting_bar {
  void *at;
  char name[40];
  int number, count, pending, line, slot;
  long long bytes; /* announced and not yet copied */
  uint32_t phase;  /* ended */
  bool ready;
  const fiber *maker;
  uint32_t made; /* checked: the maker's clock */
  struct clocks *joining, *ended;
} counting_bar;

enum { MAX_BARS = 48, NAMED_BARS = 16, MAX_BULKS = 8, MAX_GROUPS = MAX_WARPS / 4 };

typedef struct shared_array {
  const char *name;
  int size, line;
  long long count;
  unsigned offset;
} shared_array;

/* checked: who began a copy to a byte of shared memory, and in which of its groups. */
typedef struct copy_mark {
  uint32_t stamp, group;
  const fiber *by;
} copy_mark;

/* A block that runs. */
typedef struct block {
  long long bid;
  uint32_t gen;
  int arrived, line;
  float in[MAX_THREADS], result;
  char *shared;
  /* checked */
  cell *shared_cells;
  copy_mark *copies;
  shared_array arrays[MAX_SHARED];
  int narrays;
  counting_bar bars[MAX_BARS];
  int nbars, nbulks;
  named_bar named[NAMED_BARS];
  uint32_t stamp; /* of this block run */
} block;

/* Runs the blocks of a cluster together; without clusters, one. */
typedef struct worker {
  struct emu *e;
  pthread_t thread;
  int index;
  job *job;
  int64_t lo, hi; /* clusters taken, not yet run */
  /* fibers */
  fiber *fibers;
  warp warps[MAX_WARPS * MAX_CLUSTER];
  warpgroup groups[MAX_GROUPS * MAX_CLUSTER];
  block blocks[MAX_CLUSTER];
  char *stacks, *shared;
  void *main_sp;
  int threads, cluster;  /* of a block; blocks of a cluster */
  int room, made;        /* fibers: blocks that there is room for; that have a stack */
  uint32_t gen, end_gen; /* of the cluster */
  int arrived, ended, line;
  float *tile_scratch;
  long long tile_room;
  int turns;  /* fibers that wait for a turn */
  bool alone; /* no other worker takes part in the job */
  /* checked */
  cell *shared_cells;
  copy_mark *copies;
  struct order *order; /* of kernels of tiles, once there was one */
  bool ordered;        /* the launch is of such a kernel */
  uint32_t begun;      /* gen when the cluster began */
  uint32_t remote_gen; /* of the last access to another block's memory, and by whom */
  fiber *remote_by;    /* NULL: nobody yet */
  int remote_line;
  _Alignas(16) char scratch[64]; /* where accesses out of range go */
} worker;

typedef struct record { /* captured work */
  enum { R_LAUNCH, R_GEMM, R_COPY, R_FILL } kind;
  gs_func *f;
  int64_t grid;
  gs_value *args;
  int nargs;
  gs_gemm gemm;
  gs_ptr to, from;
  size_t bytes;
  unsigned char byte;
} record;
typedef struct emu_exec {
  gs_exec base;
  record *r;
  size_t n, cap;
} emu_exec;

typedef struct emu {
  gs_device base;
  gs_device_options o;
  int nworkers;
  worker *workers;
  pthread_mutex_t mutex;
  pthread_cond_t go, done;
  bool has_pool, quit;
  unsigned turn;
  int busy;
  job *job;
  allocation *allocs; /* sorted by address */
  size_t nallocs, cap_allocs;
  gs_func *funcs;
  void **libs;
  size_t nlibs;
  char compiler[512];
  char build[256]; /* the compiler's version and the processor; "" until it was asked */
  gs_blas *blas;
  double marks[GS_DEVICE_MARKS]; /* of the wall clock; 0: none */
  float **gemm_scratch;          /* one a worker */
  uint32_t launches, blocks_run;
  emu_exec *capturing;
  gs_error report; /* of the launch that runs */
  bool reported;
} emu;

/* build.c */
/* Whether line `line` of a kernel's text comes from a layer's file, as its #line directives say:
 * writes " (FILE:LINE)" into out; else "". */
void emu_origin(const char *text, int line, char *out, size_t cap);
gs_status emu_find_compiler(emu *e, gs_error *err);
gs_status emu_compile(gs_device *d, const gs_kernel *const *k, int n, gs_func **out, gs_error *err);
void emu_free_funcs(emu *e);
gs_status emu_read_params(gs_func *f, gs_error *err);

/* memory.c */
gs_status emu_alloc(gs_device *d, size_t bytes, gs_ptr *out, gs_error *err);
void emu_free(gs_device *d, gs_ptr p);
allocation *emu_find(emu *e, gs_ptr p, size_t bytes); /* that holds all of it, or NULL */
gs_status emu_need(emu *e, gs_ptr p, size_t bytes, const char *what, gs_error *err);
void emu_mark(emu *e, gs_ptr p, size_t bytes); /* initialised from now on */
void emu_copy_bytes(emu *e, gs_ptr to, gs_ptr from, size_t bytes);
void emu_free_all(emu *e);
void *emu_pages(size_t bytes); /* zero pages that appear when touched; NULL when refused */
void emu_unpages(void *p, size_t bytes);

/* pool.c */
gs_status emu_start_pool(emu *e, gs_error *err);
void emu_stop_pool(emu *e);
void emu_run(emu *e, job *j, bool alone);   /* returns when all is done */
bool emu_take(worker *w, long long *taken); /* the next cluster or task of the worker's job */

/* run.c */
gs_status emu_launch(gs_device *d, gs_func *f, int64_t grid, const gs_value *args, int nargs,
                     gs_error *err);
void emu_work(worker *w); /* a worker's part of its job */

/* fiber.c */
gs_status emu_fibers_ready(worker *w, int blocks, gs_error *err);
void emu_fibers_run(worker *w); /* blocks of w->job until none is left */
void emu_fibers_free(worker *w);
extern const gs_emu_runtime emu_plain_runtime;
float emu_group(gs_emu_thread *t, float v, int op, int lanes, int line);
float emu_block(gs_emu_thread *t, float v, int op, int line);
unsigned emu_exchange(gs_emu_thread *t, unsigned v, int distance, int line);
void emu_sync(gs_emu_thread *t, int line);
void emu_cluster_sync(gs_emu_thread *t, int line);
void emu_syncwarp(gs_emu_thread *t, int line);
void emu_shared_full(gs_emu_thread *t, const char *name, int line);

void emu_wait(fiber *f, const uint32_t *gen, char what, int line);
void emu_abandon(fiber *f);

/* tile.c: what kernels of tiles need besides */
extern const gs_emu_tiles emu_tiles;
void emu_tiles_begin(worker *w); /* a new cluster begins */
void emu_tiles_end(worker *w);   /* all its threads have ended */
void emu_tiles_free(worker *w);
bool emu_turn_has_come(const fiber *f);
bool emu_tiles_stuck(worker *w); /* says who waits for what; false: for nothing of tiles */

/* check.c */
void *emu_span(gs_emu_thread *t, int number, int is_shared, long long index, int size, int count,
               int how, int line);
extern const gs_emu_runtime emu_checked_runtime;
gs_status emu_views(emu *e, const gs_func *f, const gs_value *args, view *views, gs_error *err);
void emu_check_begin(worker *w); /* a new cluster begins */
void emu_check_end(worker *w);   /* all its threads have ended */
void emu_run_free_checked(
    worker *w); /* blocks of a barrier-free kernel, one thread after another */
void emu_report(fiber *f, int line, const char *fmt, ...) GS_PRINTF(3, 4);

/* gemm.c */
gs_status emu_gemm(gs_device *d, const gs_gemm *g, gs_error *err);

/* capture.c */
gs_status emu_capture_begin(gs_device *d, gs_error *err);
gs_status emu_capture_end(gs_device *d, gs_exec **out, gs_error *err);
gs_status emu_exec_launch(gs_exec *x, gs_error *err);
void emu_exec_free(gs_exec *x);
gs_status emu_record(emu *e, const record *r, gs_error *err);

#endif
