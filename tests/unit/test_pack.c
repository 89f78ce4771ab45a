/* uses: gs_data gs_assets */
/* test_pack.c: packing random documents: every token once, none split, labels of the next token of
 * the same document only, first fit as a plain search finds it. */
#include "data/parts.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static gs_dataset random_data(int n, int longest) {
  gs_dataset d = {.sample = calloc((size_t)n + 1, sizeof *d.sample), .n = n};
  int32_t next = 1;
  for (int i = 0; i < n; i++) {
    gs_sample *s = &d.sample[i];
    s->n = 1 + rand() % longest;
    s->line = i + 1;
    s->id = calloc((size_t)s->n, sizeof *s->id);
    s->answer = calloc((size_t)s->n, sizeof *s->answer);
    for (int32_t k = 0; k < s->n; k++) s->id[k] = next++, s->answer[k] = rand() % 3 > 0;
  }
  return d;
}

/* The documents of all rows in order, as indexes of samples; checks every token and label of each.
 */
static void check_row(const gs_row *r, const gs_dataset *d, int seq, int32_t pad, int *row_of,
                      int row) {
  int labels = 0;
  int document = 0;
  for (int32_t at = 0; at < r->ntokens;) {
    int k = 0;
    while (k < d->n && d->sample[k].id[0] != r->id[at]) k++;
    cr_assert_lt(k, d->n, "a document begins with no sample's first token");
    const gs_sample *s = &d->sample[k];
    cr_assert_eq(row_of[k], -1, "sample %d is there twice", k);
    row_of[k] = row;
    cr_assert_leq(at + s->n, r->ntokens);
    for (int32_t i = 0; i < s->n; i++) {
      bool learnt = i + 1 < s->n && s->answer[i + 1];
      cr_assert_eq(r->id[at + i], s->id[i]);
      cr_assert_eq(r->label[at + i], learnt ? s->id[i + 1] : GS_IGNORE);
      cr_assert_eq(r->position[at + i], i);
      labels += learnt;
    }
    cr_assert_eq(r->cu[document++], at);
    at += s->n;
  }
  cr_assert_eq(labels, r->nlabels);
  for (int32_t i = r->ntokens; i < seq; i++) {
    cr_assert_eq(r->id[i], pad);
    cr_assert_eq(r->label[i], GS_IGNORE);
    cr_assert_eq(r->position[i], i - r->ntokens);
  }
  if (r->ntokens < seq) cr_assert_eq(r->cu[document++], r->ntokens);
  cr_assert_eq(r->cu[document], seq);
  cr_assert_eq(r->documents, document);
}

static void check_first_fit(const gs_dataset *d, const int *order, const gs_packed *p,
                            const int *row_of) {
  int *room = calloc((size_t)d->n + 1, sizeof *room), rows = 0;
  for (int i = 0; i < d->n; i++) {
    int k = 0, s = order ? order[i] : i;
    while (k < rows && room[k] < d->sample[s].n) k++;
    if (k == rows) room[rows++] = p->seq;
    room[k] -= d->sample[s].n;
    cr_assert_eq(row_of[s], k, "sample %d is in row %d, not in the first with room, %d", s,
                 row_of[s], k);
  }
  cr_assert_eq(rows, p->nrows);
  free(room);
}

Test(pack, random_documents) {
  unsigned seed = (unsigned)time(NULL);
  srand(seed);
  for (int round = 0; round < 200; round++) {
    int n = rand() % 40, seq = 1 + rand() % 70, *order = NULL;
    gs_dataset d = random_data(n, seq);
    gs_packed p;
    gs_error err = {0};
    if (round % 2) {
      order = calloc((size_t)n + 1, sizeof *order);
      for (int i = 0; i < n; i++) {
        int k = rand() % (i + 1);
        order[i] = order[k];
        order[k] = i;
      }
    }
    cr_assert_eq(gs_pack_rows(&d, order, seq, 0, -7, &p, &err), GS_OK, "seed %u: %s", seed,
                 err.message);
    int *row_of = calloc((size_t)n + 1, sizeof *row_of);
    for (int i = 0; i < n; i++) row_of[i] = -1;
    for (int k = 0; k < p.nrows; k++) check_row(&p.row[k], &d, seq, -7, row_of, k);
    for (int i = 0; i < n; i++)
      cr_assert_neq(row_of[i], -1, "seed %u: sample %d is nowhere", seed, i);
    check_first_fit(&d, order, &p, row_of);
    free(row_of);
    free(order);
    gs_packed_free(&p);
    gs_dataset_free(&d);
  }
}

Test(pack, a_token_less_of_labels_for_each_document) {
  gs_dataset d = random_data(9, 11);
  gs_packed p;
  int tokens = 0, labels = 0;
  for (int i = 0; i < d.n; i++) {
    memset(d.sample[i].answer, 1, (size_t)d.sample[i].n);
    tokens += d.sample[i].n;
  }
  cr_assert_eq(gs_pack_rows(&d, NULL, 16, 0, 0, &p, NULL), GS_OK);
  for (int k = 0; k < p.nrows; k++) labels += p.row[k].nlabels;
  cr_expect_eq(labels, tokens - d.n);
  gs_packed_free(&p);
  gs_dataset_free(&d);
}

Test(pack, what_cannot_be_packed) {
  gs_dataset d = random_data(3, 5);
  gs_packed p;
  gs_error err = {0};
  int twice[] = {0, 1, 1}, outside[] = {0, 1, 3};
  cr_expect_eq(gs_pack_rows(&d, twice, 8, 0, 0, &p, &err), GS_ERR_USE);
  cr_expect_eq(gs_pack_rows(&d, outside, 8, 0, 0, &p, &err), GS_ERR_USE);
  cr_expect_eq(gs_pack_rows(&d, NULL, 0, 0, 0, &p, &err), GS_ERR_USE);
  int longest = 0;
  for (int i = 0; i < d.n; i++) longest = d.sample[i].n > longest ? d.sample[i].n : longest;
  if (longest > 1) {
    cr_expect_eq(gs_pack_rows(&d, NULL, longest - 1, 0, 0, &p, &err), GS_ERR_USE);
    cr_expect(strstr(err.message, "line ") != NULL, "%s", err.message);
  }
  cr_expect(p.row == NULL && p.nrows == 0);
  gs_dataset_free(&d);
}
