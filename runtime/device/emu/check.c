/* check.c: the checked mode: every access of a kernel comes here with its line.
 *
 * Found: accesses out of range or misaligned, reads of what nobody wrote, second writes of an
 * output, races between threads of a block (two accesses, one a write, with no barrier between),
 * races between blocks, barriers that not all reach, and whatever a barrier-free kernel must not
 * do. Blocks run one after another here, so that reports do not depend on chance. The first report
 * is kept; an access out of range goes to scratch memory, so that nothing crashes. */
#include "device/emu/order.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ONE_THREAD, ONE_WARP, MANY_WARPS };

/* ---- reports ---- */

static void quote(char *out, size_t cap, const char *text, int line) {
  for (int i = 1; i < line && text != NULL; i++) {
    text = strchr(text, '\n');
    if (text != NULL) text++;
  }
  if (text == NULL || line < 1) text = "";
  text += strspn(text, " \t");
  snprintf(out, cap, "%.*s", (int)strcspn(text, "\r\n"), text);
}

void emu_report(fiber *f, int line, const char *fmt, ...) {
  worker *w = f->w;
  emu *e = w->e;
  const gs_func *k = w->job->f;
  char what[1024], source[512], origin[160];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(what, sizeof what, fmt, ap);
  va_end(ap);
  quote(source, sizeof source, k->text, line);
  emu_origin(k->text, line, origin, sizeof origin);
  pthread_mutex_lock(&e->mutex);
  if (!e->reported) {
    e->reported = true;
    gs_fail(&e->report, GS_ERR_CHECK, "kernel %s, line %d%s, block %lld, thread %d: %s\n  %d | %s",
            k->entry, line, origin, f->t.bid, f->t.tid, what, line, source);
  }
  pthread_mutex_unlock(&e->mutex);
  atomic_store(&w->job->failed, true);
}

/* ---- who touched what ---- */

static who me(const fiber *f, uint32_t stamp, bool shared, int line) {
  if (f->w->ordered)
    return (who){.stamp = stamp,
                 .block = shared ? UNIT_HERE : order_unit(f),
                 .cluster = f->w->order->passes,
                 .sync = f->lore->now,
                 .warp = (uint32_t)f->index,
                 .tid = (uint16_t)f->t.tid,
                 .line = (uint16_t)line};
  return (who){.stamp = stamp,
               .block = (uint32_t)f->t.bid,
               .cluster = f->w->gen,
               .sync = f->block->gen,
               .warp = f->warp->gen,
               .tid = (uint16_t)f->t.tid,
               .line = (uint16_t)line};
}

static bool same_cluster(const who *a, const who *b, int cluster) {
  return a->block / (uint32_t)cluster == b->block / (uint32_t)cluster;
}

/* Whether what `a` did surely comes before what `b` does now. */
static bool before(const who *a, const who *b, int cluster) {
  if (a->block != b->block) return same_cluster(a, b, cluster) && a->cluster != b->cluster;
  if (a->tid == b->tid || a->sync != b->sync) return true;
  return (a->tid >> 5) == (b->tid >> 5) && a->warp != b->warp;
}

/* Whether a read that the record tells of may run at the same time as a write by `b`. */
static bool readers_clash(const who *r, const who *b, int cluster) {
  if (r->other_blocks || !same_cluster(r, b, cluster)) return true;
  if (r->cluster != b->cluster) return false;
  if (r->peers || r->block != b->block) return true;
  if (r->sync != b->sync) return false;
  if (r->span == ONE_THREAD) return !before(r, b, cluster);
  if (r->span == ONE_WARP && (r->tid >> 5) == (b->tid >> 5)) return r->warp == b->warp;
  return true;
}

static void note_read(who *r, who now, int cluster) {
  if (r->stamp != now.stamp) {
    *r = now;
    return;
  }
  bool others = r->other_blocks || !same_cluster(r, &now, cluster);
  bool peers = r->cluster == now.cluster && (r->peers || r->block != now.block);
  bool same_warp = (r->tid >> 5) == (now.tid >> 5);
  if (r->block != now.block || r->sync != now.sync ||
      (same_warp && r->span != MANY_WARPS && r->warp != now.warp)) {
    *r = now;
  } else if (!same_warp || r->span == MANY_WARPS) {
    r->span = MANY_WARPS;
  } else if (r->tid != now.tid) {
    r->span = ONE_WARP;
  }
  r->other_blocks = others;
  r->peers = peers;
}

static void race(fiber *f, int line, target x, const char *now, const who *then, const char *did) {
  uint32_t cluster = (uint32_t)f->w->job->f->code->cluster;
  bool peers = then->block / cluster == (uint32_t)f->t.bid / cluster;
  if (then->block != (uint32_t)f->t.bid)
    emu_report(f, line,
               "race between blocks: %s[%lld] is %s, and was %s by block %u (thread %u, line "
               "%u) %s",
               x.name, x.index, now, did, then->block, then->tid, then->line,
               peers ? "with no cluster barrier between" : "in the same launch");
  else
    emu_report(f, line,
               "data race: %s[%lld] is %s, and was %s by thread %u (line %u) with no barrier "
               "between",
               x.name, x.index, now, did, then->tid, then->line);
}

static void check_read(fiber *f, cell *c, who now, target x) {
  if (f->w->ordered) {
    emu_read_by_clock(f, c, now, x, false);
    return;
  }
  const who *w = &c->writer;
  int cluster = f->w->job->f->code->cluster;
  if (w->stamp == now.stamp && !before(w, &now, cluster))
    race(f, now.line, x, "read", w, "written");
  note_read(&c->reader, now, cluster);
}

static void check_write(fiber *f, cell *c, who now, target x) {
  if (f->w->ordered) {
    emu_write_by_clock(f, c, now, x);
    return;
  }
  const who *w = &c->writer, *r = &c->reader;
  int cluster = f->w->job->f->code->cluster;
  if (w->stamp == now.stamp && !before(w, &now, cluster))
    race(f, now.line, x, "written", w, "written");
  else if (r->stamp == now.stamp && readers_clash(r, &now, cluster))
    race(f, now.line, x, "written", r, "read");
  c->writer = now;
}

/* ---- global memory ---- */

static bool in_range(fiber *f, const view *v, const char *name, long long index, int size,
                     int count, int line) {
  long long extent = (long long)(v->bytes / (size_t)size);
  if (index < 0 || index > extent - count) {
    if (count == 1)
      emu_report(f, line, "out of bounds: %s[%lld], its extent is %lld", name, index, extent);
    else
      emu_report(f, line, "out of bounds: %s[%lld..%lld], its extent is %lld", name, index,
                 index + count - 1, extent);
    return false;
  }
  size_t address = (size_t)v->ptr + (size_t)index * (size_t)size;
  if (address % ((size_t)size * (size_t)count) != 0) {
    emu_report(f, line, "misaligned: %s[%lld], %d elements of %d bytes at once", name, index, count,
               size);
    return false;
  }
  return true;
}

static void check_element(fiber *f, const view *v, const param *p, long long index, int size,
                          int access, int line) {
  size_t at = (size_t)index * (size_t)size;
  worker *w = f->w;
  target x = {p->name, index};
  cell *c = v->cells ? &v->cells[at] : NULL;
  if (access == GS_EMU_READ) {
    if (memchr(v->init + at, 0, (size_t)size) != NULL)
      emu_report(f, line, "uninitialised: %s[%lld] is read but nothing wrote it", p->name, index);
    if (c != NULL && p->kind == P_IN && c->writer.stamp == w->job->stamp)
      emu_report(f, line,
                 "%s[%lld] is read as GS_IN but line %u writes it in the same launch: the GPU "
                 "may read an old value",
                 p->name, index, c->writer.line);
    if (c != NULL) check_read(f, c, me(f, w->job->stamp, false, line), x);
    return;
  }
  memset(v->init + at, 1, (size_t)size);
  if (c == NULL) return;
  if (p->kind == P_OUT && c->writer.stamp == w->job->stamp)
    emu_report(f, line,
               "double write: %s[%lld] was written by block %u, thread %u (line %u) in the "
               "same launch",
               p->name, index, c->writer.block, c->writer.tid, c->writer.line);
  check_write(f, c, me(f, w->job->stamp, false, line), x);
}

static void *global_access(gs_emu_thread *t, int arg, long long index, int size, int count,
                           int access, int line) {
  fiber *f = (fiber *)t;
  worker *w = f->w;
  const view *v = &w->job->views[arg];
  const param *p = &w->job->f->params[arg];
  if (!in_range(f, v, p->name, index, size, count, line)) {
    memset(w->scratch, 0, sizeof w->scratch);
    return w->scratch;
  }
  for (int i = 0; i < count; i++) check_element(f, v, p, index + i, size, access, line);
  return v->ptr + index * size;
}

/* A view of each pointer. Records of who touched what are kept only where somebody may write. */
static bool overlaps_written(const gs_func *f, const gs_value *args, int which) {
  for (int i = 0; i < f->nparams; i++) {
    bool map = f->params[i].kind == P_MAP && args[i].is_written;
    if (f->params[i].kind != P_OUT && f->params[i].kind != P_INOUT && !map) continue;
    if (args[i].ptr < args[which].ptr + args[which].bytes &&
        args[which].ptr < args[i].ptr + args[i].bytes)
      return true;
  }
  return false;
}

gs_status emu_views(emu *e, const gs_func *f, const gs_value *args, view *views, gs_error *err) {
  for (int i = 0; i < f->nparams; i++) {
    views[i] = (view){0};
    bool pointer = args[i].kind == GS_VALUE_PTR || args[i].kind == GS_VALUE_MAP;
    if (!pointer || args[i].bytes == 0) continue;
    allocation *a = emu_find(e, args[i].ptr, args[i].bytes);
    if (a == NULL) {
      emu_need(e, args[i].ptr, args[i].bytes, f->params[i].name, err);
      return gs_fail_in(err, "kernel %s", f->entry);
    }
    size_t at = (size_t)(args[i].ptr - a->ptr);
    views[i].ptr = (char *)(uintptr_t)args[i].ptr;
    views[i].bytes = args[i].bytes;
    views[i].init = a->init + at;
    if (overlaps_written(f, args, i)) views[i].cells = a->cells + at;
  }
  return GS_OK;
}

/* ---- shared memory ---- */

void emu_check_begin(worker *w) {
  for (int i = 0; i < w->job->cluster; i++) w->blocks[i].narrays = 0;
  /* One stamp: in shared memory too, blocks of a cluster meet. */
  uint32_t stamp = ++w->e->blocks_run;
  for (int i = 0; i < w->job->cluster; i++) w->blocks[i].stamp = stamp;
  w->begun = w->gen;
  w->remote_by = NULL;
}

void emu_check_end(worker *w) {
  if (w->remote_by != NULL && w->remote_gen == w->gen)
    emu_report(w->remote_by, w->remote_line,
               "the shared memory of another block is used with no cluster barrier after it: that "
               "block may have ended");
}

static int declare(gs_emu_thread *t, const char *name, int size, long long count, int line) {
  fiber *f = (fiber *)t;
  worker *w = f->w;
  block *b = f->block;
  int i = t->nshared++;
  if (w->job->f->code->barrier_free)
    emu_report(f, line, "shared memory (%s) in a kernel declared barrier-free", name);
  if (i >= MAX_SHARED) {
    emu_report(f, line, "more than %d shared arrays", MAX_SHARED);
    return MAX_SHARED - 1;
  }
  shared_array a = {name, size, line, count, t->shared_used - (unsigned)(size * count)};
  if (t->shared_used > t->shared_limit) a.count = 0; /* reported by emu_shared_full */
  if (i == b->narrays)
    b->arrays[b->narrays++] = a;
  else if (b->arrays[i].line != line)
    emu_report(f, line,
               "threads of a block declare different shared arrays: %s here, %s at line %d", name,
               b->arrays[i].name, b->arrays[i].line);
  return i;
}

/* A copy ahead lands at the last moment: when its thread waits for its group. */
static void check_landed(fiber *f, const block *b, size_t at, target x, int line) {
  const copy_mark *m = &b->copies[at];
  if (m->stamp != b->stamp) return;
  if (m->group > m->by->landed)
    emu_report(f, line,
               "shared %s[%lld] is read before the copy to it has landed: no GS_COPY_WAIT of "
               "thread %d waits for its group",
               x.name, x.index, m->by->t.tid);
  else if (f->w->ordered && m->by != f && m->group + LANDINGS > m->by->landed &&
           f->lore->knows->at[m->by->index] < m->by->lore->landed_at[m->group % LANDINGS])
    emu_report(f, line,
               "data race: shared %s[%lld] is read, and thread %d copied it there, with no barrier "
               "since its GS_COPY_WAIT",
               x.name, x.index, m->by->t.tid);
}

/* The groups of a thread are counted anew in every block. */
static void begin_copies(fiber *f) {
  if (f->copies_of == f->block->stamp) return;
  f->copies_of = f->block->stamp;
  f->closed = f->landed = 0;
}

static void copying(gs_emu_thread *t, int array, long long index, int size) {
  fiber *f = (fiber *)t;
  const shared_array *a = &f->block->arrays[array];
  begin_copies(f);
  if (index < 0 || index >= a->count) return; /* reported by the write */
  f->block->copies[a->offset + (size_t)index * (size_t)size] =
      (copy_mark){.stamp = f->block->stamp, .group = f->closed + 1, .by = f};
}

static void copy_close(gs_emu_thread *t) {
  begin_copies((fiber *)t);
  ((fiber *)t)->closed++;
}

static void copy_wait(gs_emu_thread *t, int but) {
  fiber *f = (fiber *)t;
  begin_copies(f);
  uint32_t landed = f->closed > (uint32_t)but ? f->closed - (uint32_t)but : 0;
  for (uint32_t g = f->landed + 1; f->w->ordered && g <= landed; g++)
    f->lore->landed_at[g % LANDINGS] = f->lore->now;
  if (landed > f->landed) f->landed = landed;
}

/* Of block b, which has the same arrays as the thread's own. */
static void *access_shared(fiber *f, block *b, int array, long long index, int size, int access,
                           int line) {
  worker *w = f->w;
  const shared_array *a = &f->block->arrays[array];
  if (index < 0 || index >= a->count) {
    emu_report(f, line, "out of bounds: shared %s[%lld], its extent is %lld", a->name, index,
               a->count);
    memset(w->scratch, 0, sizeof w->scratch);
    return w->scratch;
  }
  size_t at = a->offset + (size_t)index * (size_t)size;
  cell *c = &b->shared_cells[at];
  target x = {a->name, index};
  who now = me(f, b->stamp, true, line);
  if (access == GS_EMU_READ && c->writer.stamp != b->stamp)
    emu_report(f, line, "uninitialised: shared %s[%lld] is read but no thread of %s wrote it",
               a->name, index, w->cluster > 1 ? "the cluster" : "this block");
  if (access == GS_EMU_READ) {
    check_landed(f, b, at, x, line);
    check_read(f, c, now, x);
  } else {
    b->copies[at].stamp = 0;
    check_write(f, c, now, x);
  }
  return b->shared + at;
}

static void *shared_access(gs_emu_thread *t, int array, long long index, int size, int access,
                           int line) {
  fiber *f = (fiber *)t;
  return access_shared(f, f->block, array, index, size, access, line);
}

/* In the shared memory of a block of the cluster: it must have begun, and not have ended. */
static void *remote_access(gs_emu_thread *t, int array, int rank, long long index, int size,
                           int access, int line) {
  fiber *f = (fiber *)t;
  worker *w = f->w;
  if (rank < 0 || rank >= w->cluster) {
    emu_report(f, line, "out of bounds: block %d of a cluster of %d", rank, w->cluster);
    memset(w->scratch, 0, sizeof w->scratch);
    return w->scratch;
  }
  if (w->gen == w->begun && rank != t->rank)
    emu_report(f, line,
               "the shared memory of another block is used before any cluster barrier: that block "
               "may not have begun");
  w->remote_gen = w->gen;
  w->remote_by = f;
  w->remote_line = line;
  return access_shared(f, &w->blocks[rank], array, index, size, access, line);
}

/* ---- spans: what the functions of tiles touch ---- */

/* Of whom an access is: the thread's, or of the hardware, which has a slot of its own. */
static who whose(fiber *f, uint32_t stamp, bool shared, int how, int line) {
  who now = me(f, stamp, shared, line);
  lore *l = f->lore;
  bool writes = how & GS_EMU_WRITE;
  if (how & GS_EMU_ATOMIC || (how & GS_EMU_ADD && !f->w->order->turned)) now.span |= KIND_ATOMIC;
  if (how & (GS_EMU_BY_BAR | GS_EMU_BY_BULK | GS_EMU_BY_WG)) now.span |= KIND_ASYNC;
  if (how & GS_EMU_BY_BAR) {
    now.warp = (uint32_t)l->copies_to->slot;
    now.sync = l->copies_to->phase + 1;
  } else if (how & GS_EMU_BY_BULK) {
    if (l->bulk < 0) l->bulk = f->block->nbulks++ % MAX_BULKS;
    l->bulk_open = true;
    now.warp = (uint32_t)order_slot_of_bulk(f->w, f, writes);
    now.sync = l->bulk_closed + 1;
  } else if (how & GS_EMU_BY_WG) {
    now.warp = (uint32_t)order_slot_of_group(f->w, f);
    now.sync = f->w->groups[f->t.rank * MAX_GROUPS + f->t.tid / 128].closed + 1;
  }
  return now;
}

/* A warpgroup's product reads for all its warps: each must know who wrote. */
static void read_for_warps(fiber *f, cell *c, who now, target x) {
  int first = f->index - f->t.tid % 128;
  for (int i = 96; i >= 0; i -= 32) {
    fiber *g = &f->w->fibers[first + i];
    if (i == 0 || g->lore->knows != g[-32].lore->knows) emu_read_by_clock(g, c, now, x, true);
  }
}

static void span_element(fiber *f, cell *c, unsigned char *init, who now, target x, int how) {
  if (how & GS_EMU_READ && init != NULL && !*init)
    emu_report(f, now.line, "uninitialised: %s[%lld] is read but nothing wrote it", x.name,
               x.index);
  if (c == NULL) return;
  if (how & GS_EMU_READ && init == NULL && c->writer.stamp != now.stamp)
    emu_report(f, now.line, "uninitialised: shared %s[%lld] is read but nobody wrote it", x.name,
               x.index);
  bool async = now.span & KIND_ASYNC;
  if (how & GS_EMU_WRITE) /* in place, too */
    emu_write_by_clock(f, c, now, x);
  else if (how & GS_EMU_BY_WG)
    read_for_warps(f, c, now, x);
  else
    emu_read_by_clock(f, c, now, x, async && init == NULL);
}

static void *shared_span(fiber *f, int array, long long index, int size, int count, int how,
                         int line) {
  worker *w = f->w;
  block *b = f->block;
  const shared_array *a = &b->arrays[array];
  if (index < 0 || index + count > a->count) {
    emu_report(f, line, "out of bounds: shared %s[%lld..%lld], its extent is %lld", a->name, index,
               index + count - 1, a->count);
    memset(w->scratch, 0, sizeof w->scratch);
    return w->scratch;
  }
  size_t at = a->offset + (size_t)index * (size_t)size;
  if (at % ((size_t)size * (size_t)count) != 0)
    emu_report(f, line, "misaligned: shared %s[%lld], %d elements of %d bytes at once", a->name,
               index, count, size);
  who now = whose(f, b->stamp, true, how, line);
  for (int i = 0; how && i < count; i++) {
    target x = {a->name, index + i};
    size_t e = at + (size_t)i * (size_t)size;
    if (how & GS_EMU_READ) check_landed(f, b, e, x, line);
    span_element(f, &b->shared_cells[e], NULL, now, x, how);
    if (how & GS_EMU_WRITE) b->copies[e].stamp = 0;
    if (how & GS_EMU_COPY) copying(&f->t, array, index + i, size);
  }
  return b->shared + at;
}

static void *global_span(fiber *f, int arg, long long index, int size, int count, int how,
                         int line) {
  worker *w = f->w;
  const view *v = &w->job->views[arg];
  const param *p = &w->job->f->params[arg];
  if (!in_range(f, v, p->name, index, size, count, line)) {
    memset(w->scratch, 0, sizeof w->scratch);
    return w->scratch;
  }
  who now = whose(f, w->job->stamp, false, how, line);
  size_t at = (size_t)index * (size_t)size;
  for (int i = 0; i < count; i++, at += (size_t)size) {
    span_element(f, v->cells ? &v->cells[at] : NULL, v->init + at, now,
                 (target){p->name, index + i}, how);
    if (how & GS_EMU_WRITE) memset(v->init + at, 1, (size_t)size);
  }
  return v->ptr + index * size;
}

void *emu_span(gs_emu_thread *t, int number, int is_shared, long long index, int size, int count,
               int how, int line) {
  fiber *f = (fiber *)t;
  return is_shared ? shared_span(f, number, index, size, count, how, line)
                   : global_span(f, number, index, size, count, how, line);
}

/* ---- meetings ---- */

/* The last one in: all of them know now what any did. */
static void meet(fiber *f, int arrived, int first, int count) {
  if (f->w->ordered && arrived + 1 == count) order_meet(f->w, first, count);
}
static void meet_warp(fiber *f) {
  meet(f, f->warp->arrived, f->index & ~31, 32);
}
static void meet_block(fiber *f) {
  meet(f, f->block->arrived, f->t.rank * f->w->threads, f->w->threads);
}

/* True when the kernel may not meet at all. */
static bool refuse(gs_emu_thread *t, const char *what, int line) {
  fiber *f = (fiber *)t;
  if (!f->w->job->f->code->barrier_free) return false;
  emu_report(f, line, "%s in a kernel declared barrier-free", what);
  return true;
}

/* All of a block come to the same place: the first to arrive says which. */
static void same_place(fiber *f, int arrived, int *place, int line, const char *what) {
  if (arrived == 0)
    *place = line;
  else if (*place != line)
    emu_report(f, line, "divergent %s: this thread is here while others are at line %d", what,
               *place);
}

static void checked_sync(gs_emu_thread *t, int line) {
  fiber *f = (fiber *)t;
  if (refuse(t, "a barrier", line)) return;
  same_place(f, f->block->arrived, &f->block->line, line, "barrier");
  meet_block(f);
  emu_sync(t, line);
}
static void checked_cluster_sync(gs_emu_thread *t, int line) {
  fiber *f = (fiber *)t;
  if (refuse(t, "a cluster barrier", line)) return;
  if (!f->w->ordered) /* warps of different roles meet in different places */
    same_place(f, f->w->arrived, &f->w->line, line, "cluster barrier");
  meet(f, f->w->arrived, 0, f->w->threads * f->w->cluster);
  emu_cluster_sync(t, line);
}
static void checked_syncwarp(gs_emu_thread *t, int line) {
  fiber *f = (fiber *)t;
  if (refuse(t, "a warp barrier", line)) return;
  same_place(f, f->warp->arrived, &f->warp->line, line, "warp barrier");
  meet_warp(f);
  emu_syncwarp(t, line);
}
static float checked_group(gs_emu_thread *t, float v, int op, int lanes, int line) {
  fiber *f = (fiber *)t;
  if (refuse(t, "a collective", line)) return v;
  same_place(f, f->warp->arrived, &f->warp->line, line, "collective");
  meet_warp(f);
  return emu_group(t, v, op, lanes, line);
}
static float checked_block(gs_emu_thread *t, float v, int op, int line) {
  fiber *f = (fiber *)t;
  if (refuse(t, "a collective", line)) return v;
  same_place(f, f->block->arrived, &f->block->line, line, "collective");
  meet_block(f);
  return emu_block(t, v, op, line);
}
static unsigned checked_exchange(gs_emu_thread *t, unsigned v, int distance, int line) {
  fiber *f = (fiber *)t;
  if (refuse(t, "a collective", line)) return v;
  same_place(f, f->warp->arrived, &f->warp->line, line, "collective");
  meet_warp(f);
  return emu_exchange(t, v, distance, line);
}
static void checked_shared_full(gs_emu_thread *t, const char *name, int line) {
  if (!refuse(t, "shared memory", line)) emu_shared_full(t, name, line);
}

const gs_emu_runtime emu_checked_runtime = {
    .sync = checked_sync,
    .syncwarp = checked_syncwarp,
    .group = checked_group,
    .block = checked_block,
    .exchange = checked_exchange,
    .shared_full = checked_shared_full,
    .global = global_access,
    .local = shared_access,
    .declare = declare,
    .cluster_sync = checked_cluster_sync,
    .remote = remote_access,
    .copying = copying,
    .copy_close = copy_close,
    .copy_wait = copy_wait,
    .tiles = &emu_tiles,
};

/* ---- barrier-free kernels ---- */

void emu_run_free_checked(worker *w) {
  job *j = w->job;
  int n = j->f->code->threads;
  static const uint32_t never = 0;
  block *b = &w->blocks[0];
  fiber f = {.gen = &never, .w = w, .block = b, .what = 'r'};
  w->cluster = 1;
  w->ordered = false;
  b->shared = w->shared;
  b->shared_cells = w->shared_cells;
  f.t.rt = &emu_checked_runtime;
  f.t.nblocks = j->grid;
  f.t.shared = w->shared;
  f.t.shared_limit = (unsigned)w->e->base.caps->shared_per_block;
  while (emu_take(w, &f.t.bid)) {
    emu_check_begin(w);
    b->bid = f.t.bid;
    for (int i = 0; i < n; i++) {
      f.t.tid = j->reverse ? n - 1 - i : i;
      f.lane = f.t.tid & 31;
      f.warp = &w->warps[f.t.tid >> 5];
      f.t.shared_used = 0;
      f.t.nshared = 0;
      j->f->code->one(&f.t, j->args);
    }
  }
}
