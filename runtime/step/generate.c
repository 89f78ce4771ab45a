/* generate.c: greedy decoding over INFER steps. */
#include "step/generate.h"

#include <stdlib.h>
#include <string.h>

#define STRIDE 32

typedef struct generator {
  gs_model *model;
  gs_params *params;
  gs_step *step;
  int64_t capacity;
  int32_t *ids, *position; /* [capacity] */
  float *logits;
} generator;

static void release(generator *g) {
  gs_step_free(g->step);
  free(g->ids);
  free(g->position);
  g->step = NULL;
  g->ids = g->position = NULL;
}

/* A step with room for n tokens. Tokens after the text are of id 0, and of no document. */
static gs_status make_room(generator *g, int64_t n, gs_error *err) {
  if (n <= g->capacity) return GS_OK;
  release(g);
  g->capacity = (n + STRIDE - 1) / STRIDE * STRIDE;
  size_t bytes = (size_t)g->capacity * sizeof(int32_t);
  g->ids = calloc(1, bytes);
  g->position = calloc(1, bytes);
  if (!g->ids || !g->position) return gs_fail(err, GS_ERR_MEMORY, "out of memory");
  for (int64_t i = 0; i < g->capacity; i++) g->position[i] = (int32_t)i;
  gs_step_options o = {.mode = GS_STEP_INFER, .tokens = g->capacity, .documents = 1};
  return gs_step_new(g->model, g->params, &o, &g->step, err);
}

static gs_status next_token(generator *g, const int32_t *ids, int64_t n, int32_t *out,
                            gs_error *err) {
  gs_status s = make_room(g, n, err);
  if (s) return s;
  memcpy(g->ids, ids, (size_t)n * sizeof *ids);
  int32_t cu[2] = {0, (int32_t)n};
  gs_batch b = {.id = g->ids, .position = g->position, .cu = cu, .documents = 1, .last = n - 1};
  s = gs_step_run(g->step, &b, 0, 1, NULL, err);
  if (!s) s = gs_step_logits(g->step, g->logits, err);
  if (s) return s;
  int64_t best = 0, V = gs_model_vocab(g->model);
  for (int64_t i = 1; i < V; i++)
    if (g->logits[i] > g->logits[best]) best = i;
  *out = (int32_t)best;
  return GS_OK;
}

static bool is_stop(const gs_generate_options *o, int32_t id) {
  for (int i = 0; i < o->nstop; i++)
    if (o->stop[i] == id) return true;
  return false;
}

gs_status gs_generate(gs_model *m, gs_params *p, const gs_generate_options *o, int32_t *ids,
                      int64_t *n, gs_error *err) {
  generator g = {.model = m, .params = p};
  gs_status s = GS_OK;
  g.logits = malloc((size_t)gs_model_vocab(m) * sizeof *g.logits);
  if (!g.logits) return gs_fail(err, GS_ERR_MEMORY, "out of memory");
  if (*n < 1) s = gs_fail(err, GS_ERR_USE, "the prompt is empty");
  for (int64_t i = 0; i < o->max_tokens && !s; i++) {
    int32_t id;
    if (o->go_on && !o->go_on(o->context)) break;
    s = next_token(&g, ids, *n, &id, err);
    if (s || is_stop(o, id)) break;
    ids[(*n)++] = id;
  }
  release(&g);
  free(g.logits);
  return s;
}
