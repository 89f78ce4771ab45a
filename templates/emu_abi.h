/* emu_abi.h: what the emulator's driver (C) and the kernels that it compiles (C++) share.
 *
 * prelude_emu.h includes it; so does runtime/device/emu. Plain C, includes nothing. */
#ifndef GS_EMU_ABI_H
#define GS_EMU_ABI_H

#define GS_EMU_ABI 4

enum { GS_EMU_CLUSTER = 8 };                 /* the most blocks of a cluster */
enum { GS_EMU_STATIC = 48 * 1024 };          /* bytes before what GS_DYNAMIC places */
enum { GS_EMU_SUM, GS_EMU_MAX, GS_EMU_MIN }; /* collectives */
enum { GS_EMU_READ = 1, GS_EMU_WRITE = 2 };  /* accesses */

/* A tensor as [rows, heads, columns], innermost first here, and the box that one copy takes. */
typedef struct gs_emu_map {
  char *ptr;
  int size, arg;       /* of an element; which argument it is */
  long long extent[3]; /* columns, heads, rows */
  long long head, row; /* elements from one to the next */
  int box[3], swizzle;
} gs_emu_map;

/* One launch argument. ptr comes first so that a kernel's use of it is one load. */
typedef struct gs_emu_arg {
  void *ptr;
  unsigned long long bytes;
  long long i64;
  float f32;
  const gs_emu_map *map;
} gs_emu_arg;

/* One CUDA thread, as its kernel sees it. The driver's own record begins with this. */
typedef struct gs_emu_thread {
  const struct gs_emu_runtime *rt;
  long long bid, nblocks;
  int tid, rank;                      /* in the block; of the block in its cluster */
  unsigned shared_used, shared_limit; /* bytes handed out by GS_SHARED so far, and at most */
  int nshared;                        /* checked: arrays declared so far */
  char *shared;                       /* the block's shared memory */
} gs_emu_thread;

/* What a kernel calls. `line` is the line of the kernel's own text. */
typedef struct gs_emu_runtime {
  void (*sync)(gs_emu_thread *t, int line);
  void (*syncwarp)(gs_emu_thread *t, int line);
  float (*group)(gs_emu_thread *t, float v, int op, int lanes, int line);
  float (*block)(gs_emu_thread *t, float v, int op, int line);
  unsigned (*exchange)(gs_emu_thread *t, unsigned v, int distance, int line);
  void (*shared_full)(gs_emu_thread *t, const char *name, int line);
  /* Checked mode: where `count` elements of `size` bytes from `index` may be read or written. */
  void *(*global)(gs_emu_thread *t, int arg, long long index, int size, int count, int access,
                  int line);
  void *(*local)(gs_emu_thread *t, int array, long long index, int size, int access, int line);
  int (*declare)(gs_emu_thread *t, const char *name, int size, long long count, int line);
  /* Clusters: a barrier of all its blocks; from this block's shared memory to that of another. */
  void (*cluster_sync)(gs_emu_thread *t, int line);
  long long (*peer)(gs_emu_thread *t, int rank, int line); /* plain: bytes to add */
  void *(*remote)(gs_emu_thread *t, int array, int rank, long long index, int size, int access,
                  int line); /* checked */
  /* Checked: copies ahead. What one wrote may be read once its group is waited for. */
  void (*copying)(gs_emu_thread *t, int array, long long index, int size);
  void (*copy_close)(gs_emu_thread *t);
  void (*copy_wait)(gs_emu_thread *t, int but);
  const struct gs_emu_tiles *tiles;
} gs_emu_runtime;

enum { /* how a piece of memory is touched, beside GS_EMU_READ and GS_EMU_WRITE */
       GS_EMU_ATOMIC = 4,   /* in one step */
       GS_EMU_ADD = 128,    /* the same, where the kernel keeps no turns */
       GS_EMU_COPY = 8,     /* written by the thread's open group of copies ahead */
       GS_EMU_BY_BAR = 16,  /* by the hardware: until the phase of the barrier of bar_copies ends */
       GS_EMU_BY_BULK = 32, /* by the hardware: until the thread's open bulk group is waited for */
       GS_EMU_BY_WG = 64    /* by the hardware: until the warpgroup's open group is waited for */
};

/* What kernels of tiles call besides. A barrier that counts is eight bytes of shared memory. */
typedef struct gs_emu_tiles {
  /* All of a group of 32 or 128 lanes come with what they bring; the last gets the list by lane,
   * does the work of all and calls release; the others get NULL when that is done. */
  void *const *(*gather)(gs_emu_thread *t, void *mine, int lanes, int line);
  void (*release)(gs_emu_thread *t, int lanes);
  float *(*scratch)(gs_emu_thread *t, long long count); /* the worker's, until its next call */
  /* C[m][n] += A[m][k] B[k][n], k ascending, each step rounded. */
  void (*product)(float *c, const float *a, const float *b, int m, int n, int k);
  /* Checked: where `count` elements from `index` of a shared array or an argument lie, which are
   * touched at once. */
  void *(*span)(gs_emu_thread *t, int number, int is_shared, long long index, int size, int count,
                int how, int line);
  /* Barriers that count. */
  void (*bar_init)(gs_emu_thread *t, void *at, const char *name, int number, int count, int line);
  void (*bar_ready)(gs_emu_thread *t, int line);
  void (*bar_arrive)(gs_emu_thread *t, void *at, int bytes, int line);
  void (*bar_wait)(gs_emu_thread *t, void *at, int parity, int line);
  void (*bar_copies)(gs_emu_thread *t, void *at, int line); /* what copies BY_BAR count in */
  void (*bar_landed)(gs_emu_thread *t, void *at, int bytes, int line);
  void (*named)(gs_emu_thread *t, int id, int threads, int waits, int line);
  void (*fence)(gs_emu_thread *t, int line); /* of the async proxy */
  void (*bulk_close)(gs_emu_thread *t, int line);
  void (*bulk_wait)(gs_emu_thread *t, int but, int done, int line); /* done: or only read */
  void (*registers)(gs_emu_thread *t, int count, int up, int line);
  /* A warpgroup's products; checked: where a lane's accumulators are until they are waited for. */
  void (*wg_open)(gs_emu_thread *t, int line);
  void (*wg_close)(gs_emu_thread *t, int line);
  void (*wg_wait)(gs_emu_thread *t, int but, int line);
  float *(*wg_pending)(gs_emu_thread *t, int lane, float *acc, int count, int line);
  /* Between blocks: of i32 in global memory; checked: the argument and the index are given. */
  int (*ticket)(gs_emu_thread *t, int *counter, int arg, int most, int line);
  void (*item)(gs_emu_thread *t,
               int number); /* what the thread does from here on is of this item */
  void (*turn_wait)(gs_emu_thread *t, int *turns, int arg, long long i, int value, int line);
  void (*turn_pass)(gs_emu_thread *t, int *turns, int arg, long long i, int value, int line);
} gs_emu_tiles;

/* What a compiled kernel exports under its entry name. */
typedef struct gs_emu_entry {
  int abi, threads, barrier_free, checked, cluster;
  const char *params; /* the text of the parameter list */
  void (*one)(gs_emu_thread *t, const gs_emu_arg *args);
  /* Plain barrier-free kernels: blocks [lo, hi), each a loop over its threads. */
  void (*loop)(const gs_emu_arg *args, long long lo, long long hi, long long nblocks);
} gs_emu_entry;

#endif
