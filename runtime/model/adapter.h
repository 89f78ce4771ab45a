/* adapter.h: PEFT's LoRA adapters: adapter_config.json and adapter_model.safetensors. */
#ifndef GS_ADAPTER_H
#define GS_ADAPTER_H

#include "model/safetensors.h"

#define GS_LORA_TARGETS 32

typedef struct gs_lora {
  int64_t r;
  double alpha;
  int ntargets;
  char targets[GS_LORA_TARGETS][48]; /* module name ends: "q_proj", ... */
} gs_lora;

/* "r=16,alpha=32,targets=q_proj+v_proj" over the defaults r=16, alpha=32 and all seven projections;
 * "targets=all" is those seven. NULL and "" are the defaults. Errors name the unknown key or value.
 */
gs_status gs_lora_parse(const char *text, gs_lora *out, gs_error *err);

/* tensors: named "base_model.model.<module>.lora_A.weight" [r, in] / ".lora_B.weight" [out, r],
 * f32. base_model: what adapter_config.json names as base_model_name_or_path (NULL: null). The
 * folder is made when absent; adapter_config.json appears last. */
gs_status gs_adapter_write(const char *dir, const gs_lora *lora, const char *base_model,
                           const gs_weight *tensors, int n, gs_error *err);
/* Reads both files. A field that changes the mathematics and is not supported (use_dora, bias,
 * use_rslora, layers_to_transform, modules_to_save, alpha_pattern, ...), and an unknown field that
 * is set to something, is refused by name. Every tensor is a lora_A or lora_B of a module that the
 * targets name, f32, bf16 or f16, has its other half, and the rank of the configuration. */
gs_status gs_adapter_read(const char *dir, gs_lora *lora, gs_weights **tensors, gs_error *err);

#endif
