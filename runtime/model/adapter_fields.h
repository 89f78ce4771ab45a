/* adapter_fields.h: which fields of an adapter_config.json are understood. */
#ifndef GS_ADAPTER_FIELDS_H
#define GS_ADAPTER_FIELDS_H

#include "model/json.h"

/* Refuses, by name, a field whose value would change the mathematics in a way that is not
 * supported. r, lora_alpha, peft_type and target_modules are left to the caller. */
gs_status gs_adapter_check_fields(const json_t *config, const char *file, gs_error *err);

#endif
