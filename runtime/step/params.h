/* params.h: the trained parameters of LoRA: f32 masters, gradients and AdamW's moments, each one
 * flat buffer, so that clipping and the update are one launch each whatever the number of tensors;
 * and the working copies that matrix products read (the masters themselves when the step computes
 * in f32). */
#ifndef GS_PARAMS_H
#define GS_PARAMS_H

#include "device/device.h"
#include "model/adapter.h"

/* A linear of the model, as the survey of its script found it. */
typedef struct gs_module {
  const char *name; /* "model.layers.0.self_attn.q_proj" */
  int64_t in, out;
} gs_module;

/* The adapter of one module: A [r, in], B [out, r], as offsets (elements) into the flat buffers. */
typedef struct gs_adapter {
  gs_module module;
  int64_t a, b;
} gs_adapter;

typedef struct gs_params gs_params;

/* Which of the flat buffers. */
typedef enum gs_param_kind { GS_MASTER, GS_GRAD, GS_MOMENT1, GS_MOMENT2, GS_WORKING } gs_param_kind;

/* One adapter for each module whose name ends with a target ("q_proj": ".q_proj" or the whole
 * name). A target that no module has is an error naming it and those there are. As peft makes them:
 * A uniform in ±1/sqrt(in) (kaiming_uniform with a = sqrt 5), B zero; from seed, by a counter, so
 * that a value depends on nothing but seed, module and index. */
gs_status gs_params_new(gs_device *d, const gs_module *modules, int n, const gs_lora *lora,
                        gs_type dtype, uint64_t seed, gs_params **out, gs_error *err);
void gs_params_free(gs_params *p);

const gs_lora *gs_params_lora(const gs_params *p);
double gs_params_scale(const gs_params *p);                               /* alpha / r */
const gs_adapter *gs_params_find(const gs_params *p, const char *module); /* NULL: none */
int64_t gs_params_count(const gs_params *p);   /* elements of a flat buffer, padding included */
int64_t gs_params_trained(const gs_params *p); /* parameters, without padding */
size_t gs_params_bytes(const gs_params *p);    /* device bytes of all buffers */
gs_ptr gs_params_ptr(const gs_params *p, gs_param_kind kind);

/* ---- by tensor: 2 for each adapter, A then B, in the order of the modules ---- */
int gs_params_ntensors(const gs_params *p);
/* Name as peft has it, shape; data NULL. The name lives as long as p. */
gs_weight gs_params_tensor(const gs_params *p, int i, int64_t *offset);

/* All of a flat buffer of f32 (not GS_WORKING), to and from the host. Uploading masters renews the
 * working copies. */
gs_status gs_params_read(gs_params *p, gs_param_kind kind, float *out, gs_error *err);
gs_status gs_params_write(gs_params *p, gs_param_kind kind, const float *from, gs_error *err);
/* Masters from an adapter's tensors; every one must be there, and none besides. */
gs_status gs_params_load(gs_params *p, const gs_weights *w, const char *file, gs_error *err);
/* Writes masters as a PEFT adapter. */
gs_status gs_params_save(gs_params *p, const char *dir, const char *base_model, gs_error *err);

#endif
