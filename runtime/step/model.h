/* model.h: a model folder on a device: config.json read by the model file of its architecture
 * (lua/models), its weights uploaded once, its linears known. */
#ifndef GS_MODEL_H
#define GS_MODEL_H

#include "step/record.h"

typedef struct gs_model gs_model;

/* Opens DIR (config.json and safetensors). dtype: what weights and activations are stored as.
 * Errors: an architecture that no model file has, a field of config.json or a tensor of the file
 * that would be ignored, a missing or misshapen tensor; each names file and field or tensor. */
gs_status gs_model_open(gs_device *d, const char *dir, gs_type dtype, gs_model **out,
                        gs_error *err);
void gs_model_close(gs_model *m);

gs_device *gs_model_device(const gs_model *m);
gs_library *gs_model_library(const gs_model *m);
const char *gs_model_dir(const gs_model *m);
gs_type gs_model_dtype(const gs_model *m);
int64_t gs_model_vocab(const gs_model *m);                    /* columns of the logits */
size_t gs_model_weight_bytes(const gs_model *m);              /* on the device */
int64_t gs_model_parameters(const gs_model *m);               /* elements of all weights */
const gs_module *gs_model_modules(const gs_model *m, int *n); /* its linears, in order */
/* Ids at which generation ends, from config.json and generation_config.json; *n of them. */
const int32_t *gs_model_eos(const gs_model *m, int *n);

/* The batch's variables in a record. */
typedef struct gs_batch_vars {
  int id, label, position; /* [T] i32 */
  int cu;                  /* [documents + 1] i32 */
  int last;                       /* [1] i32: the row whose logits are wanted (GS_STEP_INFER) */
  int upstream;                   /* step scalar: 1 / (number of labels) */
} gs_batch_vars;
/* Runs the model file: records the forward into r, up to and with its head. */
gs_status gs_model_record(gs_model *m, gs_record *r, const gs_batch_vars *b, gs_error *err);

#endif
