/* pack.c: documents into rows of one length, first fit in order, none split. What is left of a row
 * is a document of its own, without labels. */
#include "data/parts.h"

#include <stdlib.h>
#include <string.h>

/* An empty row: all padding. */
static void new_row(gs_packed *p, size_t *cap, int32_t pad) {
  size_t none = 0, seq = (size_t)p->seq;
  p->row = gs_tk_grow(p->row, cap, (size_t)p->nrows + 1, sizeof *p->row);
  gs_row *r = &p->row[p->nrows++];
  memset(r, 0, sizeof *r);
  r->id = gs_tk_grow(NULL, &none, 4 * seq + 1, sizeof *r->id); /* one block for the four arrays */
  r->label = r->id + seq;
  r->position = r->label + seq;
  r->cu = r->position + seq;
  for (size_t i = 0; i < seq; i++) {
    r->id[i] = pad;
    r->label[i] = GS_IGNORE;
  }
}

static void place(gs_row *r, const gs_sample *s) {
  int32_t at = r->ntokens;
  for (int32_t i = 0; i < s->n; i++) {
    bool next = i + 1 < s->n && s->answer[i + 1];
    r->id[at + i] = s->id[i];
    r->label[at + i] = next ? s->id[i + 1] : GS_IGNORE;
    r->position[at + i] = i;
    r->nlabels += next;
  }
  r->cu[r->documents++] = at;
  r->ntokens += s->n;
}

static void finish(gs_packed *p) {
  for (int k = 0; k < p->nrows; k++) {
    gs_row *r = &p->row[k];
    for (int32_t i = r->ntokens; i < p->seq; i++) r->position[i] = i - r->ntokens;
    if (r->ntokens < p->seq) r->cu[r->documents++] = r->ntokens;
    r->cu[r->documents] = p->seq;
    if (r->documents > p->documents) p->documents = r->documents;
  }
}

static gs_status check_order(const int *order, int n, gs_error *err) {
  size_t none = 0;
  bool *seen = gs_tk_grow(NULL, &none, (size_t)n + 1, sizeof *seen);
  gs_status st = GS_OK;
  memset(seen, 0, (size_t)n + 1);
  for (int i = 0; i < n && order != NULL && st == GS_OK; i++) {
    if (order[i] < 0 || order[i] >= n || seen[order[i]])
      st = gs_fail(err, GS_ERR_USE, "packing: the order is no permutation of %d samples", n);
    else
      seen[order[i]] = true;
  }
  free(seen);
  return st;
}

/* The room left in the rows, as a tree of maxima: leaf i is room[leaves + i]. A row not yet begun
 * has room for anything, so the search always ends at one. */
typedef struct tree {
  int32_t *room;
  size_t leaves;
} tree;

static void set_room(tree *t, size_t i, int32_t room) {
  i += t->leaves;
  t->room[i] = room;
  while (i > 1) {
    i /= 2;
    t->room[i] = t->room[2 * i] > t->room[2 * i + 1] ? t->room[2 * i] : t->room[2 * i + 1];
  }
}

static int first_row(const tree *t, int32_t n) {
  size_t i = 1;
  while (i < t->leaves) i = t->room[2 * i] >= n ? 2 * i : 2 * i + 1;
  return (int)(i - t->leaves);
}

gs_status gs_pack_rows(const gs_dataset *d, const int *order, int seq, int documents, int32_t pad,
                       gs_packed *out, gs_error *err) {
  size_t cap = 0, none = 0;
  tree t = {.leaves = 1};
  *out = (gs_packed){.seq = seq};
  if (seq < 1) return gs_fail(err, GS_ERR_USE, "rows of %d tokens cannot be packed", seq);
  gs_status st = check_order(order, d->n, err);
  while (t.leaves < (size_t)d->n) t.leaves *= 2;
  t.room = gs_tk_grow(NULL, &none, 2 * t.leaves, sizeof *t.room);
  for (size_t i = 0; i < 2 * t.leaves; i++) t.room[i] = seq;
  for (int i = 0; i < d->n && st == GS_OK; i++) {
    const gs_sample *s = &d->sample[order != NULL ? order[i] : i];
    if (s->n > seq) {
      st = gs_fail(err, GS_ERR_USE, "sample of line %d: %d tokens do not fit into rows of %d",
                   s->line, (int)s->n, seq);
      break;
    }
    if (s->n == 0) continue;
    int k = first_row(&t, s->n);
    if (k == out->nrows) new_row(out, &cap, pad);
    place(&out->row[k], s);
    bool full = documents > 0 && out->row[k].documents + 1 >= documents; /* one is for padding */
    set_room(&t, (size_t)k, full ? 0 : seq - out->row[k].ntokens);
  }
  free(t.room);
  if (st == GS_OK)
    finish(out);
  else
    gs_packed_free(out);
  return st;
}

void gs_packed_free(gs_packed *p) {
  for (int i = 0; i < p->nrows; i++) free(p->row[i].id);
  free(p->row);
  memset(p, 0, sizeof *p);
}
