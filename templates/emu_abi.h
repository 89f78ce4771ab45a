/* emu_abi.h: what the emulator's driver (C) and the kernels that it compiles (C++) share.
 *
 * prelude_emu.h includes it; so does runtime/device/emu. Plain C, includes nothing. */
#ifndef GS_EMU_ABI_H
#define GS_EMU_ABI_H

#define GS_EMU_ABI 3

enum { GS_EMU_CLUSTER = 8 };                     /* the most blocks of a cluster */
enum { GS_EMU_SUM, GS_EMU_MAX, GS_EMU_MIN }; /* collectives */
enum { GS_EMU_READ = 1, GS_EMU_WRITE = 2 };  /* accesses */

/* One launch argument. ptr comes first so that a kernel's use of it is one load. */
typedef struct gs_emu_arg {
  void *ptr;
  unsigned long long bytes;
  long long i64;
  float f32;
} gs_emu_arg;

/* One CUDA thread, as its kernel sees it. The driver's own record begins with this. */
typedef struct gs_emu_thread {
  const struct gs_emu_runtime *rt;
  long long bid, nblocks;
  int tid, rank; /* in the block; of the block in its cluster */
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
} gs_emu_runtime;

/* What a compiled kernel exports under its entry name. */
typedef struct gs_emu_entry {
  int abi, threads, barrier_free, checked, cluster;
  const char *params; /* the text of the parameter list */
  void (*one)(gs_emu_thread *t, const gs_emu_arg *args);
  /* Plain barrier-free kernels: blocks [lo, hi), each a loop over its threads. */
  void (*loop)(const gs_emu_arg *args, long long lo, long long hi, long long nblocks);
} gs_emu_entry;

#endif
