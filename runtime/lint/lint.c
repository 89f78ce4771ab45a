/* lint.c: opening libclang, and from a launch list to its kernels' functions in the tree. */
#include "base/asset.h"
#include "jit/library.h"
#include "lint/internal.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the library ---- */

static bool open_any(gs_library *lib) {
  static const char *const patterns[] = {"/usr/lib/llvm-*/lib/libclang.so.1",
                                         "/usr/lib/llvm-*/lib/libclang-[0-9]*.so*",
                                         "/usr/lib/*-linux-gnu/libclang-[0-9]*.so*",
                                         "/usr/lib64/libclang.so*",
                                         "/usr/local/lib/libclang.so*",
                                         "/opt/homebrew/opt/llvm/lib/libclang.so*"};
  char name[64];
  if (gs_library_try("libclang.so.1", lib) || gs_library_try("libclang.so", lib)) return true;
  for (int v = 22; v >= 14; v--)
    for (int k = 0; k < 2; k++) {
      snprintf(name, sizeof name, k ? "libclang-%d.so.1" : "libclang.so.%d", v);
      if (gs_library_try(name, lib)) return true;
    }
  for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++) {
    glob_t g;
    bool found = false;
    if (glob(patterns[p], 0, NULL, &g) != 0) continue;
    for (size_t i = g.gl_pathc; i > 0 && !found; i--)
      found = gs_library_try(g.gl_pathv[i - 1], lib);
    globfree(&g);
    if (found) return true;
  }
  return false;
}

gs_status gs_lint_open(gs_lint **out, gs_error *err) {
  gs_library lib = {0};
  *out = NULL;
  if (!open_any(&lib))
    return gs_fail(err, GS_ERR_DEVICE,
                   "libclang was not found: neither libclang.so.1 nor libclang-14 to -22 on the "
                   "loader's path, in /usr/lib/llvm-*/lib or /usr/local/lib (Debian, Ubuntu: apt "
                   "install clang)");
  gs_lint *l = calloc(1, sizeof *l);
  if (!l) return gs_fail(err, GS_ERR_MEMORY, "no memory for lint");
  memcpy(l->path, lib.path, sizeof l->path);
  const char *missing = NULL;
#define GS_FIELD(field, symbol, result, params)                                                    \
  if (!gs_library_symbol(&lib, symbol, &l->cx.field)) missing = symbol;
  GS_CLANG_FUNCTIONS(GS_FIELD)
#undef GS_FIELD
  if (missing) {
    gs_fail(err, GS_ERR_DEVICE, "%s has no %s: lint wants libclang 14 or later", l->path, missing);
    free(l);
    return GS_ERR_DEVICE;
  }
  *out = l;
  return GS_OK;
}

void gs_lint_close(gs_lint *l) {
  free(l);
}

const char *gs_lint_path(const gs_lint *l) {
  return l->path;
}

/* ---- the tree ---- */

void take_string(const look *l, gs_cx_string s, char *out, size_t cap) {
  const char *text = l->cx->text(s);
  snprintf(out, cap, "%s", text ? text : "");
  l->cx->drop_string(s);
}

void spelling_of(const look *l, gs_cursor c, char *out, size_t cap) {
  take_string(l, l->cx->spelling(c), out, cap);
}

typedef struct collector {
  gs_arena *a;
  cursors all;
} collector;

static int add_child(gs_cursor c, gs_cursor parent, void *context) {
  collector *to = context;
  cursors *all = &to->all;
  (void)parent;
  all->v = gs_arena_room(to->a, all->v, all->n, &all->cap, sizeof *all->v);
  all->v[all->n++] = c;
  return CX_GO_ON;
}

cursors children_of(const look *l, gs_cursor c) {
  collector to = {.a = l->a};
  l->cx->visit(c, add_child, &to);
  return to.all;
}

bool annotation_of(const look *l, gs_cursor c, char *out, size_t cap) {
  cursors in = children_of(l, c);
  bool found = false;
  for (int i = 0; i < in.n && !found; i++) {
    if (in.v[i].kind != CX_ANNOTATE) continue;
    spelling_of(l, in.v[i], out, cap);
    found = true;
  }
  return found;
}

/* ---- what is found ---- */

/* Whether the same was found at the same place, in this or another specialisation. */
static bool is_known(const gs_text *found, const char *place, const char *what) {
  size_t np = strlen(place), nw = strlen(what);
  for (const char *line = found->s ? found->s : ""; *line;) {
    size_t n = strcspn(line, "\n");
    if (n > np + nw && memcmp(line, place, np) == 0 && memcmp(line + n - nw, what, nw) == 0)
      return true;
    line += n + (line[n] == '\n');
  }
  return false;
}

static void add_finding(look *l, gs_cx_at at, const char *what) {
  char file[256], place[300];
  gs_cx_string name = {0};
  unsigned row = 0, column = 0;
  l->cx->presumed(at, &name, &row, &column);
  take_string(l, name, file, sizeof file);
  snprintf(place, sizeof place, "%s:%u: ", file, row);
  if (is_known(l->found, place, what)) return;
  gs_text_printf(l->found, "%s%s: %s\n", place, l->k ? l->k->entry : "kernels", what);
  l->nfound++;
}

void complain_at(look *l, gs_cx_at at, const char *fmt, ...) {
  char what[1024];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(what, sizeof what, fmt, ap);
  va_end(ap);
  add_finding(l, at, what);
}

void complain(look *l, gs_cursor c, const char *fmt, ...) {
  char what[1024];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(what, sizeof what, fmt, ap);
  va_end(ap);
  add_finding(l, l->cx->location(c), what);
}

/* ---- kernels ---- */

/* The constants that GS_KERNEL leaves beside a kernel. */
static void read_head(const look *l, cursors in, const char *entry, int *threads, int *is_free) {
  char want[2][300], name[300];
  snprintf(want[0], sizeof want[0], "%s_threads", entry);
  snprintf(want[1], sizeof want[1], "%s_free", entry);
  *threads = *is_free = -1;
  for (int i = 0; i < in.n; i++) {
    if (in.v[i].kind != CX_ENUM) continue;
    cursors values = children_of(l, in.v[i]);
    for (int j = 0; j < values.n; j++) {
      spelling_of(l, values.v[j], name, sizeof name);
      if (strcmp(name, want[0]) == 0) *threads = (int)l->cx->enum_value(values.v[j]);
      if (strcmp(name, want[1]) == 0) *is_free = (int)l->cx->enum_value(values.v[j]);
    }
  }
}

static void look_at_kernel(look *l, gs_cursor c, cursors beside) {
  int threads, is_free;
  read_head(l, beside, l->k->entry, &threads, &is_free);
  lint_params(l, c, threads, is_free);
  lint_body(l, c);
}

/* Looks at the kernels among `in`, and below extern "C"; and at the functions that home has beside
 * it, in its namespace. */
static int look_through(look *l, cursors in, cursors beside, const gs_kernel *home) {
  char name[300];
  int seen = 0, number;
  for (int i = 0; i < in.n; i++) {
    gs_cursor c = in.v[i];
    spelling_of(l, c, name, sizeof name);
    if (c.kind == CX_NAMESPACE && sscanf(name, "gs_k%d", &number) == 1) {
      cursors inner = children_of(l, c);
      seen += look_through(l, inner, inner, &l->list->kernels[number]);
    } else if (c.kind == CX_LINKAGE_SPEC || c.kind == CX_UNEXPOSED_DECL) {
      seen += look_through(l, children_of(l, c), beside, home);
    } else if (c.kind == CX_FUNCTION && home) {
      bool is_kernel = strcmp(home->entry, name) == 0;
      l->k = home;
      if (is_kernel)
        look_at_kernel(l, c, beside);
      else
        lint_body(l, c);
      l->k = NULL;
      seen += is_kernel;
    }
  }
  return seen;
}

static int say_errors(look *l) {
  int n = 0;
  for (unsigned i = 0; i < l->cx->ndiagnostics(l->unit); i++) {
    void *d = l->cx->diagnostic(l->unit, i);
    if (l->cx->severity(d) >= CX_ERROR) {
      char text[700];
      take_string(l, l->cx->diagnostic_text(d), text, sizeof text);
      complain_at(l, l->cx->diagnostic_at(d), "does not compile: %s", text);
      n++;
    }
    l->cx->drop_diagnostic(d);
  }
  return n;
}

static void write_text(const gs_launch_list *list, gs_text *t) {
  const gs_asset *prelude = gs_asset_find("templates/prelude_lint.h");
  gs_text_add(t, "#line 1 \"prelude_lint.h\"\n");
  gs_text_add(t, prelude ? prelude->data : "");
  for (int k = 0; k < list->nkernels; k++)
    gs_text_printf(t, "namespace gs_k%d {\n#line 1 \"%s.cu\"\n%s\n}\n", k, list->kernels[k].entry,
                   list->kernels[k].text);
}

gs_status gs_lint_list(gs_lint *lint, const gs_launch_list *list, gs_text *found, int *n,
                       gs_error *err) {
  static const char *const args[] = {"-x", "c++", "-std=c++17", "-w", "-nostdinc"};
  gs_text t = {0};
  look l = {.cx = &lint->cx, .a = gs_arena_new(), .list = list, .found = found};
  gs_status st = GS_OK;
  write_text(list, &t);
  gs_cx_file file = {"kernels.cpp", t.s, (unsigned long)t.len};
  void *index = l.cx->index(0, 0);
  int rc = l.cx->parse(index, file.name, args, sizeof args / sizeof *args, &file, 1, 0, &l.unit);
  if (rc != 0) {
    st =
        gs_fail(err, GS_ERR_COMPILE, "%s: libclang could not read the kernels (%d)", list->key, rc);
  } else {
    cursors top = children_of(&l, l.cx->root(l.unit));
    if (say_errors(&l) == 0 && look_through(&l, top, top, NULL) != list->nkernels)
      st = gs_fail(err, GS_ERR_COMPILE, "%s: not every kernel was found in its text", list->key);
    l.cx->drop_unit(l.unit);
  }
  l.cx->drop_index(index);
  gs_arena_free(l.a);
  gs_text_free(&t);
  *n += l.nfound;
  return st;
}
