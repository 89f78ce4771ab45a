/* feed.c: shuffled, packed, one row at a time. */
#include "step/feed.h"

#include "base/random.h"

#include <stdlib.h>

void gs_shuffle(int *order, int n, uint64_t seed, int64_t epoch) {
  uint64_t key = seed, state = gs_random_next(&key) ^ ((uint64_t)epoch * 0xd1342543de82ef95u);
  for (int i = 0; i < n; i++) order[i] = i;
  for (int i = n - 1; i > 0; i--) { /* Fisher and Yates */
    int k = (int)(gs_random_next(&state) % (uint64_t)(i + 1));
    int t = order[i];
    order[i] = order[k];
    order[k] = t;
  }
}

static gs_status pack_epoch(const gs_feed *f, int64_t epoch, gs_packed *out, gs_error *err) {
  int *order = malloc(((size_t)f->data->n + 1) * sizeof *order);
  if (!order) return gs_fail(err, GS_ERR_MEMORY, "out of memory");
  gs_shuffle(order, f->data->n, f->seed, epoch);
  gs_status s = gs_pack_rows(f->data, order, f->seq, f->documents, f->pad, out, err);
  free(order);
  return s;
}

gs_status gs_feed_open(gs_feed *f, const gs_dataset *d, int seq, int32_t pad, uint64_t seed,
                       gs_error *err) {
  *f = (gs_feed){.data = d, .seq = seq, .pad = pad, .seed = seed};
  gs_status s = gs_pack_rows(d, NULL, seq, 0, pad, &f->packed, err);
  f->documents = f->packed.documents < 2 ? 2 : f->packed.documents;
  gs_packed_free(&f->packed);
  if (!s) s = pack_epoch(f, 0, &f->packed, err);
  if (!s && f->packed.nrows == 0) s = gs_fail(err, GS_ERR_INPUT, "the training data are empty");
  return s;
}

void gs_feed_close(gs_feed *f) {
  gs_packed_free(&f->packed);
}

gs_status gs_feed_next(gs_feed *f, const gs_row **row, gs_error *err) {
  if (f->next == f->packed.nrows) {
    gs_packed_free(&f->packed);
    f->packed = (gs_packed){0};
    f->next = 0;
    gs_status s = pack_epoch(f, ++f->epoch, &f->packed, err);
    if (s) return s;
  }
  *row = &f->packed.row[f->next++];
  return GS_OK;
}

gs_status gs_feed_skip(gs_feed *f, int64_t rows, gs_error *err) {
  const gs_row *row;
  gs_status s = GS_OK;
  for (int64_t i = 0; i < rows && !s; i++) s = gs_feed_next(f, &row, err);
  return s;
}

gs_status gs_feed_count(const gs_feed *f, int64_t epochs, int64_t *rows, gs_error *err) {
  *rows = 0;
  for (int64_t e = 0; e < epochs; e++) {
    gs_packed p = {0};
    gs_status s = pack_epoch(f, e, &p, err);
    if (s) return s;
    *rows += p.nrows;
    gs_packed_free(&p);
  }
  return GS_OK;
}
