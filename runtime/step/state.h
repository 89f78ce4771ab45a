/* state.h: a training run on disk: masters, moments, step and settings in one safetensors file,
 * which appears whole or not at all. A run that goes on from it gives the bits of one that was not
 * stopped. */
#ifndef GS_STATE_H
#define GS_STATE_H

#include "step/params.h"
#include "step/settings.h"

#define GS_STATE_FILE "state.safetensors"

typedef struct gs_progress_mark {
  int64_t step;       /* steps done: rows of data consumed */
  int64_t updates;    /* updates of the optimizer: steps that had a label */
  uint64_t data_hash; /* of the training file's bytes */
} gs_progress_mark;

typedef struct gs_state gs_state;

gs_status gs_state_write(const char *dir, gs_params *p, const gs_settings *s,
                         const gs_progress_mark *mark, gs_error *err);
/* Settings and mark; their texts live as long as the state. */
gs_status gs_state_open(const char *dir, gs_state **out, gs_settings *s, gs_progress_mark *mark,
                        gs_error *err);
/* Masters and moments into p, which must have the layout that was saved. */
gs_status gs_state_load(const gs_state *st, gs_params *p, gs_error *err);
void gs_state_close(gs_state *st);
/* A hash (FNV-1a, 64 bits) of a file's bytes. */
gs_status gs_file_hash(const char *path, uint64_t *hash, gs_error *err);

#endif
