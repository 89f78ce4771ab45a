/* uses: gs_check gs_device */
/* The check can fail: layers with wrong mathematics (tests/layers/bad_math), and right layers whose
 * kernels are broken on purpose, each caught by name; and the same with nothing broken passes. */
#include "base/text.h"
#include "check/case.h"
#include "check/check.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_EDITS = 256 };

typedef struct breaker {
  const char *from, *to; /* every occurrence of from becomes to */
  int hits;
  gs_text kept[MAX_EDITS];
  int nkept;
  const char *arch; /* whose kernels; NULL: sm_86 */
} breaker;

/* In `to`, WARPS stands for the number of the block's warps. */
static const char *break_kernel(void *context, const gs_kernel *k) {
  breaker *b = context;
  char warps[16];
  snprintf(warps, sizeof warps, "%d", k->threads / 32);
  if (!strstr(k->text, b->from) || b->nkept == MAX_EDITS) return NULL;
  gs_text *t = &b->kept[b->nkept++];
  const char *at = k->text;
  for (const char *hit; (hit = strstr(at, b->from)); at = hit + strlen(b->from)) {
    gs_text_add_n(t, at, (size_t)(hit - at));
    const char *mark = strstr(b->to, "WARPS");
    gs_text_add_n(t, b->to, mark ? (size_t)(mark - b->to) : strlen(b->to));
    if (mark) gs_text_add(t, warps), gs_text_add(t, mark + strlen("WARPS"));
    b->hits++;
  }
  gs_text_add(t, at);
  return t->s;
}

/* Checks a layer on the emulator with every check on, its kernels broken by b (NULL: as they are).
 */
static gs_status check(const char *layer, const char *dims, breaker *b, gs_error *err) {
  gs_author *a = NULL;
  gs_device *d = NULL;
  gs_check_report r;
  gs_device_options o = {.checked = true, .arch = b && b->arch ? b->arch : "sm_86"};
  gs_status st = gs_device_open("emu", &o, &d, err);
  cr_assert(st == GS_OK, "%s", err->message);
  st = gs_author_new(&a, err);
  cr_assert(st == GS_OK, "%s", err->message);
  gs_check_options c = {.seed = 7, .rounds = 1, .dims = dims, .devices = &d, .ndevices = 1};
  if (b) c.edit = break_kernel, c.context = b;
  st = gs_check_layer(a, layer, &c, &r, err);
  gs_author_free(a);
  gs_device_close(d);
  for (int i = 0; b && i < b->nkept; i++) gs_text_free(&b->kept[i]);
  return st;
}

static void passes(const char *layer, const char *dims, breaker *b) {
  gs_error err = {0};
  cr_assert(check(layer, dims, b, &err) == GS_OK, "%s", err.message);
  if (b) cr_assert(b->hits > 0, "nothing was edited in %s: '%s' is not there", layer, b->from);
}

static void fails(const char *layer, const char *dims, breaker *b, const char *because) {
  gs_error err = {0};
  gs_status st = check(layer, dims, b, &err);
  cr_assert(!b || b->hits > 0, "nothing was broken in %s: '%s' is not there", layer, b->from);
  cr_assert(st == GS_ERR_CHECK, "%s with '%s' was not caught (%d %s)", layer, b ? b->to : "", st,
            err.message);
  cr_assert(strstr(err.message, because), "%s: '%s' does not say '%s'", layer, err.message,
            because);
}

Test(check, right_layers_pass) {
  passes("rmsnorm", NULL, NULL);
  passes("cross_entropy", NULL, NULL);
}

/* ---- mathematics ---- */

Test(check, wrong_mathematics) {
  char dir[512], path[1024];
  snprintf(dir, sizeof dir, "%s/layers/bad_math", GS_TEST_DIR);
  DIR *d = opendir(dir);
  cr_assert(d, "%s", dir);
  int n = 0;
  for (struct dirent *e; (e = readdir(d));) {
    if (!strstr(e->d_name, ".lua")) continue;
    gs_error err = {0};
    gs_author *a = NULL;
    gs_check_report r;
    gs_check_options o = {.seed = 11, .rounds = 4};
    snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
    cr_assert(gs_author_new(&a, &err) == GS_OK);
    gs_status st = gs_check_layer(a, path, &o, &r, &err);
    cr_assert(st == GS_ERR_CHECK, "%s was not caught (%d %s)", path, st, err.message);
    gs_author_free(a);
    n++;
  }
  closedir(d);
  cr_assert(n >= 10, "only %d wrong layers in %s", n, dir);
}

/* ---- kernels ---- */

Test(check, dropped_tail_mask) {
  breaker b = {.from = "if (i < ", .to = "if (i <= "};
  fails("rmsnorm", "H=129", &b, "");
}

Test(check, missing_eps_in_a_kernel) {
  breaker b = {.from = "eps + ", .to = "0.0f * eps + "};
  fails("rmsnorm", "T=170,H=2048", &b, "wrong at");
}

Test(check, wrong_sign_in_a_kernel) {
  breaker b = {.from = "rstd_v * (", .to = "-rstd_v * ("};
  fails("rmsnorm", "T=170,H=2048", &b, "wrong at");
}

Test(check, unwritten_output) {
  breaker b = {.from = "if (GS_TID == 0) gs_put(rstd", .to = "if (GS_TID == 999) gs_put(rstd"};
  fails("rmsnorm", "T=170,H=2048", &b, "never written");
}

/* A block's sum written out, so that each of its two barriers can be taken away. */
#define SUM_BY_HAND(first, second)                                                                 \
  "gs_sum_by_hand = GS_WARP_SUM(sum1_acc[0]);\n"                                                   \
  "  if (GS_LANE == 0) scratch[GS_WARP] = gs_sum_by_hand;\n  " first                               \
  "\n  f32 sum1 = 0.0f;\n  for (int w = 0; w < WARPS; w++) sum1 += scratch[w];\n  " second

static void by_hand(breaker *b, const char *barriers) {
  b->from = "sum1 = GS_BLOCK_SUM_AT(sum1_acc[0], scratch, to * 32);";
  b->to = barriers;
}

Test(check, barriers_by_hand_pass) {
  breaker b = {0};
  by_hand(&b, SUM_BY_HAND("GS_SYNC();", "GS_SYNC();"));
  passes("rmsnorm", "T=170,H=2048", &b);
}

Test(check, missing_first_barrier) {
  breaker b = {0};
  by_hand(&b, SUM_BY_HAND("", "GS_SYNC();"));
  fails("rmsnorm", "T=170,H=2048", &b, "scratch");
}

Test(check, missing_second_barrier) {
  breaker b = {0};
  by_hand(&b, SUM_BY_HAND("GS_SYNC();", ""));
  fails("rmsnorm", "T=170,H=2048", &b, "race");
}

/* A copy ahead that nobody waits for lands too late. */
Test(check, missing_wait_for_a_copy) {
  breaker b = {.from = "GS_COPY_WAIT(2);", .to = ""};
  fails("rmsnorm", "T=500,H=2048", &b, "before the copy to it has landed");
}

Test(check, missing_wait_for_a_row) {
  breaker b = {.from = "gs_mbar_wait(come, to, phase);", .to = "", .arch = "sm_90a"};
  fails("layernorm", "T=500,H=1024", &b, "landed");
}

/* The place of a row goes to a later one before all have read it. */
Test(check, row_replaced_too_early) {
  breaker b = {.from = "GS_BLOCK_SUMS_AT(2, sums, scratch, to * 64);", .to = "", .arch = "sm_90a"};
  fails("layernorm", "T=2700,H=1024", &b, "ring");
}

Test(check, too_few_groups_waited_for) {
  breaker b = {.from = "GS_COPY_WAIT(2);", .to = "GS_COPY_WAIT(3);"};
  fails("rmsnorm", "T=500,H=2048", &b, "before the copy to it has landed");
}

/* Central differences across a kink mean nothing, wherever it lies between their points. */
Test(check, a_kink_near_a_point_is_no_mistake) {
  static const double steps[] = {0, 0.01, 0.05, 0.14, 0.3, 0.5, 0.67, 0.9, 1, 1.4, 1.9};
  char path[512];
  gs_error e;
  gs_author *a;
  gs_layer *l;
  snprintf(path, sizeof path, "%s/layers/derive/near_kink.lua", GS_TEST_DIR);
  cr_assert_eq(gs_author_new(&a, &e), GS_OK, "%s", e.message);
  cr_assert_eq(gs_layer_open(a, path, &l, &e), GS_OK, "%s", e.message);
  for (size_t k = 0; k < 2 * sizeof steps / sizeof *steps; k++) {
    gs_check_options o = {.dims = "T=3"};
    gs_check_report r = {0};
    gs_rng rng = {k};
    gs_case c;
    cr_assert_eq(gs_case_new(l, GS_F32, 1, GS_MOOD_ORDINARY, &o, &rng, &c, &e), GS_OK);
    double off = steps[k / 2] * 1e-4 * (k % 2 ? -1 : 1); /* of the step of the differences */
    c.tensor[0][0] = 0.5;
    c.tensor[1][0] = 0.5 + off;
    c.tensor[2][0] =
        1; /* of dy: beside a large gradient, a small one is not skipped as uncertain */
    c.tensor[2][1] = 40;
    cr_expect_eq(gs_check_math(&c, &rng, &r, &e), GS_OK, "%g: %s", off, e.message);
    gs_case_free(&c);
  }
  gs_author_free(a);
}

/* 1/sqrt(s*s) is 1/|s| wherever s itself stands beside it. */
Test(check, the_root_of_a_square_keeps_the_sign) {
  char path[512];
  gs_error e;
  gs_author *a;
  gs_check_options o = {.seed = 7};
  gs_check_report r = {0};
  snprintf(path, sizeof path, "%s/layers/derive/root_of_square.lua", GS_TEST_DIR);
  cr_assert_eq(gs_author_new(&a, &e), GS_OK, "%s", e.message);
  cr_expect_eq(gs_check_layer(a, path, &o, &r, &e), GS_OK, "%s", e.message);
  cr_expect(r.math_points > 1000);
  gs_author_free(a);
}
