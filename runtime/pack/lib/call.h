/* call.h: what the files of libgradsmith share. */
#ifndef GS_PACK_CALL_H
#define GS_PACK_CALL_H

#include "device/cuda/driver.h"
#include "pack/file.h"

#include <pthread.h>

struct gs_pack_call {
  struct gs_pack_call *next;
  const struct gs_pack *pack;
  const gs_pack_record *record;
  gs_cu_context context;
  gs_cu_module *modules;
  gs_cu_function *functions; /* of each kernel of the record */
  gs_operand_info *info;     /* of each tensor of the record */
  bool *strided;             /* of each tensor: a kernel takes its stride */
};

struct gs_pack {
  gs_pack_file *file;
  const char **keys; /* each once */
  int nkeys;
  pthread_mutex_t lock; /* of what follows; a call does not change once it is in the list */
  bool has_driver;
  gs_driver driver;
  gs_pack_call *calls;
};

enum { GS_CALL_MOST_OPERANDS = 128, GS_CALL_TEMP_ALIGN = 256 };

/* The operands of a call in the record's order, and what follows from them. */
typedef struct gs_pack_bound {
  const gs_operand *operand[GS_CALL_MOST_OPERANDS]; /* NULL: left out, in place */
  int64_t stride[GS_CALL_MOST_OPERANDS];
  int64_t sizes[GS_MAX_DIMS];
} gs_pack_bound;

/* Holds operands against the record. addresses: also their pointers. */
gs_status gs_pack_bind(const gs_pack_call *c, const gs_operand *operands, int n, bool addresses,
                       gs_pack_bound *out, gs_error *err);
/* Offset of temporary t in the workspace, and the end of it all for t = their number. */
size_t gs_pack_temp_at(const gs_pack_record *r, int t, const int64_t *sizes);

#endif
