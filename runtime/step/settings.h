/* settings.h: what a training run is made with: one table of fields, from which defaults, the
 * record in the state file, and the check for contradictions follow. */
#ifndef GS_SETTINGS_H
#define GS_SETTINGS_H

#include "gradsmith.h"

#include <stdbool.h>

/* What was not said: a text is NULL, a whole number GS_UNSAID, another number NaN. */
#define GS_UNSAID INT64_MIN

typedef struct gs_settings {
  const char *model, *data, *eval, *lora, *dtype, *schedule;
  int64_t steps, epochs, seq, seed, warmup, eval_every, save_every;
  double lr, clip, weight_decay;
} gs_settings;

gs_settings gs_settings_none(void);
/* Fills in what was not said (but dtype, model, data, eval and steps, which depend on other
 * things). Errors: a value out of range or an unknown name, by option. */
gs_status gs_settings_complete(gs_settings *s, gs_error *err);

#define GS_NSETTINGS 16
/* Name ("lr", as in --lr) and value of field i as text (malloc'ed; NULL: not said). */
const char *gs_settings_name(int i);
char *gs_settings_text(const gs_settings *s, int i);
/* Sets field i from text; text itself is kept for text fields. */
gs_status gs_settings_set(gs_settings *s, int i, const char *text, gs_error *err);
/* Everything that `said` says must be what `was` is: an error names the option and both values. */
gs_status gs_settings_agree(const gs_settings *said, const gs_settings *was, gs_error *err);

#endif
