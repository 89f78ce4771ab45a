/* generate.h: greedy text, one forward pass a token: no cache of keys and values. */
#ifndef GS_GENERATE_H
#define GS_GENERATE_H

#include "step/step.h"

typedef struct gs_generate_options {
  int64_t max_tokens;
  const int32_t *stop; /* ids that end the text; they are not part of it */
  int nstop;
  bool (*go_on)(void *context); /* asked before every token; NULL: always */
  void *context;
} gs_generate_options;

/* Appends tokens to ids[0 .. *n), which has room for max_tokens more. The forward runs over a
 * capacity that is a multiple of 32 and grows as needed; ties go to the lowest id. */
gs_status gs_generate(gs_model *m, gs_params *p, const gs_generate_options *o, int32_t *ids,
                      int64_t *n, gs_error *err);

#endif
