/* emit.h: what the files of gen/emit share: one compilation, the lowered values, a kernel being
 * made.
 *
 * The way of a pass: schedule.c cuts it into units; lower.c turns the expressions of a unit into
 * lowered values, in which views have become index arithmetic; geometry.c chooses threads and
 * vectors; body.c writes the C of loops over values; a file per template puts the pieces together.
 */
#ifndef GS_EMIT_H
#define GS_EMIT_H

#include "emit/compile.h"
#include "emit/expand.h"

#define MAX_TERMS 8 /* variables in one index */
#define MAX_INNER 6 /* dims of an inner space */
#define MAX_STORES 24
#define MAX_SIDES 4 /* of different inner dims among the stores of a map */
#define MAX_LOOPS 160
#define OPAQUE 64 /* index variable OPAQUE + v is the integer value number v */

/* a / b, rounded up */
static inline int64_t up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/* An index: c + sum coef[k]*var[k]; var below OPAQUE is a dim's loop variable. Sorted by var. */
typedef struct aff {
  int64_t c;
  int n;
  int var[MAX_TERMS];
  int64_t coef[MAX_TERMS];
} aff;

typedef enum val_kind {
  VAL_CONST,
  VAL_SCALAR,
  VAL_LOAD,
  VAL_INDEX,
  VAL_SIZE,
  VAL_QUOTIENT,
  VAL_REMAINDER,
  VAL_LEFT,   /* how much of dim lies past index off: at least 0, at most `index` */
  VAL_INSIDE, /* the argument, taken into the range of dim where it is outside */
  VAL_OP,
  VAL_REDUCE,
  VAL_STATE,   /* of a fold's program: component `index` */
  VAL_ELEMENT, /* of a fold's program: element `index` */
} val_kind;

/* A lowered value; equal numbers mean equal values, arguments have smaller numbers. */
typedef struct val {
  val_kind kind;
  gs_type type;
  gs_op op;
  gs_type to; /* ROUND */
  int nargs;
  int arg[GS_MAX_ARGS];
  int mem;       /* LOAD, SCALAR */
  int row, off;  /* LOAD: index of the first dim (-1 when contiguous) and of the rest; INDEX: off */
  int guard;     /* LOAD: reads only where this value is true; -1 none */
  int dim;       /* SIZE, LEFT, INSIDE; REDUCE by a fold: the component of its state */
  int64_t index; /* QUOTIENT, REMAINDER: the divisor; REDUCE by a fold: its number; BUCKET, LOOKUP:
                    the table */
  double value;
  gs_dims rdims;
  bool captured; /* REDUCE: it is read at an index along the dims that it runs over itself */
  gs_dims deps;  /* loop variables that it depends on */
  double lo, hi; /* bounds */
  int level;     /* reductions below */
  int line;
} val;

/* Something in memory: a leaf tensor, a result, or a temporary of the launch list. */
typedef struct mem {
  const char *name; /* as in C */
  gs_type type;
  int ndims;
  int dim[GS_MAX_RANK];
  int binding; /* or -1 */
  int temp;    /* or -1 */
  int tensor;  /* of the graph, or -1 */
  int shares;  /* result in place: the mem of its partner, or -1 */
  gs_role role;
  int partials; /* a sum still in parts: the mem of the parts, or -1 */
  gs_op parts_op;
} mem;

typedef struct memo {
  struct memo *next;
  int holds, val;
  int at[]; /* index and guard of each dim of the node, ascending */
} memo;

/* What a unit writes: memory at an index gets a value, for every point of dims. */
typedef struct store {
  int mem;
  int row, off;
  int value;
  int guard; /* a truth value: written only where it holds; -1 always */
  bool add;
  gs_dims dims;
} store;

/* What a unit sums over its rows, and over dims of u->kept that it has not itself. */
typedef struct column {
  const char *name; /* of its accumulators */
  int mem;          /* the parts */
  int total;        /* mem of the finished sum */
  gs_op op;
  int value;
  gs_dims kept, rdims;
} column;

typedef struct space {
  int n;
  int dim[MAX_INNER];
  int64_t size[MAX_INNER], stride[MAX_INNER];
  int64_t count;
  int vec;
  bool shifted;             /* vectors begin where the row of that memory is aligned */
  int shift_mem, shift_row; /* its row's index */
} space;

typedef enum unit_kind {
  UNIT_MAP,
  UNIT_ROW,
  UNIT_COLUMNS,
  UNIT_ALL,
  UNIT_TOTAL,
  UNIT_SUM_BY
} unit_kind;

/* A kernel before its geometry. */
typedef struct unit {
  unit_kind kind;
  int nstores, ncolumns;
  store stores[MAX_STORES];
  column columns[MAX_STORES];
  int parts_unit; /* TOTAL: the unit that makes the parts */
  gs_dims kept;   /* of the columns */
  gs_dims rows;   /* dims of which each row is one point */
  int nrow;
  int row_dim[GS_MAX_RANK];
  bool reduces;        /* has reductions over inner dims */
  bool gathers;        /* reads a row in place elsewhere than it writes */
  bool overlaps;       /* its kernel may begin before that of the unit before has ended */
  const char *formula; /* comment lines of the banner, or NULL */
  int line;
  int key; /* SUM_BY: the key's value, at the dim from */
  int from, to;
  /* chosen when it is written; TOTAL reads those of its parts */
  int64_t per_block;  /* rows of a block at a time */
  int64_t cap;        /* blocks of a persistent kernel */
  int64_t parts_each; /* parts that a block writes; of a sum to a number: one */
  space parts_space;  /* how a part of a sum to more than a number lies */
  bool is_cut;        /* made for what comes next, which reads it */
} unit;

typedef struct tuning tuning;

typedef struct emit {
  const gs_pass *pass;
  const gs_caps *caps;
  gs_graph *g;
  gs_arena *a;
  gs_error *err;
  gs_status status; /* the first failure, sticky */
  const char *file, *layer;
  gs_launch_list *list;
  tuning *tuning;
  mem *mems;
  int nmems, cap_mems;
  aff *affs;
  int naffs, cap_affs;
  val *vals;
  int nvals, cap_vals;
  memo **memos; /* by node */
  gs_id nmemos;
  gs_result *results; /* copies: exprs are replaced as sums are cut out */
  bool *done;
  int *result_mem;
  unit **units;
  int nunits, cap_units, round_start;
  int cap_kernels, cap_temps;
  gs_text *schedule_dump;
} emit;

/* Records the first failure: "FILE:LINE: error: ..." when line > 0. */
void emit_fail(emit *e, int line, const char *fmt, ...) GS_PRINTF(3, 4);

/* ---- lower.c ---- */
typedef struct where_at {
  int at[GS_MAX_DIMS];    /* an aff for each dim */
  int guard[GS_MAX_DIMS]; /* a truth value where that index lies inside its dim; -1: always */
  int holds;              /* elsewhere the value does not matter; -1: it always does */
} where_at;
int aff_const(emit *e, int64_t c);
int aff_var(emit *e, int var);
int aff_add(emit *e, int a, int b);
int aff_scale(emit *e, int a, int64_t k);
gs_dims aff_deps(const emit *e, int a);
int aff_level(const emit *e, int a);
int64_t aff_coef(const emit *e, int a, int var);
void where_loops(emit *e, where_at *w);                  /* every dim at its own loop variable */
void where_view(emit *e, const gs_node *n, where_at *w); /* past a view node, to its argument */
int lower(emit *e, gs_id id, const where_at *w);
int val_make(emit *e, const val *v);
/* Where an element of m lies for the dims' indices in w. */
void mem_index(emit *e, const mem *m, const where_at *w, int *row, int *off);
int64_t dim_size(const emit *e, int d); /* -1 for an outer dim */
bool dim_is_outer(const emit *e, int d);
int dim_root(const emit *e, int d); /* the dim whose size argument gives that of d */

void count_dim(const emit *e, gs_count *c, int d); /* times the size of d */

/* ---- range.c ---- */
void val_bounds(const emit *e, val *v);
bool is_narrow(const emit *e, int v); /* an integer that is an `int` in the text */
const char *value_type(const emit *e, int v);
bool is_inside(const emit *e, int at, int d); /* proves that the index lies inside the dim */
bool aff_fits_int(const emit *e, int at);     /* but for its outer dims */

/* Guards: whether the index lies below the size of a dim; both of two. -1: always. */
int below_size(emit *e, int at, int d);
int both_guards(emit *e, int guard, int other);

/* ---- stores.c ---- */
bool reduces_dims(gs_op op); /* schedule.c */
/* The dim of m's two, a merge, that the merged value joins, or -1. */
int joined_dim(const emit *e, const gs_node *m);
void halve_reductions(emit *e); /* halves.c */
/* The stores of a value into memory, over loops that suit the value. */
void add_stores(emit *e, unit *u, int to, gs_id expr, bool add);
/* One store at a point, over the dims of the memory. */
void add_point_store(emit *e, unit *u, int to, gs_id expr, const where_at *w, bool add);

/* ---- memory.c ---- */
/* line: of the author's file, for mistakes. input: receives a node that reads it, or NULL. */
int mem_temp(emit *e, const char *name, gs_type type, gs_dims dims, int line, gs_id *input);
void mem_allocate_temp(emit *e, int mem, gs_count count);
gs_status memory_bind(emit *e);
int memory_add_leaf(emit *e, int tensor); /* binds a tensor that the results do not read */
const char *c_name(emit *e, const char *name);
int64_t mem_packed(const emit *e, const mem *m); /* elements of the packed part */
int mem_real(const emit *e, int m);              /* of a result in place: what it is written over */
void share_in_place(emit *e);                    /* inplace.c: proves or refuses results in place */
/* Whether two units may run at the same time: neither reads or writes what the other writes, in
 * place too. */
bool are_apart(const emit *e, const unit *a, const unit *b);
void share_same(emit *e, int r); /* result r lies in the earlier one of the same value */

/* ---- schedule.c ---- */
gs_status schedule(emit *e);
void replace_node(emit *e, gs_id from, gs_id to); /* in all results */

/* ---- tunables.c ---- */
/* The value of a tunable of the kernel being planned: by_default, or what the caller asks for where
 * it is one of legal[0..n); else a failure that tuning_end reports. What is legal may depend on
 * tunables asked for before. Notes default and legal values in the launch list. */
int64_t tunable(const emit *e, const char *template_name, const char *name, int64_t by_default,
                const int64_t *legal, int n);
void tuning_begin(emit *e, const char *wanted);
void tuning_end(emit *e);

/* ---- geometry.c ---- */
/* The order of inner dims (the last is the one that vectors lie along), and the vector width. */
void space_of(emit *e, gs_dims inner, const int *values, int nvalues, const store *const *st,
              int nst, space *out);
bool is_contiguous(const emit *e, int mem, int off, const space *s);
/* Whether neighbours along the last dim lie `apart` elements apart, and a vector's first is aligned
 * for all that lies between as well. */
bool lies_apart(const emit *e, int mem, int off, const space *s, int64_t apart);
void unit_rows(emit *e, unit *u); /* orders u->rows into row_dim */
gs_count count_rows(const emit *e, const unit *u, int64_t per_block, int64_t cap);
typedef struct geometry {
  int threads, lanes; /* lanes threads share a row */
  int per_block;      /* rows of a block at a time */
  int chunks;         /* vectors of a row that a thread has, at most */
  int cluster;        /* blocks that share a row, where there are more than one */
  bool apart;         /* each chunk under a test of its own: interleaved they take more registers */
  int blocks;         /* that a processor is to hold at once; 1: as many as come out */
  int64_t cap;        /* blocks of a persistent kernel */
  int ahead;          /* rows that are copied to shared memory before it is their turn */
  bool bulk;          /* by bulk copies of thread 0: a row's place is free when all have read it */
  bool resident;      /* what is read twice stays in registers */
  bool fixed;         /* what all rows read, too: else in shared memory, or when it is needed */
  bool compensated;   /* column sums carry their rounding error along */
  bool carried;       /* column sums go to shared memory after every LONGEST_CHAIN rows */
  int64_t shared;     /* bytes of it that are not static */
  int ring;           /* places for pieces of rows in shared memory; 0: none */
  int each;           /* of a ring: vectors that a thread has of a piece */
  int64_t part;       /* of a ring: vectors of the row that a block has */
} geometry;
/* What a kernel of rows asks for. */
typedef struct demand {
  int64_t count; /* elements of a row */
  int vec;
  bool persistent;
  int kept, fixed; /* registers that a vector takes of what is read twice; of what all rows read */
  int staged;      /* bytes of an element of what can be copied ahead */
  int near;        /* registers of a vector of what rows beside one another read */
  int once;        /* registers of a vector of that of it which one loop alone reads */
  bool flat;       /* it lies as bulk copies take it, and the row's threads meet */
  int same;        /* bytes of an element of what all rows read */
  int sums;        /* over the columns */
  int levels;      /* of reductions */
  int streams;     /* vectors that a loop has in hand at once */
  int work;        /* operations on an element, */
  bool costly;     /* an exponential, a quotient or the like among them */
} demand;
void geometry_row(const emit *e, const demand *d, geometry *out);
/* A long row that threads keep in registers, `registers` a vector: for one block, or the blocks of
 * a cluster; false, and *g as it was, where that is not for this row. */
bool long_row(const emit *e, int64_t vectors, int64_t registers, geometry *g);
/* Whether two such rows are too much for the registers of a processor. */
bool two_rows_exceed(const emit *e, int64_t vectors, int64_t registers);
#define MEETING 16       /* f32 of an exchange in a cluster, at most */
#define LONGEST_CHAIN 16 /* additions in a row without carrying the rounding error along */

/* ---- body.c: a kernel being written ---- */
typedef struct kern {
  emit *e;
  unit *u;
  const char **name; /* of each value, in scope */
  int *uses;
  bool *used_inside;            /* by a value that differs along the row */
  const char *var[GS_MAX_DIMS]; /* text of each loop variable */
  gs_text o;
  int depth;
  const space *s;   /* of the loop being written, or NULL */
  const char *flat; /* text of the flat index of that loop: "i" */
  bool in_lane;
  const char *live; /* a condition for row loads, or NULL */
  struct {
    int mem, row;
    const char *name;
  } bases[64];
  int nbases;
  const char **taken; /* names in scope */
  int ntaken, cap_taken;
  bool scratch;        /* block sums meet in shared memory */
  int meets;           /* exchanges of a cluster, each through an array of its own */
  int areas;           /* floats of scratch that single collectives have to themselves */
  const char *dynamic; /* declarations of shared memory that is not static, or NULL */
  int64_t dynamic_bytes;
  unsigned fold_f32, fold_i64; /* bits: components of folds that do */
  bool *tables;                /* by number: read */
  bool *near_tables;           /* by number: looked up in a copy in shared memory, tableN_at */
  bool whole;                  /* no limit ends a row: they are left out */
  bool near_exp;               /* what is being written is stored in 16 bits or fewer */
  int ntables;
  int counter;
  bool *reads, *writes, *strides; /* by mem */
  gs_box *maps; /* by mem: of its tensor map; rows 0: it has none. NULL: no mem has one */
  bool dims[GS_MAX_DIMS];
  struct {
    int value;
    const char *name; /* of registers, or NULL */
    const char *ring; /* of shared memory, or NULL */
    const char *from; /* what precedes the index there */
    bool loaded;
    bool packed; /* vectors as they lie in memory */
  } kept[32];    /* loads that stay on the chip */
  int pass;      /* number of the loop over a row, 0 ... 7 */
  int nkept;
  const char *chunk; /* the text "[c]" that follows their names */
  struct {
    int value;
    const char *text;
  } edges[8]; /* the lane's element outside of vectors, loaded at the row's beginning */
  int nedges;
  bool rows_apart;   /* a row's beginning is not to be joined with the places in it */
  const char *place; /* of a ring: where the vector in hand lies */
  const char *again; /* bulk copies: what begins those of a later row, or NULL */
} kern;

typedef enum term_kind { TERM_STORE, TERM_REDUCE } term_kind;
typedef struct term { /* what a loop does with a value */
  term_kind kind;
  int value;
  const store *st;
  const char *name;  /* accumulator: NAME_acc, NAME_comp */
  const char *chunk; /* follows the accumulator: "" or "[c]" */
  gs_op op;
  bool compensated;
  int made; /* REDUCE of a row: the value that it makes (of a fold: one of its components) */
  /* of a logsumexp: what is taken from all of it, or -1; its maximum, where it is known before */
  int shift;
  const char *top;
} term;
#define MAX_TERM_VALUES (MAX_STORES * 2 * GS_MAX_ARGS)

void kern_begin(kern *k, emit *e, unit *u);
void kern_uses(kern *k, const int *roots, int n);
void line(kern *k, const char *fmt, ...) GS_PRINTF(2, 3);
void open_block(kern *k, const char *fmt, ...) GS_PRINTF(2, 3);
void close_block(kern *k);
const char *take_text(kern *k); /* what was written since the last take */
const char *fmt(kern *k, const char *f, ...) GS_PRINTF(2, 3);
const char *unique(kern *k, const char *stem);
const char *value_text(kern *k, int v);
/* Whether a value is one number for a whole row. */
bool is_of_row(const kern *k, int v);
const char *number_text(kern *k, gs_type type, double value);
const char *bare_text(kern *k, int v); /* without outer parentheses */
const char *aff_text(kern *k, int a);
const char *place_text(kern *k, int mem, int row, int off);
const char *dim_text(kern *k, int d); /* the size of a dim */
/* How many elements from a vector's first on a guard lets pass, where it is a limit along the last
 * dim of s, neighbours being `apart`; else NULL. */
const char *guard_limit(kern *k, int guard, const space *s, int64_t apart);
bool is_limit(const emit *e, int guard, const space *s, int64_t apart);
/* stop: names in scope, below which nothing is looked at; or NULL. */
void collect(const emit *e, const int *roots, int n, bool *seen, bool into_reductions,
             const char *const *stop);

/* ---- rows.c ---- */
const char *rows_text(kern *k); /* number of rows of the unit */
const char *row_name(kern *k);  /* the variable that counts rows */
void row_bind(kern *k);         /* declares the other loop variables of the row */
void row_values(kern *k, const int *roots, int n, int level);
void row_bases(kern *k, const int *loads, int n); /* where the row of each lies */
void row_store(kern *k, const store *st, const char *when);
/* Loads 16 bits that are widened where they are used, so that nobody waits for them before that;
 * when: a condition, or NULL: 0 elsewhere. The text of the value. */
const char *late_load(kern *k, int v, const char *when);

/* ---- fold.c: reductions by the author's own step and merge ---- */
bool same_fold(const val *a, const val *b); /* components of one accumulation */
void fold_declare(kern *k, const term *t);
void fold_step(kern *k, const term *t); /* the elements of one point enter the state */
/* Merges the lanes of a row; every one gets the result, under a name in k->name. */
void fold_finish(kern *k, const geometry *g, const term *t);

/* ---- step.c ---- */
/* The values that terms read, into out[MAX_TERM_VALUES]; how many. */
int term_values(const emit *e, const term *terms, int n, int *out);
/* The inside of one step of a loop over s: loads, arithmetic, terms, stores. */
void write_step(kern *k, const space *s, const char *flat, const term *terms, int n);
typedef struct fetch { /* of a vector of a load that is held */
  int value;
  const char *to;   /* registers, or NULL: into the ring */
  const char *ring; /* registers: from the ring where there is one */
  const char *at;   /* what precedes the index there */
} fetch;
void write_fetch(kern *k, const space *s, const fetch *f);
void declare_sum(kern *k, const term *t, int vec, const char *dims);
const char *fold_lanes(kern *k, const char *array, int vec, gs_op op); /* writes; the text left */

/* ---- loop.c ---- */
typedef struct loop {
  int level; /* of its reductions; stores come last */
  space s;
  term terms[MAX_STORES * 2];
  int nterms;
  gs_dims inner;
} loop;
const char *lane_name(const geometry *g);
bool is_chunked(const geometry *g, const space *s);
void write_loop(kern *k, const geometry *g, const loop *l, bool chunked);
const char *collective(kern *k, const geometry *g, gs_op op, const char *value);
/* Where in `scratch` n values of a block meet, apart from the meetings before and after. */
const char *meeting_area(kern *k, const geometry *g, int n);
const char *block_collective(kern *k, const geometry *g, gs_op op, const char *value);
const char *geometry_text(kern *k, const geometry *g, int vec, const char *more);

/* One step a chunk: what follows is inside, up to close_chunks. Returns whether there is a test. */
bool open_chunks(kern *k, const geometry *g, const space *s);
void close_chunks(kern *k, const geometry *g, bool tested);

/* ---- held.c: what a kernel of rows holds on the chip ---- */
typedef struct held {
  int value;
  bool twice;       /* several loops read it */
  bool same;        /* all rows read the same */
  bool packed;      /* can stay as it lies in memory, and be fetched before the first loop */
  bool near;        /* rows beside one another read the same: there it comes from a cache */
  bool staged;      /* can be copied ahead */
  bool early;       /* of a row that a few lanes have at once: fetched with what comes first */
  const char *next; /* near: registers of the next row's, or NULL */
} held;
enum { MAX_NEXT = 8 };
typedef struct plan {
  loop *loops[MAX_LOOPS];
  int nloops;
  int roots[MAX_STORES * 3], nroots;
  int levels;
  space main; /* the longest */
  geometry g;
  held held[32];
  int nheld;
  int next[MAX_NEXT]; /* loads of one element a row that are made a row ahead */
  const char *next_name[MAX_NEXT];
  int nnext;
} plan;
bool same_space(const space *a, const space *b);
void find_held(kern *k, plan *p);
void count_demand(kern *k, const plan *p, demand *d);
void hold_same(kern *k, plan *p);  /* before the rows */
void copy_ahead(kern *k, plan *p); /* begins the copies of one row */
void hold_row(kern *k, plan *p);   /* before the first loop over a row */
/* What a row has one of, where rows are copied ahead: its first is loaded before the rows, each
 * next one while the row before it is in hand. */
void load_first(kern *k, plan *p);
void load_next(kern *k, plan *p);

void keep(kern *k, const held *h, const char *name, const char *ring, const char *from);
const char *declare_ring(kern *k, int v, int64_t elements);

/* ---- ring.c: long rows in shared memory ---- */
/* Bytes of a vector of all that several loops over the row read; 0: not to be copied in bulk. */
int64_t ring_bytes(const kern *k, const plan *p);
/* Whether a load lies along the main space as bulk copies take it. */
bool copied_whole(const emit *e, const plan *p, const val *x);
/* As long_row, by a ring. */
bool ring_row(const emit *e, int64_t vectors, int64_t registers, int64_t bytes, geometry *g);
/* Declares the ring; the text that begins the copies of a piece. */
const char *ring_begin(kern *k, plan *p);
bool ring_open(kern *k, const geometry *g, const space *s); /* as open_chunks */
void ring_close(kern *k, const geometry *g);
const char *ring_finish(kern *k, const char *body, const char *copies);

/* ---- shift.c: long rows that begin anywhere ---- */
bool shift_rows(kern *k, plan *p); /* true: the loops along the row are shifted */
void unshift_rows(plan *p, int vec);
bool is_shifted_access(const emit *e, int m, int off, const space *s);
void declare_head(kern *k, const plan *p);
void declare_shift(kern *k, const plan *p);
void write_edges(kern *k, const loop *l);

/* ---- record.c: from text to a kernel record ---- */
typedef struct shape {
  const char *template_name, *piece;
  int threads;
  bool barrier_free;
  int64_t shared; /* bytes that are not static */
  gs_count grid;
  const char *tunables;
  gs_prelude_level prelude;
  bool once, follows;
  bool says_threads; /* the text itself does: there is no hole for them */
  gs_hole holes[48];
  int nholes;
} shape;
void hole(shape *s, const char *name, const char *text);
void hole_int(kern *k, shape *s, const char *name, int64_t value);
void add_kernel(kern *k, shape *s);

/* ---- record.c ---- */
/* The text of a piece with its holes filled; "" after a failure. */
const char *expand_piece(emit *e, const shape *s, const gs_hole *holes, int n);

/* ---- parts.c ---- */
/* A row is of some of the threads: a block has several at a time, whose sums have to meet. */
bool rows_are_grouped(const geometry *g);
void parts_allocate(emit *e, unit *u, const plan *p);
void parts_declare(kern *k, plan *p);
/* In long walks the block's sums go to wider ones now and then. */
void parts_carry(kern *k, const plan *p);
void parts_write(kern *k, plan *p);

/* ---- row.c, beside.c ---- */
/* Plans a kernel of rows; false after a failure. Then what is done for one row. */
bool row_begin(kern *k, plan *p, emit *e, unit *u);
void row_inside(kern *k, plan *p);
/* Two units of rows as one kernel, blocks of the one before those of the other; false, with nothing
 * written, where they can't be. */
bool write_beside(emit *e, unit *u, unit *other);

/* ---- one file a template ---- */
void write_map(emit *e, unit *u);
void write_row(emit *e, unit *u);     /* UNIT_ROW, UNIT_COLUMNS with reductions or stores */
void write_columns(emit *e, unit *u); /* column sums alone */
void write_all(emit *e, unit *u);
void write_total(emit *e, unit *u); /* adds the parts */
void write_sum_by(emit *e, unit *u);
gs_status write_attention(emit *e); /* a pass of gs.attention: templates/attention_*.cu */
gs_status write_cuda(emit *e);      /* a layer whose body is the author's (gs.cuda) */

#endif
