/* attention.h: what the files gen/emit/attention*.c share: a pass of gs.attention whose closed
 * forms are lowered, and the writing of a kernel from a piece of a template.
 *
 * A template knows tiles; formulas come in through its holes. In a piece a hole @{NAME} is what the
 * file of that template gives it, or one of the common ones (attention_text.c: common), or the
 * piece of the same file that has this name in lower case. Parameters are found in the text: each
 * word that names a tensor of the pass, its stride (NAME_ld), its map (NAME_map), a temporary or an
 * outer dim. */
#ifndef GS_EMIT_ATTENTION_H
#define GS_EMIT_ATTENTION_H

#include "emit/emit.h"

/* Leaves of the closed forms: the values that a template has under these names. */
typedef enum att_leaf {
  LEAF_S,
  LEAF_Z,
  LEAF_DZ,
  LEAF_QI,
  LEAF_KI,
  LEAF_HEAD,
  LEAF_N_Q,
  LEAF_N_K,
  LEAVES
} att_leaf;

typedef struct att {
  emit *e;
  kern k;
  unit none;                           /* its values have no rows */
  int t, s, b, kv, g, d;               /* dims: T, S, B1, K, G, D */
  int64_t heads, kheads, groups, size; /* K*G, K, G, D */
  gs_type type;                        /* of q */
  int leaf[LEAVES];                    /* values; -1: nothing reads it */
  bool *varies; /* by value: differs between the pairs of a head and document */
  int score, slope, first, last, sink; /* values; sink -1: none */
  const char *dsink; /* name of the result that is the gradient of the sink's logit */
  bool is_plain;     /* the score is s itself, its slope dz */
  const char *head_values, *score_text, *slope_text, *keys; /* of the kernel being written */
} att;

/* A kernel to be written. */
typedef struct att_kernel {
  const char *file, *piece; /* templates/FILE.cu */
  int threads;
  bool barrier_free, once;
  int64_t shared;
  gs_prelude_level prelude;
  gs_count grid;
  const char *tunables;
  const char *writes, *updates; /* temporaries, "delta,take": written; read and written */
  gs_hole own[64];
  int nown;
  struct {
    const char *tensor;
    gs_box box;
  } maps[8];
  int nmaps;
} att_kernel;

/* ---- attention_text.c ---- */
void att_lower(att *a); /* the closed forms, before the first kernel */
void att_hole(att_kernel *x, const char *name, const char *text);
void att_int(att *a, att_kernel *x, const char *name, int64_t value);
/* The hole is filled with that piece of the file, when all holes are known; NULL: with nothing. */
void att_piece(att *a, att_kernel *x, const char *name, const char *piece);
void att_map(att_kernel *x, const char *tensor, gs_box box);
const char *att_fill(att *a, const att_kernel *x, const char *piece); /* with its holes filled */
void att_begin(att *a); /* a kernel: names and texts of its closed forms; att_write does it too */
void att_write(att *a, const att_kernel *x);

/* ---- attention.c ---- */
int att_find(const att *a, const char *name); /* a bound tensor or a temporary; -1 */
bool att_wants(const att *a, const char *result);
int att_temp(att *a, const char *name, gs_type type, gs_count count);
gs_count att_count(int64_t coef, int dim);                    /* coef * size of dim */
void att_sink(att *a, int64_t threads, const char *delta_at); /* the gradient of the sink's logit */

/* ---- one file a family of templates ---- */
void att_plain(att *a);
bool att_tiles(att *a); /* false: no tile fits these heads, or the machine */
/* attention_plan.c: the list of tiles, as the temporary q_tiles or k_tiles, and the counter take.
 * tile: queries or keys of one; other: of a tile of the other side, for the costs. */
void att_plan(att *a, bool keys, int tile, int other);

#endif
