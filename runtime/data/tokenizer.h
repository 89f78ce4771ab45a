/* tokenizer.h: Hugging Face tokenizer.json: byte-level BPE (pre-tokenizers ByteLevel, Split by a
 * regular expression, Digits, Metaspace, Sequence; normalizers NFC, NFD, NFKC, NFKD, Prepend,
 * Replace; added tokens; ignore_merges) and BPE with byte fallback (SentencePiece style). Anything
 * else in the file that would change the ids is refused by name. Thread-compatible: one tokenizer
 * may be read by several threads. Exhausted memory aborts, as in base/arena.h. */
#ifndef GS_TOKENIZER_H
#define GS_TOKENIZER_H

#include "gradsmith.h"

typedef struct gs_tokenizer gs_tokenizer;

typedef struct gs_ids {
  int32_t *id; /* malloc'ed; gs_ids_free */
  size_t n, cap;
} gs_ids;
void gs_ids_free(gs_ids *v);
void gs_ids_add(gs_ids *v, int32_t id);

/* dir: a model folder with tokenizer.json and, when there, tokenizer_config.json. */
gs_status gs_tokenizer_open(const char *dir, gs_tokenizer **out, gs_error *err);
void gs_tokenizer_free(gs_tokenizer *t);
/* Appends the ids of text (len bytes of UTF-8; an error names the offset of the first bad byte).
 * add_special: also what the post-processor adds. Special tokens written in the text become their
 * ids, as in the reference. */
gs_status gs_tokenizer_encode(const gs_tokenizer *t, const char *text, size_t len, int add_special,
                              gs_ids *out, gs_error *err);
/* The same, and for each id where in text (a byte offset) what it stands for ends: token k covers
 * ends[k - 1] .. ends[k]. What the post-processor adds stands for nothing, at 0 or at len. */
gs_status gs_tokenizer_encode_ends(const gs_tokenizer *t, const char *text, size_t len,
                                   int add_special, gs_ids *ids, gs_ids *ends, gs_error *err);
/* The text of ids; malloc'ed. skip_special leaves special tokens out. */
gs_status gs_tokenizer_decode(const gs_tokenizer *t, const int32_t *id, size_t n, int skip_special,
                              char **text, gs_error *err);
int32_t gs_tokenizer_id(const gs_tokenizer *t, const char *token); /* -1 when there is none */
int32_t gs_tokenizer_eos(const gs_tokenizer *t);                   /* -1 when unknown */
int32_t gs_tokenizer_bos(const gs_tokenizer *t); /* -1 unless add_special begins with it */
int32_t gs_tokenizer_size(const gs_tokenizer *t);
/* The Jinja chat template of tokenizer_config.json or chat_template.jinja; NULL when there is none.
 */
const char *gs_tokenizer_chat_template(const gs_tokenizer *t);

#endif
