/* uses: gs_author gs_graph gs_assets gs_lua */
/* Authoring: every mistake in tests/layers/wrong ends in the message of its first line;
 * declarations, choices, passes and fusion give what layer.h promises. */
#include "layer_case.h"

#include "base/asset.h"
#include "base/file.h"

#include <dirent.h>
#include <lauxlib.h>
#include <stdio.h>

#ifndef ROUNDS
#define ROUNDS 300
#endif

static gs_author *author(void) {
  gs_author *a;
  gs_error e;
  cr_assert_eq(gs_author_new(&a, &e), GS_OK, "%s", e.message);
  return a;
}

static gs_layer *open_layer(gs_author *a, const char *name) {
  gs_layer *l;
  gs_error e;
  cr_assert_eq(gs_layer_open(a, name, &l, &e), GS_OK, "%s", e.message);
  return l;
}

/* ---- wrong files ---- */

static void check_wrong(const char *path) {
  gs_author *a = author();
  gs_error e = {0};
  gs_layer *l;
  gs_instance *i;
  int64_t sizes[GS_MAX_DIMS];
  for (int k = 0; k < GS_MAX_DIMS; k++) sizes[k] = 6;
  gs_choice c = {.dtype = GS_BF16, .sizes = sizes};
  gs_status st = gs_layer_open(a, path, &l, &e);
  if (!st) {
    st = gs_layer_instantiate(l, &c, &i, &e);
    cr_assert(st != GS_OK, "%s: no mistake was found", path);
  }
  char *text;
  size_t len;
  cr_assert_eq(gs_file_read(path, &text, &len, NULL), GS_OK);
  *strchr(text, '\n') = 0;
  const char *mark = "-- expect: ";
  cr_assert(strncmp(text, mark, strlen(mark)) == 0, "%s says nothing of what to expect", path);
  for (char *want = text + strlen(mark); want;) {
    char *end = strstr(want, " || "), line[1024];
    if (end) *end = 0;
    char *colon = strchr(want, ':');
    snprintf(line, sizeof line, "%s:%.*s: error:%s", path, (int)(colon - want), want, colon + 1);
    cr_expect(strstr(e.message, line), "wanted: %s\n     got: %s", line, e.message);
    want = end ? end + 4 : NULL;
  }
  free(text);
  gs_author_free(a);
}

Test(author, wrong_files_are_refused_with_line_and_reason) {
  DIR *dir = opendir(GS_TEST_DIR "/layers/wrong");
  int n = 0;
  cr_assert(dir);
  for (struct dirent *d; (d = readdir(dir));) {
    char path[1024];
    if (!strstr(d->d_name, ".lua")) continue;
    snprintf(path, sizeof path, "%s/layers/wrong/%s", GS_TEST_DIR, d->d_name);
    check_wrong(path);
    n++;
  }
  closedir(dir);
  cr_assert(n > 40, "only %d files", n);
}

/* Writes text as a layer file of its own folder and gives what opening it says. */
static gs_error open_text(const char *text, size_t len) {
  char dir[512], path[600];
  gs_error e = {0};
  cr_assert_eq(gs_temp_dir(dir, sizeof dir, NULL), GS_OK);
  snprintf(path, sizeof path, "%s/layer.lua", dir);
  cr_assert_eq(gs_file_write(path, text, len, NULL), GS_OK);
  gs_author *a = author();
  gs_layer *l;
  gs_layer_open(a, path, &l, &e);
  gs_author_free(a);
  gs_remove_tree(dir);
  return e;
}

static int keep_bytes(lua_State *L, const void *p, size_t n, void *out) {
  (void)L;
  gs_text_add_n(out, p, n);
  return 0;
}

/* A whole and valid chunk, that this Lua would run. */
Test(author, bytecode_is_refused) {
  gs_text chunk = {0};
  lua_State *L = luaL_newstate();
  cr_assert_eq(luaL_loadstring(L, "return 1"), LUA_OK);
  cr_assert_eq(lua_dump(L, keep_bytes, &chunk, 0), 0);
  lua_close(L);
  gs_error e = open_text(chunk.s, chunk.len);
  cr_assert_eq(e.status, GS_ERR_INPUT);
  cr_assert(strstr(e.message, "layer.lua:1: error: precompiled Lua; a layer is a text file"), "%s",
            e.message);
  gs_text_free(&chunk);
}

Test(author, missing_files_and_layers_are_named) {
  gs_author *a = author();
  gs_layer *l;
  gs_error e;
  cr_assert_neq(gs_layer_open(a, "nowhere/x.lua", &l, &e), GS_OK);
  cr_assert(strstr(e.message, "nowhere/x.lua"), "%s", e.message);
  cr_assert_neq(gs_layer_open(a, "rmsnrm", &l, &e), GS_OK);
  cr_assert(strstr(e.message, "there is no layer 'rmsnrm'"), "%s", e.message);
  cr_assert_eq(gs_layer_open(a, "rmsnorm", &l, &e), GS_OK, "the author is usable after a failure");
  gs_author_free(a);
}

Test(author, values_must_not_outlive_their_run) {
  const char *text = "local gs = require 'gradsmith'\nlocal kept\n"
                     "return gs.layer 'kept' { dims = { 'T', 'H' }, x = gs.input { 'T', 'H' },\n"
                     "  forward = function(p) kept = kept or p.x; return { y = 2 * kept } end,\n"
                     "  backward = function(p, d) return { x = 2 * d.y + 0 * p.x } end }\n";
  char dir[512], path[600];
  gs_error e = {0};
  cr_assert_eq(gs_temp_dir(dir, sizeof dir, NULL), GS_OK);
  snprintf(path, sizeof path, "%s/kept.lua", dir);
  cr_assert_eq(gs_file_write(path, text, strlen(text), NULL), GS_OK);
  gs_author *a = author();
  gs_layer *l = open_layer(a, path);
  int64_t sizes[2] = {0, 4};
  gs_choice c = {.dtype = GS_F32, .sizes = sizes};
  gs_instance *i;
  cr_assert_eq(gs_layer_instantiate(l, &c, &i, &e), GS_OK, "%s", e.message);
  gs_instance_free(i);
  cr_assert_neq(gs_layer_instantiate(l, &c, &i, &e), GS_OK);
  cr_assert(
      strstr(e.message, "kept.lua:4: error: the right side of * is a value of an earlier run"),
      "%s", e.message);
  gs_author_free(a);
  gs_remove_tree(dir);
}

/* Changes a few bytes of text: to others that occur in it, so that much of it still parses. */
static void damage(char *text, size_t *len, uint64_t *seed) {
  for (int64_t k = below(seed, 3); k >= 0; k--) {
    size_t at = (size_t)below(seed, (int64_t)*len), from = (size_t)below(seed, (int64_t)*len);
    size_t n = 1 + (size_t)below(seed, 12);
    if (at + n >= *len || from + n >= *len) continue;
    if (below(seed, 3) > 0) {
      memmove(text + at, text + from, n);
    } else {
      memmove(text + at, text + at + n, *len - at - n);
      *len -= n;
    }
  }
}

static void try_text(const char *path, const char *text, size_t len) {
  gs_author *a = author();
  gs_layer *l;
  gs_instance *i;
  gs_pass *p;
  gs_error e = {0};
  int64_t sizes[GS_MAX_DIMS];
  for (int k = 0; k < GS_MAX_DIMS; k++) sizes[k] = 6;
  gs_choice c = {.dtype = GS_BF16, .sizes = sizes};
  cr_assert_eq(gs_file_write(path, text, len, NULL), GS_OK);
  if (!gs_layer_open(a, path, &l, &e) && !gs_layer_instantiate(l, &c, &i, &e)) {
    for (int kind = GS_PASS_FORWARD; kind <= GS_PASS_TERMINAL; kind++)
      gs_layer_pass(i, (gs_pass_kind)kind, NULL, 0, NULL, 0, &p, &e);
    gs_instance_free(i);
  } else {
    bool placed = strstr(e.message, "layer.lua:") || strstr(e.message, "lua/layers/lib/");
    cr_expect(placed || e.status == GS_ERR_USE, "%s", e.message);
  }
  gs_author_free(a);
}

Test(author, damaged_files_end_in_a_message) {
  static const char *const names[] = {
      "lua/layers/rmsnorm.lua", "lua/layers/attention.lua", "lua/layers/cross_entropy.lua",
      "lua/layers/rope.lua",    "lua/layers/adamw.lua",     "lua/layers/residual_rmsnorm.lua"};
  uint64_t seed = 2024;
  char dir[512], path[600];
  cr_assert_eq(gs_temp_dir(dir, sizeof dir, NULL), GS_OK);
  snprintf(path, sizeof path, "%s/layer.lua", dir);
  for (int k = 0; k < ROUNDS; k++) {
    const gs_asset *file = gs_asset_find(names[k % 6]);
    size_t len = file->len;
    char *text = malloc(len + 1);
    memcpy(text, file->data, len);
    damage(text, &len, &seed);
    try_text(path, text, len);
    free(text);
  }
  gs_remove_tree(dir);
}

/* ---- helpers ---- */

static gs_instance *instance(gs_author *a, const char *name, gs_type dtype, const int64_t *sizes) {
  gs_error e;
  gs_instance *i;
  gs_choice c = {.dtype = dtype, .sizes = sizes};
  cr_assert_eq(gs_layer_instantiate(open_layer(a, name), &c, &i, &e), GS_OK, "%s", e.message);
  return i;
}

static gs_pass *pass(gs_instance *i, gs_pass_kind kind, const char *wanted, const char *add) {
  gs_pass *p;
  gs_error e;
  gs_status st =
      gs_layer_pass(i, kind, wanted ? &wanted : NULL, wanted ? 1 : 0, &add, add ? 1 : 0, &p, &e);
  cr_assert_eq(st, GS_OK, "%s", e.message);
  return p;
}

static void leaf_names(const gs_pass *p, char *out, size_t cap) {
  size_t len = 0;
  out[0] = 0;
  for (int k = 0; k < p->nleaves; k++)
    len += (size_t)snprintf(out + len, cap - len, "%s%s", k ? " " : "",
                            gs_graph_tensor_at(p->g, p->leaves[k])->name);
}

static bool has_round_below(const gs_graph *g, gs_id id, gs_type to) {
  const gs_node *n = gs_graph_node(g, id);
  if (n->op == GS_OP_ROUND && n->to == to) return true;
  for (int k = 0; k < n->nargs; k++)
    if (has_round_below(g, n->arg[k], to)) return true;
  return false;
}

/* ---- declarations and choices ---- */

Test(author, declaration_says_what_the_file_says) {
  gs_author *a = author();
  const gs_layer_decl *d = gs_layer_declaration(open_layer(a, "rope"));
  cr_assert_str_eq(d->name, "rope");
  cr_assert_str_eq(d->file, "lua/layers/rope.lua");
  cr_assert_eq(d->ndims, 4);
  cr_assert_str_eq(d->dims[3], "h");
  cr_assert_str_eq(d->dim_size[3], "D/2");
  cr_assert(d->dim_outer[0] && !d->dim_outer[1] && !d->dim_size[2]);
  cr_assert_eq(d->nparams, 3);
  cr_assert_str_eq(d->params[0].name, "x");
  cr_assert(d->params[0].is_generic && d->params[0].ndims == 3 && d->differentiable[0]);
  cr_assert(d->params[1].type == GS_F32 && !d->differentiable[1]);
  d = gs_layer_declaration(open_layer(a, "adamw"));
  cr_assert(d->is_kernel && d->nparams == 10 && d->noptions == 3);
  cr_assert_eq(d->params[4].role, GS_ROLE_STEP_SCALAR);
  cr_assert_float_eq(d->params[8].value, 1e-8, 1e-20);
  cr_assert_str_eq(gs_layer_declaration(open_layer(a, "attention"))->body, "attention");
  gs_author_free(a);
}

Test(author, sizes_are_derived_or_refused) {
  gs_author *a = author();
  gs_layer *l = open_layer(a, "rope");
  gs_error e;
  int64_t sizes[4] = {0, 3, 10, 0};
  cr_assert_eq(gs_layer_sizes(l, NULL, sizes, &e), GS_OK);
  cr_assert_eq(sizes[3], 5);
  sizes[2] = 7;
  cr_assert_neq(gs_layer_sizes(l, NULL, sizes, &e), GS_OK);
  cr_assert_str_eq(e.message, "rope: dim h: the size \"D/2\" is not a whole number");
  sizes[2] = 0;
  cr_assert_neq(gs_layer_sizes(l, NULL, sizes, &e), GS_OK);
  gs_author_free(a);
}

static const char blocks[] =
    "local gs = require 'gradsmith'\n"
    "return gs.kernel 'blocks' { dims = { 'N', B = 'ceil(N/k)', C = 'ceil(B/256)', k = 'size',\n"
    "    P = 'ceil(k/2)', two = 2 },\n"
    "  x = gs.input { 'N', range = { -1, 'N' }, also = { 7 }, ascending = true },\n"
    "  size = gs.option { 64, values = { 64, 128 } }, spare = gs.input { 'B', optional = true },\n"
    "  seed = gs.step_scalar { 3, range = { 0, 9 } }, outputs = { y = 'e4m3', m = 'u8' },\n"
    "  forward = function(p) return { y = p.x * p.seed, m = gs.gt(p.x, 0) } end }\n";

/* A layer of a text; the folder is left for the caller to remove. */
static gs_layer *layer_of(gs_author *a, const char *text, char *dir, size_t cap) {
  char path[600];
  cr_assert_eq(gs_temp_dir(dir, cap, NULL), GS_OK);
  snprintf(path, sizeof path, "%s/layer.lua", dir);
  cr_assert_eq(gs_file_write(path, text, strlen(text), NULL), GS_OK);
  return open_layer(a, path);
}

static int dim_number(const gs_layer_decl *d, const char *name) {
  for (int k = 0; k < d->ndims; k++)
    if (strcmp(d->dims[k], name) == 0) return k;
  return -1;
}

Test(author, blocks_of_an_outer_dim_are_outer_and_rounded_up) {
  char dir[512];
  gs_author *a = author();
  gs_error e;
  gs_layer *l = layer_of(a, blocks, dir, sizeof dir);
  const gs_layer_decl *d = gs_layer_declaration(l);
  int n = dim_number(d, "N"), b = dim_number(d, "B"), c = dim_number(d, "C");
  cr_assert(n == 0 && b == 1 && c == 2, "outer ones first");
  cr_assert(d->dim_outer[b] && d->dim_outer[c] && !d->dim_outer[dim_number(d, "k")]);
  static const int64_t ns[] = {1, 64, 65, 1000, 16384, 16385};
  static const int64_t bs[] = {1, 1, 2, 16, 256, 257}, cs[] = {1, 1, 1, 1, 1, 2};
  for (int k = 0; k < 6; k++) {
    int64_t sizes[GS_MAX_DIMS] = {ns[k]};
    cr_assert_eq(gs_layer_sizes(l, NULL, sizes, &e), GS_OK, "%s", e.message);
    cr_assert(sizes[b] == bs[k] && sizes[c] == cs[k] && sizes[dim_number(d, "P")] == 32);
    cr_assert_eq(sizes[dim_number(d, "two")], 2);
  }
  const char *name = "size";
  double value = 128;
  gs_choice choice = {
      .dtype = GS_F32, .noptions = 1, .option_names = &name, .option_values = &value};
  int64_t sizes[GS_MAX_DIMS] = {1000};
  cr_assert_eq(gs_layer_sizes(l, &choice, sizes, &e), GS_OK, "%s", e.message);
  cr_assert_eq(sizes[b], 8);
  gs_instance *i;
  choice.sizes = sizes;
  cr_assert_eq(gs_layer_instantiate(l, &choice, &i, &e), GS_OK, "%s", e.message);
  cr_assert(gs_graph_dim_at(i->g, b)->same_as == n && gs_graph_dim_at(i->g, b)->div == 128);
  cr_assert_eq(case_result(i->forward, i->nforward, "y")->type, GS_E4M3);
  cr_assert_eq(case_result(i->forward, i->nforward, "m")->type, GS_U8);
  gs_instance_free(i);
  value = 65;
  cr_assert_neq(gs_layer_instantiate(l, &choice, &i, &e), GS_OK);
  cr_assert_str_eq(e.message, "blocks: option size=65: its values are 64, 128");
  gs_author_free(a);
  gs_remove_tree(dir);
}

Test(author, a_derived_dim_keeps_its_place_in_the_list) {
  const char *text = "local gs = require 'gradsmith'\n"
                     "return gs.kernel 'listed' { dims = { 'T', 'q=h/2', 'h=D/2', 'D' },\n"
                     "  x = gs.input { 'T', 'D' }, forward = function(p)\n"
                     "    return { y = gs.split(gs.halves(p.x, 'D'), 'h', 'two=2', 'q') } end }\n";
  char dir[512];
  gs_author *a = author();
  gs_error e;
  gs_layer *l = layer_of(a, text, dir, sizeof dir);
  int64_t sizes[GS_MAX_DIMS] = {0, 0, 0, 12};
  cr_assert_str_eq(gs_layer_declaration(l)->dims[1], "q");
  cr_assert_eq(gs_layer_sizes(l, NULL, sizes, &e), GS_OK, "%s", e.message);
  cr_assert(sizes[1] == 3 && sizes[2] == 6);
  gs_author_free(a);
  gs_remove_tree(dir);
}

Test(author, what_checks_draw_is_declared) {
  char dir[512];
  gs_author *a = author();
  const gs_layer_decl *d = gs_layer_declaration(layer_of(a, blocks, dir, sizeof dir));
  const gs_drawn *x = &d->drawn[0];
  cr_assert(x->has_low && x->low == -1 && x->low_dim < 0);
  cr_assert(x->has_high && x->high_dim == 0 && x->nalso == 1 && x->also[0] == 7 && x->ascending);
  cr_assert(!d->optional[0] && d->optional[1] && !d->differentiable[2]);
  cr_assert(d->params[2].value == 3 && d->drawn[2].high == 9 && d->params[2].is_nonnegative);
  cr_assert(d->option_nvalues[0] == 2 && d->option_tries[0][1] == 128);
  gs_author_free(a);
  gs_remove_tree(dir);
}

static const char again[] =
    "local gs = require 'gradsmith'\n"
    "return gs.layer 'again' { dims = { 'T', 'H' }, x = gs.input { 'T', 'H' },\n"
    "  forward = function(p) return { y = gs.exp(p.x) } end,\n"
    "  backward = function(p, d, s)\n"
    "    return { x = d.y * s.y, recomputed = { y = gs.exp(p.x) } } end }\n";

/* y comes in a backward pass when it is wanted, and then is not read from memory as well. */
Test(author, backward_makes_an_output_again_where_it_is_wanted) {
  char dir[512], leaves[256];
  gs_author *a = author();
  gs_layer *l = layer_of(a, again, dir, sizeof dir);
  int64_t sizes[2] = {0, 8};
  gs_choice c = {.dtype = GS_BF16, .sizes = sizes};
  gs_instance *i;
  gs_error e;
  cr_assert_eq(gs_layer_instantiate(l, &c, &i, &e), GS_OK, "%s", e.message);
  gs_pass *p = pass(i, GS_PASS_BACKWARD, NULL, NULL);
  leaf_names(p, leaves, sizeof leaves);
  cr_assert(p->nresults == 1 && strcmp(leaves, "dy y") == 0, "%s", leaves);
  const char *wanted[] = {"dx", "y"};
  cr_assert_eq(gs_layer_pass(i, GS_PASS_BACKWARD, wanted, 2, NULL, 0, &p, &e), GS_OK, "%s",
               e.message);
  leaf_names(p, leaves, sizeof leaves);
  cr_assert(p->nresults == 2 && strcmp(leaves, "x dy") == 0, "%s", leaves);
  cr_assert(strcmp(p->results[1].name, "y") == 0 && p->results[1].type == GS_BF16);
  cr_assert(has_round_below(p->g, p->results[0].expr, GS_BF16), "dx reads it as it is stored");
  cr_assert_neq(gs_layer_pass(i, GS_PASS_TERMINAL, wanted, 2, NULL, 0, &p, &e), GS_OK);
  gs_instance_free(i);
  gs_author_free(a);
  gs_remove_tree(dir);
}

/* ---- what is written about the language ---- */

static char *read_whole(const char *path) {
  char *text;
  size_t len;
  cr_assert_eq(gs_file_read(path, &text, &len, NULL), GS_OK, "%s", path);
  return text;
}

/* The annotations for editors name every function of gs, and nothing else. */
Test(author, every_function_is_annotated) {
  const char *list = "local gs, names = require 'gradsmith', {}\n"
                     "for k in pairs(gs) do names[#names + 1] = k end\n"
                     "error('#' .. table.concat(names, ' ') .. ' #')\n";
  gs_error e = open_text(list, strlen(list));
  char *text = read_whole(GS_TEST_DIR "/../lua/annotations/gradsmith.lua"), word[64], *names;
  int n = 0, there = 0;
  names = strchr(e.message, '#');
  cr_assert(names && strchr(names + 1, '#'), "%s", e.message);
  *strchr(names + 1, '#') = 0;
  for (char *name = strtok(names + 1, " "); name; name = strtok(NULL, " "), n++) {
    snprintf(word, sizeof word, "\nfunction gs.%s(", name);
    if (!strstr(text, word)) snprintf(word, sizeof word, "\ngs.%s = ", name);
    cr_expect(strstr(text, word), "gs.%s is not annotated", name);
  }
  for (char *at = text; (at = strstr(at, "\nfunction gs.")); at++) there++;
  for (char *at = text; (at = strstr(at, "\ngs.")); at++) there++;
  cr_assert(n > 60 && there == n, "%d functions, %d annotated", n, there);
  free(text);
}

/* The guide shows a layer that is tested (test_layers_math): it is quoted whole. */
Test(author, the_guide_quotes_its_layer) {
  char *guide = read_whole(GS_TEST_DIR "/../lua/README.md");
  char *layer = read_whole(GS_TEST_DIR "/layers/good/softclamp_glu.lua");
  cr_assert(strstr(guide, layer));
  free(guide);
  free(layer);
}

Test(author, choices_are_held_against_the_layer) {
  gs_author *a = author();
  gs_layer *l = open_layer(a, "rmsnorm");
  gs_instance *i;
  gs_error e;
  const char *name = "gema";
  double value = 1;
  int64_t sizes[2] = {0, 8};
  gs_choice c = {.dtype = GS_BF16,
                 .sizes = sizes,
                 .noptions = 1,
                 .option_names = &name,
                 .option_values = &value};
  cr_assert_neq(gs_layer_instantiate(l, &c, &i, &e), GS_OK);
  cr_assert_str_eq(e.message, "rmsnorm has no option 'gema': it has gemma");
  gs_type f16 = GS_F16;
  c = (gs_choice){
      .dtype = GS_BF16, .sizes = sizes, .ntypes = 1, .type_names = &name, .types = &f16};
  cr_assert_neq(gs_layer_instantiate(l, &c, &i, &e), GS_OK);
  cr_assert_str_eq(e.message, "rmsnorm has no tensor 'gema' to give a type");
  name = "dx";
  cr_assert_eq(gs_layer_instantiate(l, &c, &i, &e), GS_OK, "%s", e.message);
  cr_assert_eq(case_result(i->backward, i->nbackward, "dx")->type, GS_F16);
  cr_assert_eq(case_result(i->backward, i->nbackward, "dw")->type, GS_F32);
  cr_assert_eq(case_result(i->forward, i->nforward, "y")->type, GS_BF16);
  cr_assert_eq(case_result(i->forward, i->nforward, "rstd")->type, GS_F32);
  gs_instance_free(i);
  c.dtype = GS_I32;
  cr_assert_neq(gs_layer_instantiate(l, &c, &i, &e), GS_OK);
  gs_author_free(a);
}

/* ---- passes ---- */

Test(author, passes_hold_what_is_wanted) {
  gs_author *a = author();
  int64_t sizes[2] = {0, 64};
  gs_instance *i = instance(a, "rmsnorm", GS_BF16, sizes);
  char leaves[256];
  gs_pass *p = pass(i, GS_PASS_FORWARD, NULL, NULL);
  cr_assert(p->nresults == 2 && p->results[1].is_saved);
  leaf_names(p, leaves, sizeof leaves);
  cr_assert_str_eq(leaves, "x w eps");
  cr_assert_eq(pass(i, GS_PASS_INFER, NULL, NULL)->nresults, 1);
  p = pass(i, GS_PASS_BACKWARD, "dw", "dw");
  cr_assert(p->nresults == 1 && p->results[0].add && p->results[0].type == GS_F32);
  leaf_names(p, leaves, sizeof leaves);
  cr_assert_str_eq(leaves, "x dy rstd");
  cr_assert_str_eq(p->key, "rmsnorm.backward bf16 H=64 gemma=0 -> dw+");
  gs_pass *q;
  gs_error e;
  const char *name = "dv";
  cr_assert_neq(gs_layer_pass(i, GS_PASS_BACKWARD, &name, 1, NULL, 0, &q, &e), GS_OK);
  cr_assert_str_eq(e.message, "rmsnorm has no result 'dv': it has dx, dw");
  name = "dx";
  cr_assert_neq(gs_layer_pass(i, GS_PASS_BACKWARD, NULL, 0, &name, 1, &q, &e), GS_OK);
  cr_assert_str_eq(e.message, "rmsnorm: 'dx' is stored as bf16, and only f32 can be added to");
  gs_instance_free(i);
  gs_author_free(a);
}

Test(author, kernels_have_no_backward_and_optional_outputs_come_by_option) {
  gs_author *a = author();
  int64_t sizes[1] = {0};
  gs_instance *i = instance(a, "adamw", GS_BF16, sizes);
  gs_pass *p = pass(i, GS_PASS_FORWARD, NULL, NULL), *q;
  gs_error e;
  cr_assert_eq(p->nresults, 3);
  cr_assert_str_eq(p->results[0].name, "p_out");
  cr_assert_str_eq(p->results[0].inplace, "p");
  cr_assert_neq(gs_layer_pass(i, GS_PASS_BACKWARD, NULL, 0, NULL, 0, &q, &e), GS_OK);
  gs_instance_free(i);
  const char *name = "with_copy";
  double one = 1;
  gs_choice c = {.dtype = GS_BF16, .noptions = 1, .option_names = &name, .option_values = &one};
  cr_assert_eq(gs_layer_instantiate(open_layer(a, "adamw"), &c, &i, &e), GS_OK, "%s", e.message);
  p = pass(i, GS_PASS_FORWARD, NULL, NULL);
  cr_assert_eq(p->nresults, 4);
  cr_assert(strcmp(p->results[3].name, "copy") == 0 && p->results[3].type == GS_BF16);
  gs_instance_free(i);
  gs_author_free(a);
}

/* The terminal pass of cross entropy, with a step scalar for upstream, gives the numbers that
 * forward then backward give with that number for every token. */
Test(author, terminal_pass_needs_nothing_saved) {
  gs_author *a = author();
  int64_t sizes[2] = {6, 11};
  layer_case c = case_open(a, "cross_entropy", sizes, NULL, 5);
  for (int k = 0; k < 6; k++) c.tensor[case_tensor(&c, "dloss")][k] = 0.375;
  gs_array split = case_eval(&c, c.i->backward[0].expr);
  gs_pass *p = pass(c.i, GS_PASS_TERMINAL, NULL, NULL);
  cr_assert_eq(p->nresults, 2);
  cr_assert_str_eq(p->results[1].inplace, "logits");
  char leaves[256];
  leaf_names(p, leaves, sizeof leaves);
  cr_assert_str_eq(leaves, "logits label dloss");
  int t = p->leaves[2];
  cr_assert_eq(gs_graph_tensor_at(p->g, t)->role, GS_ROLE_STEP_SCALAR);
  double upstream = 0.375, **tensor = calloc((size_t)gs_graph_ntensors(p->g), sizeof *tensor);
  memcpy(tensor, c.tensor, sizeof *tensor * (size_t)t);
  tensor[t] = &upstream;
  gs_env env = {c.sizes, (const double *const *)tensor};
  gs_array whole;
  gs_error e;
  cr_assert_eq(gs_eval(p->g, &p->results[1].expr, 1, &env, &whole, &e), GS_OK, "%s", e.message);
  for (size_t k = 0; k < 66; k++)
    cr_assert_float_eq(case_value(&c, &whole, &p->results[1], k),
                       case_value(&c, &split, &p->results[1], k), 1e-14);
  free(tensor);
  gs_array_free(&whole);
  gs_array_free(&split);
  case_close(&c);
  gs_author_free(a);
}

/* ---- fusion ---- */

Test(author, fusion_rounds_at_the_seam_and_reads_the_output_back) {
  gs_author *a = author();
  int64_t sizes[2] = {0, 16};
  gs_instance *i = instance(a, "residual_rmsnorm", GS_BF16, sizes);
  cr_assert_eq(i->nforward, 3);
  cr_assert_str_eq(i->forward[0].name, "h");
  cr_assert_str_eq(i->forward[1].name, "y");
  cr_assert(!has_round_below(i->g, i->forward[0].expr, GS_BF16));
  cr_assert(has_round_below(i->g, case_result(i->forward, 3, "rstd")->expr, GS_BF16));
  gs_pass *p = pass(i, GS_PASS_BACKWARD, NULL, NULL);
  char leaves[256];
  leaf_names(p, leaves, sizeof leaves);
  cr_assert_str_eq(leaves, "w dh h dy rstd");
  for (int k = 0; k < p->nleaves; k++)
    if (strcmp(gs_graph_tensor_at(p->g, p->leaves[k])->name, "h") == 0)
      cr_assert_eq(gs_graph_tensor_at(p->g, p->leaves[k])->role, GS_ROLE_OUTPUT);
  cr_assert_eq(p->nresults, 3);
  gs_instance_free(i);
  i = instance(a, GS_TEST_DIR "/layers/fused_twice.lua", GS_F32, sizes);
  const gs_layer_decl *d = gs_layer_declaration(i->layer);
  cr_assert_str_eq(d->name, "fused_twice");
  cr_assert_str_eq(d->params[3].name, "rmsnorm_w");
  cr_assert(case_result(i->forward, i->nforward, "rmsnorm_rstd"));
  gs_instance_free(i);
  gs_author_free(a);
}
