/* step.h: one step of a model, ready to run: recorded, planned, compiled, captured, replayed.
 *
 *   gs_device_open -> gs_model_open -> gs_params_new -> gs_step_new -> gs_step_run ... ->
 * gs_step_free
 *
 * Steps of several modes and sizes may share a model and its parameters. The host reads only the
 * loss and the gradient norm, after the step. */
#ifndef GS_STEP_H
#define GS_STEP_H

#include "optim/adamw.h"
#include "step/model.h"

typedef struct gs_step gs_step;

typedef struct gs_step_options {
  gs_step_mode mode;
  int64_t tokens;       /* T: the tokens of a batch, all its documents together */
  gs_adamw optimizer;   /* of GS_STEP_TRAIN */
  int64_t documents;    /* of a batch, at most; 0: as many as tokens */
  bool no_reuse;        /* every value has its own memory: for tests */
  bool keep_logits;     /* the logits can be read after the step: a tensor of all of them */
  int64_t chunk;        /* tokens whose logits are formed at a time; 0: by their size */
  const gs_step *share; /* use that step's arena, if it is large enough; it must live longer */
} gs_step_options;

/* params: NULL for the bare model (then only EVAL and INFER). Compiles what is not yet compiled. */
gs_status gs_step_new(gs_model *m, gs_params *p, const gs_step_options *o, gs_step **out,
                      gs_error *err);
void gs_step_free(gs_step *s);

/* One batch: a packed row (data/dataset.h), `tokens` values each. label may be NULL for INFER. */
typedef struct gs_batch {
  const int32_t *id, *label, *position;
  const int32_t *cu; /* [documents + 1]: where each document begins, and where the last one ends */
  int documents;
  int64_t last; /* INFER: the row whose logits are wanted */
} gs_batch;

typedef struct gs_step_result {
  double loss;      /* mean over the labels; 0 when there are none */
  int64_t labels;   /* tokens that have a label */
  double grad_norm; /* before clipping; TRAIN and GRADIENT */
  bool skipped;     /* no token has a label: nothing was run, nothing has changed */
} gs_step_result;

/* Runs the step. TRAIN: with learning rate lr, as update number `update` (from 1). An id, label,
 * position or beginning of a document out of range is GS_ERR_INPUT naming position and value,
 * before anything runs. A batch without labels runs nothing. A loss that is not finite is
 * GS_ERR_CHECK. */
gs_status gs_step_run(gs_step *s, const gs_batch *b, double lr, int64_t update, gs_step_result *out,
                      gs_error *err);
/* The logits of the last run, as f32: [tokens, vocab], or [vocab] for INFER, with the model's scale
 * and softcap. Needs keep_logits, or INFER. */
gs_status gs_step_logits(gs_step *s, float *out, gs_error *err);

/* What the step is made of. */
typedef struct gs_step_info {
  int actions, launches, gemms, copies;
  int kernels; /* distinct kernels of the model so far */
  size_t arena_bytes, arena_bytes_without_reuse;
  size_t weight_bytes, param_bytes;
} gs_step_info;
gs_step_info gs_step_about(const gs_step *s);
/* The actions one a line, with what they read and write and where that lies. */
void gs_step_print(const gs_step *s, gs_text *out);
const gs_record *gs_step_record(const gs_step *s);

#endif
