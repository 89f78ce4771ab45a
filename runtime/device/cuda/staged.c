/* staged.c: large uploads through page-locked buffers, by several threads: from ordinary memory, as
 * a mapped file's, the driver copies with one. */
#include "device/cuda/machine.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_HANDS = 8, SLOTS = 2 };
static const size_t piece = (size_t)4 << 20;

/* One thread's: while a slot is on its way, the other is filled. */
typedef struct hand {
  unsigned char *slot[SLOTS];
  gs_cu_stream stream[SLOTS];
} hand;

struct gs_staging {
  int n;
  hand hands[MOST_HANDS];
};

typedef struct upload {
  gs_cuda *m;
  gs_ptr to;
  const unsigned char *from;
  size_t bytes;
  pthread_mutex_t lock; /* of what follows */
  size_t next;          /* byte that nobody has taken */
  int code;             /* the first failure */
} upload;

typedef struct worker {
  upload *u;
  hand *h;
} worker;

static bool take(upload *u, size_t *at, size_t *n) {
  pthread_mutex_lock(&u->lock);
  *at = u->next;
  *n = u->bytes - *at < piece ? u->bytes - *at : piece;
  u->next += *n;
  bool more = *n > 0 && u->code == GS_CU_OK;
  pthread_mutex_unlock(&u->lock);
  return more;
}

static void note(upload *u, int code) {
  pthread_mutex_lock(&u->lock);
  if (u->code == GS_CU_OK) u->code = code;
  pthread_mutex_unlock(&u->lock);
}

static void *carry(void *argument) {
  const worker *w = argument;
  upload *u = w->u;
  const gs_cu_api *a = &u->m->driver.api;
  size_t at, n;
  int code = a->context_set(u->m->context);
  for (int k = 0; code == GS_CU_OK && take(u, &at, &n); k = (k + 1) % SLOTS) {
    code = a->stream_sync(w->h->stream[k]); /* the slot's last piece has left */
    if (code != GS_CU_OK) break;
    memcpy(w->h->slot[k], u->from + at, n);
    code = a->upload(u->to + at, w->h->slot[k], n, w->h->stream[k]);
  }
  for (int k = 0; k < SLOTS; k++) {
    int end = a->stream_sync(w->h->stream[k]);
    if (code == GS_CU_OK) code = end;
  }
  note(u, code);
  return NULL;
}

static bool open_hand(gs_cuda *m, hand *h) {
  const gs_cu_api *a = &m->driver.api;
  bool is_open = true;
  for (int k = 0; k < SLOTS; k++) {
    void *p = NULL;
    is_open = is_open && a->host_alloc(&p, piece, 0) == GS_CU_OK &&
              a->stream_create(&h->stream[k], GS_CU_STREAM_NON_BLOCKING) == GS_CU_OK;
    h->slot[k] = p;
  }
  return is_open;
}

static void close_hand(gs_cuda *m, hand *h) {
  for (int k = 0; k < SLOTS; k++) {
    if (h->stream[k]) m->driver.api.stream_destroy(h->stream[k]);
    if (h->slot[k]) m->driver.api.host_free(h->slot[k]);
  }
  *h = (hand){0};
}

void gs_cuda_drop_staging(gs_cuda *m) {
  for (int i = 0; m->staging && i < MOST_HANDS; i++) close_hand(m, &m->staging->hands[i]);
  free(m->staging);
  m->staging = NULL;
}

/* As many hands as there are cores, or as can be had. */
static int staging_of(gs_cuda *m) {
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  if (!m->staging) {
    m->staging = calloc(1, sizeof *m->staging);
    if (!m->staging) return 0;
    int most = cores < 1 ? 1 : cores < MOST_HANDS ? (int)cores : MOST_HANDS;
    while (m->staging->n < most && open_hand(m, &m->staging->hands[m->staging->n])) m->staging->n++;
  }
  return m->staging->n;
}

int gs_cuda_upload_staged(gs_cuda *m, gs_ptr to, const void *from, size_t bytes, bool *done) {
  upload u = {.m = m, .to = to, .from = from, .bytes = bytes};
  worker w[MOST_HANDS];
  pthread_t id[MOST_HANDS];
  int n = staging_of(m), begun = 0;
  *done = n > 0;
  if (!*done) return GS_CU_OK;
  pthread_mutex_init(&u.lock, NULL);
  for (int i = 0; i < n; i++) w[i] = (worker){&u, &m->staging->hands[i]};
  while (begun < n - 1 && pthread_create(&id[begun], NULL, carry, &w[begun + 1]) == 0) begun++;
  carry(&w[0]);
  for (int i = 0; i < begun; i++) pthread_join(id[i], NULL);
  pthread_mutex_destroy(&u.lock);
  return u.code;
}
