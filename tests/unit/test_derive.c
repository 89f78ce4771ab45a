/* uses: gs_check */
/* The derived backward: that it is right, that it is short, and that its text is a layer again. */
#include "check/case.h"
#include "check/derived.h"
#include "check/source.h"

#include "base/asset.h"
#include "base/file.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gs_error err;
static char folder[256];

static void must(gs_status st) {
  cr_assert(st == GS_OK, "%s", err.message);
}

static void make_folder(void) {
  must(gs_temp_dir(folder, sizeof folder, &err));
}

static void drop_folder(void) {
  gs_remove_tree(folder);
}

/* A layer with its derived backward; author, text and path are the caller's to give back. */
typedef struct work {
  gs_author *a;
  gs_layer *l, *written;
  gs_derived *d;
  gs_text text;
  char path[400], options[1024];
} work;

/* The values that it was derived for; written out from its graph, a layer has none. */
static void set_options(work *w) {
  const gs_layer_decl *decl = gs_layer_declaration(w->l);
  size_t n = 0;
  w->options[0] = 0;
  if (gs_layer_declaration(w->written)->noptions == 0) return;
  for (int k = 0; k < decl->noptions && n < sizeof w->options; k++)
    n += (size_t)snprintf(w->options + n, sizeof w->options - n, "%s%s=%.17g", k ? "," : "",
                          decl->options[k], w->d->option[k]);
}

static void derive(work *w, const char *name, const gs_choice *c) {
  *w = (work){.a = NULL};
  must(gs_author_new(&w->a, &err));
  must(gs_layer_open(w->a, name, &w->l, &err));
  must(gs_derived_new(w->l, c, &w->d, &err));
  must(gs_derived_text(w->d, &w->text, &err));
  snprintf(w->path, sizeof w->path, "%s/%s.lua", folder, gs_layer_declaration(w->l)->name);
  must(gs_file_write(w->path, w->text.s, w->text.len, &err));
  cr_assert(gs_layer_open(w->a, w->path, &w->written, &err) == GS_OK, "%s\n%s", err.message,
            w->text.s);
  set_options(w);
}

static void done(work *w) {
  gs_text_free(&w->text);
  gs_derived_free(w->d);
  gs_author_free(w->a);
}

/* The mathematics of the written layer against its own forward. */
static void check_written(work *w) {
  gs_check_options o = {.seed = 7, .options = w->options[0] ? w->options : NULL};
  gs_rng rng = {11};
  gs_check_report r = {0};
  for (int round = 0; round < 2; round++) {
    gs_case c;
    cr_assert(gs_case_new(w->written, GS_F32, round, GS_MOOD_ORDINARY, &o, &rng, &c, &err) == GS_OK,
              "%s\n%s", err.message, w->text.s);
    cr_assert(gs_check_math(&c, &rng, &r, &err) == GS_OK, "%s\n%s", err.message, w->text.s);
    gs_case_free(&c);
  }
  cr_assert(r.math_points + r.difference_points > 0, "%s", w->path);
}

static bool is_layer(const char *path, char *name, size_t cap) {
  const char *base = path + strlen("lua/layers/"), *dot = strrchr(path, '.');
  if (strncmp(path, "lua/layers/", 11) != 0 || strchr(base, '/') || !dot) return false;
  return snprintf(name, cap, "%.*s", (int)(dot - base), base) > 0;
}

static bool has_backward(const char *name) {
  gs_author *a = NULL;
  gs_layer *l = NULL;
  must(gs_author_new(&a, &err));
  must(gs_layer_open(a, name, &l, &err));
  const gs_layer_decl *d = gs_layer_declaration(l);
  bool any = false;
  for (int k = 0; k < d->nparams; k++) any |= d->differentiable[k];
  any &= !d->is_kernel;
  gs_author_free(a);
  return any;
}

Test(derive, every_layer, .init = make_folder, .fini = drop_folder) {
  const gs_asset *asset;
  const gs_choice choice = {.dtype = GS_F16};
  int count = 0;
  for (size_t i = 0; (asset = gs_asset_at(i)); i++) {
    char name[64];
    work w;
    if (!is_layer(asset->path, name, sizeof name) || !has_backward(name)) continue;
    derive(&w, name, &choice);
    check_written(&w);
    done(&w);
    count++;
  }
  cr_assert(count > 10);
}

/* Kernels made of a derived text, a few templates: row, map, gather. */
Test(derive, kernels, .init = make_folder, .fini = drop_folder) {
  static const char *const names[] = {"rmsnorm", "swiglu", "cross_entropy"};
  const gs_choice choice = {.dtype = GS_F16};
  gs_device *d = NULL;
  gs_device_options o = {.checked = true, .arch = "sm_90a"};
  must(gs_device_open("emu", &o, &d, &err));
  for (int k = 0; k < 3; k++) {
    work w;
    gs_check_report r;
    derive(&w, names[k], &choice);
    gs_check_options c = {.seed = 5, .rounds = 1, .devices = &d, .ndevices = 1};
    if (w.options[0]) c.options = w.options;
    cr_assert(gs_check_layer(w.a, w.path, &c, &r, &err) == GS_OK, "%s\n%s", err.message, w.text.s);
    cr_assert(r.kernel_runs > 0 && r.has_cost);
    done(&w);
  }
  gs_device_close(d);
}

/* ---- what it finds ---- */

/* The text of a backward, as a person would write it. */
Test(derive, text_of_rmsnorm, .init = make_folder, .fini = drop_folder) {
  work w;
  char *want;
  size_t n;
  const gs_choice choice = {.dtype = GS_F16};
  derive(&w, GS_TEST_DIR "/layers/derive/plain_rmsnorm.lua", &choice);
  must(gs_file_read(GS_TEST_DIR "/layers/derive/plain_rmsnorm_derived.lua", &want, &n, &err));
  cr_assert(strcmp(want, w.text.s) == 0, "%s", w.text.s);
  free(want);
  done(&w);
}

/* The author saved nothing and the derived backward wants something saved, or the other way round;
 * in forwards of which the return is written in several ways. */
Test(derive, saves, .init = make_folder, .fini = drop_folder) {
  static const struct {
    const char *forward, *backward;
    int saved;
    const char *has, *lacks;
  } cases[] = {
      {"function(p) return { y = p.x * gs.rsqrt(gs.mean(p.x^2, \"H\") + 1) } end", "gs.derived", 1,
       "save = { rstd = gs.rsqrt(gs.mean(p.x^2, \"H\") + 1) }", "out.save"},
      {"function(p)\n    local y = p.x * gs.rsqrt(gs.mean(p.x^2, \"H\") + 1)\n"
       "    if gs then return { y = y } end\n    return { y = -y }\n  end",
       "gs.derived", 1, "out.save = { rstd =", "local rstd"},
      {"function(p) return { y = gs.exp(p.x), save = { t = gs.sum(p.x, \"H\") } } end",
       "function(p, d, s) return { x = d.y * s.y + s.t - gs.sum(p.x, \"H\") } end", 0,
       "return { y = gs.exp(p.x) } end", "save ="},
      {"function(p)\n    local lse = gs.logsumexp(p.x, \"H\")\n"
       "    return { y = p.x - lse, save = { t = gs.sum(p.x, \"H\"), lse = lse } }\n  end",
       "function(p, d, s)\n    local g = d.y + s.t - gs.sum(p.x, \"H\")\n"
       "    return { x = g - gs.exp(p.x - s.lse) * gs.sum(g, \"H\") }\n  end",
       0, "return { y = p.x - lse }", "save ="},
  };
  const gs_choice choice = {.dtype = GS_F16};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    char path[400];
    gs_text t = {0};
    work w;
    gs_text_printf(&t,
                   "local gs = require \"gradsmith\"\nreturn gs.layer \"saver\" {\n"
                   "  dims = { \"T\", \"H\" },\n  x = gs.input { \"T\", \"H\" },\n"
                   "  forward = %s,\n  backward = %s,\n}\n",
                   cases[k].forward, cases[k].backward);
    snprintf(path, sizeof path, "%s/given.lua", folder);
    must(gs_file_write(path, t.s, t.len, &err));
    derive(&w, path, &choice);
    cr_assert(w.d->derived_saved == cases[k].saved, "%d\n%s", w.d->derived_saved, w.text.s);
    cr_assert(strstr(w.text.s, cases[k].has), "%s", w.text.s);
    cr_assert(!strstr(w.text.s, cases[k].lacks), "%s", w.text.s);
    check_written(&w);
    done(&w);
    gs_text_free(&t);
  }
}

/* It is never much dearer than what people wrote, and dear hand forms are told. */
Test(derive, cost, .init = make_folder, .fini = drop_folder) {
  static const struct {
    const char *name;
    double flops; /* an element, at most */
    int read, saved;
    bool shorter;
  } cases[] = {
      {"rmsnorm", 9, 4, 1, false},
      {"softmax", 4, 2, 0, false},
      {"add", 0, 1, 0, false},
      {"swiglu", 16, 3, 0, false},
      {GS_TEST_DIR "/layers/derive/long_tanh.lua", 3, 2, 0, true},
  };
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    work w;
    const gs_choice choice = {.dtype = GS_F16};
    derive(&w, cases[k].name, &choice);
    double flops = w.d->derived.flops / w.d->elements;
    cr_assert(flops < cases[k].flops + 0.1, "%s: %.2f", cases[k].name, flops);
    cr_assert(w.d->derived.tensors == cases[k].read, "%s: %d", cases[k].name, w.d->derived.tensors);
    cr_assert(w.d->derived_saved == cases[k].saved, "%s: %d", cases[k].name, w.d->derived_saved);
    cr_assert(gs_derived_is_shorter(w.d) == cases[k].shorter, "%s", cases[k].name);
    done(&w);
  }
}

/* Options other than the defaults, sizes in the text, and what cannot be derived. */
Test(derive, options_and_sizes, .init = make_folder, .fini = drop_folder) {
  static const char *const option[] = {"gemma"};
  const double one = 1;
  gs_choice choice = {
      .dtype = GS_F16, .noptions = 1, .option_names = option, .option_values = &one};
  work w;
  derive(&w, "rmsnorm", &choice);
  cr_assert(strstr(w.text.s, "for gemma = 1") && strstr(w.text.s, "p.w + 1"), "%s", w.text.s);
  check_written(&w);
  done(&w);
  choice.noptions = 0;
  derive(&w, GS_TEST_DIR "/layers/derive/sizes.lua", &choice);
  cr_assert(strstr(w.text.s, "gs.size \"H\""), "%s", w.text.s);
  cr_assert(!strstr(w.text.s, "1013"), "%s", w.text.s);
  check_written(&w);
  done(&w);
}

Test(derive, refused) {
  gs_author *a = NULL;
  gs_layer *l = NULL;
  gs_derived *d = NULL;
  const gs_choice choice = {.dtype = GS_F16};
  must(gs_author_new(&a, &err));
  must(gs_layer_open(a, "adamw", &l, &err));
  cr_assert(gs_derived_new(l, &choice, &d, &err) == GS_ERR_USE);
  cr_assert(strstr(err.message, "adamw is a kernel"), "%s", err.message);
  gs_author_free(a);
}

/* ---- backward = gs.derived ---- */

/* In every pass, TERMINAL too, in kernels. */
Test(derive, left_to_the_compiler) {
  gs_author *a = NULL;
  gs_device *d = NULL;
  gs_check_report r;
  gs_device_options o = {.checked = true, .arch = "sm_90a"};
  must(gs_device_open("emu", &o, &d, &err));
  must(gs_author_new(&a, &err));
  gs_check_options c = {.seed = 3, .rounds = 2, .devices = &d, .ndevices = 1};
  static const char *const names[] = {GS_TEST_DIR "/layers/derive/left.lua",
                                      GS_TEST_DIR "/layers/derive/left_loss.lua",
                                      GS_TEST_DIR "/layers/derive/left_fused.lua"};
  for (int k = 0; k < 3; k++) {
    must(gs_check_layer(a, names[k], &c, &r, &err));
    cr_assert(r.has_gradient && r.math_points > 0 && r.kernel_runs > 0);
    cr_assert(r.has_cost && !r.has_closed && !r.is_shorter, "%s", names[k]);
  }
  gs_author_free(a);
  gs_device_close(d);
}

/* Where a gradient goes through the author's own reduction, differences alone must tell right from
 * wrong, and the compiler says why it has none. What backward makes again must be the output. */
Test(derive, beside_the_adjoint) {
  static const struct {
    const char *name, *says;
  } cases[] = {
      {GS_TEST_DIR "/layers/derive/own_sum.lua", NULL},
      {GS_TEST_DIR "/layers/derive/own_sum_wrong.lua", "central differences"},
      {GS_TEST_DIR "/layers/derive/own_sum_left.lua", "has no derivative"},
      {GS_TEST_DIR "/layers/derive/again_wrong.lua", "makes again of 'y' is wrong"},
  };
  const gs_check_options o = {.seed = 9, .rounds = 2};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    gs_author *a = NULL;
    gs_check_report r;
    must(gs_author_new(&a, &err));
    gs_status st = gs_check_layer(a, cases[k].name, &o, &r, &err);
    if (cases[k].says) {
      cr_assert(st != GS_OK && strstr(err.message, cases[k].says), "%s: %s", cases[k].name,
                err.message);
    } else {
      must(st);
      cr_assert(r.has_gradient && !r.has_adjoint && !r.has_cost && r.difference_points > 0);
    }
    gs_author_free(a);
  }
}

/* ---- finding the parts of a file ---- */

static void expect(const source *s, stretch t, const char *want) {
  cr_assert(t.to - t.from == strlen(want) && memcmp(s->text + t.from, want, strlen(want)) == 0,
            "%.*s", (int)(t.to - t.from), s->text + t.from);
}

Test(derive, fields_of_a_file) {
  static const char text[] =
      "-- backward = function() end\nlocal function save() return { backward = 1 } end\n"
      "return gs.layer \"x\" { doc = \"a, forward = {\", --[[ forward = 1 ]]\n"
      "  forward = function(p)\n    if a then for i = 1, 2 do b() end end\n"
      "    return { y = [[}]], save = { r = f(1, { 2 }), k = 3 } }\n  end,\n"
      "  backward = gs.derived }\n";
  source s;
  stretch f, b, e;
  cr_assert(source_read(&s, text, strlen(text)));
  cr_assert(source_field(&s, "forward", &f) == 1 && source_field(&s, "backward", &b) == 1);
  expect(&s, b, "gs.derived");
  source_return r = source_returns(&s, f);
  cr_assert(r.returns == 1 && r.saves == 1 && r.is_written && r.is_table);
  expect(&s, r.save, "{ r = f(1, { 2 }), k = 3 }");
  cr_assert(source_entry(&s, r.save, "r", &e));
  expect(&s, e, "r = f(1, { 2 })");
  cr_assert(source_entry(&s, r.save, "k", &e));
  expect(&s, e, "k = 3");
  cr_assert(!source_entry(&s, r.save, "y", &e));
  source_free(&s);
  for (size_t n = 0; n < strlen(text); n++) { /* cut anywhere, nothing is read past the end */
    char *copy = malloc(n + 1);
    memcpy(copy, text, n);
    copy[n] = 0;
    cr_assert(source_read(&s, copy, n));
    if (source_field(&s, "forward", &f)) source_returns(&s, f);
    source_free(&s);
    free(copy);
  }
}
