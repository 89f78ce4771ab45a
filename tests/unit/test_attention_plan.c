/* uses: gs_check gs_device */
/* The list of tiles of a batch: every tile once, tails last, longest first, and of key tiles a
 * document's in order, whatever the documents. */
#include "device/launch.h"
#include "lua/layer.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

typedef struct batch {
  int documents;
  int64_t T, S;
  int32_t cu_q[64], cu_k[64];
} batch;

typedef struct plan {
  gs_device *d;
  gs_author *a;
  gs_instance *i;
  gs_launch_list list;
  gs_func *func;
  int tile, other;
} plan;

static void must(gs_status st, const gs_error *err) {
  cr_assert(st == GS_OK, "%s", err->message);
}

static int number_in(const char *text, const char *name) {
  const char *at = strstr(text, name);
  cr_assert(at, "%s of %s", name, text);
  return atoi(at + strlen(name));
}

/* The first kernel of the pass, which makes the list. */
static plan opened(gs_pass_kind kind, const char *const *options, const double *values, int n) {
  plan p = {0};
  gs_error err;
  gs_layer *l;
  gs_pass *pass;
  gs_launch_list *list;
  gs_device_options o = {.checked = true, .arch = "sm_80"};
  int64_t sizes[GS_MAX_DIMS] = {-1, -1, -1, 1, 1, 64};
  must(gs_device_open("emu", &o, &p.d, &err), &err);
  must(gs_author_new(&p.a, &err), &err);
  must(gs_layer_open(p.a, "attention", &l, &err), &err);
  gs_choice c = {.dtype = GS_BF16, .sizes = sizes};
  c.noptions = n, c.option_names = options, c.option_values = values;
  must(gs_layer_instantiate(l, &c, &p.i, &err), &err);
  must(gs_layer_pass(p.i, kind, NULL, 0, NULL, 0, &pass, &err), &err);
  must(gs_compile(pass, gs_device_caps(p.d), NULL, &list, &err), &err);
  p.list = *list;
  p.list.nkernels = 1;
  cr_assert(list->kernels[0].once && !list->kernels[1].once);
  const gs_kernel *k = &list->kernels[0];
  must(gs_device_compile(p.d, &k, 1, &p.func, &err), &err);
  p.tile = number_in(k->tunables, "tile=");
  p.other = number_in(k->tunables, "other=");
  return p;
}

static void closed(plan *p) {
  gs_instance_free(p->i);
  gs_author_free(p->a);
  gs_device_close(p->d);
}

static gs_ptr uploaded(gs_device *d, const void *v, size_t bytes) {
  gs_ptr at;
  gs_error err;
  must(gs_device_alloc(d, bytes, &at, &err), &err);
  must(gs_device_upload(d, at, v, bytes, &err), &err);
  return at;
}

/* The list made for a batch: its first temporary. */
static int32_t *made(const plan *p, const batch *b, int64_t *room) {
  gs_error err;
  int64_t sizes[GS_MAX_DIMS] = {b->T, b->S, b->documents + 1, 1, 1, 64};
  gs_bound bound[16] = {0};
  gs_ptr temps[8] = {0};
  gs_compiled c = {&p->list, (gs_func **)&p->func};
  size_t bytes = sizeof(int32_t) * (size_t)(b->documents + 1);
  for (int i = 0; i < p->list.nbindings; i++) {
    bool q = strcmp(p->list.bindings[i].name, "cu_q") == 0;
    if (!q && strcmp(p->list.bindings[i].name, "cu_k") != 0) continue;
    bound[i].ptr = uploaded(p->d, q ? b->cu_q : b->cu_k, bytes);
    bound[i].bytes = bytes;
  }
  for (int t = 0; t < p->list.ntemps && t < 8; t++)
    must(gs_device_alloc(p->d, gs_launch_temp_bytes(&p->list, t, sizes), &temps[t], &err), &err);
  must(gs_launch(p->d, &c, bound, sizes, temps, &err), &err);
  size_t all = gs_launch_temp_bytes(&p->list, 0, sizes);
  *room = (int64_t)(all / sizeof(int32_t));
  int32_t *v = calloc(1, all), count;
  must(gs_device_download(p->d, &count, temps[0], sizeof count, &err), &err);
  cr_assert(1 + 2 * (int64_t)count <= *room, "%d tiles, room for %lld numbers", count,
            (long long)*room);
  must(gs_device_download(p->d, v, temps[0], sizeof *v * (size_t)(1 + 2 * count), &err), &err);
  int32_t take = -1;
  must(gs_device_download(p->d, &take, temps[1], sizeof take, &err), &err);
  cr_assert_eq(take, 0);
  for (int t = 0; t < p->list.ntemps && t < 8; t++) gs_device_free(p->d, temps[t]);
  for (int i = 0; i < p->list.nbindings; i++)
    if (bound[i].ptr) gs_device_free(p->d, bound[i].ptr);
  return v;
}

static int64_t ceil_div(int64_t n, int64_t d) {
  return (n + d - 1) / d;
}

/* Of causal attention: tiles of the other side that tile number m of document d meets. */
static int64_t cost_of(const plan *p, const batch *b, bool keys, int d, int64_t m) {
  int64_t n_q = b->cu_q[d + 1] - b->cu_q[d], n_k = b->cu_k[d + 1] - b->cu_k[d], cost = 0;
  int64_t tile_q = keys ? p->other : p->tile, tile_k = keys ? p->tile : p->other;
  for (int64_t o = 0; o < ceil_div(keys ? n_q : n_k, p->other); o++) {
    int64_t tq = keys ? o : m, tk = keys ? m : o, end = (tq + 1) * tile_q;
    int64_t high = (end < n_q ? end : n_q) - 1 + n_k - n_q;
    cost += high >= tk * tile_k && n_k > tk * tile_k;
  }
  return cost;
}

static void holds(const plan *p, const batch *b, bool keys) {
  int64_t room, rows = keys ? b->S : b->T, before = INT64_MAX;
  const int32_t *cu = keys ? b->cu_k : b->cu_q;
  int32_t *v = made(p, b, &room);
  int64_t n = 0, past = ceil_div(rows - cu[b->documents], p->tile), last = -1;
  int64_t next[64] = {0};
  for (int d = 0; d < b->documents; d++) n += ceil_div(cu[d + 1] - cu[d], p->tile);
  cr_assert_eq(v[0], n + past, "%d tiles, %lld expected", v[0], (long long)(n + past));
  bool seen[4096] = {false};
  for (int64_t i = 0; i < n; i++) {
    int d = v[1 + 2 * i];
    int64_t m = v[2 + 2 * i], first = 0;
    cr_assert(d >= 0 && d < b->documents && m >= 0 && m < ceil_div(cu[d + 1] - cu[d], p->tile));
    for (int e = 0; e < d; e++) first += ceil_div(cu[e + 1] - cu[e], p->tile);
    cr_assert(!seen[first + m], "tile %lld of document %d twice", (long long)m, d);
    seen[first + m] = true;
    if (keys) cr_assert_eq(m, next[d]++, "document %d: tile %lld too early", d, (long long)m);
    int64_t cost = cost_of(p, b, keys, d, m);
    for (int64_t k = m + 1; keys && k < ceil_div(cu[d + 1] - cu[d], p->tile); k++)
      if (cost_of(p, b, keys, d, k) > cost) cost = cost_of(p, b, keys, d, k);
    if (keys) cost = ceil_div(cost, 8); /* what is alike counts as equal */
    cr_assert(cost <= before, "place %lld: cost %lld after %lld", (long long)i, (long long)cost,
              (long long)before);
    /* What is equal: of 32 key tiles, those that are first in their documents come first. */
    int64_t rank = ((first + m) / 32 << 40) + (keys ? m << 20 : (first + m) % 32 << 20) + first + m;
    cr_assert(cost < before || rank > last, "place %lld: too late", (long long)i);
    before = cost, last = rank;
  }
  for (int64_t i = 0; i < past; i++) {
    cr_assert_eq(v[1 + 2 * (n + i)], -1);
    cr_assert_eq(v[2 + 2 * (n + i)], i);
  }
  free(v);
}

static const batch batches[] = {
    {1, 300, 300, {0, 300}, {0, 300}},
    {0, 70, 3, {0}, {0}},
    {5, 1000, 900, {0, 0, 130, 130, 700, 700}, {0, 40, 40, 200, 900, 900}},
    {4, 513, 2000, {0, 1, 2, 3, 513}, {0, 1000, 1000, 1001, 1600}},
    {3, 200, 200, {0, 0, 0, 0}, {0, 0, 0, 200}},
    {5, 1000, 1000, {0, 200, 400, 600, 800, 1000}, {0, 200, 400, 600, 800, 1000}},
};

Test(attention_plan, queries, .timeout = 60) {
  plan p = opened(GS_PASS_INFER, NULL, NULL, 0);
  for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) holds(&p, &batches[i], false);
  closed(&p);
}

Test(attention_plan, keys, .timeout = 60) {
  plan p = opened(GS_PASS_BACKWARD, NULL, NULL, 0);
  for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) holds(&p, &batches[i], true);
  closed(&p);
}
