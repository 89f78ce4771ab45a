/* script.h: the sandboxed Lua state in which model files (lua/models) run, and the module
 * `gradsmith.step` through which they record. Private to runtime/step.
 *
 * A model file returns { architectures = {names}, unread = {ends of tensor names}, forward =
 * function(config, m, b) }. Its forward ends with step.head. It may call:
 *   step.layer(name, {param = tensor or number}, {option = number})  the output, or a table by name
 *   step.linear(x, module, out [, weight])      y[T, out]; the weight is module .. ".weight"
 *   step.head(x, module, V, {weight = tensor, scale =, softcap =, smoothing =, z_loss = numbers})
 *                                               logits, and their loss against the batch's labels
 *   step.refuse(format, ...)                    an error about config.json
 *   x:view { sizes }                            the same values, the dims after the first reshaped
 *   m.weight(name, shape)  m.constant(name, {numbers})  b.id  b.position  b.cu
 */
#ifndef GS_SCRIPT_H
#define GS_SCRIPT_H

#include "step/model.h"

#include <jansson.h>

typedef struct gs_script gs_script;

/* What a model file asks of its model while it records. */
typedef struct gs_host {
  void *context;
  gs_status (*weight)(void *context, gs_record *r, const char *name, int ndims,
                      const int64_t *shape, int *var, gs_error *err);
  gs_status (*constant)(void *context, gs_record *r, const char *name, const float *v, int64_t n,
                        int *var, gs_error *err);
  void (*linear)(void *context, const char *module, int64_t in, int64_t out);
} gs_host;

/* config: the parsed config.json at path. Finds the model file of its architecture. */
gs_status gs_script_open(const json_t *config, const char *path, gs_script **out, gs_error *err);
void gs_script_close(gs_script *s);
/* May a tensor of that name lie in the model's file unread? */
bool gs_script_may_ignore(gs_script *s, const char *tensor);
gs_status gs_script_forward(gs_script *s, gs_record *r, const gs_batch_vars *b, const gs_host *host,
                            gs_error *err);

#endif
