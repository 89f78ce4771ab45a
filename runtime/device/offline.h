/* offline.h: a machine that compiles for a GPU which is not here: kernels become machine code and
 * are measured (registers, spills); memory is only counted; launches do nothing. What the step
 * would compile for that GPU is thereby known from the step itself, on any machine with NVRTC. */
#ifndef GS_OFFLINE_H
#define GS_OFFLINE_H

#include "device/device.h"
#include "jit/jit.h"

typedef struct gs_offline_kernel {
  const char *entry;
  gs_jit_use use; /* of machine code; PTX does not tell */
  gs_jit_code code;
} gs_offline_kernel;

/* arch: a row of the capability table, e.g. "sm_90a"; or "compute_80": PTX for GPUs that are not
 * known yet, of kernels scheduled for sm_80. */
gs_status gs_offline_open(const char *arch, const gs_device_options *o, gs_device **out,
                          gs_error *err);
int gs_offline_count(const gs_device *d);
const gs_offline_kernel *gs_offline_at(const gs_device *d, int i);
const gs_offline_kernel *gs_offline_find(const gs_device *d, const char *entry); /* NULL: none */
const char *gs_offline_compiler(const gs_device *d); /* gs_jit_build of its compiler */

#endif
