/* emu.h: what only the emulator can tell about its memory. All are harmless on other machines. */
#ifndef GS_EMU_H
#define GS_EMU_H

#include "device/device.h"

/* Checked mode: true when a byte of [p, p+bytes) was never written; *first is its offset.
 * Otherwise, and in every other mode, false. */
bool gs_emu_unwritten(gs_device *d, gs_ptr p, size_t bytes, size_t *first);

/* Makes [p, p+bytes) as if newly allocated: bytes of 0xff (a NaN in every float type) and, in
 * checked mode, uninitialised. */
gs_status gs_emu_poison(gs_device *d, gs_ptr p, size_t bytes, gs_error *err);

#endif
