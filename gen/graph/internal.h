/* internal.h: what the files of gen/graph share. Promises nothing to anyone else. */
#ifndef GS_GRAPH_INTERNAL_H
#define GS_GRAPH_INTERNAL_H

#include "graph/graph.h"

#define CHUNK_NODES 256

struct gs_graph {
  gs_arena *arena;
  gs_dim dims[GS_MAX_DIMS];
  int ndims;
  gs_tensor *tensors;
  int ntensors, tensors_cap;
  gs_table *tables;
  int ntables, tables_cap;
  gs_fold *folds;
  int nfolds, folds_cap;
  gs_node **chunks; /* nodes never move */
  int nchunks, chunks_cap;
  gs_id count;      /* ids are 1 .. count-1 */
  gs_id *table;     /* open addressing; 0 is free */
  size_t table_cap; /* a power of two */
};

static inline gs_dims bit(int d) {
  return (gs_dims)1 << d;
}
static inline bool has(gs_dims set, int d) {
  return (set & bit(d)) != 0;
}
static inline const gs_node *node_at(const gs_graph *g, gs_id id) {
  return &g->chunks[id / CHUNK_NODES][id % CHUNK_NODES];
}
static inline gs_op op_at(const gs_graph *g, gs_id id) {
  return node_at(g, id)->op;
}
static inline gs_id arg_at(const gs_graph *g, gs_id id, int k) {
  return node_at(g, id)->arg[k];
}
static inline double value_at(const gs_graph *g, gs_id id) {
  return node_at(g, id)->value;
}
static inline bool is_const(const gs_graph *g, gs_id id) {
  return node_at(g, id)->op == GS_OP_CONST;
}
static inline bool is_value(const gs_graph *g, gs_id id, double v) {
  return is_const(g, id) && node_at(g, id)->value == v;
}

/* graph.c */
gs_id intern(gs_graph *g, const gs_node *n); /* the node, shared when it exists */
gs_id const_of(gs_graph *g, double v, gs_type type);
gs_id make(gs_graph *g, const gs_node *n);    /* gs_apply that cannot be wrong */
gs_id size_real(gs_graph *g, int d);          /* size of a dim as a real */
int64_t inner_size(const gs_graph *g, int d); /* -1 for an outer dim */
/* A dim of size ceil(size(like)/div) of an outer dim, the one that such dims are the same as; -1.
 */
int find_blocks(const gs_graph *g, int like, int64_t div);
bool divides(const gs_graph *g, const gs_node *n);   /* SPLIT, MERGE: no rest is left */
gs_id sum_over(gs_graph *g, gs_id a, gs_dims rdims); /* broadcast dims count too */
gs_id view1(gs_graph *g, gs_op op, gs_id a, int d0, int d1, int64_t index);
gs_id view2(gs_graph *g, gs_op op, gs_id a, int d0, int d1, int d2);
gs_id gather(gs_graph *g, gs_id e, gs_id i, gs_id ok, int d);        /* AT; ok 0: no guard */
void dims_text(const gs_graph *g, gs_dims s, char *buf, size_t cap); /* "[T, H]" */

/* types.c: converts arguments, checks, fills type and dims; on a mistake a status and a message. */
gs_status check_types(gs_graph *g, gs_node *n, gs_error *err);
gs_id to_real(gs_graph *g, gs_id id);

/* local.c: rules that are exact in f32. Returns 0 when none applies; may reorder arguments. */
gs_id simplify_local(gs_graph *g, gs_node *n);
gs_id simplify_view(gs_graph *g, gs_node *n); /* views.c: the same for views, gathers, reductions */
/* e inside dim[0] of the SPLIT n, and 0 where only the last block, not full, would be. */
gs_id mask_tail(gs_graph *g, const gs_node *n, gs_id e);

/* walk.c: marks what roots reach; ids in ascending order (arguments first). */
typedef struct id_list {
  gs_id *id;
  int n;
} id_list;
id_list reachable(const gs_graph *g, const gs_id *roots, int n, gs_arena *a);
gs_id rebuild(gs_graph *g, gs_id id, const gs_id *map); /* with mapped arguments */
gs_dims work_dims(const gs_graph *g, const gs_node *n); /* the points at which it works */
int op_cost(const gs_node *n);                          /* flops a point; rounding to f32 is none */
double points(const gs_graph *g, gs_dims dims, const int64_t *sizes); /* product of sizes */

#endif
