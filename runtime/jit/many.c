/* many.c: compiling many kernels on several threads. The result does not depend on how many. */
#include "jit/jit.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct crew {
  const gs_jit *jit;
  const gs_jit_source *sources;
  gs_jit_code *out;
  int n;
  pthread_mutex_t lock; /* of what follows */
  int next;             /* source to take */
  int failed;           /* lowest failing source; n when none */
  gs_error *err;        /* of that one */
} crew;

/* Takes sources in order. Those after a failing one are left, those before it still count. */
static int take(crew *c) {
  pthread_mutex_lock(&c->lock);
  int i = c->next < c->failed ? c->next++ : -1;
  pthread_mutex_unlock(&c->lock);
  return i;
}

static void note_failure(crew *c, int i, const gs_error *e) {
  pthread_mutex_lock(&c->lock);
  if (i < c->failed) {
    c->failed = i;
    if (c->err) *c->err = *e;
  }
  pthread_mutex_unlock(&c->lock);
}

static void *work(void *arg) {
  crew *c = arg;
  gs_error e = {0};
  for (int i = take(c); i >= 0; i = take(c))
    if (gs_jit_compile(c->jit, &c->sources[i], &c->out[i], &e) != GS_OK) note_failure(c, i, &e);
  return NULL;
}

static int crew_size(int n, int threads) {
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  if (threads <= 0) threads = cores > 0 ? (int)cores : 1;
  if (threads > 64) threads = 64;
  return threads < n ? threads : n;
}

gs_status gs_jit_compile_many(const gs_jit *j, const gs_jit_source *s, int n, int threads,
                              gs_jit_code *out, gs_error *err) {
  gs_error local = {0};
  crew c = {.jit = j, .sources = s, .out = out, .n = n, .failed = n, .err = err ? err : &local};
  pthread_t ids[64];
  int started = 0;
  if (n <= 0) return GS_OK;
  memset(out, 0, (size_t)n * sizeof *out);
  pthread_mutex_init(&c.lock, NULL);
  for (int want = crew_size(n, threads) - 1; started < want; started++)
    if (pthread_create(&ids[started], NULL, work, &c) != 0) break; /* fewer hands do it too */
  work(&c);
  for (int i = 0; i < started; i++) pthread_join(ids[i], NULL);
  pthread_mutex_destroy(&c.lock);
  if (c.failed == n) return GS_OK;
  for (int i = 0; i < n; i++) gs_jit_code_free(&out[i]);
  return c.err->status;
}
