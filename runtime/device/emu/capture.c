/* capture.c: what was asked between begin and end, kept and run again on demand. */
#include "device/emu/internal.h"

#include <stdlib.h>
#include <string.h>

gs_status emu_record(emu *e, const record *r, gs_error *err) {
  emu_exec *x = e->capturing;
  if (x->n == x->cap) {
    size_t cap = x->cap ? 2 * x->cap : 256;
    record *grown = realloc(x->r, cap * sizeof *grown);
    if (grown == NULL) return gs_fail(err, GS_ERR_MEMORY, "no memory for captured work");
    x->r = grown;
    x->cap = cap;
  }
  record copy = *r;
  if (r->nargs > 0) {
    copy.args = malloc((size_t)r->nargs * sizeof *r->args);
    if (copy.args == NULL) return gs_fail(err, GS_ERR_MEMORY, "no memory for captured work");
    memcpy(copy.args, r->args, (size_t)r->nargs * sizeof *r->args);
  }
  x->r[x->n++] = copy;
  return GS_OK;
}

gs_status emu_capture_begin(gs_device *d, gs_error *err) {
  emu *e = (emu *)d;
  if (e->capturing != NULL) return gs_fail(err, GS_ERR_USE, "a capture is already under way");
  e->capturing = calloc(1, sizeof *e->capturing);
  if (e->capturing == NULL) return gs_fail(err, GS_ERR_MEMORY, "no memory for captured work");
  e->capturing->base.device = d;
  return GS_OK;
}

gs_status emu_capture_end(gs_device *d, gs_exec **out, gs_error *err) {
  emu *e = (emu *)d;
  if (e->capturing == NULL) return gs_fail(err, GS_ERR_USE, "no capture is under way");
  *out = &e->capturing->base;
  e->capturing = NULL;
  return GS_OK;
}

static gs_status replay(gs_device *d, const record *r, gs_error *err) {
  switch (r->kind) {
  case R_LAUNCH: return d->ops->launch(d, r->f, r->grid, r->args, r->nargs, err);
  case R_GEMM: return d->ops->gemm(d, &r->gemm, err);
  case R_COPY: return d->ops->copy(d, r->to, r->from, r->bytes, err);
  case R_FILL: return d->ops->fill(d, r->to, r->byte, r->bytes, err);
  }
  return GS_OK;
}

gs_status emu_exec_launch(gs_exec *x, gs_error *err) {
  emu_exec *m = (emu_exec *)x;
  for (size_t i = 0; i < m->n; i++) {
    gs_status s = replay(x->device, &m->r[i], err);
    if (s != GS_OK) return s;
  }
  return GS_OK;
}

void emu_exec_free(gs_exec *x) {
  emu_exec *m = (emu_exec *)x;
  for (size_t i = 0; i < m->n; i++)
    if (m->r[i].nargs > 0) free(m->r[i].args);
  free(m->r);
  free(m);
}
