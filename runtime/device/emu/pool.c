/* pool.c: worker threads that live with the device. The calling thread is worker 0; the others
 * sleep between jobs. Which worker runs a block changes nothing of the result. */
#include "device/emu/internal.h"

#include <stdlib.h>

bool emu_take(worker *w, long long *taken) {
  job *j = w->job;
  if (atomic_load_explicit(&j->failed, memory_order_relaxed)) return false;
  if (w->lo == w->hi) {
    int64_t at = atomic_fetch_add_explicit(&j->next, j->chunk, memory_order_relaxed);
    if (at >= j->count) return false;
    w->lo = at;
    w->hi = at + j->chunk < j->count ? at + j->chunk : j->count;
  }
  int64_t i = w->lo++;
  *taken = j->reverse ? j->count - 1 - i : i;
  return true;
}

static void run_part(worker *w, job *j, bool alone) {
  w->job = j;
  w->alone = alone;
  w->lo = w->hi = 0;
  emu_work(w);
}

static void *serve(void *p) {
  worker *w = p;
  emu *e = w->e;
  unsigned seen = 0;
  pthread_mutex_lock(&e->mutex);
  for (;;) {
    while (e->turn == seen && !e->quit) pthread_cond_wait(&e->go, &e->mutex);
    if (e->quit) break;
    seen = e->turn;
    job *j = e->job;
    pthread_mutex_unlock(&e->mutex);
    run_part(w, j, false);
    pthread_mutex_lock(&e->mutex);
    if (--e->busy == 0) pthread_cond_signal(&e->done);
  }
  pthread_mutex_unlock(&e->mutex);
  return NULL;
}

void emu_run(emu *e, job *j, bool alone) {
  if (alone || e->nworkers == 1) {
    run_part(&e->workers[0], j, true);
    return;
  }
  pthread_mutex_lock(&e->mutex);
  e->job = j;
  e->busy = e->nworkers - 1;
  e->turn++;
  pthread_cond_broadcast(&e->go);
  pthread_mutex_unlock(&e->mutex);
  run_part(&e->workers[0], j, false);
  pthread_mutex_lock(&e->mutex);
  while (e->busy > 0) pthread_cond_wait(&e->done, &e->mutex);
  pthread_mutex_unlock(&e->mutex);
}

gs_status emu_start_pool(emu *e, gs_error *err) {
  e->workers = calloc((size_t)e->nworkers, sizeof *e->workers);
  if (e->workers == NULL)
    return gs_fail(err, GS_ERR_MEMORY, "no memory for %d workers", e->nworkers);
  pthread_mutex_init(&e->mutex, NULL);
  pthread_cond_init(&e->go, NULL);
  pthread_cond_init(&e->done, NULL);
  e->has_pool = true;
  int wanted = e->nworkers;
  for (int i = 0; i < wanted; i++) {
    e->workers[i].e = e;
    e->workers[i].index = i;
  }
  for (int i = 1; i < wanted; i++)
    if (pthread_create(&e->workers[i].thread, NULL, serve, &e->workers[i]) != 0) {
      e->nworkers = i;
      return gs_fail(err, GS_ERR_DEVICE, "cannot start worker thread %d of %d", i + 1, wanted);
    }
  return GS_OK;
}

void emu_stop_pool(emu *e) {
  if (!e->has_pool) return;
  pthread_mutex_lock(&e->mutex);
  e->quit = true;
  pthread_cond_broadcast(&e->go);
  pthread_mutex_unlock(&e->mutex);
  for (int i = 1; i < e->nworkers; i++) pthread_join(e->workers[i].thread, NULL);
  for (int i = 0; i < e->nworkers; i++) emu_fibers_free(&e->workers[i]);
  pthread_cond_destroy(&e->go);
  pthread_cond_destroy(&e->done);
  pthread_mutex_destroy(&e->mutex);
  free(e->workers);
}
