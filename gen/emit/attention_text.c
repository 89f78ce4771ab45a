/* attention_text.c: the author's closed forms as statements of a template, and a piece of a
 * template with its holes filled as a kernel record.
 *
 * requires: the programs of the instance (lua/gradsmith/attention.lua) over leaves named "@s".
 * keeps: what does not differ between pairs is computed once a head, in HEAD_VALUES. */
#include "emit/attention.h"

#include "base/asset.h"

#include <ctype.h>
#include <string.h>

/* ---- lowering ---- */

static const char *const leaf_names[LEAVES] = {"s", "z", "dz", "qi", "ki", "head", "n_q", "n_k"};
static const double FARTHEST = 1 << 28; /* of a position: sums of some of them are ints */

static bool is_leaf_name(const char *name) {
  return name[0] == '@';
}

/* Memory for what a program reads: a leaf is a name alone. */
static void bind_reads(att *a, gs_id root) {
  emit *e = a->e;
  bool *seen = GS_NEW_N(e->a, bool, root + 1);
  seen[root] = true;
  for (gs_id id = root; id > 0; id--) {
    const gs_node *n = gs_graph_node(e->g, id);
    if (!seen[id]) continue;
    for (int k = 0; k < n->nargs; k++) seen[n->arg[k]] = true;
    if (n->op != GS_OP_INPUT && n->op != GS_OP_SCALAR) continue;
    int tensor = (int)n->index, m = 0;
    while (m < e->nmems && e->mems[m].tensor != tensor) m++;
    if (m < e->nmems) continue;
    const gs_tensor *t = gs_graph_tensor_at(e->g, tensor);
    if (!is_leaf_name(t->name)) {
      memory_add_leaf(e, tensor);
      continue;
    }
    m = mem_temp(e, t->name, t->type, 0, 0, NULL);
    e->mems[m].tensor = tensor;
    e->mems[m].temp = -1;
  }
}

static gs_id program(const att *a, const char *name) {
  const gs_instance *i = a->e->pass->instance;
  for (int k = 0; k < i->nprograms; k++)
    if (strcmp(i->programs[k].name, name) == 0) return i->programs[k].expr;
  return 0;
}

/* Leaves first, so that their bounds are known to all that is made of them. */
static void lower_leaves(att *a, const where_at *w) {
  emit *e = a->e;
  for (int l = 0; l < LEAVES; l++) {
    a->leaf[l] = -1;
    for (int m = 0; m < e->nmems && a->leaf[l] < 0; m++) {
      const mem *x = &e->mems[m];
      if (x->tensor < 0 || !is_leaf_name(x->name) || strcmp(x->name + 1, leaf_names[l]) != 0)
        continue;
      a->leaf[l] = lower(e, gs_input(e->g, x->tensor), w);
      val *v = &e->vals[a->leaf[l]];
      if (v->type == GS_I64) v->lo = -FARTHEST, v->hi = FARTHEST;
    }
  }
}

static void find_varying(att *a) {
  emit *e = a->e;
  a->varies = GS_NEW_N(e->a, bool, e->nvals + 1);
  for (int v = 0; v < e->nvals; v++) {
    const val *x = &e->vals[v];
    for (int l = 0; l <= LEAF_KI; l++) a->varies[v] |= v == a->leaf[l];
    for (int k = 0; k < x->nargs; k++) a->varies[v] |= a->varies[x->arg[k]];
  }
}

/* For the banner, without the mark of leaves. */
static void say_formula(att *a, const gs_id *ids, int n) {
  static const char *const names[] = {"z", "ds", "first", "last", "sink"};
  gs_text all = {0};
  for (int k = 0; k < n; k++) {
    gs_text t = {0};
    gs_print_expr(a->e->g, ids[k], &t);
    gs_text_printf(&all, "// %s = ", names[k]);
    for (const char *c = t.s; *c; c++)
      if (*c != '@') gs_text_add_n(&all, c, 1);
    gs_text_add(&all, "\n");
    gs_text_free(&t);
  }
  a->none.formula = gs_arena_strdup(a->e->a, all.s);
  gs_text_free(&all);
}

void att_lower(att *a) {
  static const char *const names[] = {"score", "slope", "first", "last", "sink"};
  int *const to[] = {&a->score, &a->slope, &a->first, &a->last, &a->sink};
  emit *e = a->e;
  gs_id ids[5];
  int n = 0;
  where_at w;
  for (int k = 0; k < 5; k++) {
    ids[n] = program(a, names[k]);
    if (!ids[n] && k < 4) emit_fail(e, 0, "the template attention needs a gs.attention");
    if (ids[n]) n++;
  }
  if (e->status) return;
  gs_simplify(e->g, ids, n);
  for (int k = 0; k < n; k++) bind_reads(a, ids[k]);
  say_formula(a, ids, n);
  where_loops(e, &w);
  lower_leaves(a, &w);
  a->sink = -1;
  for (int k = 0; k < n; k++) *to[k] = lower(e, ids[k], &w);
  find_varying(a);
  a->is_plain = a->score == a->leaf[LEAF_S] && a->slope == a->leaf[LEAF_DZ];
}

/* ---- statements ---- */

static const char *take_statements(att *a) {
  return take_text(&a->k);
}

/* Declares what several of the values below roots need, or, of what does not vary, all that the
 * rest is made of. */
static void declare_values(att *a, const int *roots, int n, bool varying) {
  kern *k = &a->k;
  emit *e = a->e;
  bool *seen = GS_NEW_N(e->a, bool, e->nvals + 1), *needed = GS_NEW_N(e->a, bool, e->nvals + 1);
  int *uses = GS_NEW_N(e->a, int, e->nvals + 1);
  collect(e, roots, n, seen, true, k->name);
  for (int i = 0; i < n; i++) needed[roots[i]] = true;
  for (int v = 0; v < e->nvals; v++)
    for (int i = 0; seen[v] && i < e->vals[v].nargs; i++) {
      uses[e->vals[v].arg[i]]++;
      needed[e->vals[v].arg[i]] |= a->varies[v];
    }
  for (int v = 0; v < e->nvals; v++) {
    const val *x = &e->vals[v];
    bool is_value = x->kind == VAL_OP || x->kind == VAL_LOAD;
    if (!seen[v] || k->name[v] || !is_value || a->varies[v] != varying) continue;
    if (varying ? uses[v] < 2 : !needed[v]) continue;
    const char *name = fmt(k, "v_%d", k->counter++);
    line(k, "const %s %s = %s;", value_type(e, v), name, bare_text(k, v));
    k->name[v] = name;
  }
}

static void name_leaf(att *a, att_leaf l, const char *name) {
  if (a->leaf[l] >= 0) a->k.name[a->leaf[l]] = name;
}

static void head_values(att *a) {
  int roots[3] = {a->score, a->slope, a->sink}, n = a->sink < 0 ? 2 : 3;
  name_leaf(a, LEAF_N_Q, "(int)(gs_geti(cu_q, doc + 1) - gs_geti(cu_q, doc))");
  name_leaf(a, LEAF_N_K, "(int)(gs_geti(cu_k, doc + 1) - gs_geti(cu_k, doc))");
  declare_values(a, roots, n, false);
  if (a->sink >= 0) line(&a->k, "const f32 sink = %s;", bare_text(&a->k, a->sink));
  a->head_values = take_statements(a);
}

static const char *one(att *a, int root, const char *name) {
  const char **names = gs_arena_copy(a->e->a, a->k.name, sizeof(char *) * (size_t)a->e->nvals);
  declare_values(a, &root, 1, true);
  line(&a->k, "const f32 %s = %s;", name, bare_text(&a->k, root));
  memcpy(a->k.name, names, sizeof(char *) * (size_t)a->e->nvals); /* its names end with its scope */
  return take_statements(a);
}

/* A bound that an author gives as a number is a real. */
static void bound(att *a, int v, const char *name) {
  const val *x = &a->e->vals[v];
  if (x->kind == VAL_CONST)
    line(&a->k, "const int %s = %lld;", name, (long long)x->value);
  else
    line(&a->k, is_narrow(a->e, v) ? "const int %s = %s;" : "const int %s = (int)(%s);", name,
         bare_text(&a->k, v));
}

static void keys(att *a) {
  int roots[2] = {a->first, a->last};
  declare_values(a, roots, 2, false);
  declare_values(a, roots, 2, true);
  bound(a, a->first, "first");
  bound(a, a->last, "last");
  a->keys = take_statements(a);
}

void att_begin(att *a) {
  kern *k = &a->k;
  kern_begin(k, a->e, &a->none);
  k->maps = GS_NEW_N(a->e->a, gs_box, a->e->nmems + 1);
  k->var[a->kv] = fmt(k, "(head / %lld)", (long long)a->groups);
  k->var[a->g] = fmt(k, "(head %% %lld)", (long long)a->groups);
  k->var[a->b] = "doc";
  for (int l = 0; l < LEAVES; l++) name_leaf(a, (att_leaf)l, leaf_names[l]);
  const char **names = gs_arena_copy(a->e->a, k->name, sizeof(char *) * (size_t)a->e->nvals);
  keys(a);
  memcpy(k->name, names, sizeof(char *) * (size_t)a->e->nvals); /* they end with their scope */
  head_values(a);
  a->score_text = one(a, a->score, "z");
  if (a->score != a->leaf[LEAF_S]) k->name[a->score] = "z";
  a->slope_text = one(a, a->slope, "ds");
}

/* ---- holes ---- */

void att_hole(att_kernel *x, const char *name, const char *text) {
  x->own[x->nown++] = (gs_hole){name, text};
}

void att_int(att *a, att_kernel *x, const char *name, int64_t value) {
  att_hole(x, name, fmt(&a->k, "%lld", (long long)value));
}

#define PIECE '\1' /* begins the text of a hole that is a piece's name */

void att_piece(att *a, att_kernel *x, const char *name, const char *piece) {
  att_hole(x, name, piece ? fmt(&a->k, "%c%s", PIECE, piece) : "");
}

void att_map(att_kernel *x, const char *tensor, gs_box box) {
  x->maps[x->nmaps].tensor = tensor;
  x->maps[x->nmaps++].box = box;
}

/* A hole that every template may have; NULL: there is none of that name. */
static const char *common(att *a, const char *name) {
  const struct {
    const char *name, *text;
  } texts[] = {{"TYPE", gs_type_name(a->type)},
               {"HEAD_VALUES", a->head_values},
               {"SCORE", a->score_text},
               {"SLOPE", a->slope_text},
               {"KEYS", a->keys},
               {"DSINK", a->dsink}};
  const struct {
    const char *name;
    int64_t value;
  } numbers[] = {{"D", a->size},
                 {"HEADS", a->heads},
                 {"KH", a->kheads},
                 {"G", a->groups},
                 {"PLAIN", a->is_plain},
                 {"SINK", a->sink >= 0},
                 {"WANT_DQ", att_wants(a, "dq")},
                 {"WANT_DK", att_wants(a, "dk")},
                 {"WANT_DV", att_wants(a, "dv")},
                 {"SAVE_LSE", att_wants(a, "lse")},
                 {"SM_COUNT", a->e->caps->sm_count}};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    if (strcmp(texts[i].name, name) == 0) return texts[i].text;
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (strcmp(numbers[i].name, name) == 0) return fmt(&a->k, "%lld", (long long)numbers[i].value);
  return NULL;
}

enum { MAX_HOLES = 48, MAX_NESTED = 8 };

/* The names of the holes in a text, each once. */
static int holes_in(att *a, const char *text, size_t len, const char **names) {
  int n = 0;
  for (const char *p = text; p + 2 < text + len; p++) {
    if (p[0] != '@' || p[1] != '{') continue;
    const char *end = memchr(p, '}', (size_t)(text + len - p));
    if (!end) break;
    const char *name = fmt(&a->k, "%.*s", (int)(end - p - 2), p + 2);
    int i = 0;
    while (i < n && strcmp(names[i], name) != 0) i++;
    if (i == n && n < MAX_HOLES) names[n++] = name;
  }
  return n;
}

static const char *fill(att *a, const att_kernel *x, const char *piece, int depth);

/* What fills a hole; NULL: nothing does, which the expansion reports. */
static const char *hole_text(att *a, const att_kernel *x, const char *name, int depth) {
  for (int i = 0; i < x->nown; i++)
    if (strcmp(x->own[i].name, name) == 0)
      return x->own[i].text[0] == PIECE ? fill(a, x, x->own[i].text + 1, depth + 1)
                                        : x->own[i].text;
  const char *text = strcmp(name, "THREADS") == 0 ? fmt(&a->k, "%d", x->threads) : common(a, name);
  if (text || depth > MAX_NESTED) return text;
  char *lower_name = gs_arena_strdup(a->e->a, name);
  for (char *c = lower_name; *c; c++) *c = (char)tolower((unsigned char)*c);
  const char *file = fmt(&a->k, "templates/%s.cu", x->file);
  size_t len;
  if (gs_piece(file, lower_name, &text, &len, NULL)) return NULL;
  return fill(a, x, lower_name, depth + 1);
}

static bool is_of_record(const char *name) {
  static const char *const names[] = {"BANNER", "ENTRY", "PARAMS"};
  for (int i = 0; i < 3; i++)
    if (strcmp(name, names[i]) == 0) return true;
  return false;
}

/* The holes of a piece, but for those that the record fills. */
static void fill_holes(att *a, const att_kernel *x, const char *piece, shape *s, int depth) {
  const char *names[MAX_HOLES], *text;
  size_t len;
  if (gs_piece(fmt(&a->k, "templates/%s.cu", x->file), piece, &text, &len, a->e->err)) {
    a->e->status = GS_ERR_INPUT;
    return;
  }
  int n = holes_in(a, text, len, names);
  for (int i = 0; i < n; i++) {
    if (is_of_record(names[i])) continue;
    const char *t = hole_text(a, x, names[i], depth);
    if (t) hole(s, names[i], t);
  }
}

static const char *fill(att *a, const att_kernel *x, const char *piece, int depth) {
  shape s = {.template_name = x->file, .piece = piece};
  fill_holes(a, x, piece, &s, depth);
  return a->e->status ? "" : expand_piece(a->e, &s, s.holes, s.nholes);
}

const char *att_fill(att *a, const att_kernel *x, const char *piece) {
  return fill(a, x, piece, 0);
}

/* ---- parameters ---- */

static bool listed(const char *list, const char *name) {
  size_t n = strlen(name);
  for (const char *p = list; p && *p; p += *p == ',') {
    size_t len = strcspn(p, ",");
    if (len == n && memcmp(p, name, n) == 0) return true;
    p += len;
  }
  return false;
}

static void use_word(att *a, const att_kernel *x, const char *word, size_t n) {
  kern *k = &a->k;
  emit *e = a->e;
  for (int m = 0; m < e->nmems; m++) {
    const mem *y = &e->mems[m];
    size_t len = strlen(y->name);
    if (is_leaf_name(y->name) || n < len || memcmp(y->name, word, len) != 0) continue;
    bool is_result = y->binding >= 0 && e->list->bindings[y->binding].is_result;
    if (n == len + 3 && memcmp(word + len, "_ld", 3) == 0) k->strides[m] = true;
    if (n != len) continue;
    bool updated = y->binding < 0 && listed(x->updates, y->name);
    bool written = is_result || updated || listed(x->writes, y->name);
    if (written) k->writes[m] = true;
    if (!written || updated) k->reads[m] = true;
  }
  for (int d = 0; d < gs_graph_ndims(e->g); d++) {
    const char *name = gs_graph_dim_at(e->g, d)->name;
    if (dim_is_outer(e, d) && strlen(name) == n && memcmp(name, word, n) == 0) k->dims[d] = true;
  }
}

static void use_words(att *a, const att_kernel *x, const char *text) {
  for (const char *p = text; *p;) {
    if (p[0] == '/' && p[1] == '/') p += strcspn(p, "\n");
    size_t n = 0;
    while (isalnum((unsigned char)p[n]) || p[n] == '_') n++;
    if (n && !isdigit((unsigned char)*p)) use_word(a, x, p, n);
    p += n ? n : *p != 0;
  }
}

void att_write(att *a, const att_kernel *x) {
  emit *e = a->e;
  if (e->status) return;
  att_begin(a);
  kern *k = &a->k;
  shape s = {.template_name = x->file,
             .piece = x->piece,
             .threads = x->threads,
             .barrier_free = x->barrier_free,
             .once = x->once,
             .shared = x->shared,
             .prelude = x->prelude,
             .grid = x->grid,
             .tunables = x->tunables ? x->tunables : fmt(k, "threads=%d", x->threads)};
  fill_holes(a, x, x->piece, &s, 0);
  if (e->status) return;
  shape whole = s; /* to see what it reads */
  hole(&whole, "BANNER", "");
  hole(&whole, "ENTRY", "ENTRY");
  hole(&whole, "PARAMS", "");
  const char *text = expand_piece(e, &whole, whole.holes, whole.nholes);
  size_t bytes = sizeof(bool) * (size_t)(e->nmems + 1);
  memset(k->reads, 0, bytes), memset(k->writes, 0, bytes), memset(k->strides, 0, bytes);
  memset(k->dims, 0, sizeof k->dims);
  use_words(a, x, text);
  for (int i = 0; i < x->nmaps; i++) {
    int m = att_find(a, x->maps[i].tensor);
    const char *map = fmt(k, "%s_map", x->maps[i].tensor);
    if (m >= 0 && strstr(text, map)) k->maps[m] = x->maps[i].box;
  }
  s.says_threads = true;
  add_kernel(k, &s);
}
