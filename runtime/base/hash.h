/* hash.h: SHA-256 (FIPS 180-4, libmd's), of one piece of memory or of a list of texts. */
#ifndef GS_HASH_H
#define GS_HASH_H

#include <stddef.h>
#include <stdint.h>

enum { GS_HASH_BYTES = 32, GS_HASH_HEX = 65 };

void gs_hash(const void *data, size_t n, uint8_t out[GS_HASH_BYTES]);
/* Each text goes in with its length, so that no two lists of texts give the same bytes. */
void gs_hash_texts(const char *const *texts, size_t n, char hex[GS_HASH_HEX]);

#endif
