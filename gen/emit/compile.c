/* compile.c: the pipeline: pass -> units -> kernels. Each step is a file. */
#include "emit/emit.h"

#include "base/asset.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void emit_fail(emit *e, int source_line, const char *f, ...) {
  if (e->status) return;
  char text[1024];
  va_list ap;
  va_start(ap, f);
  vsnprintf(text, sizeof text, f, ap);
  va_end(ap);
  if (source_line > 0)
    e->status = gs_fail(e->err, GS_ERR_INPUT, "%s:%d: error: layer '%s': %s", e->file, source_line,
                        e->layer, text);
  else
    e->status = gs_fail(e->err, GS_ERR_INPUT, "%s: error: layer '%s': %s", e->file, e->layer, text);
}

static bool wants(const gs_dump_sink *d, const char *pass) {
  if (!d || !d->passes || !d->out) return false;
  size_t n = strlen(pass);
  for (const char *p = d->passes; *p;) {
    size_t len = strcspn(p, ",");
    if (len == n && memcmp(p, pass, n) == 0) return true;
    p += len + (p[len] == ',');
  }
  return false;
}

static void dump_graph(emit *e, const gs_dump_sink *d) {
  int n = e->pass->nresults;
  const char **names = GS_NEW_N(e->a, const char *, n + 1);
  gs_id *roots = GS_NEW_N(e->a, gs_id, n + 1);
  int m = 0;
  for (int i = 0; i < n; i++) {
    if (!e->pass->results[i].expr) continue;
    names[m] = e->pass->results[i].name;
    roots[m++] = e->pass->results[i].expr;
  }
  gs_text_printf(d->out, "graph of %s\n", e->pass->key ? e->pass->key : e->layer);
  gs_dump(e->g, roots, names, m, d->out);
}

static const char *dims_list(emit *e, gs_dims dims) {
  gs_text t = {0};
  gs_text_add(&t, "[");
  for (int i = 0; i < gs_graph_ndims(e->g); i++)
    if (dims >> i & 1)
      gs_text_printf(&t, "%s%s", t.len > 1 ? ", " : "", gs_graph_dim_at(e->g, i)->name);
  gs_text_add(&t, "]");
  const char *s = gs_arena_strdup(e->a, t.s);
  gs_text_free(&t);
  return s;
}

static void dump_schedule(emit *e, const gs_dump_sink *d) {
  static const char *const kinds[] = {"map", "row", "columns", "all", "total", "sum_by"};
  for (int k = 0; k < e->nunits; k++) {
    const unit *u = e->units[k];
    gs_text_printf(d->out, "unit %d: %s, rows %s\n", k, kinds[u->kind], dims_list(e, u->rows));
    for (int i = 0; i < u->nstores; i++)
      gs_text_printf(d->out, "  %s %s %s\n", u->stores[i].add ? "adds to" : "writes",
                     e->mems[u->stores[i].mem].name, dims_list(e, u->stores[i].dims));
    for (int i = 0; i < u->ncolumns; i++)
      gs_text_printf(d->out, "  %s %s %s\n", u->kind == UNIT_TOTAL ? "adds up" : "sums into",
                     e->mems[u->columns[i].mem].name, dims_list(e, u->columns[i].kept));
  }
}

static bool sums_to_number(const unit *u) {
  for (int i = 0; i < u->ncolumns; i++)
    if (!u->columns[i].kept) return true;
  return false;
}

static void write_unit(emit *e, unit *u) {
  switch (u->kind) {
  case UNIT_MAP: write_map(e, u); break;
  case UNIT_ROW: write_row(e, u); break;
  case UNIT_COLUMNS:
    if (u->reduces || u->nstores || sums_to_number(u))
      write_row(e, u);
    else
      write_columns(e, u);
    break;
  case UNIT_ALL: write_all(e, u); break;
  case UNIT_TOTAL: write_total(e, u); break;
  case UNIT_SUM_BY: write_sum_by(e, u); break;
  }
}

static gs_status compile_units(emit *e, const gs_dump_sink *dump) {
  if (memory_bind(e) || schedule(e)) return e->status;
  share_in_place(e);
  if (wants(dump, "schedule")) dump_schedule(e, dump);
  for (int k = 0; k < e->nunits && !e->status; k++) {
    if (k + 1 < e->nunits && write_beside(e, e->units[k], e->units[k + 1]))
      k++;
    else if (!e->status)
      write_unit(e, e->units[k]);
  }
  return e->status;
}

/* The author's own kernels, or those of gs.attention. */
static gs_status write_body(emit *e) {
  if (e->pass->instance->cuda) return write_cuda(e);
  if (strcmp(e->pass->instance->body, "attention") == 0) return write_attention(e);
  emit_fail(e, 0, "there is no template '%s'", e->pass->instance->body);
  return e->status;
}

gs_status gs_compile(const gs_pass *p, const gs_caps *caps, const gs_dump_sink *dump,
                     gs_launch_list **out, gs_error *err) {
  return gs_compile_tuned(p, caps, NULL, dump, out, err);
}

gs_status gs_compile_tuned(const gs_pass *p, const gs_caps *caps, const char *tuned,
                           const gs_dump_sink *dump, gs_launch_list **out, gs_error *err) {
  gs_arena *a = p->instance->arena;
  const gs_layer_decl *decl = p->instance->layer ? gs_layer_declaration(p->instance->layer) : NULL;
  emit *e = GS_NEW(a, emit);
  *e = (emit){.pass = p,
              .caps = caps,
              .g = p->g,
              .a = a,
              .err = err,
              .file = decl && decl->file ? decl->file : "layer",
              .layer = decl ? decl->name : "layer"};
  e->list = GS_NEW(a, gs_launch_list);
  e->list->key = p->key;
  e->list->g = p->g;
  e->results = gs_arena_copy(a, p->results, sizeof(gs_result) * (size_t)p->nresults);
  e->done = GS_NEW_N(a, bool, p->nresults);
  if (wants(dump, "graph")) dump_graph(e, dump);
  tuning_begin(e, tuned);
  gs_status s = p->instance->body ? write_body(e) : compile_units(e, dump);
  if (s) return s;
  tuning_end(e);
  if (e->status) return e->status;
  if (wants(dump, "text"))
    for (int k = 0; k < e->list->nkernels; k++)
      gs_text_printf(dump->out, "%s\n", e->list->kernels[k].text);
  *out = e->list;
  return GS_OK;
}

const char *gs_prelude_name(bool emulator, gs_prelude_level level) {
  static const char *const names[GS_PRELUDES][2] = {
      [GS_PRELUDE_PLAIN] = {"prelude_cuda.cuh", "prelude_emu.h"},
      [GS_PRELUDE_TILES] = {"prelude_cuda_tiles.cuh", "prelude_emu_tiles.h"},
      [GS_PRELUDE_HOPPER] = {"prelude_cuda_hopper.cuh", "prelude_emu_hopper.h"},
  };
  return names[level][emulator];
}

const char *gs_prelude(bool emulator, gs_prelude_level level) {
  char path[64];
  snprintf(path, sizeof path, "templates/%s", gs_prelude_name(emulator, level));
  const gs_asset *f = gs_asset_find(path);
  return f ? f->data : "";
}
