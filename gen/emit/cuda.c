/* cuda.c: a layer whose kernels' bodies are the author's own CUDA C (gs.cuda [[ ... ]]).
 *
 * The text has helpers first, then pieces, each after a line
 *   //@ PASS grid=SIZE threads=N [barrier_free] [reads=a,b] [writes=c,d]
 *   //@ temp NAME TYPE SIZE
 * PASS is forward or backward; several pieces of a pass are launched in their order. SIZE is a
 * product of numbers and dims of which one factor may be ceil(product / number): "T*N",
 * "ceil(T/4)", "ceil(T/8)*H". What is read and written is every tensor and every wanted result of
 * the pass unless the piece says; temporaries are always said. A piece that writes nothing which is
 * wanted, or which a later piece reads, is not launched. Parameters are written here, so that the
 * record and the text agree.
 *
 * In a body: tensors by name, NAME_ld for the stride of the first of several dims, outer dims as
 * i64, inner dims and whole-number options as int constants, other options as f32 constants,
 * HAS_NAME: 1 where the pass wants that result or temporary, or reads that optional parameter (else
 * it is none of the kernel's). Requires a pass of such a layer; knows nothing of what the body
 * does: check holds it against forward and backward, and lint looks at its text. */
#include "emit/emit.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PIECES = 16, MAX_OWN_TEMPS = 16 };

typedef struct text {
  const char *s;
  size_t n;
} text;

typedef struct piece {
  const char *pass;
  text grid, reads, writes, body;
  bool has_reads, has_writes, barrier_free;
  bool runs;         /* in this pass */
  int threads, line; /* of the piece's head in the author's file */
} piece;

typedef struct own_temp {
  const char *name;
  gs_type type;
  gs_count count;
  int line;
  bool used;
} own_temp;

typedef struct own {
  emit *e;
  const char *pass; /* "forward", "backward" */
  text helpers;
  int npieces, ntemps;
  piece pieces[MAX_PIECES];
  own_temp temps[MAX_OWN_TEMPS];
} own;

/* ---- reading the text ---- */

static bool same(text t, const char *s) {
  return strlen(s) == t.n && memcmp(s, t.s, t.n) == 0;
}

static const char *copy(emit *e, text t) {
  char *s = gs_arena_alloc(e->a, t.n + 1);
  memcpy(s, t.s, t.n);
  s[t.n] = 0;
  return s;
}

/* The next word of *rest, up to a blank; parentheses hold blanks together. */
static text word(text *rest) {
  while (rest->n && isspace((unsigned char)*rest->s)) rest->s++, rest->n--;
  text w = {rest->s, 0};
  int depth = 0;
  while (rest->n && (depth > 0 || !isspace((unsigned char)*rest->s))) {
    depth += (*rest->s == '(') - (*rest->s == ')');
    rest->s++, rest->n--, w.n++;
  }
  return w;
}

/* The next name of a list "a,b,c"; empty at its end. */
static text listed_next(text *list) {
  const char *comma = memchr(list->s, ',', list->n);
  text name = {list->s, comma ? (size_t)(comma - list->s) : list->n};
  size_t all = name.n + (comma != NULL);
  list->s += all, list->n -= all;
  return name;
}

static bool listed(text list, const char *name) {
  while (list.n)
    if (same(listed_next(&list), name)) return true;
  return false;
}

/* ---- sizes ---- */

static void skip_blanks(text *t) {
  while (t->n && isspace((unsigned char)*t->s)) t->s++, t->n--;
}

static bool takes(text *t, const char *word_) {
  size_t n = strlen(word_);
  skip_blanks(t);
  if (t->n < n || memcmp(t->s, word_, n) != 0) return false;
  t->s += n, t->n -= n;
  return true;
}

/* A number, an inner dim (its size) or an outer one, times what *coef and *dims hold. */
static bool size_factor(emit *e, text *t, int64_t *coef, gs_dims *dims) {
  skip_blanks(t);
  text f = {t->s, 0};
  while (f.n < t->n && (isalnum((unsigned char)f.s[f.n]) || f.s[f.n] == '_')) f.n++;
  t->s += f.n, t->n -= f.n;
  if (f.n == 0 || f.n > 60) return false;
  int64_t number = isdigit((unsigned char)*f.s) ? strtoll(copy(e, f), NULL, 10) : 0;
  int d = number ? -1 : gs_graph_find_dim(e->g, copy(e, f));
  if (d >= 0 && !dim_is_outer(e, d)) number = dim_size(e, d);
  if (number > 0) {
    *coef *= number;
    return *coef > 0 && *coef < (int64_t)1 << 40;
  }
  bool plain = d >= 0 && gs_graph_dim_at(e->g, d)->same_as < 0 && !(*dims >> d & 1);
  if (plain) *dims |= (gs_dims)1 << d;
  return plain;
}

static bool size_product(emit *e, text *t, int64_t *coef, gs_dims *dims) {
  do
    if (!size_factor(e, t, coef, dims)) return false;
  while (takes(t, "*"));
  return true;
}

/* A dim that is ceil(outer dim / number), by its name. */
static bool size_blocks(const emit *e, text *t, gs_dims *dims, int64_t *div) {
  skip_blanks(t);
  text f = {t->s, 0};
  while (f.n < t->n && (isalnum((unsigned char)f.s[f.n]) || f.s[f.n] == '_')) f.n++;
  for (int d = 0; d < gs_graph_ndims(e->g); d++) {
    const gs_dim *x = gs_graph_dim_at(e->g, d);
    if (!same(f, x->name) || x->same_as < 0 || !dim_is_outer(e, d)) continue;
    if (gs_graph_dim_at(e->g, x->same_as)->same_as >= 0) return false;
    t->s += f.n, t->n -= f.n;
    *dims |= (gs_dims)1 << x->same_as;
    *div = x->div;
    return true;
  }
  return false;
}

static bool size_read(emit *e, text t, gs_count *out) {
  int64_t coef = 1, in = 1, div = 1;
  gs_dims dims = 0, in_dims = 0, none = 0;
  do {
    if (div == 1 && !in_dims && size_blocks(e, &t, &in_dims, &div)) continue;
    if (!takes(&t, "ceil(")) {
      if (!size_factor(e, &t, &coef, &dims)) return false;
    } else {
      if (div > 1 || !size_product(e, &t, &in, &in_dims) || !takes(&t, "/") ||
          !size_factor(e, &t, &div, &none) || none || !takes(&t, ")"))
        return false;
    }
  } while (takes(&t, "*"));
  skip_blanks(&t);
  if (t.n || (dims && in_dims)) return false;
  *out = (gs_count){.coef = coef, .div = 1, .dims = dims};
  if (!in_dims) {
    out->coef *= (in + div - 1) / div;
    return true;
  }
  out->dims = in_dims;
  if (coef == 1) {
    out->coef = in, out->div = div;
    return true;
  }
  out->each = div; /* ceil(D/number) of one dim, times coef */
  return in == 1 && !(in_dims & (in_dims - 1));
}

static bool size_of(emit *e, text t, int line, gs_count *out) {
  if (size_read(e, t, out)) return true;
  emit_fail(
      e, line,
      "gs.cuda: '%s' is not a size: a product of numbers and dims, one factor of which may be "
      "ceil(product / number)",
      copy(e, t));
  return false;
}

/* ---- pieces ---- */

static bool is_word(text t) {
  bool ok = t.n > 0 && !isdigit((unsigned char)*t.s);
  for (size_t i = 0; i < t.n; i++) ok &= isalnum((unsigned char)t.s[i]) || t.s[i] == '_';
  return ok;
}

static void read_temp(own *o, text rest, int line) {
  emit *e = o->e;
  text name = word(&rest), type = word(&rest), size = word(&rest);
  gs_type t = type.n ? gs_type_from_name(copy(e, type)) : GS_TYPE_NONE;
  if (!is_word(name) || t == GS_TYPE_NONE || t == GS_BOOL || !size.n) {
    emit_fail(e, line, "gs.cuda: a temporary is written //@ temp NAME TYPE SIZE");
    return;
  }
  own_temp x = {.name = copy(e, name), .type = t, .line = line};
  for (int k = 0; k < o->ntemps; k++)
    if (strcmp(o->temps[k].name, x.name) == 0)
      emit_fail(e, line, "gs.cuda: there are two temporaries '%s'", x.name);
  for (int k = 0; k < gs_graph_ntensors(e->g); k++)
    if (strcmp(gs_graph_tensor_at(e->g, k)->name, x.name) == 0)
      emit_fail(e, line, "gs.cuda: '%s' is a tensor of the layer: a temporary needs another name",
                x.name);
  if (o->ntemps == MAX_OWN_TEMPS)
    emit_fail(e, line, "gs.cuda: more than %d temporaries", MAX_OWN_TEMPS);
  if (size_of(e, size, line, &x.count) && !e->status) o->temps[o->ntemps++] = x;
}

static void read_setting(own *o, piece *p, text w) {
  emit *e = o->e;
  static const char *const keys[] = {"grid=", "threads=", "reads=", "writes="};
  for (size_t k = 0; k < 4; k++) {
    size_t n = strlen(keys[k]);
    if (w.n < n || memcmp(w.s, keys[k], n) != 0) continue;
    text value = {w.s + n, w.n - n};
    if (k == 0) p->grid = value;
    if (k == 1) p->threads = atoi(copy(e, value));
    if (k == 2) p->reads = value, p->has_reads = true;
    if (k == 3) p->writes = value, p->has_writes = true;
    return;
  }
  if (same(w, "barrier_free"))
    p->barrier_free = true;
  else
    emit_fail(
        e, p->line,
        "gs.cuda: unknown word '%s': known are grid=, threads=, reads=, writes=, barrier_free",
        copy(e, w));
}

static void read_piece(own *o, text head, int line) {
  emit *e = o->e;
  text name = word(&head);
  if (same(name, "temp")) {
    read_temp(o, head, line);
    return;
  }
  if (o->npieces == MAX_PIECES) {
    emit_fail(e, line, "gs.cuda: more than %d kernels", MAX_PIECES);
    return;
  }
  piece *p = &o->pieces[o->npieces++];
  *p = (piece){.pass = copy(e, name), .line = line};
  if (!same(name, "forward") && !same(name, "backward"))
    emit_fail(e, line, "gs.cuda: '//@ %s': a kernel belongs to the pass forward or backward",
              p->pass);
  for (text w = word(&head); w.n; w = word(&head)) read_setting(o, p, w);
  if (!p->grid.n) emit_fail(e, line, "gs.cuda: a kernel needs grid=SIZE, its number of blocks");
  if (p->threads < 32 || p->threads > e->caps->max_threads || p->threads % 32)
    emit_fail(e, line, "gs.cuda: threads=N is a multiple of 32 from 32 to %d",
              e->caps->max_threads);
}

/* Cuts the text at its heads. first: the line of the author's file that it begins in. */
static void read_pieces(own *o, const char *s, int first) {
  text *into = &o->helpers, nothing = {0};
  int line = first;
  *into = (text){s, 0};
  while (*s && !o->e->status) {
    size_t n = strcspn(s, "\n");
    const char *mark = s + strspn(s, " \t");
    if (mark + 3 <= s + n && memcmp(mark, "//@", 3) == 0) {
      int before = o->npieces;
      read_piece(o, (text){mark + 3, (size_t)(s + n - mark) - 3}, line);
      into = &nothing; /* what follows a temporary belongs to no kernel */
      if (o->npieces > before) {
        into = &o->pieces[before].body;
        *into = (text){s + n + (s[n] == '\n'), 0};
      }
    } else {
      bool blank = strspn(s, " \t\r") >= n || memcmp(mark, "//", 2) == 0;
      if (into == &nothing && !blank)
        emit_fail(o->e, line,
                  "gs.cuda: this line belongs to no kernel: temporaries are written "
                  "before a kernel's head, or before the next");
      into->n += n + (s[n] == '\n');
    }
    s += n + (s[n] == '\n');
    line++;
  }
}

/* ---- which pieces run, and on what ---- */

static bool is_wanted(const emit *e, const char *name) {
  for (int i = 0; i < e->pass->nresults; i++)
    if (strcmp(e->pass->results[i].name, name) == 0) return true;
  return false;
}

static int find_temp(const own *o, text name) {
  for (int k = 0; k < o->ntemps; k++)
    if (same(name, o->temps[k].name)) return k;
  return -1;
}

/* Every name in a list must be a tensor, a result or a temporary; a result that this pass does not
 * want is passed over. What is written is a result or a temporary. */
static void check_list(const own *o, const piece *p, text list, bool writes) {
  emit *e = o->e;
  const gs_instance *i = e->pass->instance;
  bool back = strcmp(p->pass, "backward") == 0;
  const gs_result *r = back ? i->backward : i->forward;
  while (list.n) {
    text name = listed_next(&list);
    bool result = false, known = find_temp(o, name) >= 0;
    for (int k = 0; k < (back ? i->nbackward : i->nforward); k++) result |= same(name, r[k].name);
    for (int k = 0; back && k < i->nrecomputed; k++) result |= same(name, i->recomputed[k].name);
    known |= result;
    for (int t = 0; t < gs_graph_ntensors(e->g) && !writes; t++)
      known |= same(name, gs_graph_tensor_at(e->g, t)->name);
    if (!known)
      emit_fail(e, p->line,
                writes ? "gs.cuda: '%s' is neither a result of the %s pass nor a temporary"
                       : "gs.cuda: there is no tensor '%s' (%s)",
                copy(e, name), p->pass);
  }
}

static bool writes_result(const own *o, const piece *p) {
  const gs_pass *pass = o->e->pass;
  for (int k = 0; k < pass->nresults; k++)
    if (!p->has_writes || listed(p->writes, pass->results[k].name)) return true;
  return false;
}

/* From the last piece to the first: one runs whose writes are wanted or read by one that runs. */
static void choose_pieces(own *o) {
  for (int k = o->npieces - 1; k >= 0; k--) {
    piece *p = &o->pieces[k];
    if (strcmp(p->pass, o->pass) != 0) continue;
    p->runs = writes_result(o, p);
    for (int t = 0; t < o->ntemps; t++)
      p->runs |= o->temps[t].used && listed(p->writes, o->temps[t].name);
    for (int t = 0; t < o->ntemps && p->runs; t++)
      o->temps[t].used |= listed(p->reads, o->temps[t].name);
  }
}

/* Every wanted result is written, every temporary before it is read. */
static void check_pieces(const own *o) {
  emit *e = o->e;
  bool written[MAX_OWN_TEMPS] = {false};
  for (int k = 0; k < o->npieces; k++) {
    const piece *p = &o->pieces[k];
    for (int t = 0; t < o->ntemps && p->runs; t++) {
      written[t] |= listed(p->writes, o->temps[t].name);
      if (listed(p->reads, o->temps[t].name) && !written[t])
        emit_fail(e, p->line, "gs.cuda: temporary '%s' is read, but no kernel before writes it",
                  o->temps[t].name);
    }
  }
  for (int r = 0; r < e->pass->nresults; r++) {
    bool any = false;
    for (int k = 0; k < o->npieces; k++)
      any |= o->pieces[k].runs &&
             (!o->pieces[k].has_writes || listed(o->pieces[k].writes, e->pass->results[r].name));
    if (!any)
      emit_fail(e, e->pass->instance->cuda_line, "gs.cuda: no kernel of the %s pass writes '%s'",
                o->pass, e->pass->results[r].name);
  }
}

static void make_temps(own *o) {
  for (int k = 0; k < o->ntemps; k++) {
    const own_temp *x = &o->temps[k];
    if (!x->used) continue;
    int m = mem_temp(o->e, x->name, x->type, 0, x->line, NULL);
    mem_allocate_temp(o->e, m, x->count);
  }
}

/* Binds what any result of the pass reads, wanted or not, so that a body has the same parameters
 * whichever results are wanted, and what a list names besides. */
static void bind_reads(own *o) {
  emit *e = o->e;
  const gs_instance *i = e->pass->instance;
  bool back = e->pass->kind == GS_PASS_BACKWARD;
  const gs_result *r = back ? i->backward : i->forward;
  bool *seen = GS_NEW_N(e->a, bool, gs_graph_size(e->g) + 1);
  for (int n = 0; n < (back ? i->nbackward : i->nforward); n++) seen[r[n].expr] = true;
  for (gs_id id = gs_graph_size(e->g) - 1; id > 0; id--) {
    const gs_node *n = gs_graph_node(e->g, id);
    for (int k = 0; seen[id] && k < n->nargs; k++) seen[n->arg[k]] = true;
  }
  for (int t = 0; t < gs_graph_ntensors(e->g); t++) {
    const char *name = gs_graph_tensor_at(e->g, t)->name;
    bool bound = is_wanted(e, name), wanted = seen[gs_input(e->g, t)];
    for (int m = 0; m < e->nmems; m++) bound |= e->mems[m].tensor == t;
    for (int k = 0; k < o->npieces; k++)
      wanted |= o->pieces[k].runs && listed(o->pieces[k].reads, name);
    if (wanted && !bound) memory_add_leaf(e, t);
  }
}

/* Words that C++ or the prelude keeps. */
static bool is_kept_word(const char *name) {
  static const char *const words[] = {
      "f32",   "bf16",  "f16",    "i32",     "i64",    "u8",   "i8",       "e4m3",
      "e5m2",  "e8m0",  "int",    "float",   "double", "char", "long",     "short",
      "auto",  "new",   "delete", "class",   "this",   "and",  "template", "operator",
      "union", "or",    "not",    "default", "xor",    "for",  "if",       "else",
      "do",    "while", "using",  "return",  "switch", "case", "break",    "true",
      "false", "const", "void",   "static",  "struct", "bool", "typename"};
  for (size_t k = 0; k < sizeof words / sizeof *words; k++)
    if (strcmp(words[k], name) == 0) return true;
  size_t n = strlen(name);
  return strncmp(name, "gs_", 3) == 0 || strncmp(name, "GS_", 3) == 0 ||
         strncmp(name, "HAS_", 4) == 0 || (n > 3 && strcmp(name + n - 3, "_ld") == 0);
}

/* A body calls its tensors by the names that the layer gives them. */
static void own_names(emit *e) {
  for (int m = 0; m < e->nmems; m++) {
    mem *x = &e->mems[m];
    if (x->binding >= 0) x->name = e->list->bindings[x->binding].name;
    if (is_kept_word(x->name) || gs_graph_find_dim(e->g, x->name) >= 0)
      emit_fail(e, e->pass->instance->cuda_line,
                "gs.cuda: '%s' is a dim, or a word that CUDA C or the kernels' prelude keeps: name "
                "that tensor otherwise",
                x->name);
  }
}

/* ---- a kernel ---- */

static void has_text(gs_text *defines, gs_text *undo, const char *name, bool has) {
  gs_text_printf(defines, "#define HAS_%s %d\n", name, has);
  gs_text_printf(undo, "#undef HAS_%s\n", name);
}

/* Every result that the layer's pass could have: outputs, saved values, gradients; temporaries. */
static void wanted_text(const own *o, gs_text *defines, gs_text *undo) {
  const emit *e = o->e;
  const gs_instance *i = e->pass->instance;
  bool back = e->pass->kind == GS_PASS_BACKWARD;
  const gs_result *r = back ? i->backward : i->forward;
  for (int n = 0; n < (back ? i->nbackward : i->nforward); n++)
    has_text(defines, undo, r[n].name, is_wanted(e, r[n].name));
  for (int n = 0; back && n < i->nrecomputed; n++)
    has_text(defines, undo, i->recomputed[n].name, is_wanted(e, i->recomputed[n].name));
  for (int t = 0; t < o->ntemps; t++) has_text(defines, undo, o->temps[t].name, o->temps[t].used);
  const gs_layer_decl *decl = gs_layer_declaration(i->layer);
  for (int p = 0; p < decl->nparams; p++) {
    bool bound = false;
    for (int m = 0; m < e->nmems; m++) bound |= strcmp(e->mems[m].name, decl->params[p].name) == 0;
    if (decl->optional[p]) has_text(defines, undo, decl->params[p].name, bound);
  }
}

static bool is_whole(double v) {
  return v == (double)(int)v;
}

/* Whole where each value that the declaration names is, so that `beta / 2` means one thing. */
static bool is_whole_option(const gs_layer_decl *d, int k, double v) {
  bool whole = fabs(v) < 2e9 && is_whole(v) && fabs(d->option_defaults[k]) < 2e9 &&
               is_whole(d->option_defaults[k]);
  for (int j = 0; j < d->option_nvalues[k]; j++) whole &= is_whole(d->option_values[k][j]);
  for (int j = 0; j < d->option_ntries[k]; j++) whole &= is_whole(d->option_tries[k][j]);
  return whole;
}

static const char *constants_text(kern *k) {
  gs_text t = {0};
  const gs_instance *i = k->e->pass->instance;
  const gs_layer_decl *decl = gs_layer_declaration(i->layer);
  for (int d = 0; d < gs_graph_ndims(k->e->g); d++)
    if (!dim_is_outer(k->e, d))
      gs_text_printf(&t, "[[maybe_unused]] constexpr int %s = %lld;\n",
                     gs_graph_dim_at(k->e->g, d)->name, (long long)dim_size(k->e, d));
  for (int d = 0; d < gs_graph_ndims(k->e->g); d++)
    if (dim_is_outer(k->e, d) && dim_root(k->e, d) != d)
      gs_text_printf(&t, "[[maybe_unused]] const i64 %s = %s;\n", gs_graph_dim_at(k->e->g, d)->name,
                     dim_text(k, d));
  for (int n = 0; n < decl->noptions; n++) {
    double v = i->options[n];
    bool whole = is_whole_option(decl, n, v);
    gs_text_printf(&t, "[[maybe_unused]] constexpr %s %s = %s;\n", whole ? "int" : "f32",
                   decl->options[n],
                   whole ? fmt(k, "%d", (int)v) : number_text(k, GS_F32, (double)(float)v));
  }
  const char *s = gs_arena_strdup(k->e->a, t.s ? t.s : "");
  gs_text_free(&t);
  return s;
}

static void use_mems(kern *k, const piece *p) {
  emit *e = k->e;
  for (int m = 0; m < e->nmems; m++) {
    const mem *x = &e->mems[m];
    bool temp = x->temp >= 0, result = !temp && e->list->bindings[x->binding].is_result;
    k->reads[m] = p->has_reads ? listed(p->reads, x->name) : !result && !temp;
    k->writes[m] = p->has_writes ? listed(p->writes, x->name) : result;
    k->strides[m] = (k->reads[m] || k->writes[m]) && !temp && x->ndims > 1;
  }
  for (int d = 0; d < gs_graph_ndims(e->g); d++)
    k->dims[d] = dim_is_outer(e, d) && dim_root(e, d) == d;
}

static const char *body_text(kern *k, text body, int line) {
  const char *file = strrchr(k->e->file, '/');
  return fmt(k, "#line %d \"%s\"\n%s", line, file ? file + 1 : k->e->file, copy(k->e, body));
}

static void write_piece(own *o, const piece *p) {
  emit *e = o->e;
  kern k;
  unit *u = GS_NEW(e->a, unit);
  gs_text defines = {0}, undo = {0};
  kern_begin(&k, e, u);
  shape s = {.template_name = "cuda",
             .piece = "body",
             .threads = p->threads,
             .barrier_free = p->barrier_free,
             .tunables = gs_arena_printf(e->a, "threads=%d", p->threads)};
  if (size_of(e, p->grid, p->line, &s.grid) && !e->status) {
    use_mems(&k, p);
    wanted_text(o, &defines, &undo);
    hole(&s, "WANTED", gs_arena_strdup(e->a, defines.s ? defines.s : ""));
    hole(&s, "UNDO", gs_arena_strdup(e->a, undo.s ? undo.s : ""));
    hole(&s, "CONSTANTS", constants_text(&k));
    hole(&s, "HELPERS",
         o->helpers.n ? body_text(&k, o->helpers, e->pass->instance->cuda_line) : "");
    hole(&s, "BODY", body_text(&k, p->body, p->line + 1));
    hole_int(&k, &s, "BARRIER_FREE", p->barrier_free);
    add_kernel(&k, &s);
  }
  gs_text_free(&defines);
  gs_text_free(&undo);
}

/* What these kernels do not do. */
static void refuse(emit *e) {
  const gs_instance *i = e->pass->instance;
  for (int r = 0; r < e->pass->nresults; r++) {
    const gs_result *x = &e->pass->results[r];
    if (x->add)
      emit_fail(e, i->cuda_line, "gs.cuda kernels can't add to what '%s' holds: they write it",
                x->name);
    if (x->inplace)
      emit_fail(
          e, i->cuda_line,
          "gs.cuda kernels write no result in place, and inplace lets '%s' share the memory of "
          "'%s': take it out",
          x->name, x->inplace);
  }
  if (e->pass->kind == GS_PASS_TERMINAL)
    emit_fail(e, i->cuda_line,
              "gs.cuda kernels have no terminal pass: forward and backward are "
              "launched one after the other");
}

gs_status write_cuda(emit *e) {
  const gs_instance *i = e->pass->instance;
  own o = {.e = e, .pass = e->pass->kind == GS_PASS_BACKWARD ? "backward" : "forward"};
  refuse(e);
  if (e->status || memory_bind(e)) return e->status;
  read_pieces(&o, i->cuda, i->cuda_line);
  for (int k = 0; k < o.npieces && !e->status; k++) {
    check_list(&o, &o.pieces[k], o.pieces[k].reads, false);
    check_list(&o, &o.pieces[k], o.pieces[k].writes, true);
  }
  bool any = false;
  for (int k = 0; k < o.npieces; k++) any |= strcmp(o.pieces[k].pass, o.pass) == 0;
  if (!any)
    emit_fail(e, i->cuda_line,
              "gs.cuda has no kernel for this pass: add '//@ %s grid=... threads=...'", o.pass);
  choose_pieces(&o);
  if (!e->status) check_pieces(&o);
  if (!e->status) bind_reads(&o);
  if (!e->status) make_temps(&o);
  if (!e->status) own_names(e);
  for (int k = 0; k < o.npieces && !e->status; k++)
    if (o.pieces[k].runs) write_piece(&o, &o.pieces[k]);
  return e->status;
}
