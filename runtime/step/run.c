/* run.c: one action after another. */
#include "step/run.h"

#include <string.h>

static gs_status run_launch(gs_device *d, const gs_record *r, const gs_act *a, gs_error *err) {
  const gs_launch_list *l = a->routine->code.list;
  gs_arena *arena = gs_arena_new();
  gs_bound *bound = GS_NEW_N(arena, gs_bound, l->nbindings + 1);
  gs_ptr *temps = GS_NEW_N(arena, gs_ptr, l->ntemps + 1);
  for (int i = 0; i < l->nbindings; i++) {
    bound[i].value = a->values[i];
    if (a->uses[i].var < 0) continue;
    const gs_var *v = &r->vars[a->uses[i].var];
    bound[i].ptr = v->ptr;
    bound[i].bytes = gs_var_bytes(v);
    bound[i].stride = gs_var_stride(v);
  }
  for (int t = 0; t < l->ntemps; t++) temps[t] = r->vars[a->uses[l->nbindings + t].var].ptr;
  gs_status s = gs_launch_from(d, &a->routine->code, a->had, bound, a->sizes, temps, err);
  gs_arena_free(arena);
  return s;
}

static gs_status run_act(gs_device *d, const gs_record *r, const gs_act *a, gs_error *err) {
  if (a->kind == GS_ACT_LAUNCH) return run_launch(d, r, a, err);
  const gs_var *v = &r->vars[a->uses[0].var];
  if (a->kind == GS_ACT_ZERO) return gs_device_fill(d, v->ptr, 0, gs_var_bytes(v), err);
  const gs_var *w = &r->vars[a->uses[1].var];
  if (a->kind == GS_ACT_COPY) return gs_device_copy(d, v->ptr, w->ptr, gs_var_bytes(v), err);
  gs_gemm g = a->gemm;
  g.a = v->ptr;
  g.b = w->ptr;
  g.c = r->vars[a->uses[2].var].ptr;
  return gs_device_gemm(d, &g, err);
}

gs_status gs_run_acts(gs_device *d, const gs_record *r, gs_error *err) {
  for (int i = 0; i < r->nacts; i++) {
    gs_status s = run_act(d, r, &r->acts[i], err);
    if (s) return gs_fail_in(err, "%s", r->acts[i].what);
  }
  return GS_OK;
}
