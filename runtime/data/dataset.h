/* dataset.h: JSONL samples, tokenised, masked and packed into rows.
 *
 * A line has `text`, or `prompt` and `completion`, or `messages` ([{role, content}]). Loss falls on
 * all of a text, on the completion, or on the assistant's answers only (with the token that ends
 * them). A text and a completion end with the eos token. Other fields of a line are not looked at,
 * but for those that would change a conversation (tools, tool calls, reasoning), which are refused.
 */
#ifndef GS_DATASET_H
#define GS_DATASET_H

#include "data/tokenizer.h"

#include <stdbool.h>

#define GS_IGNORE (-100)

typedef struct gs_sample {
  int32_t *id;
  bool *answer; /* this token is to be predicted */
  int32_t n;
  int line; /* in the file, from 1 */
} gs_sample;

typedef struct gs_dataset {
  gs_sample *sample;
  int n;
  int ntruncated; /* samples longer than max_tokens, cut at the end */
} gs_dataset;

/* A chat template, recognised from the model's Jinja text (lua/chat). */
typedef struct gs_chat gs_chat;
/* An unrecognised template is GS_ERR_INPUT naming it and those that are known. */
gs_status gs_chat_open(const gs_tokenizer *t, gs_chat **out, gs_error *err);
void gs_chat_free(gs_chat *c);
/* One user message as a prompt that ends where the assistant begins; appends ids. */
gs_status gs_chat_prompt(const gs_chat *c, const gs_tokenizer *t, const char *user, gs_ids *out,
                         gs_error *err);

/* Errors name file and line (and byte offset of a JSON fault). */
gs_status gs_dataset_read(const char *path, const gs_tokenizer *t, int max_tokens, gs_dataset *out,
                          gs_error *err);
void gs_dataset_free(gs_dataset *d);

/* One packed row. Documents lie one after another; padding is a last document of its own whose
 * labels are all GS_IGNORE. A document is never split: it goes to the first row with room, in
 * order. */
typedef struct gs_row {
  int32_t *id; /* [seq] */
  int32_t
      *label; /* [seq]: the next token of the same document when it is an answer, else GS_IGNORE */
  int32_t *position; /* [seq]: from 0 in each document */
  int32_t *cu;       /* [documents + 1]: where each document begins, and the end of the row */
  int documents;     /* with padding */
  int nlabels;
  int ntokens; /* without padding */
} gs_row;

typedef struct gs_packed {
  gs_row *row;
  int nrows;
  int seq;
  int documents; /* most of a row, with padding */
} gs_packed;
/* order: a permutation of samples (NULL: file order). pad: the id that fills. documents: at most so
 * many in a row, with padding (at least 2); 0: any number. */
gs_status gs_pack_rows(const gs_dataset *d, const int *order, int seq, int documents, int32_t pad,
                       gs_packed *out, gs_error *err);
void gs_packed_free(gs_packed *p);

#endif
