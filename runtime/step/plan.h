/* plan.h: where everything lies: results in place where that is safe, lifetimes, and offsets in one
 * arena. */
#ifndef GS_PLAN_H
#define GS_PLAN_H

#include "step/record.h"

#define GS_PLAN_ALIGN 256

/* One piece of memory, alive from action `first` to action `last`, both included. */
typedef struct gs_piece {
  int first, last;
  size_t bytes;
  size_t offset; /* the answer: a multiple of GS_PLAN_ALIGN */
} gs_piece;

/* Gives every piece its offset, so that no two that are alive together overlap: the largest first,
 * each at the lowest place that fits. Without reuse no two overlap at all. Returns the bytes in
 * all. */
size_t gs_plan_pieces(gs_piece *pieces, int n, bool reuse);

typedef struct gs_plan {
  int npieces;
  gs_piece *pieces;
  int *piece;   /* of each variable: index of its piece; -1: fixed memory, or never used */
  size_t bytes; /* of the arena */
  int ncopies;  /* copies inserted where an in-place result would destroy what is still wanted */
} gs_plan;

/* Settles in-place results (which may insert copies into r), finds lifetimes and offsets. An action
 * that reads what nothing has written is an error. The plan lives in the arena of r. */
gs_status gs_plan_record(gs_record *r, bool reuse, gs_plan *out, gs_error *err);
/* Writes addresses into the variables, for an arena that begins at `at`. */
void gs_plan_place(const gs_plan *p, gs_record *r, gs_ptr at);

#endif
