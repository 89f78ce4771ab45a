/* fiber.c: CUDA threads as fibers, and how they meet.
 *
 * A fiber that must wait names a generation counter and goes on when that counter has moved; it
 * gives the processor to the next lane of its warp, or, when none there can run, to the next warp.
 * The last to arrive does the work of all (a sum over the warp, say), moves the counter and goes on
 * without waiting, so that a meeting costs one switch a thread. The end of a block is a meeting
 * too: the last to end takes the next block. When nobody can run, the threads wait for each other:
 * that is reported, never a hang. */
#include "base/clock.h"
#include "device/emu/internal.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STACK = 128 * 1024, PATIENCE = 300 }; /* bytes of a fiber; seconds */

/* ---- the switch ---- */

#if defined(__x86_64__) && !defined(GS_FIBER_UCONTEXT)
void gs_fiber_switch(void **save, void *to);
void gs_fiber_begin(void);
__asm__(".text\n"
        ".globl gs_fiber_switch\n.hidden gs_fiber_switch\n.type gs_fiber_switch,@function\n"
        "gs_fiber_switch:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
        "  ret\n.size gs_fiber_switch,.-gs_fiber_switch\n"
        ".globl gs_fiber_begin\n.hidden gs_fiber_begin\n.type gs_fiber_begin,@function\n"
        "gs_fiber_begin:\n  movq %r12, %rdi\n  callq *%r13\n  ud2\n"
        ".size gs_fiber_begin,.-gs_fiber_begin\n");
static void *fiber_stack(char *top, void (*body)(fiber *), fiber *f) {
  uint64_t *sp = (uint64_t *)(void *)top; /* r15 r14 r13 r12 rbx rbp, then where to return to */
  *--sp = 0; /* twice: the stack is 16-byte aligned where gs_fiber_begin calls */
  *--sp = 0;
  *--sp = (uint64_t)(uintptr_t)gs_fiber_begin;
  *--sp = 0;
  *--sp = 0;
  *--sp = (uint64_t)(uintptr_t)f;
  *--sp = (uint64_t)(uintptr_t)body;
  *--sp = 0;
  *--sp = 0;
  return sp;
}
static void fiber_drop(void *sp) {
  (void)sp;
}

#elif defined(__aarch64__) && !defined(GS_FIBER_UCONTEXT)
void gs_fiber_switch(void **save, void *to);
void gs_fiber_begin(void);
__asm__(".text\n"
        ".globl gs_fiber_switch\n.hidden gs_fiber_switch\n.type gs_fiber_switch,%function\n"
        "gs_fiber_switch:\n"
        "  sub sp, sp, #160\n"
        "  stp x19, x20, [sp, #0]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n"
        "  stp x25, x26, [sp, #48]\n  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
        "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n  stp d12, d13, [sp, #128]\n"
        "  stp d14, d15, [sp, #144]\n"
        "  mov x9, sp\n  str x9, [x0]\n  mov sp, x1\n"
        "  ldp x19, x20, [sp, #0]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n"
        "  ldp x25, x26, [sp, #48]\n  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
        "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n  ldp d12, d13, [sp, #128]\n"
        "  ldp d14, d15, [sp, #144]\n"
        "  add sp, sp, #160\n  ret\n.size gs_fiber_switch,.-gs_fiber_switch\n"
        ".globl gs_fiber_begin\n.hidden gs_fiber_begin\n.type gs_fiber_begin,%function\n"
        "gs_fiber_begin:\n  mov x0, x19\n  blr x20\n  brk #0\n"
        ".size gs_fiber_begin,.-gs_fiber_begin\n");
static void *fiber_stack(char *top, void (*body)(fiber *), fiber *f) {
  uint64_t *sp = (uint64_t *)(void *)(top - 160);
  memset(sp, 0, 160);
  sp[0] = (uint64_t)(uintptr_t)f;
  sp[1] = (uint64_t)(uintptr_t)body;
  sp[11] = (uint64_t)(uintptr_t)gs_fiber_begin;
  return sp;
}
static void fiber_drop(void *sp) {
  (void)sp;
}

#else
#include <ucontext.h>
static void gs_fiber_switch(void **save, void *to) {
  if (*save == NULL) *save = calloc(1, sizeof(ucontext_t));
  if (*save == NULL) abort();
  swapcontext(*save, to);
}
static void fiber_enter(unsigned f0, unsigned f1, unsigned b0, unsigned b1) {
  fiber *f = (fiber *)(uintptr_t)((uint64_t)f0 | (uint64_t)f1 << 32);
  void (*body)(fiber *) = (void (*)(fiber *))(uintptr_t)((uint64_t)b0 | (uint64_t)b1 << 32);
  body(f);
}
static void *fiber_stack(char *top, void (*body)(fiber *), fiber *f) {
  ucontext_t *u = calloc(1, sizeof *u);
  if (u == NULL || getcontext(u) != 0) abort();
  uint64_t a = (uintptr_t)f, b = (uintptr_t)body;
  u->uc_stack.ss_sp = top - STACK / 2;
  u->uc_stack.ss_size = STACK / 2;
  makecontext(u, (void (*)(void))fiber_enter, 4, (unsigned)a, (unsigned)(a >> 32), (unsigned)b,
              (unsigned)(b >> 32));
  return u;
}
static void fiber_drop(void *sp) {
  free(sp);
}
#endif

/* Functions that run on a fiber's stack are opaque to AddressSanitizer. */
#define ON_FIBER __attribute__((no_sanitize("address")))

/* ---- waiting ---- */

ON_FIBER static bool runnable(const fiber *f) {
  return *f->gen != f->seen;
}

/* One whose turn has come. Other workers' blocks may pass turns: unless this is the only one, it
 * waits for them, but not for ever. */
ON_FIBER static fiber *find_turn(worker *w) {
  for (double until = gs_seconds() + PATIENCE;;) {
    for (int i = 0; i < w->threads * w->cluster; i++)
      if (w->fibers[i].what == 't' && emu_turn_has_come(&w->fibers[i])) return &w->fibers[i];
    if (w->alone || atomic_load(&w->job->failed) || gs_seconds() > until) return NULL;
    sched_yield();
  }
}

ON_FIBER static fiber *find_runnable(fiber *f) {
  for (fiber *g = f->next; g != f; g = g->next)
    if (runnable(g)) return g;
  worker *w = f->w;
  int n = w->threads * w->cluster, step = w->job->reverse ? n - 32 : 32;
  int first = (f->index & ~31) | (w->job->reverse ? 31 : 0); /* the lane that starts a warp */
  for (int at = (first + step) % n; at != first; at = (at + step) % n) {
    fiber *g = &w->fibers[at];
    for (int i = 0; i < 32; i++, g = g->next)
      if (runnable(g)) return g;
  }
  return w->turns > 0 ? find_turn(w) : NULL;
}

/* Leaves all fibers where they are and goes back to the worker. */
ON_FIBER void emu_abandon(fiber *f) {
  worker *w = f->w;
  w->made = -1;
  gs_fiber_switch(&f->sp, w->main_sp);
}

static const char *doing(const fiber *f) {
  return f->what == 'e' ? "have ended" : "wait elsewhere";
}

/* Nobody can run: says which threads wait where, and which are missing. */
static void report_stuck(fiber *f) {
  worker *w = f->w;
  const fiber *here = NULL, *other = NULL;
  if (w->job->f->tiles && emu_tiles_stuck(w)) return;
  int all = w->threads * w->cluster;
  for (int i = 0; i < all && !here; i++) /* what waits for the fewest says most */
    if (w->fibers[i].what != 'e' && w->fibers[i].what != 'k') here = &w->fibers[i];
  for (int i = 0; i < all && !here; i++)
    if (w->fibers[i].what != 'e') here = &w->fibers[i];
  if (here == NULL) here = f;
  int same = 0, apart = 0, lo = here->index & ~31, n = 32;
  if (here->what == 's') lo = (int)(here->block - w->blocks) * w->threads, n = w->threads;
  if (here->what == 'k') lo = 0, n = all;
  for (int i = lo; i < lo + n; i++) {
    const fiber *g = &w->fibers[i];
    bool is_same = g->what == here->what && g->line == here->line;
    same += is_same;
    apart += !is_same;
    if (!is_same && other == NULL) other = g;
  }
  const char *place = here->what == 's'   ? "barrier"
                      : here->what == 'k' ? "cluster barrier"
                      : here->what == 'w' ? "warp barrier"
                                          : "collective";
  char where[64] = "";
  if (other != NULL && other->what != 'e')
    snprintf(where, sizeof where, " at line %d", other->line);
  char owner[64] = "";
  if (other != NULL && here->what == 'k')
    snprintf(owner, sizeof owner, " of block %lld", other->t.bid);
  emu_report((fiber *)here, here->line,
             "divergent %s: %d threads of %d are here, while %d %s%s (the first is thread %d%s)",
             place, same, n, apart, other ? doing(other) : "are missing", where,
             other ? other->t.tid : -1, owner);
}

ON_FIBER void emu_wait(fiber *f, const uint32_t *gen, char what, int line) {
  f->gen = gen;
  f->seen = *gen;
  f->what = what;
  f->line = line;
  fiber *g = f->next;
  if (!runnable(g)) g = find_runnable(f);
  if (g == NULL) {
    report_stuck(f);
    emu_abandon(f);
  } else if (g != f) { /* f itself: its turn came meanwhile */
    gs_fiber_switch(&f->sp, g->sp);
  }
}

/* ---- meetings ---- */

ON_FIBER void emu_sync(gs_emu_thread *t, int line) {
  fiber *f = (fiber *)t;
  block *b = f->block;
  if (++b->arrived < f->w->threads) {
    emu_wait(f, &b->gen, 's', line);
  } else {
    b->arrived = 0;
    b->gen++;
  }
}

/* A barrier of each of its blocks as well. */
ON_FIBER void emu_cluster_sync(gs_emu_thread *t, int line) {
  fiber *f = (fiber *)t;
  worker *w = f->w;
  if (++w->arrived < w->threads * w->cluster) {
    emu_wait(f, &w->gen, 'k', line);
  } else {
    w->arrived = 0;
    w->gen++;
    for (int i = 0; i < w->cluster; i++) w->blocks[i].gen++;
  }
}

ON_FIBER static long long peer(gs_emu_thread *t, int rank, int line) {
  fiber *f = (fiber *)t;
  (void)line;
  return f->w->blocks[rank].shared - f->block->shared;
}

ON_FIBER void emu_syncwarp(gs_emu_thread *t, int line) {
  fiber *f = (fiber *)t;
  warp *p = f->warp;
  if (++p->arrived < 32) {
    emu_wait(f, &p->gen, 'w', line);
  } else {
    p->arrived = 0;
    p->gen++;
  }
}

/* a op b as the prelude computes it: a NaN loses to a number, -0 is below +0. */
static inline float combine(int op, float a, float b) {
  uint32_t x, y;
  memcpy(&x, &a, 4);
  memcpy(&y, &b, 4);
  if (op == GS_EMU_SUM) return a + b;
  uint32_t z = op == GS_EMU_MAX ? x & y : x | y;
  float tie, r = (op == GS_EMU_MAX ? a > b : a < b) ? a : b;
  memcpy(&tie, &z, 4);
  r = a == b ? tie : r;
  return b != b ? a : r;
}

/* The butterfly over lane distances n/2 ... 1, in place; v[0] alone is valid when n is 32. */
static inline void butterfly_as(int op, float v[32], int n) {
  if (n == 32) {
    for (int o = 16; o > 0; o >>= 1)
      for (int i = 0; i < o; i++) v[i] = combine(op, v[i], v[i + o]);
    return;
  }
  for (int o = n / 2; o > 0; o >>= 1) {
    float u[32];
    for (int i = 0; i < 32; i++) u[i] = combine(op, v[i], v[i ^ o]);
    memcpy(v, u, sizeof u);
  }
}
static void butterfly(int op, float v[32], int n) {
  if (op == GS_EMU_SUM)
    butterfly_as(GS_EMU_SUM, v, n);
  else if (op == GS_EMU_MAX)
    butterfly_as(GS_EMU_MAX, v, n);
  else
    butterfly_as(GS_EMU_MIN, v, n);
}

ON_FIBER float emu_group(gs_emu_thread *t, float v, int op, int lanes, int line) {
  fiber *f = (fiber *)t;
  warp *p = f->warp;
  p->in[f->lane] = v;
  if (++p->arrived < 32) {
    emu_wait(f, &p->gen, 'c', line);
  } else {
    memcpy(p->out, p->in, sizeof p->out);
    butterfly(op, p->out, lanes);
    p->arrived = 0;
    p->gen++;
  }
  return p->out[lanes == 32 ? 0 : f->lane];
}

/* The value of lane ^ distance. */
ON_FIBER unsigned emu_exchange(gs_emu_thread *t, unsigned v, int distance, int line) {
  fiber *f = (fiber *)t;
  warp *p = f->warp;
  memcpy(&p->in[f->lane], &v, sizeof v);
  if (++p->arrived < 32) {
    emu_wait(f, &p->gen, 'c', line);
  } else {
    memcpy(p->out, p->in, sizeof p->out);
    p->arrived = 0;
    p->gen++;
  }
  memcpy(&v, &p->out[f->lane ^ distance], sizeof v);
  return v;
}

static float block_tree(int op, float *v, int threads) {
  static const float identity[] = {0.0f, -__builtin_inff(), __builtin_inff()};
  int n = threads / 32;
  float r[32];
  for (int i = 0; i < 32; i++) {
    if (i < n) butterfly(op, v + 32 * i, 32);
    r[i] = i < n ? v[32 * i] : identity[op];
  }
  if (n > 1) butterfly(op, r, 32);
  return r[0];
}

ON_FIBER float emu_block(gs_emu_thread *t, float v, int op, int line) {
  fiber *f = (fiber *)t;
  block *b = f->block;
  b->in[t->tid] = v;
  if (++b->arrived < f->w->threads) {
    emu_wait(f, &b->gen, 's', line);
  } else {
    b->result = block_tree(op, b->in, f->w->threads);
    b->arrived = 0;
    b->gen++;
  }
  return b->result;
}

ON_FIBER void emu_shared_full(gs_emu_thread *t, const char *name, int line) {
  fiber *f = (fiber *)t;
  emu_report(f, line, "shared memory: %u bytes with %s, but a block has %u", t->shared_used, name,
             t->shared_limit);
  emu_abandon(f);
}

const gs_emu_runtime emu_plain_runtime = {
    .sync = emu_sync,
    .syncwarp = emu_syncwarp,
    .group = emu_group,
    .block = emu_block,
    .exchange = emu_exchange,
    .shared_full = emu_shared_full,
    .cluster_sync = emu_cluster_sync,
    .peer = peer,
    .tiles = &emu_tiles,
};

/* ---- blocks ---- */

/* The next cluster's blocks; false when there is none. */
static bool take_cluster(worker *w) {
  long long i;
  if (!emu_take(w, &i)) return false;
  for (int b = 0; b < w->cluster; b++) w->blocks[b].bid = i * w->cluster + b;
  if (w->e->o.checked) emu_check_begin(w);
  if (w->job->f->tiles) emu_tiles_begin(w);
  return true;
}

/* The end of a cluster is a meeting: the last one in takes the next, or leaves for the worker. */
ON_FIBER static void finish(fiber *f) {
  worker *w = f->w;
  if (++w->ended < w->threads * w->cluster) {
    emu_wait(f, &w->end_gen, 'e', 0);
    return;
  }
  w->ended = 0;
  if (w->e->o.checked) emu_check_end(w);
  if (w->job->f->tiles) emu_tiles_end(w);
  if (take_cluster(w)) {
    w->end_gen++;
    return;
  }
  f->gen = &w->end_gen;
  f->seen = w->end_gen;
  gs_fiber_switch(&f->sp, w->main_sp);
}

ON_FIBER static void fiber_main(fiber *f) {
  for (;;) {
    worker *w = f->w;
    f->t.bid = f->block->bid;
    f->t.shared_used = 0;
    f->t.nshared = 0;
    f->what = 'r';
    w->job->f->code->one(&f->t, w->job->args);
    finish(f);
  }
}

/* Gives fibers [made, n) their stacks, 64 bytes apart within a page, so that the same variables of
 * different threads do not all fall into one set of the cache. */
static void make_fibers(worker *w, int n) {
  if (w->made < 0) {
    for (int i = 0; i < w->room * MAX_THREADS; i++) {
      if (w->fibers[i].sp) fiber_drop(w->fibers[i].sp);
      w->fibers[i].sp = NULL;
    }
    w->made = 0;
  }
  for (int i = w->made; i < n; i++) {
    fiber *f = &w->fibers[i];
    char *top = w->stacks + (size_t)(i + 1) * STACK - 64 * (size_t)(i % 64);
    f->index = i;
    f->t.rt = w->e->o.checked ? &emu_checked_runtime : &emu_plain_runtime;
    f->t.shared_limit = (unsigned)w->e->base.caps->shared_per_block;
    f->w = w;
    f->lane = i & 31;
    f->warp = &w->warps[i >> 5];
    f->gen = &w->end_gen;
    f->seen = w->end_gen;
    f->sp = fiber_stack(top, fiber_main, f);
  }
  if (n > w->made) w->made = n;
}

static size_t shared_room(const worker *w) {
  return GS_EMU_STATIC + (size_t)w->e->base.caps->shared_per_block;
}

/* blocks: 1, or more for clusters: then what was there is made anew, with room for the largest. */
gs_status emu_fibers_ready(worker *w, int blocks, gs_error *err) {
  if (blocks > 1 && w->room == 1) emu_fibers_free(w);
  if (w->room == 0) w->room = blocks > 1 ? MAX_CLUSTER : 1;
  size_t threads = (size_t)w->room * MAX_THREADS;
  size_t shared = (size_t)w->room * shared_room(w);
  if (w->fibers == NULL) w->fibers = calloc(threads, sizeof *w->fibers);
  if (w->stacks == NULL) w->stacks = emu_pages(threads * STACK);
  if (w->shared == NULL) w->shared = emu_pages(shared);
  if (w->e->o.checked && w->shared_cells == NULL)
    w->shared_cells = emu_pages(shared * sizeof(cell));
  if (w->e->o.checked && w->copies == NULL) w->copies = emu_pages(shared * sizeof(copy_mark));
  if (!w->fibers || !w->stacks || !w->shared ||
      (w->e->o.checked && (!w->shared_cells || !w->copies)))
    return gs_fail(err, GS_ERR_MEMORY, "no memory for the emulator's threads");
  return GS_OK;
}

void emu_fibers_run(worker *w) {
  w->threads = w->job->f->code->threads;
  w->cluster = w->job->cluster;
  int n = w->threads * w->cluster;
  bool back = w->job->reverse;
  w->ordered = w->e->o.checked && w->job->f->tiles;
  make_fibers(w, n);
  w->arrived = w->ended = 0;
  size_t shared = shared_room(w);
  for (int i = 0; i < w->cluster; i++) {
    block *b = &w->blocks[i];
    b->arrived = 0;
    b->shared = w->shared + (size_t)i * shared;
    b->shared_cells = w->shared_cells + (w->shared_cells ? (size_t)i * shared : 0);
    b->copies = w->copies + (w->copies ? (size_t)i * shared : 0);
  }
  for (int i = 0; i < n; i++) {
    fiber *f = &w->fibers[i];
    int lane = back ? (f->lane + 31) % 32 : (f->lane + 1) % 32;
    f->next = &w->fibers[(i & ~31) | lane];
    f->t.nblocks = w->job->grid;
    f->t.tid = i % w->threads;
    f->t.rank = i / w->threads;
    f->block = &w->blocks[f->t.rank];
    f->t.shared = f->block->shared;
  }
  for (int i = 0; i < n / 32; i++) w->warps[i].arrived = 0;
  if (!take_cluster(w)) return;
  w->end_gen++;
  gs_fiber_switch(&w->main_sp, w->fibers[back ? n - 1 : 0].sp);
}

void emu_fibers_free(worker *w) {
  size_t threads = (size_t)w->room * MAX_THREADS;
  size_t shared = (size_t)w->room * shared_room(w);
  if (w->fibers != NULL)
    for (size_t i = 0; i < threads; i++)
      if (w->fibers[i].sp) fiber_drop(w->fibers[i].sp);
  free(w->fibers);
  emu_unpages(w->stacks, threads * STACK);
  emu_unpages(w->shared, shared);
  emu_unpages(w->shared_cells, shared * sizeof(cell));
  emu_unpages(w->copies, shared * sizeof(copy_mark));
  w->fibers = NULL;
  w->stacks = w->shared = NULL;
  w->shared_cells = NULL;
  w->copies = NULL;
  w->room = w->made = 0;
  emu_tiles_free(w);
}
