/* capture.c: work recorded as a CUDA graph and replayed. */
#include "device/cuda/machine.h"

#include <stdlib.h>

typedef struct cuda_exec {
  gs_exec base;
  gs_cu_exec exec;
  size_t nodes;
} cuda_exec;

/* Relaxed: a kernel that cuBLASLt loads at its first use may allocate while we record. */
gs_status gs_cuda_capture_begin(gs_device *d, gs_error *err) {
  gs_cuda *m = GS_CUDA_OF(d);
  gs_status st = gs_cuda_enter_now(m, "a capture", err);
  if (st != GS_OK) return st;
  int code = m->driver.api.capture_begin(m->stream, GS_CU_CAPTURE_RELAXED);
  if (code != GS_CU_OK) return gs_cuda_fail(m, code, err, "beginning a capture");
  m->capturing = true;
  return GS_OK;
}

static gs_status make_exec(gs_cuda *m, gs_cu_graph graph, cuda_exec **out, gs_error *err) {
  cuda_exec *e = calloc(1, sizeof *e);
  if (!e) return gs_fail(err, GS_ERR_MEMORY, "no memory for a captured graph");
  e->base.device = &m->base;
  int code = m->driver.api.graph_nodes(graph, NULL, &e->nodes);
  if (code == GS_CU_OK) code = m->driver.api.exec_create(&e->exec, graph, 0);
  if (code != GS_CU_OK) {
    gs_status st =
        gs_cuda_fail(m, code, err, "making a graph of %zu captured operations", e->nodes);
    free(e);
    return st;
  }
  *out = e;
  return GS_OK;
}

gs_status gs_cuda_capture_end(gs_device *d, gs_exec **out, gs_error *err) {
  gs_cuda *m = GS_CUDA_OF(d);
  gs_cu_graph graph = NULL;
  cuda_exec *e = NULL;
  *out = NULL;
  if (!m->capturing) return gs_fail(err, GS_ERR_USE, "no capture was begun");
  gs_status st = gs_cuda_enter(m, err);
  m->capturing = false;
  if (st != GS_OK) return st;
  int code = m->driver.api.capture_end(m->stream, &graph);
  if (code != GS_CU_OK || !graph) return gs_cuda_fail(m, code, err, "ending a capture");
  st = make_exec(m, graph, &e, err);
  m->driver.api.graph_destroy(graph);
  if (st == GS_OK) *out = &e->base;
  return st;
}

gs_status gs_cuda_exec_launch(gs_exec *x, gs_error *err) {
  cuda_exec *e = (cuda_exec *)x;
  gs_cuda *m = GS_CUDA_OF(x->device);
  gs_status st = gs_cuda_enter_now(m, "a replay", err);
  if (st != GS_OK) return st;
  m->last = "one of a captured graph";
  int code = m->driver.api.exec_launch(e->exec, m->stream);
  if (code == GS_CU_OK) return GS_OK;
  return gs_cuda_fail(m, code, err, "replaying a graph of %zu operations", e->nodes);
}

void gs_cuda_exec_free(gs_exec *x) {
  if (!x) return;
  cuda_exec *e = (cuda_exec *)x;
  gs_cuda *m = GS_CUDA_OF(x->device);
  if (gs_cuda_enter(m, NULL) == GS_OK) m->driver.api.exec_destroy(e->exec);
  free(e);
}
