/* tile.c: what kernels of tiles need besides meetings of whole blocks: work that the last lane of a
 * warp or warpgroup does for all, barriers that count, named barriers, turns between blocks.
 *
 * The hardware's own work is done when it begins. In a checked run its accesses carry clocks of
 * their own (order.h), which a thread knows once it has waited. */
#include "device/emu/order.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ON_FIBER __attribute__((no_sanitize("address")))

enum { POISON = 0x7fb5c0de }; /* a NaN that no arithmetic makes */

static warpgroup *group_of(const fiber *f) {
  return &f->w->groups[f->t.rank * MAX_GROUPS + f->t.tid / 128];
}

/* ---- one for all ---- */

/* They are in one place, and that is all that lanes of different warps may rely on. */
static void meet_lanes(fiber *f, int lanes) {
  int first = f->index - f->t.tid % lanes;
  if (f->w->ordered)
    for (int i = 0; i < lanes; i += 32) order_meet(f->w, first + i, 32);
}

static void same_line(fiber *f, int arrived, int *place, int line, const char *what) {
  if (arrived == 0)
    *place = line;
  else if (*place != line && f->w->e->o.checked)
    emu_report(f, line, "divergent %s: this thread is here while others are at line %d", what,
               *place);
}

ON_FIBER static void *const *gather(gs_emu_thread *t, void *mine, int lanes, int line) {
  fiber *f = (fiber *)t;
  if (lanes == 32) {
    warp *p = f->warp;
    same_line(f, p->arrived, &p->line, line, "collective");
    p->mine[f->lane] = mine;
    if (++p->arrived == 32) return p->mine;
    emu_wait(f, &p->gen, 'c', line);
    return NULL;
  }
  warpgroup *g = group_of(f);
  same_line(f, g->arrived, &g->line, line, "operation of a warpgroup");
  g->mine[t->tid % 128] = mine;
  if (++g->arrived == 128) return g->mine;
  emu_wait(f, &g->gen, 'g', line);
  return NULL;
}

ON_FIBER static void release(gs_emu_thread *t, int lanes) {
  fiber *f = (fiber *)t;
  meet_lanes(f, lanes);
  if (lanes == 32) {
    f->warp->arrived = 0;
    f->warp->gen++;
  } else {
    warpgroup *g = group_of(f);
    g->arrived = 0;
    g->gen++;
  }
}

static float *scratch(gs_emu_thread *t, long long count) {
  worker *w = ((fiber *)t)->w;
  if (count > w->tile_room) {
    free(w->tile_scratch);
    w->tile_scratch = NULL;
    if (posix_memalign((void **)&w->tile_scratch, 64, sizeof(float) * (size_t)count) != 0) abort();
    w->tile_room = count;
  }
  return w->tile_scratch;
}

static void product(float *c, const float *a, const float *b, int m, int n, int k) {
  for (int i = 0; i < m; i++)
    for (int l = 0; l < k; l++) {
      float v = a[i * k + l];
      for (int j = 0; j < n; j++) c[i * n + j] += v * b[l * n + j];
    }
}

/* ---- barriers that count ---- */

typedef struct bar_word {
  uint32_t mark, number;
} bar_word;
enum { BAR_MARK = 0x6d626172 };

static counting_bar *bar_at(fiber *f, void *at, int line) {
  bar_word *word = at;
  block *b = f->block;
  if (word->mark != BAR_MARK || word->number >= (uint32_t)b->nbars ||
      b->bars[word->number].at != at) {
    emu_report(f, line, "a barrier that counts is used but no thread has made it");
    emu_abandon(f);
  }
  counting_bar *x = &b->bars[word->number];
  if (f->w->ordered && f != x->maker && f->lore->knows->at[x->maker->index] < x->made)
    emu_report(f, line, "barrier %s[%d] is used with no block barrier since it was made", x->name,
               x->number);
  if (f->w->ordered && !x->ready)
    emu_report(f, line, "barrier %s[%d] is used but no gs_mbar_ready follows its making", x->name,
               x->number);
  return x;
}

static void bar_init(gs_emu_thread *t, void *at, const char *name, int number, int count,
                     int line) {
  fiber *f = (fiber *)t;
  block *b = f->block;
  if (b->nbars == MAX_BARS) {
    emu_report(f, line, "more than %d barriers that count", MAX_BARS);
    return;
  }
  bar_word word = {BAR_MARK, (uint32_t)b->nbars};
  memcpy(at, &word, sizeof word);
  counting_bar *x = &b->bars[b->nbars];
  *x = (counting_bar){.at = at, .number = number, .count = count, .pending = count, .maker = f};
  snprintf(x->name, sizeof x->name, "%s", name);
  if (f->w->ordered) {
    x->slot = order_slot_of_bar(f->w, b, b->nbars);
    x->made = f->lore->now;
  }
  b->nbars++;
}

static void bar_ready(gs_emu_thread *t, int line) {
  fiber *f = (fiber *)t;
  (void)line;
  for (int i = 0; i < f->block->nbars; i++)
    if (f->block->bars[i].maker == f) f->block->bars[i].ready = true;
}

static void end_phase(fiber *f, counting_bar *x) {
  if (x->pending > 0 || x->bytes != 0) return;
  x->phase++;
  x->pending = x->count;
  if (!f->w->ordered) return;
  order_drop(f->w, x->ended);
  x->ended = order_own(f->w, x->joining);
  x->ended->at[x->slot] = x->phase;
  x->joining = NULL;
}

static void bar_arrive(gs_emu_thread *t, void *at, int bytes, int line) {
  fiber *f = (fiber *)t;
  counting_bar *x = bar_at(f, at, line);
  if (x->pending == 0)
    emu_report(f, line, "barrier %s[%d]: one arrival more than the %d of a phase", x->name,
               x->number, x->count);
  if (f->w->ordered) order_release(f, &x->joining);
  x->pending--;
  x->bytes += bytes;
  x->line = line;
  end_phase(f, x);
}

ON_FIBER static void bar_wait(gs_emu_thread *t, void *at, int parity, int line) {
  fiber *f = (fiber *)t;
  counting_bar *x = bar_at(f, at, line);
  uint32_t seen = x->phase;
  while (x->phase == seen && (seen & 1) == (uint32_t)parity) {
    f->at = x;
    f->want = parity;
    emu_wait(f, &x->phase, 'm', line);
  }
  if (f->w->ordered) order_acquire(f, x->ended);
}

static void bar_copies(gs_emu_thread *t, void *at, int line) {
  fiber *f = (fiber *)t;
  if (f->w->ordered) f->lore->copies_to = bar_at(f, at, line);
}

static void bar_landed(gs_emu_thread *t, void *at, int bytes, int line) {
  fiber *f = (fiber *)t;
  counting_bar *x = bar_at(f, at, line);
  x->bytes -= bytes;
  end_phase(f, x);
}

/* ---- named barriers ---- */

ON_FIBER static void named(gs_emu_thread *t, int id, int threads, int waits, int line) {
  fiber *f = (fiber *)t;
  if (id < 1 || id >= NAMED_BARS || threads % 32 != 0 || threads > f->w->threads) {
    emu_report(f, line, "barrier %d of %d threads: 1 ... 15, of whole warps of the block", id,
               threads);
    emu_abandon(f);
  }
  named_bar *x = &f->block->named[id];
  if (x->arrived > 0 && x->threads != threads)
    emu_report(f, line, "barrier %d is one of %d threads here and of %d at line %d", id, threads,
               x->threads, x->line);
  x->threads = threads;
  x->line = line;
  if (f->w->ordered) order_release(f, &x->joining);
  if (++x->arrived < threads) {
    f->at = x;
    f->want = id;
    if (waits) emu_wait(f, &x->gen, 'n', line);
  } else {
    x->arrived = 0;
    x->gen++;
    if (f->w->ordered) {
      order_drop(f->w, x->ended);
      x->ended = x->joining;
      x->joining = NULL;
    }
  }
  if (waits && f->w->ordered) order_acquire(f, x->ended);
}

/* ---- the hardware's own work ---- */

static void fence(gs_emu_thread *t, int line) {
  (void)line;
  if (((fiber *)t)->w->ordered) order_fence((fiber *)t);
}

static void bulk_close(gs_emu_thread *t, int line) {
  fiber *f = (fiber *)t;
  (void)line;
  if (!f->w->ordered) return;
  f->lore->bulk_closed++;
  f->lore->bulk_open = false;
}

static void bulk_wait(gs_emu_thread *t, int but, int done, int line) {
  fiber *f = (fiber *)t;
  (void)line;
  if (!f->w->ordered || f->lore->bulk < 0) return;
  lore *l = f->lore;
  uint32_t until = l->bulk_closed > (uint32_t)but ? l->bulk_closed - (uint32_t)but : 0;
  if (l->bulk_read < until) l->bulk_read = until;
  order_set(f, order_slot_of_bulk(f->w, f, false), until);
  if (!done) return;
  if (l->bulk_done < until) l->bulk_done = until;
  order_set(f, order_slot_of_bulk(f->w, f, true), until);
}

/* Whether the warpgroups' registers fit a kernel of which `blocks` are to fit a processor: it
 * begins with an equal part of 65536 a thread, and what some give back is all that others can get.
 */
static bool registers_fit(const warpgroup *g, int groups, int blocks) {
  int first = 65536 / (groups * 128 * blocks) / 8 * 8, all = 0;
  bool fit = true;
  for (int i = 0; i < groups; i++) {
    fit &= g[i].up ? g[i].registers >= first : g[i].registers <= first;
    all += g[i].registers;
  }
  return fit && all <= first * groups;
}

static void registers(gs_emu_thread *t, int count, int up, int line) {
  fiber *f = (fiber *)t;
  int groups = f->w->threads / 128;
  warpgroup *g = &f->w->groups[t->rank * MAX_GROUPS];
  if (t->tid % 128 != 0 || f->w->threads % 128 != 0) return;
  g[t->tid / 128].registers = count;
  g[t->tid / 128].up = up;
  if (count % 8 != 0 || count < 24 || count > 240)
    emu_report(f, line, "registers: %s to %d a thread: by eights, 24 ... 240", up ? "up" : "down",
               count);
  bool fit = false;
  for (int i = 0; i < groups; i++) fit |= g[i].registers == 0; /* others are still to say */
  for (int blocks = 1; blocks <= 4; blocks++) fit |= registers_fit(g, groups, blocks);
  if (!fit)
    emu_report(f, line,
               "registers: what %d warpgroups want does not come out of equal parts of 65536: up "
               "is from such a part, and what others give back must suffice",
               groups);
}

/* ---- products of a warpgroup ---- */

enum { PENDING = 4, MOST = 128 }; /* accumulators of a lane at a time, and values of one */
typedef struct pending {
  float *acc; /* NULL: free */
  int count;
  uint32_t group;
  float value[MOST];
} pending;

static void wg_open(gs_emu_thread *t, int line) {
  (void)line;
  group_of((fiber *)t)->opened = true;
}

static void wg_close(gs_emu_thread *t, int line) {
  warpgroup *g = group_of((fiber *)t);
  (void)line;
  g->closed++;
  g->begun = false;
}

static bool is_poisoned(const float *acc, int count) {
  uint32_t w, bad = 0;
  for (int i = 0; i < count; i++) {
    memcpy(&w, &acc[i], 4);
    bad |= w ^ POISON;
  }
  return bad == 0;
}

static void need_poison(fiber *f, const pending *p, int line) {
  if (!is_poisoned(p->acc, p->count))
    emu_report(f, line,
               "an accumulator was written while a product into it was under way: "
               "gs_wg_wait comes first");
}

static void wg_wait(gs_emu_thread *t, int but, int line) {
  fiber *f = (fiber *)t;
  warpgroup *g = group_of(f);
  if (!f->w->ordered) return;
  uint32_t until = g->closed > (uint32_t)but ? g->closed - (uint32_t)but : 0;
  for (int i = 0; g->pending && i < 128 * PENDING; i++) {
    pending *p = &g->pending[i];
    if (p->acc == NULL || p->group > until) continue;
    need_poison(f, p, line);
    memcpy(p->acc, p->value, sizeof(float) * (size_t)p->count);
    p->acc = NULL;
  }
  if (g->waited < until) g->waited = until;
  g->opened = false;
  int first = f->index - t->tid % 128, slot = order_slot_of_group(f->w, f);
  for (int i = first; i < first + 128; i++) order_set(&f->w->fibers[i], slot, until);
}

static float *wg_pending(gs_emu_thread *t, int lane, float *acc, int count, int line) {
  static const uint32_t word = POISON;
  fiber *f = (fiber *)t;
  warpgroup *g = group_of(f);
  if (!f->w->ordered) return acc;
  if (!g->opened && lane == 0)
    emu_report(f, line, "a product with no gs_wg_open since the last wait");
  if (g->pending == NULL) g->pending = calloc(128 * PENDING, sizeof *g->pending);
  if (g->pending == NULL) abort();
  pending *p = &g->pending[lane * PENDING], *found = NULL;
  for (int i = 0; i < PENDING; i++)
    if (p[i].acc == acc) found = &p[i];
  for (int i = 0; i < PENDING && found == NULL; i++)
    if (p[i].acc == NULL) found = &p[i];
  if (found == NULL || count > MOST) {
    emu_report(f, line, "more than %d accumulators of products under way", PENDING);
    return acc;
  }
  if (found->acc != NULL) {
    need_poison(f, found, line);
  } else {
    found->acc = acc;
    found->count = count;
    memcpy(found->value, acc, sizeof(float) * (size_t)count);
    for (int i = 0; i < count; i++) memcpy(&acc[i], &word, 4);
  }
  found->group = g->closed + 1;
  g->begun = true;
  return found->value;
}

/* ---- between blocks ---- */

static int ticket(gs_emu_thread *t, int *counter, int arg, int most, int line) {
  if (((fiber *)t)->w->e->o.checked)
    counter = emu_span(t, arg, 0, 0, 4, 1, GS_EMU_READ | GS_EMU_WRITE | GS_EMU_ATOMIC, line);
  int old = __atomic_load_n(counter, __ATOMIC_RELAXED), next;
  do next = (unsigned)old >= (unsigned)most ? 0 : old + 1;
  while (
      !__atomic_compare_exchange_n(counter, &old, next, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
  return old;
}

/* Items may be done by any blocks: in global memory each counts as a block of its own. */
static void item(gs_emu_thread *t, int number) {
  if (((fiber *)t)->w->ordered) ((fiber *)t)->lore->item = number;
}

bool emu_turn_has_come(const fiber *f) {
  return __atomic_load_n((const int *)f->at, __ATOMIC_ACQUIRE) == f->want;
}

ON_FIBER static void turn_wait(gs_emu_thread *t, int *turns, int arg, long long i, int value,
                               int line) {
  fiber *f = (fiber *)t;
  worker *w = f->w;
  const cell *c = NULL;
  int *turn = turns + i;
  if (w->e->o.checked) {
    turn = emu_span(t, arg, 0, i, 4, 1, GS_EMU_READ | GS_EMU_ATOMIC, line);
    const view *v = &w->job->views[arg];
    if (v->cells != NULL && (char *)turn == v->ptr + i * 4) c = &v->cells[i * 4];
  }
  f->at = turn;
  f->want = value;
  if (!emu_turn_has_come(f)) {
    static const uint32_t never = 0;
    w->turns++;
    emu_wait(f, &never, 't', line);
    w->turns--;
  }
  if (w->ordered) order_heard_turn(f, turn, c, w->job->stamp);
}

static void turn_pass(gs_emu_thread *t, int *turns, int arg, long long i, int value, int line) {
  fiber *f = (fiber *)t;
  int *turn = turns + i;
  if (f->w->ordered) {
    if (f->lore->bulk_open || f->lore->bulk_done < f->lore->bulk_closed)
      emu_report(f, line,
                 "a turn is passed while bulk additions of this thread are under way: "
                 "gs_bulk_wait comes first");
    turn = emu_span(t, arg, 0, i, 4, 1, GS_EMU_READ | GS_EMU_ATOMIC, line);
    order_pass_turn(f, turn);
    emu_span(t, arg, 0, i, 4, 1, GS_EMU_WRITE | GS_EMU_ATOMIC, line);
  }
  __atomic_store_n(turn, value, __ATOMIC_RELEASE);
}

/* ---- clusters begin and end ---- */

void emu_tiles_begin(worker *w) {
  w->turns = 0;
  if (w->ordered && !order_begin(w)) abort();
  for (int r = 0; r < w->cluster; r++) {
    w->blocks[r].nbars = w->blocks[r].nbulks = 0;
    for (int i = 0; i < NAMED_BARS; i++) w->blocks[r].named[i].arrived = 0;
    for (int i = 0; i < MAX_GROUPS; i++) {
      warpgroup *g = &w->groups[r * MAX_GROUPS + i];
      g->arrived = g->registers = 0;
      g->opened = g->begun = false;
      g->closed = g->waited = 0;
      if (g->pending) memset(g->pending, 0, sizeof *g->pending * 128 * PENDING);
    }
  }
}

/* What a block began, it must have waited for: its shared memory is gone now. */
void emu_tiles_end(worker *w) {
  for (int i = 0; w->ordered && i < w->threads * w->cluster; i++) {
    fiber *f = &w->fibers[i];
    const lore *l = f->lore;
    const warpgroup *g = group_of(f);
    if (l->bulk_open || l->bulk_read < l->bulk_closed)
      emu_report(f, f->line,
                 "the block ends while bulk copies may still read its shared memory: "
                 "gs_bulk_wait_read comes first");
    if (f->t.tid % 128 == 0 && (g->begun || g->waited < g->closed))
      emu_report(f, f->line, "the block ends before its products were waited for");
  }
}

void emu_tiles_free(worker *w) {
  order_free(w);
  for (int i = 0; i < MAX_GROUPS * MAX_CLUSTER; i++) {
    free(w->groups[i].pending);
    w->groups[i].pending = NULL;
  }
  free(w->tile_scratch);
  w->tile_scratch = NULL;
  w->tile_room = 0;
}

/* ---- when nobody can go on ---- */

static int waiting_like(const worker *w, const fiber *f) {
  int n = 0;
  for (int i = 0; i < w->threads * w->cluster; i++)
    n += w->fibers[i].what == f->what && w->fibers[i].at == f->at;
  return n;
}

/* " (thread 0 waits at line 12, thread 128 at line 40)": one of each line. */
static void say_others(const worker *w, const fiber *f, char *out, size_t cap) {
  int lines[4], n = 0;
  size_t len = 0;
  *out = 0;
  for (int i = 0; i < w->threads * w->cluster && n < 4; i++) {
    const fiber *g = &w->fibers[i];
    bool known = g->line == f->line || g->what == 'e';
    for (int j = 0; j < n && !known; j++) known = lines[j] == g->line;
    if (known) continue;
    len += (size_t)snprintf(out + len, cap - len, "%sthread %d of block %lld waits at line %d",
                            n ? ", " : "; ", g->t.tid, g->t.bid, g->line);
    lines[n++] = g->line;
  }
}

bool emu_tiles_stuck(worker *w) {
  fiber *f = NULL;
  char others[400];
  for (int i = 0; i < w->threads * w->cluster && !f; i++)
    if (strchr("mnt", w->fibers[i].what)) f = &w->fibers[i];
  for (int i = 0; i < w->threads * w->cluster && !f; i++)
    if (w->fibers[i].what == 'g') f = &w->fibers[i];
  if (f == NULL) return false;
  say_others(w, f, others, sizeof others);
  int n = waiting_like(w, f);
  if (f->what == 'm') {
    const counting_bar *x = f->at;
    emu_report(f, f->line,
               "deadlock: %d threads wait for phase %u of barrier %s[%d], which lacks %d of %d "
               "arrivals and %lld bytes%s",
               n, x->phase, x->name, x->number, x->pending, x->count, x->bytes, others);
  } else if (f->what == 'n') {
    const named_bar *x = f->at;
    emu_report(f, f->line, "deadlock: %d threads wait at barrier %d, where %d of %d came%s", n,
               f->want, x->arrived, x->threads, others);
  } else if (f->what == 't') {
    emu_report(f, f->line, "deadlock: a turn is %d, and %d threads wait until it is %d%s",
               *(const int *)f->at, n, f->want, others);
  } else {
    emu_report(f, f->line,
               "divergent operation of a warpgroup: %d threads of 128 are here, the others are "
               "not%s",
               group_of(f)->arrived, others);
  }
  return true;
}

const gs_emu_tiles emu_tiles = {
    .gather = gather,
    .release = release,
    .scratch = scratch,
    .product = product,
    .span = emu_span,
    .bar_init = bar_init,
    .bar_ready = bar_ready,
    .bar_arrive = bar_arrive,
    .bar_wait = bar_wait,
    .bar_copies = bar_copies,
    .bar_landed = bar_landed,
    .named = named,
    .fence = fence,
    .bulk_close = bulk_close,
    .bulk_wait = bulk_wait,
    .registers = registers,
    .wg_open = wg_open,
    .wg_close = wg_close,
    .wg_wait = wg_wait,
    .wg_pending = wg_pending,
    .ticket = ticket,
    .item = item,
    .turn_wait = turn_wait,
    .turn_pass = turn_pass,
};
