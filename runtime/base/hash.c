/* hash.c: SHA-256 through libmd. */
#include "base/hash.h"

#include <sha2.h>
#include <stdio.h>
#include <string.h>

void gs_hash(const void *data, size_t n, uint8_t out[GS_HASH_BYTES]) {
  SHA2_CTX h;
  SHA256Init(&h);
  SHA256Update(&h, data, n);
  SHA256Final(out, &h);
}

static void add_text(SHA2_CTX *h, const char *s) {
  uint64_t n = strlen(s);
  uint8_t length[8];
  for (int i = 0; i < 8; i++) length[i] = (uint8_t)(n >> 8 * i);
  SHA256Update(h, length, sizeof length);
  SHA256Update(h, (const uint8_t *)s, n);
}

void gs_hash_texts(const char *const *texts, size_t n, char hex[GS_HASH_HEX]) {
  SHA2_CTX h;
  uint8_t digest[GS_HASH_BYTES];
  SHA256Init(&h);
  for (size_t i = 0; i < n; i++) add_text(&h, texts[i]);
  SHA256Final(digest, &h);
  for (int i = 0; i < GS_HASH_BYTES; i++) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}
