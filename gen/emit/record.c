/* record.c: from the pieces of a kernel to its record: parameters, arguments, banner, entry name.
 */
#include "emit/emit.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define WIDTH 98

void hole(shape *s, const char *name, const char *text) {
  s->holes[s->nholes++] = (gs_hole){name, text};
}

void hole_int(kern *k, shape *s, const char *name, int64_t value) {
  hole(s, name, fmt(k, "%lld", (long long)value));
}

/* ---- parameters ---- */

typedef struct params {
  gs_text text;
  size_t width; /* of the last line */
  gs_arg *args;
  int n, cap;
} params;

static void add_param(kern *k, params *p, const char *text, gs_arg a) {
  p->args = gs_arena_room(k->e->a, p->args, p->n, &p->cap, sizeof *p->args);
  size_t len = strlen(text);
  if (p->n) {
    bool wrap = 10 + p->width + 2 + len > WIDTH;
    gs_text_add(&p->text, wrap ? ",\n" : ", ");
    p->width = wrap ? 0 : p->width + 2;
  }
  gs_text_add(&p->text, text);
  p->width += len;
  p->args[p->n++] = a;
}

static void map_param(kern *k, params *p, int at) {
  const mem *m = &k->e->mems[at];
  gs_arg a = {.kind = GS_ARG_MAP, .index = m->binding, .box = k->maps[at]};
  a.is_written = m->role == GS_ROLE_OUTPUT && m->tensor < 0;
  a.is_read = !a.is_written;
  add_param(k, p, fmt(k, "GS_MAP(%s, %s_map)", gs_type_name(m->type), m->name), a);
}

static void mem_param(kern *k, params *p, int at) {
  const mem *m = &k->e->mems[at];
  bool in = k->reads[at], out = k->writes[at];
  if (!in && !out && !k->strides[at] && !(k->maps && k->maps[at].rows)) return;
  if (m->role == GS_ROLE_SCALAR || m->role == GS_ROLE_STEP_SCALAR) {
    bool step = m->role == GS_ROLE_STEP_SCALAR;
    add_param(k, p, fmt(k, step ? "GS_STEP(%s)" : "GS_NUM(%s)", m->name),
              (gs_arg){.kind = step ? GS_ARG_STEP_SCALAR : GS_ARG_SCALAR,
                       .index = m->binding,
                       .is_read = true});
    return;
  }
  const char *how = in && out ? "GS_INOUT" : out ? "GS_OUT" : "GS_IN";
  gs_arg a = {.kind = m->binding >= 0 ? GS_ARG_TENSOR : GS_ARG_TEMP,
              .index = m->binding >= 0 ? m->binding : m->temp,
              .is_read = in,
              .is_written = out};
  bool has_map = k->maps && k->maps[at].rows > 0;
  if (in || out || !has_map)
    add_param(k, p, fmt(k, "%s(%s, %s)", how, gs_type_name(m->type), m->name), a);
  if (has_map) map_param(k, p, at);
  if (k->strides[at])
    add_param(k, p, fmt(k, "GS_STRIDE(%s_ld)", m->name),
              (gs_arg){.kind = GS_ARG_STRIDE, .index = m->binding});
}

static void all_params(kern *k, params *p) {
  for (int m = 0; m < k->e->nmems; m++) mem_param(k, p, m);
  for (int d = 0; d < gs_graph_ndims(k->e->g); d++)
    if (k->dims[d])
      add_param(k, p, fmt(k, "GS_DIM(%s)", gs_graph_dim_at(k->e->g, d)->name),
                (gs_arg){.kind = GS_ARG_DIM, .index = d});
}

/* ---- banner ---- */

/* Adds a comment line, continued on further lines at blanks. */
static void add_comment(gs_text *out, const char *s, size_t len) {
  bool first = true;
  while (len > 0) {
    size_t room = first ? WIDTH - 3 : WIDTH - 7, n = len;
    if (n > room) {
      for (n = room; n > room / 2 && s[n] != ' ';) n--;
      if (s[n] != ' ') n = room;
    }
    gs_text_add(out, first ? "// " : "//     ");
    gs_text_add_n(out, s, n);
    gs_text_add(out, "\n");
    s += n;
    len -= n;
    while (len > 0 && *s == ' ') s++, len--;
    first = false;
  }
}

static const char *pass_name(gs_pass_kind k) {
  static const char *const names[] = {"forward", "infer", "backward", "terminal"};
  return names[k];
}

/* The tables that a kernel reads, as the text's constants. */
static void add_tables(kern *k, gs_text *t) {
  for (int i = 0; i < k->ntables; i++) {
    if (!k->tables[i]) continue;
    const gs_table *x = gs_graph_table_at(k->e->g, i);
    gs_text_printf(t, "GS_TABLE(table%d, %d) = {\n   ", i, x->count);
    size_t width = 3;
    for (int j = 0; j < x->count; j++) {
      const char *n = fmt(k, " %s,", number_text(k, GS_F32, x->value[j]));
      if (width + strlen(n) > WIDTH) gs_text_add(t, "\n   "), width = 3;
      gs_text_add(t, n);
      width += strlen(n);
    }
    gs_text_add(t, "\n};\n");
  }
}

static const char *banner(kern *k, const shape *s) {
  emit *e = k->e;
  gs_text t = {0};
  const char *head =
      fmt(k, "%s.%s, template %s (%s): %s", e->layer, s->once ? "batch" : pass_name(e->pass->kind),
          s->template_name, s->piece, s->tunables);
  add_comment(&t, head, strlen(head));
  head = fmt(k, "key: %s, %s", e->pass->key ? e->pass->key : "", e->caps->arch);
  if (!s->once) add_comment(&t, head, strlen(head));
  for (const char *f = k->u && k->u->formula ? k->u->formula : ""; *f;) {
    const char *end = strchr(f, '\n');
    size_t n = end ? (size_t)(end - f) : strlen(f);
    if (n > 3) add_comment(&t, f + 3, n - 3); /* past its own "// " */
    f += n + (end != NULL);
  }
  add_tables(k, &t);
  const char *text = gs_arena_strdup(e->a, t.s);
  gs_text_free(&t);
  return text;
}

/* ---- the record ---- */

static uint32_t hash_text(const char *s, uint64_t h) {
  for (; *s; s++) h = (h ^ (unsigned char)*s) * 1099511628211u;
  return (uint32_t)(h ^ h >> 32);
}

const char *expand_piece(emit *e, const shape *s, const gs_hole *holes, int n) {
  const char *file = gs_arena_printf(e->a, "templates/%s.cu", s->template_name), *piece;
  size_t len;
  if (gs_piece(file, s->piece, &piece, &len, e->err)) {
    e->status = GS_ERR_INPUT;
    return "";
  }
  char *copy = gs_arena_alloc(e->a, len + 1);
  memcpy(copy, piece, len);
  gs_text t = {0};
  const char *name = gs_arena_printf(e->a, "%s(%s)", file, s->piece);
  gs_status st = gs_expand(name, copy, holes, n, &t, e->err);
  if (st) e->status = st;
  const char *text = gs_arena_strdup(e->a, t.s ? t.s : "");
  gs_text_free(&t);
  return text;
}

static const char *entry_name(kern *k, const shape *s, const char *text) {
  emit *e = k->e;
  uint64_t seed = 14695981039346656037u;
  if (s->once) /* the same for every pass that has this text */
    return gs_arena_printf(e->a, "%s_%s_%08x", e->layer, s->piece, (unsigned)hash_text(text, seed));
  const char *key = fmt(k, "%s/%s/%s", e->pass->key ? e->pass->key : "", e->caps->arch, s->piece);
  char *name = gs_arena_printf(e->a, "%s_%s_%08x", e->layer, pass_name(e->pass->kind),
                               (unsigned)hash_text(text, seed ^ hash_text(key, seed)));
  for (char *c = name; *c; c++)
    if (!isalnum((unsigned char)*c)) *c = '_';
  if (isdigit((unsigned char)name[0])) name[0] = 'k';
  return name;
}

static gs_kernel *new_kernel(emit *e) {
  gs_launch_list *l = e->list;
  l->kernels = gs_arena_room(e->a, l->kernels, l->nkernels, &e->cap_kernels, sizeof *l->kernels);
  return &l->kernels[l->nkernels++];
}

void add_kernel(kern *k, shape *s) {
  emit *e = k->e;
  if (e->status) return;
  params p = {0};
  all_params(k, &p);
  hole(s, "BANNER", banner(k, s));
  hole(s, "PARAMS", gs_arena_strdup(e->a, p.text.s ? p.text.s : ""));
  if (!s->says_threads) hole_int(k, s, "THREADS", s->threads);
  gs_text_free(&p.text);
  int n = s->nholes;
  hole(s, "ENTRY", "ENTRY");
  const char *text = expand_piece(e, s, s->holes, s->nholes);
  if (e->status) return;
  s->holes[n].text = entry_name(k, s, text);
  gs_kernel *r = new_kernel(e);
  *r = (gs_kernel){.entry = s->holes[n].text,
                   .text = expand_piece(e, s, s->holes, s->nholes),
                   .template_name = gs_arena_strdup(e->a, s->template_name),
                   .tunables = gs_arena_strdup(e->a, s->tunables),
                   .nargs = p.n,
                   .args = p.args,
                   .grid = s->grid,
                   .threads = s->threads,
                   .shared_bytes = (int)s->shared,
                   .prelude = s->prelude,
                   .once = s->once,
                   .follows = s->follows,
                   .barrier_free = s->barrier_free};
}
