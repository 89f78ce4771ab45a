/* bench.c: one case from layer to median. */
#include "bench/bench.h"

#include "tune/bytes.h"
#include "tune/subject.h"
#include "tune/tuned.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PAIRS = 16 };
static const char *const pass_names[] = {"forward", "infer", "backward", "terminal"};

/* "A=1,B=2" or "p:bf16,m:bf16" or "dx,dr=dx", cut into names and texts. */
typedef struct pairs {
  char text[512];
  int n;
  const char *name[MAX_PAIRS], *value[MAX_PAIRS]; /* value: "" where there is none */
} pairs;

/* within: what parts a name from its text. */
static gs_status cut(const char *text, const char *within, pairs *p, gs_error *err) {
  char *save = NULL;
  p->n = 0;
  if (text && strlen(text) >= sizeof p->text)
    return gs_fail(err, GS_ERR_USE, "'%s' is too long", text);
  snprintf(p->text, sizeof p->text, "%s", text ? text : "");
  for (char *w = strtok_r(p->text, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
    if (p->n == MAX_PAIRS) return gs_fail(err, GS_ERR_USE, "'%s' has too many parts", text);
    size_t k = strcspn(w, within);
    p->value[p->n] = w[k] ? w + k + 1 : "";
    p->name[p->n++] = w;
    w[k] = 0;
  }
  return GS_OK;
}

static gs_status read_sizes(const gs_layer_decl *d, const pairs *dims, int64_t *sizes,
                            gs_error *err) {
  for (int i = 0; i < dims->n; i++) {
    int k = 0;
    while (k < d->ndims && strcmp(d->dims[k], dims->name[i]) != 0) k++;
    sizes[k < d->ndims ? k : 0] = strtoll(dims->value[i], NULL, 10);
    if (k == d->ndims || sizes[k] < 1)
      return gs_fail(err, GS_ERR_USE, "layer '%s': dim %s=%s: no such dim, or no size", d->name,
                     dims->name[i], dims->value[i]);
  }
  for (int k = 0; k < d->ndims; k++)
    if (!d->dim_size[k] && sizes[k] < 1)
      return gs_fail(err, GS_ERR_USE, "layer '%s': the size of %s is needed", d->name, d->dims[k]);
  return GS_OK;
}

typedef gs_bench_made made;

static gs_status instantiate(gs_layer *l, const gs_bench_case *c, gs_type dtype, made *m,
                             gs_error *err) {
  pairs dims, options, types;
  double values[MAX_PAIRS];
  gs_type storage[MAX_PAIRS];
  gs_status st = cut(c->dims, "=", &dims, err);
  if (st == GS_OK) st = cut(c->options, "=", &options, err);
  if (st == GS_OK) st = cut(c->types, ":", &types, err);
  if (st == GS_OK) st = read_sizes(gs_layer_declaration(l), &dims, m->sizes, err);
  if (st != GS_OK) return st;
  for (int i = 0; i < options.n; i++) values[i] = strtod(options.value[i], NULL);
  for (int i = 0; i < types.n; i++) storage[i] = gs_type_from_name(types.value[i]);
  gs_choice choice = {.dtype = dtype,
                      .sizes = m->sizes,
                      .ntypes = types.n,
                      .type_names = types.name,
                      .types = storage,
                      .noptions = options.n,
                      .option_names = options.name,
                      .option_values = values};
  st = gs_layer_instantiate(l, &choice, &m->instance, err);
  if (st == GS_OK) gs_graph_sizes(m->instance->g, m->sizes);
  return st;
}

gs_status gs_bench_make(gs_device *d, gs_tuned *t, const gs_bench_case *c, gs_type dtype,
                        const char *file, gs_bench_made *m, gs_error *err) {
  gs_layer *l = NULL;
  pairs wanted;
  *m = (made){0};
  gs_status st = gs_author_new(&m->author, err);
  if (st == GS_OK) st = gs_layer_open(m->author, file ? file : c->layer, &l, err);
  if (st == GS_OK) st = instantiate(l, c, dtype, m, err);
  if (st == GS_OK) st = cut(c->wanted, "", &wanted, err); /* "dr=dx" is one word */
  if (st == GS_OK)
    st = gs_layer_pass(m->instance, c->pass, c->wanted ? wanted.name : NULL,
                       c->wanted ? wanted.n : 0, NULL, 0, &m->pass, err);
  if (st == GS_OK) st = gs_tuned_compile(t, d, m->pass, m->sizes, &m->list, err);
  return st;
}

void gs_bench_drop(gs_bench_made *m) {
  gs_instance_free(m->instance);
  gs_author_free(m->author);
}

static void say_tunables(const gs_launch_list *l, gs_bench_row *r) {
  size_t n = 0;
  r->kernels = l->nkernels;
  for (int k = 0; k < l->nkernels && n < sizeof r->tunables; k++)
    n += (size_t)snprintf(r->tunables + n, sizeof r->tunables - n, "%s%s: %s", k ? "; " : "",
                          l->kernels[k].template_name, l->kernels[k].tunables);
  for (char *t = r->tunables; *t; t++)
    if (isspace((unsigned char)*t)) *t = ' ';
}

static void describe(const made *m, gs_bench_row *r) {
  gs_id roots[64];
  int n = m->pass->nresults < 64 ? m->pass->nresults : 64;
  for (int k = 0; k < n; k++) roots[k] = m->pass->results[k].expr;
  gs_text t = {0};
  gs_bytes_formula(m->list, m->sizes, &t);
  snprintf(r->formula, sizeof r->formula, "%s", t.s ? t.s : "");
  gs_text_free(&t);
  r->bytes = gs_bytes_fewest(m->list, m->sizes);
  r->flops = gs_flops(m->pass->g, roots, n, m->sizes);
  say_tunables(m->list, r);
}

/* ---- documents ---- */

typedef struct documents {
  int n;
  int32_t cu[4097];
} documents;

/* "8x2048,64": eight of 2048, one of 64. */
static gs_status read_documents(const char *text, documents *d, gs_error *err) {
  d->n = 0;
  d->cu[0] = 0;
  for (const char *p = text; *p;) {
    char *end;
    long many = 1, length = strtol(p, &end, 10);
    if (*end == 'x') {
      many = length;
      length = strtol(end + 1, &end, 10);
    }
    bool fits = many >= 0 && many <= 4096 - d->n && length >= 0 && length <= 1 << 24;
    bool ends = end > p && isdigit((unsigned char)end[-1]) && (!*end || *end == ',');
    if (!fits || !ends)
      return gs_fail(err, GS_ERR_USE, "documents '%s': lengths are wanted, as 8x2048,64", text);
    for (; many > 0; many--, d->n++) d->cu[d->n + 1] = d->cu[d->n] + (int32_t)length;
    p = *end ? end + 1 : end;
  }
  return GS_OK;
}

static int64_t size_named(const made *m, const char *name) {
  for (int k = 0; k < gs_graph_ndims(m->instance->g); k++)
    if (strcmp(gs_graph_dim_at(m->instance->g, k)->name, name) == 0) return m->sizes[k];
  return 1;
}

/* What a query and its keys cost: every pair of a document counts a half, since it is causal. */
static double flops_of(const documents *d, const made *m, bool backward) {
  double seen = 0, heads = (double)(size_named(m, "K") * size_named(m, "G") * size_named(m, "D"));
  for (int i = 0; i < d->n; i++) seen += pow(d->cu[i + 1] - d->cu[i], 2) / 2;
  return 4 * seen * heads * (backward ? 2.5 : 1);
}

/* Into every input that says where pieces begin. */
static gs_status write_documents(gs_subject *s, const made *m, const documents *d, gs_error *err) {
  const gs_layer_decl *l = gs_layer_declaration(m->instance->layer);
  size_t bytes = sizeof *d->cu * (size_t)(d->n + 1);
  gs_status st = GS_OK;
  for (int i = 0; i < l->nparams && st == GS_OK; i++)
    if (l->drawn[i].offsets_dim >= 0)
      st = gs_subject_write(s, l->params[i].name, d->cu, bytes, err);
  return st;
}

/* Scores of deviation 1, and of each row about the sum that such scores have: infinities would
 * cost the GPU less power. */
static gs_status write_scores(gs_subject *s, const made *m, gs_error *err) {
  float scale = 1 / sqrtf((float)size_named(m, "D"));
  size_t n = (size_t)(size_named(m, "T") * size_named(m, "K") * size_named(m, "G"));
  float *lse = malloc(n * sizeof *lse);
  if (!lse) return gs_fail(err, GS_ERR_MEMORY, "no memory for sums");
  for (size_t i = 0; i < n; i++) lse[i] = 8;
  gs_status st = gs_subject_write(s, "scale", &scale, sizeof scale, err);
  if (st == GS_OK && m->pass->kind == GS_PASS_BACKWARD)
    st = gs_subject_write(s, "lse", lse, n * sizeof *lse, err);
  free(lse);
  return st;
}

static gs_status use_documents(const gs_bench_case *c, const made *m, gs_subject *s,
                               gs_bench_row *r, gs_error *err) {
  documents *d = malloc(sizeof *d);
  if (!d) return gs_fail(err, GS_ERR_MEMORY, "no memory for documents");
  gs_status st = read_documents(c->documents, d, err);
  if (st == GS_OK) st = write_documents(s, m, d, err);
  if (st == GS_OK) st = write_scores(s, m, err);
  r->flops = flops_of(d, m, c->pass == GS_PASS_BACKWARD);
  r->by_flops = true;
  free(d);
  return st;
}

static gs_status time_case(gs_device *d, gs_meter *meter, const gs_bench_case *c, made *m,
                           gs_bench_row *r, gs_error *err) {
  gs_subject *s = NULL;
  gs_variant *v = NULL;
  gs_status st = gs_subject_new(d, m->instance, m->list, m->sizes, 1, &s, err);
  if (st == GS_OK && c->documents) st = use_documents(c, m, s, r, err);
  if (st == GS_OK) st = gs_variant_new(s, m->list, &v, err);
  gs_contender one = {v, gs_variant_prepare, gs_variant_submit};
  if (st == GS_OK) st = gs_meter_warm(meter, &one, 1, err);
  if (st == GS_OK) st = gs_meter_run(meter, &one, 1, GS_MEASURE_SAMPLES, &r->t, err);
  gs_device_clocks(d, &r->processor_clock, &r->memory_clock);
  gs_subject_free(s);
  return st;
}

static gs_bench_row *new_row(gs_bench *b) {
  if (b->n == b->cap) {
    int cap = b->cap ? 2 * b->cap : 32;
    gs_bench_row *more = realloc(b->rows, sizeof *more * (size_t)cap);
    if (!more) return NULL;
    b->rows = more;
    b->cap = cap;
  }
  b->rows[b->n] = (gs_bench_row){0};
  return &b->rows[b->n++];
}

static void name_row(const gs_bench_case *c, gs_type dtype, gs_bench_row *r) {
  r->dtype = dtype;
  snprintf(r->name, sizeof r->name, "%s%s%s%s%s", c->layer, c->is_head ? "" : ".",
           c->is_head ? "" : pass_names[c->pass], c->wanted ? " " : "", c->wanted ? c->wanted : "");
  int n = snprintf(r->shape, sizeof r->shape, "%s%s%s", c->dims, c->options ? " " : "",
                   c->options ? c->options : "");
  for (char *t = r->shape; *t; t++)
    if (*t == ',') *t = ' ';
  if (c->documents && n < (int)sizeof r->shape)
    snprintf(r->shape + n, sizeof r->shape - (size_t)n, " of %s", c->documents);
}

static gs_status run_head(gs_device *d, gs_meter *m, const gs_bench_case *c, gs_type dtype,
                          gs_bench_row *r, gs_error *err) {
  pairs dims;
  int64_t size[3] = {0};
  gs_status st = cut(c->dims, "=", &dims, err);
  for (int i = 0; st == GS_OK && i < dims.n; i++)
    for (int k = 0; k < 3; k++)
      if (strncmp(dims.name[i], &"THV"[k], 1) == 0) size[k] = strtoll(dims.value[i], NULL, 10);
  r->by_flops = true;
  return st == GS_OK ? gs_bench_head(d, m, dtype, size, r, err) : st;
}

gs_status gs_bench_run(gs_device *d, gs_tuned *t, gs_meter *m, const gs_bench_case *c,
                       gs_type dtype, const char *layer_file, gs_bench *b, gs_bench_row **row,
                       gs_error *err) {
  made x = {0};
  gs_error why = {0};
  gs_bench_row *r = *row = new_row(b);
  if (!r) return gs_fail(err, GS_ERR_MEMORY, "no memory for the table");
  name_row(c, dtype, r);
  gs_status st = c->is_head ? run_head(d, m, c, dtype, r, &why)
                            : gs_bench_make(d, t, c, dtype, layer_file, &x, &why);
  if (st == GS_OK && !c->is_head) {
    describe(&x, r);
    st = time_case(d, m, c, &x, r, &why);
  }
  gs_bench_drop(&x);
  if (st != GS_OK) snprintf(r->why, sizeof r->why, "%.1000s", why.message);
  return st == GS_ERR_DEVICE ? gs_fail(err, st, "%s %s: %s", r->name, r->shape, why.message)
                             : GS_OK;
}

void gs_bench_free(gs_bench *b) {
  free(b->rows);
  *b = (gs_bench){0};
}
