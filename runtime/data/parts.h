/* parts.h: the inside of the tokenizer and of the data set reader, shared by the files of this
 * folder and by nobody else. Text flows through it as in the reference: cut at added tokens,
 * normalised, cut into words, each word merged into tokens. Every byte under way knows where its
 * source ends in the caller's text, so that a token can be told to belong to an answer or not. */
#ifndef GS_DATA_PARTS_H
#define GS_DATA_PARTS_H

#include "data/dataset.h"

#include <jansson.h>
#include <pcre2.h>
#include <stdbool.h>

/* --- memory: compile-time sized data; exhaustion aborts, as in base/arena.h --- */
void *gs_tk_grow(void *p, size_t *cap, size_t need, size_t size); /* at least need elements */
char *gs_tk_strndup(const char *s, size_t n);

/* --- utf8.c --- */
/* Bytes of the character at s (n > 0 left), *c its code point; 0 when it is not well formed. */
int gs_utf8_next(const char *s, size_t n, uint32_t *c);
int gs_utf8_put(char *out, uint32_t c); /* out: 4 bytes; how many were written */
/* Offset of the first byte that is not well-formed UTF-8; n when all is well. */
size_t gs_utf8_check(const char *s, size_t n);
bool gs_utf8_white(uint32_t c); /* Unicode White_Space */
/* A copy in which every ill-formed part became U+FFFD, as Rust's from_utf8_lossy; malloc'ed. */
char *gs_utf8_lossy(const char *s, size_t n, size_t *len);

/* --- table.c: strings to ids, pairs of ids to merges --- */
typedef struct gs_words {
  char *text; /* all strings, one after another */
  size_t text_n, text_cap;
  struct gs_word {
    size_t at;
    uint32_t n;
    int32_t id;
  } * v;
  size_t n, cap;
  uint32_t *slot; /* index in v plus one */
  size_t nslot;
} gs_words;
void gs_words_free(gs_words *w);
int32_t gs_words_find(const gs_words *w, const char *s, size_t n);   /* -1 when there is none */
void gs_words_put(gs_words *w, const char *s, size_t n, int32_t id); /* the later one wins */

typedef struct gs_merge {
  int32_t rank, id;
} gs_merge;
typedef struct gs_pairs {
  struct gs_pair {
    uint64_t key;
    gs_merge m;
  } * slot; /* key 0: free */
  size_t n, nslot;
} gs_pairs;
void gs_pairs_free(gs_pairs *p);
const gs_merge *gs_pairs_find(const gs_pairs *p, int32_t a, int32_t b); /* NULL when none */
void gs_pairs_put(gs_pairs *p, int32_t a, int32_t b, gs_merge m);       /* the later one wins */

/* --- text under way --- */
typedef struct gs_buf {
  char *s;
  int32_t *end; /* per byte: offset in the caller's text where what it stands for ends */
  size_t n, cap;
} gs_buf;
void gs_buf_free(gs_buf *b);
/* n bytes whose sources end one byte after another from `from` (each: all of them end at from). */
void gs_buf_add(gs_buf *b, const char *s, size_t n, int32_t from, bool each);
void gs_buf_copy(gs_buf *b, const gs_buf *src, size_t at, size_t n);

typedef struct gs_cut {
  size_t at, n;
  bool match;
} gs_cut;
typedef struct gs_cuts {
  gs_cut *v;
  size_t n, cap;
} gs_cuts;
void gs_cuts_add(gs_cuts *c, size_t at, size_t n, bool match);

/* --- regex.c: Oniguruma's patterns (Ruby syntax) run by PCRE2 --- */
typedef struct gs_match { /* what matching needs; one a thread */
  pcre2_match_data *data;
  pcre2_match_context *context;
  pcre2_jit_stack *stack;
} gs_match;
gs_status gs_match_init(gs_match *m, gs_error *err);
void gs_match_free(gs_match *m);
/* literal: the pattern is a plain string. A construct that the two read differently is refused. */
gs_status gs_regex_compile(const char *pattern, size_t n, bool literal, pcre2_code **out,
                           gs_error *err);
/* All of s as alternating rest and match, empty rests left out; appends to *out. */
gs_status gs_regex_cuts(const pcre2_code *re, const gs_match *m, const char *s, size_t n,
                        gs_cuts *out, gs_error *err);

/* --- normalize.c --- */
typedef enum gs_norm_kind { GS_NORM_FORM, GS_NORM_PREPEND, GS_NORM_REPLACE } gs_norm_kind;
typedef struct gs_norm {
  gs_norm_kind kind;
  int form;   /* utf8proc options */
  char *text; /* what is put in */
  size_t text_n;
  pcre2_code *re; /* what it replaces */
} gs_norm;
typedef struct gs_norms {
  gs_norm *v;
  size_t n, cap;
} gs_norms;
void gs_norms_free(gs_norms *s);
/* text in place; spare is scratch. */
gs_status gs_normalize(const gs_norms *s, const gs_match *m, gs_buf *text, gs_buf *spare,
                       gs_error *err);

/* --- pretokenize.c --- */
typedef enum gs_behavior {
  GS_ISOLATED,
  GS_REMOVED,
  GS_CONTIGUOUS,
  GS_WITH_PREVIOUS,
  GS_WITH_NEXT
} gs_behavior;
typedef enum gs_pre_kind { GS_PRE_SPLIT, GS_PRE_BYTES, GS_PRE_METASPACE } gs_pre_kind;
typedef enum gs_prepend { GS_PREPEND_NEVER, GS_PREPEND_FIRST, GS_PREPEND_ALWAYS } gs_prepend;
typedef struct gs_pre {
  gs_pre_kind kind;
  pcre2_code *re; /* SPLIT; METASPACE when it splits; BYTES when use_regex */
  gs_behavior behavior;
  bool invert;
  gs_prepend prepend; /* of a space (BYTES) or the replacement (METASPACE) */
  char mark[4];       /* METASPACE */
  int mark_n;
} gs_pre;
typedef struct gs_pres {
  gs_pre *v;
  size_t n, cap;
} gs_pres;
void gs_pres_free(gs_pres *s);
typedef struct gs_pieces {
  gs_buf text, spare;
  gs_cuts v, vspare, cuts; /* v: the pieces (match unused) */
} gs_pieces;
void gs_pieces_free(gs_pieces *p);
/* p->v, p->text hold one piece or more; afterwards the words. first: the text begins the input. */
gs_status gs_pretokenize(const gs_pres *s, const gs_match *m, bool first, gs_pieces *p,
                         gs_error *err);
void gs_cuts_apply(const gs_cuts *in, gs_behavior b, bool invert, size_t base, gs_cuts *out);
int gs_byte_char(unsigned char b, char out[4]); /* GPT-2's printable character of a byte */
int gs_char_byte(uint32_t c);                   /* and back; -1 when it is none */

/* --- bpe.c --- */
typedef struct gs_symbol {
  int32_t id, prev, next, end;
} gs_symbol;
typedef struct gs_entry {
  int32_t rank, pos, id;
} gs_entry;
typedef struct gs_bpe {
  gs_words vocab;
  gs_pairs merges;
  int32_t unk; /* -1: characters without a token vanish */
  bool fuse_unk, byte_fallback, ignore_merges;
  int32_t byte_id[256]; /* <0xNN>, -1 where absent */
  int32_t char_id[512]; /* tokens of one character below U+0200 */
} gs_bpe;
void gs_bpe_finish(gs_bpe *b); /* fills byte_id and char_id from vocab */
void gs_bpe_free(gs_bpe *b);
typedef struct gs_bpe_work {
  gs_symbol *sym;
  size_t sym_cap;
  gs_entry *heap;
  size_t nheap, heap_cap;
} gs_bpe_work;
/* Appends the tokens of one word, and to ends where each ends. */
void gs_bpe_word(const gs_bpe *b, gs_bpe_work *w, const char *s, const int32_t *end, size_t n,
                 gs_ids *ids, gs_ids *ends);

/* --- added.c --- */
typedef struct gs_added {
  char *content;
  size_t n;
  int32_t id;
  bool special, single_word, lstrip, rstrip, normalized;
} gs_added;
typedef struct gs_finder { /* longest match first, over a byte trie */
  struct gs_node {
    int32_t child, sibling, token;
    unsigned char byte;
  } * node;
  size_t n, cap;
  int32_t root[256];
} gs_finder;
void gs_finder_free(gs_finder *f);
void gs_finder_put(gs_finder *f, const char *s, size_t n, int32_t token);
/* s cut at the added tokens: of a piece that is none, token is -1. */
typedef struct gs_part {
  size_t at, n;
  int32_t token;
} gs_part;
typedef struct gs_parts {
  gs_part *v;
  size_t n, cap;
} gs_parts;
void gs_finder_split(const gs_finder *f, const gs_added *added, const pcre2_code *word,
                     const gs_match *m, const char *s, size_t n, gs_parts *out);

/* --- decode.c --- */
typedef enum gs_dec_kind {
  GS_DEC_BYTES,
  GS_DEC_REPLACE,
  GS_DEC_FALLBACK,
  GS_DEC_FUSE,
  GS_DEC_STRIP,
  GS_DEC_METASPACE
} gs_dec_kind;
typedef struct gs_dec {
  gs_dec_kind kind;
  pcre2_code *re;
  char *text;
  size_t text_n;
  int start, stop;
  bool keep_first; /* METASPACE: the first token keeps its mark */
} gs_dec;
typedef struct gs_decs {
  gs_dec *v;
  size_t n, cap;
} gs_decs;
void gs_decs_free(gs_decs *s);

/* --- the whole --- */
struct gs_tokenizer {
  gs_added *added;
  size_t nadded, added_cap;
  gs_finder raw, normal; /* added tokens matched before and after normalising */
  gs_words added_id;
  pcre2_code *word; /* a word character, for single_word */
  gs_norms norm;
  gs_pres pre;
  gs_bpe bpe;
  gs_decs dec;
  gs_ids before, after; /* what the post-processor puts around */
  struct {
    const char *s;
    size_t n;
    int32_t added;
  } * token;    /* by id; s NULL where there is none */
  int32_t size; /* largest id plus one */
  char *bos_text, *eos_text, *chat;
  int32_t bos, eos;
  int add_bos, add_eos; /* -1: the files do not say */
};
/* json.c: small readers that refuse by name; where: "tokenizer.json: pre_tokenizer" */
gs_status gs_json_only(const json_t *o, const char *where, const char *keys, gs_error *err);
gs_status gs_json_bool(const json_t *o, const char *where, const char *key, bool fallback,
                       bool *out, gs_error *err);
gs_status gs_json_text(const json_t *o, const char *where, const char *key, const char **s,
                       size_t *n, gs_error *err);
gs_status gs_json_file(const char *path, json_t **out, gs_error *err);
/* load.c, config.c: fill *t from the files' JSON. */
gs_status gs_load_norms(const json_t *j, const char *where, gs_norms *out, gs_error *err);
gs_status gs_load_pres(const json_t *j, const char *where, gs_pres *out, gs_error *err);
gs_status gs_load_decs(const json_t *j, const char *where, gs_decs *out, gs_error *err);
gs_status gs_load_pattern(const json_t *o, const char *where, pcre2_code **out, gs_error *err);
gs_status gs_load_bpe(const json_t *j, const char *where, gs_bpe *out, gs_error *err);
gs_status gs_load_tokenizer(gs_tokenizer *t, const json_t *j, const char *where, gs_error *err);
gs_status gs_load_config(gs_tokenizer *t, const char *dir, gs_error *err);

/* --- chat.c --- */
typedef struct gs_message {
  const char *role, *content;
  size_t content_n;
} gs_message;
typedef struct gs_segment {
  char *text;
  size_t n;
  bool answer;
} gs_segment;
typedef struct gs_segments {
  gs_segment *v;
  size_t n, cap;
} gs_segments;
void gs_segments_free(gs_segments *s);
/* The rendered conversation, in pieces; generate: it ends where the assistant begins. */
gs_status gs_chat_render(const gs_chat *c, const gs_message *m, size_t n, bool generate,
                         gs_segments *out, gs_error *err);
/* A template's key: length and hash of its text with the whitespace that Jinja ignores put in one
 * form. out: 64 bytes. */
void gs_chat_key(const char *jinja, char *out);
/* For a template known by its key alone. */
gs_status gs_chat_open_key(const gs_tokenizer *t, const char *key, const char *head, gs_chat **out,
                           gs_error *err);
const char *gs_chat_name(const gs_chat *c);

#endif
