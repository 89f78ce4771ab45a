/* wanted.h: what `gradsmith pack --layers` asks for: layers with sizes, types and options, each
 * turned into its passes. */
#ifndef GS_CLI_WANTED_H
#define GS_CLI_WANTED_H

#include "step/library.h"

/* text: one layer, "rmsnorm:bf16:H=4096:gemma=1": its name, then in any order the type of its
 * generic tensors (bf16 when not said), sizes of its inner dims, options, and types of single
 * tensors ("dy=f32"). Adds the routines of its passes to the library: forward, infer where
 * something is saved, backward with all gradients, with those of inputs alone, and with outputs
 * made again, and terminal for a loss; with "want=dx+dw" also the backward with just those
 * ("want=dx+dr=dx": dr, of the same value, lies in dx). */
gs_status gs_add_layer(gs_library *l, const char *text, gs_error *err);

#endif
