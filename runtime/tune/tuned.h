/* tuned.h: where launch lists for a device are made: with what tuning found for that GPU and sizes
 * near these, else with the defaults. */
#ifndef GS_TUNE_TUNED_H
#define GS_TUNE_TUNED_H

#include "device/device.h"

typedef struct gs_tuned gs_tuned;

/* The user's records for this device. There are none for the emulator, and none where the store is
 * absent or can't be read: kernels then have their defaults, and `why` (cap bytes; may be NULL)
 * says so when a file is there that can't be read. Never NULL but without memory. */
gs_tuned *gs_tuned_open(gs_device *d, char *why, size_t cap);
void gs_tuned_close(gs_tuned *t); /* harmless on NULL */

/* sizes: of every dim of the pass's graph. A record whose tunables are no longer legal is passed
 * over. t may be NULL: defaults. *out: NULL, or the list with the defaults where it was made
 * already, which then stays where there is nothing better. */
gs_status gs_tuned_compile(gs_tuned *t, gs_device *d, const gs_pass *p, const int64_t *sizes,
                           const gs_launch_list **out, gs_error *err);

#endif
