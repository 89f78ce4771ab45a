/* feed.h: the order of training data: row after row, epoch after epoch. Each epoch's order of
 * samples follows from the seed and the epoch's number alone, so that a run can go on from any
 * step. */
#ifndef GS_FEED_H
#define GS_FEED_H

#include "data/dataset.h"

typedef struct gs_feed {
  const gs_dataset *data;
  int seq;
  int32_t pad;
  uint64_t seed;
  int documents; /* at most in a row of any epoch: as many as the order of the file has in one */
  int64_t epoch; /* of `packed`, from 0 */
  gs_packed packed;
  int next; /* row of `packed` that comes next */
} gs_feed;

/* The data must outlive the feed, and have at least one sample. */
gs_status gs_feed_open(gs_feed *f, const gs_dataset *d, int seq, int32_t pad, uint64_t seed,
                       gs_error *err);
void gs_feed_close(gs_feed *f);
/* The row of the next step; valid until the next call. */
gs_status gs_feed_next(gs_feed *f, const gs_row **row, gs_error *err);
/* Goes forward by that many rows. */
gs_status gs_feed_skip(gs_feed *f, int64_t rows, gs_error *err);
/* Rows in the first n epochs. */
gs_status gs_feed_count(const gs_feed *f, int64_t epochs, int64_t *rows, gs_error *err);
/* order becomes the permutation of 0..n-1 of that seed and epoch. */
void gs_shuffle(int *order, int n, uint64_t seed, int64_t epoch);

#endif
