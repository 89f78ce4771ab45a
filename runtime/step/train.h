/* train.h: a training run: model, data, parameters, the captured step, and the folder that it
 * leaves. Prints nothing: who calls shows the progress. */
#ifndef GS_TRAIN_H
#define GS_TRAIN_H

#include "step/feed.h"
#include "step/settings.h"
#include "step/step.h"

typedef struct gs_trainer gs_trainer;

/* Starts a run that writes to the folder `out`, which must be empty or not there; init_adapter
 * (NULL: none) is a folder with the adapter to start from. s is completed. */
gs_status gs_trainer_start(gs_device *d, gs_settings *s, const char *out, const char *init_adapter,
                           gs_trainer **t, gs_error *err);
/* Goes on with the run in the folder `out`. What `said` says must agree with how it was started. */
gs_status gs_trainer_resume(gs_device *d, const gs_settings *said, const char *out, gs_trainer **t,
                            gs_error *err);
void gs_trainer_free(gs_trainer *t);

typedef struct gs_trainer_about {
  const gs_settings *settings;
  const gs_model *model;
  gs_params *params;
  gs_step *step;
  int64_t done, steps;    /* steps done, and in all */
  int samples, truncated; /* of the training data */
  int rows;               /* packed rows of an epoch (the first) */
  const char *out;
} gs_trainer_about;
gs_trainer_about gs_trainer_info(const gs_trainer *t);

typedef struct gs_progress {
  int64_t step;   /* number of this step, from 1 */
  int64_t tokens; /* of documents, without padding */
  double lr;
  gs_step_result result;
  const gs_row *row; /* what was trained on; valid until the next step */
  /* names of parameters whose gradient is identically zero, one a line: B at the first update, A at
     the second (B begins as zero, hence A's first gradient is); NULL: none */
  const char *zero_gradients;
} gs_progress;
/* The next step; only while done < steps. */
gs_status gs_trainer_step(gs_trainer *t, gs_progress *out, gs_error *err);

/* Mean loss over all labels of the evaluation data. */
gs_status gs_trainer_eval(gs_trainer *t, double *loss, int64_t *labels, gs_error *err);
/* Writes the adapter and the state. */
gs_status gs_trainer_save(gs_trainer *t, gs_error *err);

/* Mean loss over all labels of packed rows, with an EVAL step of p->seq tokens. */
gs_status gs_eval_rows(gs_step *s, const gs_packed *p, double *loss, int64_t *labels,
                       gs_error *err);

#endif
