/* uses: gs_emit gs_author gs_graph gs_assets */
/* The compiler's texts: expansion of templates, the capability table, and what the kernels of a few
 * layers must and must not say. Running them is test_emit_run.c's. */
#include "emit/compile.h"
#include "emit/expand.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- expansion ---- */

static const char *expanded(const char *text, const gs_hole *h, int n, gs_error *err) {
  static char out[4096];
  gs_text t = {0};
  err->message[0] = out[0] = '\0';
  if (gs_expand("some.cu", text, h, n, &t, err) == GS_OK)
    snprintf(out, sizeof out, "%s", t.s ? t.s : "");
  gs_text_free(&t);
  return out;
}

Test(expand, holes_take_text_and_indent_it) {
  gs_error e;
  gs_hole h[] = {{"A", "x"}, {"B", "one;\ntwo {\n\n  three;\n}\n"}, {"C", ""}};
  cr_assert_str_eq(expanded("f(@{A}, @{A}) {\n  @{B}\n  @{C}\n}\n", h, 3, &e),
                   "f(x, x) {\n  one;\n  two {\n\n    three;\n  }\n}\n", "%s", e.message);
}

Test(expand, a_hole_in_a_line_keeps_the_line) {
  gs_error e;
  gs_hole h[] = {{"C", ""}};
  cr_assert_str_eq(expanded("a@{C}b\n@{C};\n", h, 1, &e), "ab\n;\n", "%s", e.message);
}

Test(expand, mistakes_name_the_template_the_line_and_the_hole) {
  gs_error e;
  gs_hole h[] = {{"A", "x"}, {"UNUSED", "y"}};
  expanded("ok @{A}\nbad @{NOPE}\n", h, 1, &e);
  cr_expect(strstr(e.message, "some.cu:2:") && strstr(e.message, "@{NOPE}"), "%s", e.message);
  expanded("ok @{A}\n", h, 2, &e);
  cr_expect(strstr(e.message, "'UNUSED'"), "%s", e.message);
  expanded("ok\n\nopen @{A\n", h, 1, &e);
  cr_expect(strstr(e.message, "some.cu:3:"), "%s", e.message);
}

Test(expand, text_of_a_hole_is_not_expanded_again) {
  gs_error e;
  gs_hole h[] = {{"A", "@{B}"}};
  cr_assert_str_eq(expanded("@{A}\n", h, 1, &e), "@{B}\n");
}

Test(expand, pieces) {
  gs_error e;
  const char *text;
  size_t len;
  cr_assert_eq(gs_piece("templates/row.cu", "group", &text, &len, &e), GS_OK, "%s", e.message);
  cr_expect(len > 0 && strncmp(text, "@{BANNER}", 9) == 0);
  cr_expect_neq(gs_piece("templates/row.cu", "grou", &text, &len, &e), GS_OK);
  cr_expect(strstr(e.message, "'grou'"), "%s", e.message);
  cr_expect_neq(gs_piece("templates/none.cu", "x", &text, &len, &e), GS_OK);
}

/* ---- capabilities and counts ---- */

Test(caps, rows_by_name) {
  cr_expect_str_eq(gs_caps_find("sm_90")->arch, "sm_90a");
  cr_expect_str_eq(gs_caps_find("sm_80")->arch, "sm_80");
  cr_expect(gs_caps_find("emu")->is_emulator);
  cr_expect_null(gs_caps_find("sm_75"));
  cr_expect_null(gs_caps_find("sm_9"));
  cr_expect_null(gs_caps_find(""));
}

Test(caps, counts) {
  int64_t sizes[GS_MAX_DIMS] = {10, 7};
  cr_expect_eq(gs_count_value(&(gs_count){.coef = 3, .div = 4, .dims = 1}, sizes), 8);
  cr_expect_eq(gs_count_value(&(gs_count){.coef = 3, .div = 4, .cap = 5, .dims = 1}, sizes), 5);
  cr_expect_eq(gs_count_value(&(gs_count){.coef = 1, .div = 1, .dims = 3}, sizes), 70);
  sizes[0] = 0;
  cr_expect_eq(gs_count_value(&(gs_count){.coef = 3, .div = 4, .dims = 1}, sizes), 0);
  sizes[0] = (int64_t)1 << 40;
  cr_expect_eq(gs_count_value(&(gs_count){.coef = 8, .div = 2, .dims = 1}, sizes),
               (int64_t)1 << 42);
}

/* ---- layers ---- */

typedef struct made {
  gs_author *a;
  gs_instance *i;
  gs_launch_list *l;
  gs_pass *p;
} made;

static gs_status try_make(made *m, const char *layer, gs_pass_kind kind, const char *arch,
                          gs_type dtype, const int64_t *sizes, const char *add, gs_error *e) {
  gs_layer *l;
  gs_choice c = {.dtype = dtype, .sizes = sizes};
  *m = (made){0};
  gs_status st = gs_author_new(&m->a, e);
  if (st == GS_OK) st = gs_layer_open(m->a, layer, &l, e);
  if (st == GS_OK) st = gs_layer_instantiate(l, &c, &m->i, e);
  if (st == GS_OK) st = gs_layer_pass(m->i, kind, NULL, 0, &add, add != NULL, &m->p, e);
  if (st == GS_OK) st = gs_compile(m->p, gs_caps_find(arch), NULL, &m->l, e);
  return st;
}

static made make(const char *layer, gs_pass_kind kind, const char *arch, int64_t s1, int64_t s2,
                 int64_t s3) {
  gs_error e;
  made m;
  int64_t sizes[GS_MAX_DIMS] = {0, s1, s2, s3};
  gs_status st = try_make(&m, layer, kind, arch, GS_BF16, sizes, NULL, &e);
  cr_assert_eq(st, GS_OK, "%s: %s", layer, e.message);
  return m;
}

static void drop(made *m) {
  if (m->i) gs_instance_free(m->i);
  gs_author_free(m->a);
}

static void says(const gs_kernel *k, const char *what) {
  cr_expect(strstr(k->text, what), "%s does not say '%s':\n%s", k->entry, what, k->text);
}

static void never_says(const gs_kernel *k, const char *what) {
  cr_expect(!strstr(k->text, what), "%s says '%s':\n%s", k->entry, what, k->text);
}

static int count(const char *text, const char *what) {
  int n = 0;
  for (; (text = strstr(text, what)); text += strlen(what)) n++;
  return n;
}

Test(text, row_kernel_reads) {
  made m = make("rmsnorm", GS_PASS_FORWARD, "sm_90a", 4096, 0, 0);
  cr_assert_eq(m.l->nkernels, 1);
  const gs_kernel *k = &m.l->kernels[0];
  cr_expect_str_eq(k->template_name, "row");
  says(k, "// rmsnorm.forward, template row (block)");
  says(k, "// y = ");
  says(k, "GS_IN(bf16, x), GS_STRIDE(x_ld)");
  says(k, "gs_fetch(x_v[c], x, x_at + i);");
  says(k, "gs_fetch(w_v[c], w, i);"); /* for the first rows, as soon as the row itself */
  says(k, "const i64 x_at = i_T * x_ld;");
  says(k, "const f32 rstd_v = gs_rsqrt(");
  says(k, "GS_BLOCK_SUM_AT(");
  says(k, k->entry);
  never_says(k, "@{");
  never_says(k, "double");
  never_says(k, "if (i < "); /* 4096 fills the chunks: no dead test */
  drop(&m);
}

Test(text, a_tail_is_masked_without_leaving) {
  made m = make("rmsnorm", GS_PASS_FORWARD, "sm_90a", 2888, 0, 0);
  says(&m.l->kernels[0], "if (i < 2888)");
  never_says(&m.l->kernels[0], "return");
  drop(&m);
}

/* Blocks of a row: at least six at once in a processor, by their registers; the fewest vectors a
 * thread that allow it, first those that leave none idle. */
Test(text, a_processor_holds_several_rows) {
  static const struct {
    const char *layer;
    int64_t h;
    const char *says;
  } cases[] = {{"rmsnorm", 2048, "threads=128 lanes=128 rows=1 vec=8 chunks=2"},
               {"rmsnorm", 2880, "threads=192 lanes=192 rows=1 vec=8 chunks=2"},
               {"rmsnorm", 4096, "threads=256 lanes=256 rows=1 vec=8 chunks=2"},
               {"rmsnorm", 5120, "threads=160 lanes=160 rows=1 vec=8 chunks=4"},
               {"rmsnorm", 8192, "threads=128 lanes=128 rows=1 vec=8 chunks=8"},
               {"layernorm", 4096, "threads=128 lanes=128 rows=1 vec=8 chunks=4"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    made m = make(cases[i].layer, GS_PASS_FORWARD, "sm_90a", cases[i].h, 0, 0);
    says(&m.l->kernels[0], cases[i].says);
    drop(&m);
  }
}

Test(text, vectors_follow_the_inner_size) {
  static const struct {
    int64_t h;
    const char *load;
  } cases[] = {{4096, "gs_load<8>"}, {36, "gs_load<4>"}, {34, "gs_load<2>"}};
  for (int i = 0; i < 3; i++) {
    made m = make("add", GS_PASS_FORWARD, "sm_80", cases[i].h, 0, 0);
    says(&m.l->kernels[0], cases[i].load);
    drop(&m);
  }
  made m = make("add", GS_PASS_FORWARD, "sm_80", 17, 0, 0);
  never_says(&m.l->kernels[0], "gs_load<");
  drop(&m);
}

Test(text, vectors_are_aligned) {
  made m = make(GS_TEST_DIR "/layers/emit/views.lua", GS_PASS_FORWARD, "sm_90a", 0, 3, 16);
  bool found = false;
  for (int i = 0; i < m.l->nkernels; i++) {
    const gs_kernel *k = &m.l->kernels[i];
    if (!strstr(k->text, "GS_OUT(bf16, part)")) continue;
    found = true;
    says(k, "gs_get(x, ");
    never_says(k, "gs_load<4>(x_v, x, ");
  }
  cr_expect(found);
  drop(&m);
}

Test(text, rows_and_columns_in_one_pass_over_the_input) {
  made m = make("rmsnorm", GS_PASS_BACKWARD, "sm_90a", 4096, 0, 0);
  cr_assert_eq(m.l->nkernels, 2);
  cr_expect_str_eq(m.l->kernels[0].template_name, "row_column");
  cr_expect_str_eq(m.l->kernels[1].template_name, "total");
  cr_expect(m.l->kernels[0].grid.cap > 0);
  cr_expect_eq(m.l->ntemps, 1);
  cr_expect_eq(m.l->temps[0].type, GS_F32);
  drop(&m);
}

Test(text, long_rows_leave_the_columns_to_threads_that_own_them) {
  made m = make("rmsnorm", GS_PASS_BACKWARD, "sm_90a", 40960, 0, 0);
  bool columns = false;
  for (int i = 0; i < m.l->nkernels; i++)
    columns |= strcmp(m.l->kernels[i].template_name, "columns") == 0;
  cr_expect(columns);
  drop(&m);
}

/* A row of the emulator belongs to one thread, so that no kernel of it needs a barrier. */
Test(text, the_emulator_meets_no_barrier) {
  static const char *const layers[] = {"rmsnorm", "cross_entropy", "swiglu"};
  for (int i = 0; i < 3; i++) {
    made m = make(layers[i], GS_PASS_BACKWARD, "emu", 8, 2, 16);
    for (int k = 0; k < m.l->nkernels; k++) {
      cr_expect(m.l->kernels[k].barrier_free, "%s", m.l->kernels[k].text);
      never_says(&m.l->kernels[k], "GS_SYNC");
      never_says(&m.l->kernels[k], "GS_GROUP_");
      never_says(&m.l->kernels[k], "GS_BLOCK_");
    }
    drop(&m);
  }
}

/* Strides are 64-bit parameters; so must be every variable that counts outer points, and what they
 * are made from. */
static void outer_offsets_are_wide(const gs_kernel *k) {
  static const char *const narrow[] = {
      "int i_T", "int i_V ", "int i_N =",   "int row",        "int first", "int next",  "int j",
      "int n ",  "int t ",   "(int)GS_BID", "(int)(GS_BID *", "(int)i_T",  "(int)(i_T", "(int)row",
      "int j0",  "int i_B ", "int i_RB",    "int i_P ",       "(int)i_B"};
  for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++) {
    bool inner = strstr(narrow[i], "i_N") && strstr(k->text, "rope");
    bool gather = strstr(narrow[i], "i_V") && strstr(k->text, "cross_entropy");
    if (!inner && !gather) never_says(k, narrow[i]);
  }
  cr_expect(!strstr(k->text, "i_T = ") || strstr(k->text, "i64 i_T = "), "%s", k->text);
}

Test(text, outer_indices_are_64_bit) {
  static const struct {
    const char *layer;
    int64_t a, b, c;
  } layers[] = {{"rmsnorm", 4096, 0, 0},
                {"swiglu", 36864, 0, 0},
                {"rope", 9, 64, 0},
                {"add", 33, 0, 0},
                {"cross_entropy", 128256, 0, 0},
                {"embedding", 0, 576, 0},
                {GS_TEST_DIR "/layers/emit/block_codes.lua", 0, 0, 0},
                {GS_TEST_DIR "/layers/emit/block_values.lua", 0, 0, 0},
                {GS_TEST_DIR "/layers/emit/cut_inner.lua", 6, 96, 0}};
  int n = sizeof layers / sizeof *layers;
  for (int i = 0; i < n; i++)
    for (int pass = 0; pass < (i + 3 < n ? 2 : 1); pass++)
      for (int emu = 0; emu < 2; emu++) {
        made m = make(layers[i].layer, pass ? GS_PASS_BACKWARD : GS_PASS_FORWARD,
                      emu ? "emu" : "sm_90a", layers[i].a, layers[i].b, layers[i].c);
        for (int k = 0; k < m.l->nkernels; k++) outer_offsets_are_wide(&m.l->kernels[k]);
        drop(&m);
      }
}

Test(text, same_pass_same_bytes) {
  made a = make("rmsnorm", GS_PASS_BACKWARD, "sm_90a", 576, 0, 0);
  made b = make("rmsnorm", GS_PASS_BACKWARD, "sm_90a", 576, 0, 0);
  made c = make("rmsnorm", GS_PASS_BACKWARD, "sm_90a", 584, 0, 0);
  made d = make("rmsnorm", GS_PASS_BACKWARD, "sm_80", 576, 0, 0);
  for (int k = 0; k < a.l->nkernels; k++) {
    cr_expect_str_eq(a.l->kernels[k].text, b.l->kernels[k].text);
    cr_expect_str_eq(a.l->kernels[k].entry, b.l->kernels[k].entry);
    cr_expect_str_neq(a.l->kernels[k].entry, c.l->kernels[k].entry);
    cr_expect_str_neq(a.l->kernels[k].entry, d.l->kernels[k].entry);
  }
  drop(&a), drop(&b), drop(&c), drop(&d);
}

/* The parameter list and the arguments are one list. */
Test(text, arguments_match_parameters) {
  made m = make("rmsnorm", GS_PASS_BACKWARD, "sm_90a", 576, 0, 0);
  for (int k = 0; k < m.l->nkernels; k++) {
    const gs_kernel *x = &m.l->kernels[k];
    const char *p = strstr(x->text, "GS_KERNEL"), *end = strstr(p, ") {");
    int n = 0;
    for (p += 10; p < end; p++)
      if (strncmp(p, "GS_IN", 5) == 0 || strncmp(p, "GS_OUT", 6) == 0 ||
          strncmp(p, "GS_DIM", 6) == 0 || strncmp(p, "GS_ST", 5) == 0 ||
          strncmp(p, "GS_NUM", 6) == 0) {
        const gs_arg *a = &x->args[n++];
        bool tensor = a->kind == GS_ARG_TENSOR || a->kind == GS_ARG_TEMP;
        cr_expect_eq(a->is_read, tensor && strncmp(p, "GS_IN", 5) == 0, "%s", x->text);
        cr_expect_eq(a->is_written,
                     tensor && (strncmp(p, "GS_OUT", 6) == 0 || strncmp(p, "GS_INOUT", 8) == 0));
      }
    cr_expect_eq(n, x->nargs, "%s", x->text);
  }
  drop(&m);
}

static int binding(const gs_launch_list *l, const char *name) {
  for (int i = 0; i < l->nbindings; i++)
    if (strcmp(l->bindings[i].name, name) == 0) return i;
  cr_assert(false, "no binding %s", name);
  return -1;
}

Test(text, in_place_where_it_is_safe) {
  made m = make(GS_TEST_DIR "/layers/emit/in_place.lua", GS_PASS_FORWARD, "sm_90a", 2, 8, 0);
  const gs_launch_list *l = m.l;
  cr_expect_eq(l->bindings[binding(l, "y")].inplace, binding(l, "x"));
  cr_expect_eq(l->bindings[binding(l, "q")].inplace, binding(l, "r"));
  cr_expect_eq(l->bindings[binding(l, "g")].inplace, binding(l, "z"));
  cr_expect_eq(l->bindings[binding(l, "n")].inplace, -1, "other rows of u are read");
  drop(&m);
}

Test(text, loss_and_gradient_in_one_kernel) {
  made m = make("cross_entropy", GS_PASS_TERMINAL, "sm_90a", 32000, 0, 0);
  cr_assert_eq(m.l->nkernels, 1);
  says(&m.l->kernels[0], "GS_INOUT(bf16, logits)");
  cr_expect_eq(count(m.l->kernels[0].text, "gs_fetch("), 1); /* read once */
  cr_expect_eq(count(m.l->kernels[0].text, "gs_most("), 1);
  never_says(&m.l->kernels[0], "gs_load<");
  cr_expect_eq(count(m.l->kernels[0].text, "gs_exp("), 1); /* at the label; the rest is near */
  cr_expect_eq(m.l->bindings[binding(m.l, "dlogits")].inplace, binding(m.l, "logits"));
  drop(&m);
}

/* A row of which two are too much for a processor's registers comes to shared memory piece by
 * piece; the last loop over it makes room for the next one. */
Test(text, long_rows_come_in_pieces) {
  static const struct {
    int64_t wide;
    const char *says;
    int64_t blocks;
  } c[] = {{50257, "mode=resident ring=", 132},
           {151936, "cluster=2 mode=resident ring=", 132},
           {262144, "cluster=4 mode=resident ring=", 120}};
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
    made m = make("cross_entropy", GS_PASS_TERMINAL, "sm_90a", c[i].wide, 0, 0);
    const gs_kernel *k = &m.l->kernels[0];
    int64_t sizes[GS_MAX_DIMS] = {8192};
    cr_assert_eq(m.l->nkernels, 1);
    says(k, c[i].says);
    cr_expect_eq(count(k->text, "gs_bulk_load_back("), 2); /* before the rows, for the next one */
    cr_expect_eq(count(k->text, "gs_mbar_wait(come"), 1);
    cr_expect_eq(count(k->text, "gs_mbar_arrive_warp(gone"), 1);
    cr_expect(strstr(k->text, "gs_mbar_wait(come") < strstr(k->text, "gs_top_of("));
    cr_expect(strstr(k->text, "gs_mbar_arrive_warp(gone") > strstr(k->text, "gs_store<8>("));
    cr_expect_eq(k->prelude, GS_PRELUDE_HOPPER);
    cr_expect_eq(gs_count_value(&k->grid, sizes), c[i].blocks);
    drop(&m);
  }
  made m = make("cross_entropy", GS_PASS_TERMINAL, "sm_80", 151936, 0, 0);
  never_says(&m.l->kernels[0], "gs_bulk_load");
  drop(&m);
}

/* What a row has one of is loaded while the row before it is in hand. */
Test(text, numbers_of_the_next_row_come_ahead) {
  made m = make("layernorm", GS_PASS_BACKWARD, "sm_90a", 4096, 0, 0);
  says(&m.l->kernels[0], "const f32 mean_v = mean_next;");
  cr_expect_eq(count(m.l->kernels[0].text, "mean_next = gs_get(mean, i_T);"), 2);
  drop(&m);
}

Test(text, the_last_stage_waits_for_the_one_before) {
  made m = make("rmsnorm", GS_PASS_BACKWARD, "sm_90a", 4096, 0, 0);
  cr_assert_eq(m.l->nkernels, 2);
  cr_expect(!m.l->kernels[0].follows && m.l->kernels[1].follows);
  says(&m.l->kernels[0], "GS_LET_NEXT();");
  const char *wait = strstr(m.l->kernels[1].text, "GS_WAIT_LAST();");
  const char *reads = strstr(m.l->kernels[1].text, "gs_load<4>(dw_part[l], dw_parts");
  cr_expect(wait && reads && wait < reads);
  drop(&m);
}

/* Queries and keys have nothing to do with one another: the kernel of the keys begins while that of
 * the queries ends, and ends after it. */
Test(text, kernels_apart_overlap) {
  made m = make("qk_norm_rope", GS_PASS_BACKWARD, "sm_90a", 32, 8, 128);
  cr_assert_eq(m.l->nkernels, 4);
  cr_expect(!m.l->kernels[0].follows && m.l->kernels[1].follows);
  never_says(&m.l->kernels[0], "GS_WAIT_LAST");
  const char *wait = strstr(m.l->kernels[1].text, "GS_LET_NEXT();\n  GS_WAIT_LAST();");
  cr_expect(wait && strstr(wait, "_parts"));
  drop(&m);
}

/* Rows beside one another share cos and sin, which stay in registers; a block writes one part. */
Test(text, groups_of_rows_share_what_they_can) {
  made m = make("qk_norm_rope", GS_PASS_BACKWARD, "sm_90a", 32, 8, 128);
  says(&m.l->kernels[0], "const gs_packed<8, f32> cos_v = cos_next;");
  never_says(&m.l->kernels[0], "cos_ring");
  says(&m.l->kernels[0], "const i64 parts_at = GS_BID * 64;");
  drop(&m);
}

static gs_status make_wanted(made *m, const char *const *wanted, int n, gs_error *e) {
  int64_t sizes[GS_MAX_DIMS] = {0, 4096};
  gs_status st =
      try_make(m, "residual_rmsnorm", GS_PASS_BACKWARD, "sm_90a", GS_BF16, sizes, NULL, e);
  cr_assert_eq(st, GS_OK, "%s", e->message);
  st = gs_layer_pass(m->i, GS_PASS_BACKWARD, wanted, n, NULL, 0, &m->p, e);
  return st == GS_OK ? gs_compile(m->p, gs_caps_find("sm_90a"), NULL, &m->l, e) : st;
}

Test(text, results_of_one_value_are_written_once) {
  const char *joined[] = {"dx", "dr=dx", "dw"}, *other[] = {"dx", "dw=dx"},
             *late[] = {"dx=dr", "dr"};
  gs_error e;
  made m;
  cr_assert_eq(make_wanted(&m, joined, 3, &e), GS_OK, "%s", e.message);
  cr_expect(strstr(m.p->key, "-> dx,dr=dx,dw"), "%s", m.p->key);
  cr_expect_eq(m.l->bindings[binding(m.l, "dr")].inplace, binding(m.l, "dx"));
  never_says(&m.l->kernels[0], "(bf16, dr)");
  cr_expect_eq(count(m.l->kernels[0].text, "gs_store<8>(dx,"), 1);
  drop(&m);
  cr_expect_eq(make_wanted(&m, other, 2, &e), GS_ERR_USE);
  cr_expect(strstr(e.message, "'dw' can't lie in 'dx'"), "%s", e.message);
  drop(&m);
  cr_expect_eq(make_wanted(&m, late, 2, &e), GS_ERR_USE);
  drop(&m);
}

Test(text, adding_reads_what_is_there) {
  gs_error e;
  made m;
  int64_t sizes[GS_MAX_DIMS] = {0, 64};
  gs_status st = try_make(&m, "rmsnorm", GS_PASS_BACKWARD, "sm_90a", GS_BF16, sizes, "dw", &e);
  cr_assert_eq(st, GS_OK, "%s", e.message);
  says(&m.l->kernels[1], "GS_INOUT(f32, dw)");
  says(&m.l->kernels[1], "gs_get(dw, i_H) + ");
  drop(&m);
  st = try_make(&m, "rmsnorm", GS_PASS_BACKWARD, "sm_90a", GS_BF16, sizes, "dx", &e);
  cr_expect_neq(st, GS_OK, "a bf16 result was added to");
  drop(&m);
}

/* A block's reduction is made once for the block, beside what is stored of its elements. */
Test(text, a_block_of_a_row_is_a_row) {
  made m = make(GS_TEST_DIR "/layers/emit/blocks.lua", GS_PASS_FORWARD, "sm_90a", 4096, 0, 0);
  cr_assert_eq(m.l->nkernels, 1);
  says(&m.l->kernels[0], "lanes=4 rows=32 vec=8");
  drop(&m);
  m = make(GS_TEST_DIR "/layers/emit/squares_outer.lua", GS_PASS_FORWARD, "sm_90a", 1024, 1024, 0);
  cr_assert_eq(m.l->nkernels, 1);
  says(&m.l->kernels[0], "f32 x_v[8] = {};"); /* read once, zero past the end */
  cr_expect_eq(count(m.l->kernels[0].text, "gs_load<8>(x_v"), 1);
  drop(&m);
}

/* Sums that keep different dims share the kernel that reads their rows. */
Test(text, sums_of_the_same_rows_share_a_kernel) {
  made m = make(GS_TEST_DIR "/layers/emit/kept_dims.lua", GS_PASS_BACKWARD, "sm_90a", 8, 128, 0);
  cr_assert_eq(m.l->nkernels, 5);
  cr_expect_str_eq(m.l->kernels[0].template_name, "row_column");
  for (int i = 1; i < 5; i++) cr_expect_str_eq(m.l->kernels[i].template_name, "total");
  drop(&m);
  /* sums along memory: of each row first, both at once */
  m = make(GS_TEST_DIR "/layers/emit/groupnorm_like.lua", GS_PASS_BACKWARD, "sm_90a", 24, 256, 0);
  cr_assert_eq(m.l->nkernels, 3);
  says(&m.l->kernels[0], "template row (beside)"); /* and the rows of dx */
  says(&m.l->kernels[0], "vec=8");
  drop(&m);
}

Test(text, folds_meet_in_shared_memory_once_for_all_components) {
  made m = make(GS_TEST_DIR "/layers/emit/folds.lua", GS_PASS_FORWARD, "sm_90a", 4096, 0, 0);
  cr_assert_eq(m.l->nkernels, 1);
  cr_expect_eq(count(m.l->kernels[0].text, "GS_SYNC();"), 6); /* three folds */
  cr_expect_eq(count(m.l->kernels[0].text, "gs_fetch(x_v"), 1);
  never_says(&m.l->kernels[0], "scratch");
  drop(&m);
  m = make(GS_TEST_DIR "/layers/emit/topk.lua", GS_PASS_FORWARD, "sm_90a", 256, 0, 0);
  says(&m.l->kernels[0], "lanes=32 rows=4"); /* eight rounds over registers */
  cr_expect_eq(count(m.l->kernels[0].text, "gs_fetch(x_v"), 1);
  drop(&m);
}

Test(text, refusals_name_the_layer_and_the_line) {
  gs_error e;
  made m;
  int64_t sizes[GS_MAX_DIMS] = {0, 0, 8};
  gs_status st = try_make(&m, GS_TEST_DIR "/layers/emit/refused.lua", GS_PASS_FORWARD, "sm_90a",
                          GS_F32, sizes, NULL, &e);
  cr_assert_neq(st, GS_OK);
  cr_expect(strstr(e.message, "refused.lua:13: error: layer 'refused'"), "%s", e.message);
  drop(&m);
  st = try_make(&m, GS_TEST_DIR "/layers/emit/fold_outer.lua", GS_PASS_FORWARD, "sm_90a", GS_F32,
                (int64_t[GS_MAX_DIMS]){0, 8}, NULL, &e);
  cr_assert_neq(st, GS_OK);
  cr_expect(strstr(e.message, "fold_outer.lua:11: error: "), "%s", e.message);
  cr_expect(strstr(e.message, "inner dims only"), "%s", e.message);
  drop(&m);
}

Test(text, dump_says_what_was_asked) {
  made m = make("rmsnorm", GS_PASS_BACKWARD, "sm_90a", 64, 0, 0);
  gs_text t = {0};
  gs_dump_sink sink = {"schedule,text", &t};
  gs_launch_list *l;
  gs_error e;
  cr_assert_eq(gs_compile(m.p, gs_caps_find("sm_90a"), &sink, &l, &e), GS_OK, "%s", e.message);
  cr_expect(strstr(t.s, "unit 0: columns, rows [T]"), "%s", t.s);
  cr_expect(strstr(t.s, "GS_KERNEL("));
  cr_expect(!strstr(t.s, "graph of"));
  gs_text_free(&t);
  drop(&m);
}

/* ---- integers, blocks, gathers ---- */

static made make_own(const char *name, gs_pass_kind kind, int64_t s1, int64_t s2) {
  char path[512];
  snprintf(path, sizeof path, "%s/layers/emit/%s.lua", GS_TEST_DIR, name);
  return make(path, kind, "sm_90a", s1, s2, s2);
}

/* Blocks of an outer dim: one pass over x, whole vectors up to the end, 64-bit places, and nothing
 * of a code takes 64 bits. */
Test(text, blocks_are_read_and_written_as_vectors) {
  made m = make_own("block_codes", GS_PASS_FORWARD, 0, 0);
  cr_assert_eq(m.l->nkernels, 1);
  const gs_kernel *k = &m.l->kernels[0];
  says(k, "const i64 i_B = ");
  says(k, "((N + 63) / 64)");
  says(k, "const int N_left = (int)gs_within<i64>(N - (i_B * 64), 0, 64);");
  says(k, "gs_load_upto<8>(x_v, x, i_B * 64 + i, N_left - i);");
  says(k, "gs_load_upto<16>(x_v, x, i_B * 64 + i * 2, N_left - (i * 2));");
  says(k, "gs_storei_upto<8>(q, i_B * 32 + i, q_out, P_left - i);");
  says(k, "int q_out[8];");
  says(k, "GS_TABLE(table0, 15) = {");
  never_says(k, "i64 e");
  drop(&m);
  m = make_own("block_values", GS_PASS_FORWARD, 0, 0);
  cr_assert_eq(m.l->nkernels, 1);
  k = &m.l->kernels[0];
  says(k, "gs_loadi_upto<4>(q_v, q, i_B * 32 + i, P_left - i);");
  says(k, "gs_get(table0_at, q_v[l] >> 4)"); /* from a copy in shared memory */
  says(k, "gs_get(table0_at, q_v[l] & 15)");
  says(k, "gs_store_upto<8>(y, i_B * 64 + i * 2, y_out, "); /* 16 bytes, not more */
  says(k, "N - (i_last * 64) >= 64");                       /* blocks of whole rows: */
  says(k, "gs_loadi<4>(q_v, q, i_B * 32 + i);");
  says(k, "gs_store<8>(y, i_B * 64 + i * 2, y_out);");
  cr_expect_eq(k->grid.div, 32); /* two vectors a thread */
  never_says(k, "i64 e");
  never_says(k, "gs_quotient");
  drop(&m);
}

/* Results of the same rows with other inner dims: one kernel, the angles read by the same block. */
Test(text, sides_of_a_row_share_a_kernel) {
  made m = make("rope_pair", GS_PASS_FORWARD, "sm_90a", 32, 8, 128);
  cr_assert_eq(m.l->nkernels, 1);
  const gs_kernel *k = &m.l->kernels[0];
  says(k, "threads=160 vec=8");
  says(k, "if (i_all < 256) {");
  says(k, "const int i = (i_all - 256) * 8;");
  cr_expect_eq(k->grid.coef, 2);
  drop(&m);
}

/* A norm whose row is then turned half by half is summed by halves: it is read once. */
Test(text, reductions_follow_the_halves_of_what_is_stored) {
  made m = make("head_rmsnorm_rope", GS_PASS_FORWARD, "sm_90a", 32, 128, 0);
  cr_assert_eq(m.l->nkernels, 1);
  says(&m.l->kernels[0], "lanes=8 ");
  cr_expect_eq(count(m.l->kernels[0].text, "gs_fetch(x_v"), 2);
  cr_expect_eq(count(m.l->kernels[0].text, "gs_load<8>(x_v"), 0);
  drop(&m);
}

/* The heads of two tensors, which nothing binds together, are rows of one kernel. */
Test(text, rows_of_two_kinds_share_a_kernel) {
  int64_t sizes[GS_MAX_DIMS] = {7};
  made m = make("qk_norm_rope", GS_PASS_FORWARD, "sm_90a", 6, 5, 128);
  cr_assert_eq(m.l->nkernels, 2, "neither number of rows is a multiple of a block's");
  drop(&m);
  m = make("qk_norm_rope", GS_PASS_FORWARD, "sm_90a", 32, 8, 128);
  cr_assert_eq(m.l->nkernels, 1);
  says(&m.l->kernels[0], "template row (beside)");
  says(&m.l->kernels[0], "const bool live = row < T * 32;");
  says(&m.l->kernels[0], "const bool live = row < T * 8;");
  cr_expect_eq(gs_count_value(&m.l->kernels[0].grid, sizes), 14 + 4); /* 16 rows a block */
  drop(&m);
}

/* Its weight's gradient, too, is summed by halves, and joined where the parts are added. */
Test(text, sums_over_rows_follow_the_halves) {
  made m = make("head_rmsnorm_rope", GS_PASS_BACKWARD, "sm_90a", 32, 128, 0);
  cr_assert_eq(m.l->nkernels, 2);
  says(&m.l->kernels[0], "lanes=8 ");
  cr_expect_eq(count(m.l->kernels[0].text, "gs_get(dy"), 0);
  says(&m.l->kernels[1], "gs_put(dw, i_h, ");
  says(&m.l->kernels[1], "gs_put(dw, i_h + 64, ");
  drop(&m);
}

/* The grid covers every block and no more: a kernel without a test of its row relies on it. */
Test(text, blocks_are_counted) {
  gs_count c = {.coef = 3, .div = 1, .each = 64, .dims = 1};
  cr_expect_eq(gs_count_value(&c, (int64_t[]){64}), 3);
  cr_expect_eq(gs_count_value(&c, (int64_t[]){65}), 6);
  cr_expect_eq(gs_count_value(&c, (int64_t[]){0}), 0);
  c.div = 4;
  cr_expect_eq(gs_count_value(&c, (int64_t[]){65}), 2);
}

/* An index from data is taken into its dim; one that provably lies inside is not. */
Test(text, gathers_do_not_leave_the_tensor) {
  made m = make_own("gathers", GS_PASS_FORWARD, 0, 24);
  const gs_kernel *k = &m.l->kernels[0];
  says(k, "gs_inside(id_v, V)");
  says(k, "gs_inside(at_v[l], 24)");
  const char *second = strstr(strstr(k->text, "gs_inside(") + 1, "gs_inside(");
  cr_expect(second && !strstr(second + 1, "gs_inside("), "%s", k->text);
  drop(&m);
}
