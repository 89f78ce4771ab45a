/* run.c: one launch: arguments compared with the kernel's parameters, then its blocks run. */
#include "device/emu/internal.h"

#include <stdlib.h>
#include <string.h>

static const char *kind_text(int kind) {
  static const char *const text[] = {
      [GS_VALUE_PTR] = "a pointer",
      [GS_VALUE_I64] = "an i64",
      [GS_VALUE_F32] = "an f32",
      [GS_VALUE_MAP] = "a map",
  };
  return text[kind];
}

static int value_kind(param_kind k) {
  return k == P_I64   ? GS_VALUE_I64
         : k == P_F32 ? GS_VALUE_F32
         : k == P_MAP ? GS_VALUE_MAP
                      : GS_VALUE_PTR;
}

static gs_emu_map map_of(const gs_value *v, int arg) {
  const gs_tensor_map *m = &v->map;
  return (gs_emu_map){.ptr = (char *)(uintptr_t)v->ptr,
                      .size = (int)gs_type_size(m->type),
                      .arg = arg,
                      .extent = {m->columns, m->heads, m->rows},
                      .head = m->columns,
                      .row = m->stride,
                      .box = {m->box.columns, m->box.heads, m->box.rows},
                      .swizzle = m->box.swizzle};
}

static gs_status match(const gs_func *f, const gs_value *args, int nargs, gs_emu_arg *out,
                       gs_emu_map *maps, gs_error *err) {
  if (nargs != f->nparams)
    return gs_fail(err, GS_ERR_USE, "kernel %s has %d parameters but was given %d arguments",
                   f->entry, f->nparams, nargs);
  for (int i = 0; i < nargs; i++) {
    const param *p = &f->params[i];
    int want = value_kind(p->kind);
    if ((int)args[i].kind != want)
      return gs_fail(err, GS_ERR_USE, "kernel %s: parameter %s is %s but was given %s", f->entry,
                     p->name, kind_text(want), kind_text((int)args[i].kind));
    out[i] = (gs_emu_arg){.ptr = (void *)(uintptr_t)args[i].ptr,
                          .bytes = args[i].bytes,
                          .i64 = args[i].i64,
                          .f32 = args[i].f32,
                          .map = &maps[i]};
    if (want == GS_VALUE_MAP) maps[i] = map_of(&args[i], i);
  }
  return GS_OK;
}

static void run_loops(worker *w) {
  job *j = w->job;
  long long b;
  while (emu_take(w, &b)) {
    long long lo = b, hi = b + 1;
    if (!j->reverse) { /* the whole chunk at once */
      hi = w->hi;
      w->lo = w->hi;
    }
    j->f->code->loop(j->args, lo, hi, j->grid);
  }
}

void emu_work(worker *w) {
  job *j = w->job;
  long long i;
  if (j->task != NULL) {
    while (emu_take(w, &i)) j->task(j->data, i, w->index);
  } else if (w->e->o.checked && j->f->code->barrier_free) {
    emu_run_free_checked(w);
  } else if (j->f->code->barrier_free) {
    run_loops(w);
  } else {
    emu_fibers_run(w);
  }
}

/* Few blocks with little to do are not worth waking anybody. */
static bool is_small(const gs_func *f, int64_t grid) {
  return f->code->barrier_free ? grid * f->code->threads < 8192 : grid < 2;
}

static int64_t chunk_of(const emu *e, int64_t grid) {
  int64_t c = grid / (8 * (int64_t)e->nworkers);
  return c < 1 ? 1 : c > 64 ? 64 : c;
}

/* Of a kernel whose blocks share a list of items, a checked run has two at the same time. */
static int together(const emu *e, const gs_func *f, int64_t grid) {
  int cluster = f->code->cluster;
  return e->o.checked && f->tiles && f->takes && cluster == 1 && grid % 2 == 0 ? 2 : cluster;
}

static gs_status run_job(emu *e, job *j, gs_error *err) {
  const gs_func *f = j->f;
  e->reported = false;
  bool alone = e->o.checked || is_small(f, j->count);
  if (!f->code->barrier_free || e->o.checked)
    for (int i = 0; i < (alone ? 1 : e->nworkers); i++) {
      gs_status s = emu_fibers_ready(&e->workers[i], j->cluster, err);
      if (s != GS_OK) return s;
    }
  emu_run(e, j, alone);
  if (e->reported) return gs_fail(err, GS_ERR_CHECK, "%s", e->report.message);
  return GS_OK;
}

gs_status emu_launch(gs_device *d, gs_func *f, int64_t grid, const gs_value *args, int nargs,
                     gs_error *err) {
  emu *e = (emu *)d;
  if (e->capturing != NULL) {
    record r = {.kind = R_LAUNCH, .f = f, .grid = grid, .args = (gs_value *)args, .nargs = nargs};
    return emu_record(e, &r, err);
  }
  gs_emu_arg a[MAX_PARAMS];
  gs_emu_map maps[MAX_PARAMS];
  view views[MAX_PARAMS];
  gs_status s = match(f, args, nargs, a, maps, err);
  if (s != GS_OK) return s;
  if (grid <= 0 || grid > INT32_MAX)
    return gs_fail(err, GS_ERR_USE, "kernel %s: a grid of %lld blocks", f->entry, (long long)grid);
  int cluster = f->code->cluster;
  if (grid % cluster != 0)
    return gs_fail(err, GS_ERR_USE, "kernel %s: a grid of %lld blocks is not whole clusters of %d",
                   f->entry, (long long)grid, cluster);
  if (e->o.checked) {
    s = emu_views(e, f, args, views, err);
    if (s != GS_OK) return s;
  }
  cluster = together(e, f, grid);
  job j = {.f = f,
           .cluster = cluster,
           .args = a,
           .views = views,
           .count = grid / cluster,
           .chunk = chunk_of(e, grid / cluster),
           .grid = grid,
           .reverse = e->o.reverse,
           .stamp = ++e->launches};
  return run_job(e, &j, err);
}
