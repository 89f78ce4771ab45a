/* order.c: clocks of threads and of the hardware's own work (order.h). */
#include "device/emu/order.h"

#include <stdlib.h>
#include <string.h>

enum { OWN_SLOTS = MAX_BARS + MAX_GROUPS + 2 * MAX_BULKS }; /* of a block, behind its threads' */

static lore *lore_of(const fiber *f) {
  return f->lore;
}

/* ---- lists ---- */

static clocks *new_clocks(order *o) {
  clocks *v = o->free;
  if (v != NULL)
    o->free = v->next;
  else
    v = malloc(sizeof *v + sizeof(uint32_t) * (size_t)o->slots);
  if (v == NULL) abort();
  v->refs = 1;
  return v;
}

static clocks *zero_clocks(order *o) {
  clocks *v = new_clocks(o);
  memset(v->at, 0, sizeof(uint32_t) * (size_t)o->slots);
  return v;
}

static clocks *keep(clocks *v) {
  v->refs++;
  return v;
}

void order_drop(worker *w, clocks *v) {
  if (v == NULL || --v->refs > 0) return;
  v->next = w->order->free;
  w->order->free = v;
}

clocks *order_own(worker *w, clocks *v) {
  if (v == NULL) return zero_clocks(w->order);
  if (v->refs == 1) return v;
  clocks *copy = new_clocks(w->order);
  memcpy(copy->at, v->at, sizeof(uint32_t) * (size_t)w->order->slots);
  v->refs--;
  return copy;
}

static void join(clocks *to, const clocks *from, int slots) {
  for (int i = 0; i < slots; i++) to->at[i] = to->at[i] > from->at[i] ? to->at[i] : from->at[i];
}

static bool has_all(const clocks *v, const clocks *of, int slots) {
  bool all = true;
  for (int i = 0; i < slots; i++) all &= v->at[i] >= of->at[i];
  return all;
}

static void learn(fiber *f, clocks *v) { /* takes the reference */
  order_drop(f->w, lore_of(f)->knows);
  lore_of(f)->knows = v;
}

/* ---- meetings ---- */

void order_meet(worker *w, int first, int count) {
  order *o = w->order;
  clocks *all = zero_clocks(o), *last = NULL;
  for (int i = first; i < first + count; i++) {
    clocks *k = o->lores[i].knows;
    if (k != last) join(all, k, o->slots);
    last = k;
  }
  for (int i = first; i < first + count; i++) all->at[i] = o->lores[i].now++;
  for (int i = first; i < first + count; i++) learn(&w->fibers[i], keep(all));
  order_drop(w, all);
}

void order_release(fiber *f, clocks **into) {
  *into = order_own(f->w, *into);
  join(*into, lore_of(f)->knows, f->w->order->slots);
  (*into)->at[f->index] = lore_of(f)->now++;
}

void order_acquire(fiber *f, clocks *from) {
  order *o = f->w->order;
  clocks *a = lore_of(f)->knows;
  if (from == NULL || a == from || has_all(a, from, o->slots)) return;
  if (o->memo == NULL || o->memo_a != a || o->memo_b != from) {
    order_drop(f->w, o->memo);
    order_drop(f->w, o->memo_a);
    order_drop(f->w, o->memo_b);
    o->memo_a = keep(a);
    o->memo_b = keep(from);
    o->memo = new_clocks(o);
    memcpy(o->memo->at, a->at, sizeof(uint32_t) * (size_t)o->slots);
    join(o->memo, from, o->slots);
  }
  learn(f, keep(o->memo));
}

void order_set(fiber *f, int slot, uint32_t clock) {
  lore *l = lore_of(f);
  if (l->knows->at[slot] >= clock) return;
  l->knows = order_own(f->w, l->knows);
  l->knows->at[slot] = clock;
}

void order_fence(fiber *f) {
  lore *l = lore_of(f);
  l->fences[l->nfences++ % FENCES] = l->now++;
  order_drop(f->w, l->fenced);
  l->fenced = keep(l->knows);
}

/* ---- slots ---- */

static int own_slots(const worker *w, int rank) {
  return w->threads * w->cluster + rank * OWN_SLOTS;
}
int order_slot_of_bar(const worker *w, const block *b, int number) {
  return own_slots(w, (int)(b - w->blocks)) + number;
}
int order_slot_of_group(const worker *w, const fiber *f) {
  return own_slots(w, f->t.rank) + MAX_BARS + f->t.tid / 128;
}
int order_slot_of_bulk(const worker *w, const fiber *f, bool writes) {
  return own_slots(w, f->t.rank) + MAX_BARS + MAX_GROUPS + 2 * f->lore->bulk + writes;
}

/* ---- knowing ---- */

uint32_t order_unit(const fiber *f) {
  const worker *w = f->w;
  if (lore_of(f)->item >= 0) return (uint32_t)w->job->count + (uint32_t)lore_of(f)->item;
  return (uint32_t)f->t.bid / (uint32_t)w->cluster;
}

static bool knows_of(const fiber *f, uint32_t unit, uint32_t passes, uint32_t slot,
                     uint32_t clock) {
  const order *o = f->w->order;
  if (unit != UNIT_HERE && unit != order_unit(f))
    return unit < o->nheard && o->heard[unit] > passes;
  return slot == (uint32_t)f->index || lore_of(f)->knows->at[slot] >= clock;
}

bool order_knows(const fiber *f, const who *a) {
  return knows_of(f, a->block, a->cluster, a->warp, a->sync);
}

/* The fence that came first after the write must be known too. Of fences too long ago nothing is
 * known any more: they count. */
static bool writer_fenced(const fiber *f, const who *a) {
  const lore *l = &f->w->order->lores[a->warp];
  uint32_t first = UINT32_MAX;
  for (unsigned i = 0; i < FENCES && i < l->nfences; i++)
    if (l->fences[i] >= a->sync && l->fences[i] < first) first = l->fences[i];
  if (first == UINT32_MAX) return false;
  if (l->nfences > FENCES && a->sync < l->fences[l->nfences % FENCES]) return true;
  return a->warp == (uint32_t)f->index || lore_of(f)->knows->at[a->warp] >= first;
}

bool order_is_fenced(const fiber *f, const who *a) {
  if (a->warp >= (uint32_t)f->w->order->nlores) return true;
  const clocks *v = lore_of(f)->fenced;
  if (v != NULL && a->warp != (uint32_t)f->index && v->at[a->warp] >= a->sync) return true;
  return writer_fenced(f, a);
}

/* ---- reads ---- */

static read_note *note_at(order *o, uint32_t i) {
  return &o->notes[i - 1];
}

static uint32_t new_note(order *o) {
  uint32_t i = o->free_note;
  if (i != 0) {
    o->free_note = note_at(o, i)->next;
    return i;
  }
  if (o->nnotes == o->cap_notes) {
    uint32_t cap = o->cap_notes ? 2 * o->cap_notes : 4096;
    read_note *grown = realloc(o->notes, cap * sizeof *grown);
    if (grown == NULL) abort();
    o->notes = grown;
    o->cap_notes = cap;
  }
  return ++o->nnotes;
}

static void free_note(order *o, uint32_t *link) {
  read_note *n = note_at(o, *link);
  uint32_t i = *link;
  *link = n->next;
  n->next = o->free_note;
  o->free_note = i;
}

const read_note *order_unknown_read(fiber *f, cell *c, uint32_t stamp) {
  order *o = f->w->order;
  if (c->reader.stamp != stamp) return NULL;
  for (uint32_t *link = &c->reader.sync; *link;) {
    const read_note *n = note_at(o, *link);
    if (!knows_of(f, n->unit, n->passes, n->slot, n->clock)) return n;
    free_note(o, link);
  }
  return NULL;
}

/* Reads that the new one comes after need no note: who knows of it knows of them. */
void order_note_read(fiber *f, cell *c, who now) {
  order *o = f->w->order;
  bool own = now.warp == (uint32_t)f->index;
  if (c->reader.stamp != now.stamp) c->reader = (who){.stamp = now.stamp};
  read_note *same = NULL;
  for (uint32_t *link = &c->reader.sync; *link;) {
    read_note *n = note_at(o, *link);
    if (n->slot == now.warp && n->unit == now.block)
      same = n;
    else if (own && knows_of(f, n->unit, n->passes, n->slot, n->clock)) {
      free_note(o, link);
      continue;
    }
    if (same != NULL) break;
    link = &n->next;
  }
  uint32_t i = same ? 0 : new_note(o);
  if (same == NULL) {
    same = note_at(o, i);
    same->next = c->reader.sync;
    c->reader.sync = i;
  }
  same->slot = now.warp;
  same->clock = now.sync;
  same->passes = now.cluster;
  same->unit = now.block;
  same->tid = now.tid;
  same->line = now.line;
}

void order_forget_reads(fiber *f, cell *c, uint32_t stamp) {
  if (c->reader.stamp == stamp)
    while (c->reader.sync) free_note(f->w->order, &c->reader.sync);
}

/* ---- turns ---- */

static turn_note *find_turn(order *o, const int *turn) {
  for (int i = 0; i < o->nturns; i++)
    if (o->turns[i].turn == turn) return &o->turns[i];
  return NULL;
}

void order_heard_turn(fiber *f, const int *turn, const cell *c, uint32_t stamp) {
  order *o = f->w->order;
  turn_note *n = find_turn(o, turn);
  if (n != NULL) order_acquire(f, n->passed);
  if (c == NULL || c->writer.stamp != stamp) return;
  uint32_t unit = c->writer.block;
  if (unit >= o->nheard) {
    uint32_t room = 2 * unit + 64;
    o->heard = realloc(o->heard, sizeof *o->heard * room);
    if (o->heard == NULL) abort();
    memset(o->heard + o->nheard, 0, sizeof *o->heard * (room - o->nheard));
    o->nheard = room;
  }
  if (o->heard[unit] < c->writer.cluster) o->heard[unit] = c->writer.cluster;
}

void order_pass_turn(fiber *f, const int *turn) {
  order *o = f->w->order;
  turn_note *n = find_turn(o, turn);
  o->turned = true;
  if (n == NULL) {
    if (o->nturns == o->cap_turns) {
      o->cap_turns = o->cap_turns ? 2 * o->cap_turns : 64;
      o->turns = realloc(o->turns, sizeof *o->turns * (size_t)o->cap_turns);
      if (o->turns == NULL) abort();
    }
    n = &o->turns[o->nturns++];
    *n = (turn_note){.turn = turn};
  }
  order_release(f, &n->passed);
  o->passes++;
}

/* ---- beginning and ending ---- */

static void drop_all(worker *w) {
  order *o = w->order;
  for (int i = 0; i < o->nlores; i++) {
    order_drop(w, o->lores[i].knows);
    order_drop(w, o->lores[i].fenced);
  }
  for (int i = 0; i < o->nturns; i++) order_drop(w, o->turns[i].passed);
  for (int r = 0; r < MAX_CLUSTER; r++) {
    block *b = &w->blocks[r];
    for (int i = 0; i < b->nbars; i++)
      order_drop(w, b->bars[i].joining), order_drop(w, b->bars[i].ended);
    for (int i = 0; i < NAMED_BARS; i++)
      order_drop(w, b->named[i].joining), order_drop(w, b->named[i].ended);
    for (int i = 0; i < NAMED_BARS; i++) b->named[i].joining = b->named[i].ended = NULL;
    b->nbars = 0;
  }
  order_drop(w, o->memo_a);
  order_drop(w, o->memo_b);
  order_drop(w, o->memo);
  o->memo_a = o->memo_b = o->memo = NULL;
  o->nturns = 0;
}

static void free_lists(order *o) {
  for (clocks *v = o->free, *next; v; v = next) {
    next = v->next;
    free(v);
  }
  o->free = NULL;
}

void order_free(worker *w) {
  order *o = w->order;
  if (o == NULL) return;
  drop_all(w);
  free_lists(o);
  free(o->lores);
  free(o->notes);
  free(o->heard);
  free(o->turns);
  free(o);
  w->order = NULL;
}

/* What holds for a launch: how many threads, and what was heard of other clusters. */
static bool begin_launch(worker *w) {
  order *o = w->order;
  int n = w->threads * w->cluster;
  o->launch = w->job->stamp;
  free_lists(o);
  o->slots = n + w->cluster * OWN_SLOTS;
  o->nnotes = o->free_note = 0;
  free(o->lores);
  free(o->heard);
  o->nlores = n;
  o->lores = calloc((size_t)n, sizeof *o->lores);
  o->heard = NULL;
  o->nheard = 0;
  o->turned = false;
  return o->lores != NULL;
}

bool order_begin(worker *w) {
  if (w->order == NULL) w->order = calloc(1, sizeof *w->order);
  if (w->order == NULL) return false;
  drop_all(w);
  if (w->order->launch != w->job->stamp && !begin_launch(w)) return false;
  order *o = w->order;
  o->passes = 0;
  clocks *none = zero_clocks(o);
  for (int i = 0; i < o->nlores; i++) {
    o->lores[i] = (lore){.knows = keep(none), .now = 1, .bulk = -1, .item = -1};
    w->fibers[i].lore = &o->lores[i];
  }
  order_drop(w, none);
  return true;
}
