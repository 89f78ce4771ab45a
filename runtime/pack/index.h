/* index.h: the JSON of a pack to records. Private to runtime/pack. */
#ifndef GS_PACK_INDEX_H
#define GS_PACK_INDEX_H

#include "pack/file.h"

/* blobs: where the code lies, `bytes` of it. Everything else goes to the arena. False: it is not
 * what a writer of this format writes. */
bool gs_pack_read_index(gs_arena *a, const char *json, size_t len, const char *blobs, size_t bytes,
                        gs_pack_about *out);

#endif
