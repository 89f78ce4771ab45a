/* order.h: what surely comes before what, in the checked runs of kernels of tiles.
 *
 * Their threads meet in many ways (barriers that count, named ones, turns), and some of the work is
 * the hardware's own. So each thread has a clock, and knows of every other thread up to which of
 * its moments all is done: a list of clocks, which a meeting joins. Work of the hardware has slots
 * of its own in these lists: of each barrier that counts, of each thread that makes bulk copies, of
 * each warpgroup. An access that the list of who comes later does not hold is a race.
 *
 * Lists are shared and never changed once somebody else has them. */
#ifndef GS_EMU_ORDER_H
#define GS_EMU_ORDER_H

#include "device/emu/internal.h"

typedef struct clocks {
  struct clocks *next; /* of those that are free */
  int refs;
  uint32_t at[];
} clocks;

enum { FENCES = 8, LANDINGS = 16 };

/* What a thread knows. */
typedef struct lore {
  clocks *knows, *fenced; /* fenced: as it was at its last fence of the async proxy */
  uint32_t now, fences[FENCES], landed_at[LANDINGS];
  unsigned nfences;
  int bulk; /* its number among the block's threads with bulk copies; -1 */
  bool bulk_open;
  uint32_t bulk_closed, bulk_read, bulk_done;
  counting_bar *copies_to;
  int item; /* that it works on; -1: none */
} lore;

/* One read that no later write may miss. */
typedef struct read_note {
  uint32_t slot, clock, passes, unit, next;
  uint16_t tid, line;
} read_note;

typedef struct turn_note {
  const int *turn;
  clocks *passed;
} turn_note;

typedef struct order {
  int slots, nlores;
  lore *lores;
  clocks *free;
  read_note *notes;
  uint32_t nnotes, cap_notes, free_note;
  clocks *memo_a, *memo_b, *memo; /* the join asked for last: a warp asks 32 times */
  uint32_t passes, *heard;        /* turns passed by this cluster; of each unit, as heard of */
  uint32_t nheard;
  bool turned; /* the launch has turns: additions may not race */
  uint32_t launch;
  turn_note *turns;
  int nturns, cap_turns;
} order;

enum { KIND_ASYNC = 1, KIND_ATOMIC = 2 }; /* in who.span of a writer */

/* In who.block: who else may run at the same time and is no part of the clocks: a cluster by its
 * number or, where blocks take items from a list, an item, behind all clusters. In shared memory,
 * no other. */
#define UNIT_HERE UINT32_MAX
uint32_t order_unit(const fiber *f);

bool order_begin(worker *w); /* a cluster begins; false: no memory */
void order_free(worker *w);
/* The threads from `first` on meet: each then knows what any knew, and what all did. */
void order_meet(worker *w, int first, int count);
/* What f knew and did, into what others will get; then its next moment begins. */
void order_release(fiber *f, clocks **into);
void order_acquire(fiber *f, clocks *from);
void order_set(fiber *f, int slot, uint32_t clock); /* it waited for work of the hardware */
void order_fence(fiber *f);
clocks *order_own(worker *w, clocks *v); /* the list, or a copy where others have it too */
void order_drop(worker *w, clocks *v);

int order_slot_of_bar(const worker *w, const block *b, int number);
int order_slot_of_group(const worker *w, const fiber *f);
int order_slot_of_bulk(const worker *w, const fiber *f, bool writes);

/* Whether f knows of what the record tells. */
bool order_knows(const fiber *f, const who *a);
/* Whether what wrote it fenced that for the async proxy, or f did. */
bool order_is_fenced(const fiber *f, const who *a);
/* The first note of the cell's reads that f does not know of; NULL. Forgets those that it does. */
const read_note *order_unknown_read(fiber *f, cell *c, uint32_t stamp);
void order_note_read(fiber *f, cell *c, who now);
void order_forget_reads(fiber *f, cell *c, uint32_t stamp);
typedef struct target { /* for messages */
  const char *name;
  long long index;
} target;

/* clash.c. async: the hardware reads, so what threads wrote must be fenced. */
void emu_read_by_clock(fiber *f, cell *c, who now, target x, bool async);
void emu_write_by_clock(fiber *f, cell *c, who now, target x);

/* Turns, whose word has the cell c. */
void order_heard_turn(fiber *f, const int *turn, const cell *c, uint32_t stamp);
void order_pass_turn(fiber *f, const int *turn);

#endif
