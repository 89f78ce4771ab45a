/* safetensors.h: reading (memory-mapped, single or sharded) and writing safetensors.
 * Format: u64 little-endian header length, JSON header, data (github.com/huggingface/safetensors).
 *
 * Every storage type of the format is read as far as sizes go; the ones that gradsmith computes
 * with are F32, BF16, F16, I32, I64, U8 and BOOL. A tensor of another type (F64, F8_E4M3, ...) does
 * not stop a file from opening: its gs_weight has type GS_TYPE_NONE, and gs_weights_get refuses it
 * by name when it is asked for. A type that the format does not know stops the file, since its size
 * cannot be checked. */
#ifndef GS_SAFETENSORS_H
#define GS_SAFETENSORS_H

#include "gradsmith.h"

typedef struct gs_weight {
  const char *name;
  gs_type type;
  int ndims;
  int64_t shape[GS_MAX_RANK];
  const void *data; /* in the map; read-only; aligned for its type; NULL when there are no bytes */
  size_t bytes;
} gs_weight;

typedef struct gs_weights gs_weights;

/* path: a .safetensors file, or a folder with model.safetensors or model.safetensors.index.json.
 * Every offset, size and dtype is held against the file before anything is read: errors name the
 * file, the tensor and the byte offset. The tensors must cover the file's data without overlap or
 * hole. Sharded: every tensor of the index must be in the shard that it names, and in no other; a
 * tensor that the index does not list is left out. */
gs_status gs_weights_open(const char *path, gs_weights **out, gs_error *err);
void gs_weights_close(gs_weights *w); /* NULL: nothing */
int gs_weights_count(const gs_weights *w);
const gs_weight *gs_weights_at(const gs_weights *w, int i);              /* sorted by name */
const gs_weight *gs_weights_find(const gs_weights *w, const char *name); /* NULL: none */
/* The same for a tensor that is needed: its absence, or a storage type that gradsmith does not
 * compute with, is an error that names tensor and file. */
gs_status gs_weights_get(const gs_weights *w, const char *name, const gs_weight **out,
                         gs_error *err);
/* Value of a __metadata__ key of a single file, or NULL. */
const char *gs_weights_metadata(const gs_weights *w, const char *key);

/* Writes n tensors; metadata is key, value, key, value ..., NULL (itself NULL: none). Appears
 * complete or not at all. The bytes are those of the reference writer: tensors by descending type
 * size, then by name. */
gs_status gs_safetensors_write(const char *path, const gs_weight *tensors, int n,
                               const char *const *metadata, gs_error *err);

/* The same in pieces, for data that is made as it is written: begin reads names, types, shapes and
 * bytes of tensors (which must stay alive until end; data is not looked at); next says whose bytes
 * are due (an index into tensors, -1 when all are there), put appends some of them, end makes the
 * file appear. */
typedef struct gs_safetensors_out gs_safetensors_out;
gs_status gs_safetensors_begin(const char *path, const gs_weight *tensors, int n,
                               const char *const *metadata, gs_safetensors_out **out,
                               gs_error *err);
int gs_safetensors_next(const gs_safetensors_out *o);
gs_status gs_safetensors_put(gs_safetensors_out *o, const void *data, size_t bytes, gs_error *err);
gs_status gs_safetensors_end(gs_safetensors_out *o, gs_error *err); /* frees o, also on failure */
void gs_safetensors_drop(gs_safetensors_out *o);                    /* frees o; nothing appears */

#endif
