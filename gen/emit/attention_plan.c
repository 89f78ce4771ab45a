/* attention_plan.c: fills templates/attention_plan.cu. The list hangs on cu_q, cu_k and what KEYS
 * reads alone, so that all layers of a batch share it. */
#include "emit/attention.h"

enum { PLAN_THREADS = 512 };

static gs_count room(const att *a, int dim, int tile, int64_t coef) {
  gs_dims documents = (gs_dims)1 << a->b;
  return (gs_count){.coef = coef,
                    .div = 1,
                    .each = tile,
                    .dims = (gs_dims)1 << dim,
                    .plus = coef,
                    .plus_dims = documents};
}

void att_plan(att *a, bool keys, int tile, int other) {
  const char *list = keys ? "k_tiles" : "q_tiles";
  int dim = keys ? a->s : a->t;
  att_temp(a, list, GS_I32, room(a, dim, tile, 2));
  att_temp(a, "take", GS_I32, (gs_count){.coef = 1, .div = 1});
  att_temp(a, "starts", GS_I32, att_count(1, a->b));
  att_temp(a, "costs", GS_I32, room(a, dim, tile, 1));
  att_begin(a);
  att_kernel x = {.file = "attention_plan",
                  .piece = "tiles",
                  .threads = PLAN_THREADS,
                  .once = true,
                  .grid = {.coef = 1, .div = 1},
                  .writes = keys ? "k_tiles,take" : "q_tiles,take",
                  .updates = "starts,costs"};
  x.tunables = fmt(&a->k, "threads=%d tile=%d other=%d", PLAN_THREADS, tile, other);
  att_hole(&x, "LIST", list);
  att_hole(&x, "CU", keys ? "cu_k" : "cu_q");
  att_hole(&x, "ROWS", keys ? "S" : "T");
  att_int(a, &x, "TILE", tile);
  att_int(a, &x, "OTHER", other);
  att_int(a, &x, "COARSE", keys ? 3 : 0);
  att_hole(&x, "COST", att_fill(a, &x, keys ? "cost_of_keys" : "cost_of_queries"));
  att_hole(&x, "RANK", att_fill(a, &x, keys ? "rank_of_keys" : "rank_of_queries"));
  att_hole(&x, "FALL", keys ? att_fill(a, &x, "fall_along") : "");
  att_write(a, &x);
}
