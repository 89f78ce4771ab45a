/* choice.h: what several commands ask of a layer: its name, sizes, options and storage type. */
#ifndef GS_CLI_CHOICE_H
#define GS_CLI_CHOICE_H

#include "lua/layer.h"

enum { GS_MAX_CHOICES = 32 };

/* As given on the command line; NULL: not given. */
typedef struct gs_wish {
  const char *name, *dims, *options, *dtype;
} gs_wish;

typedef struct gs_chosen {
  gs_author *author;
  gs_layer *layer;
  int64_t sizes[GS_MAX_DIMS]; /* 0 where none is given */
  char text[1024];            /* that option_names point into */
  const char *option_names[GS_MAX_CHOICES];
  double option_values[GS_MAX_CHOICES];
  gs_choice choice; /* points into this struct: do not copy it */
} gs_chosen;

/* Opens the layer and reads the rest against its declaration; a wrong name lists the right ones.
 * Close also after a failure. */
gs_status gs_chosen_open(const char *command, const gs_wish *w, gs_chosen *out, gs_error *err);
void gs_chosen_close(gs_chosen *c);

/* A loss: all its outputs are numbers, or one number a token. */
bool gs_is_loss(const gs_instance *in);

#endif
