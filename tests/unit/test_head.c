/* uses: gs_step gs_model gs_device */
/* Linear and cross entropy as one block: loss and all gradients (of x, of the weight, of an adapter
 * on it) against float64, for chunks of every size; the same loss, to the bit, whatever the
 * chunk; a weight that is also the embedding; nothing to learn from; what is refused; and that no
 * tensor of all logits exists. */
#include "base/half.h"
#include "step/plan.h"
#include "step/run.h"
#include "tiny_model.h"

enum { T = 13, H = 12, V = 37, R = 2 };

static gs_error err;

typedef struct want {
  gs_step_mode mode;
  gs_type dtype;
  int64_t chunk;
  const char *lora; /* NULL: none */
  bool tied;        /* x is the weight's rows, by id */
  bool ignore_all, keep_logits;
  double upstream, scale, softcap, smoothing, z_loss;
} want;

typedef struct rig {
  want w;
  gs_device *d;
  gs_library *l;
  gs_params *p;
  gs_record *r;
  gs_plan plan;
  gs_ptr arena;
  int x, weight;
  double X[T * H], W[V * H], label[T], id[T];
} rig;

static want plain(void) {
  return (want){.mode = GS_STEP_GRADIENT,
                .dtype = GS_F32,
                .chunk = 5,
                .lora = "r=2,alpha=3,targets=head",
                .upstream = 1.0 / 10,
                .scale = 1};
}

static int fixed(rig *g, const char *name, gs_type type, int ndims, int64_t a, int64_t b,
                 const double *v) {
  int64_t shape[2] = {a, b}, n = ndims == 0 ? 1 : ndims == 1 ? a : a * b;
  size_t size = gs_type_size(type);
  char *raw = calloc((size_t)n, size);
  gs_ptr at;
  for (int64_t i = 0; i < n; i++) {
    if (type == GS_I32)
      ((int32_t *)(void *)raw)[i] = (int32_t)v[i];
    else
      gs_store_f64(raw, type, (size_t)i, v[i]);
  }
  must(gs_device_alloc(g->d, (size_t)n * size, &at, &err), &err);
  must(gs_device_upload(g->d, at, raw, (size_t)n * size, &err), &err);
  must(gs_device_sync(g->d, &err), &err);
  free(raw);
  return gs_record_fixed(g->r, name, type, ndims, shape, at);
}

static void fill(double *v, int n, double scale) {
  for (int i = 0; i < n; i++) v[i] = round(8 * scale * tiny_random()) / 8;
}

static void make_params(rig *g) {
  static const gs_module module = {"head", H, V};
  gs_lora lora;
  must(gs_lora_parse(g->w.lora, &lora, &err), &err);
  must(gs_params_new(g->d, &module, 1, &lora, g->w.dtype, 1, &g->p, &err), &err);
  float *v = calloc((size_t)gs_params_count(g->p), sizeof *v);
  for (int i = 0; i < 2; i++) {
    int64_t at;
    gs_weight w = gs_params_tensor(g->p, i, &at);
    for (int64_t k = 0; k < w.shape[0] * w.shape[1]; k++)
      v[at + k] = (float)(round(4 * tiny_random()) / 8);
  }
  must(gs_params_write(g->p, GS_MASTER, v, &err), &err);
  free(v);
}

static int embedded(rig *g) {
  gs_named args[2] = {{"E", g->weight, 0}, {"id", fixed(g, "id", GS_I32, 1, T, 1, g->id), 0}};
  gs_call *c;
  must(gs_record_layer(g->r, "embedding", args, 2, NULL, 0, &c, &err), &err);
  return c->result[0];
}

static gs_status record(rig *g) {
  const want *w = &g->w;
  bool trains = w->mode == GS_STEP_GRADIENT;
  gs_named options[4] = {{"scale", -1, w->scale},
                         {"softcap", -1, w->softcap},
                         {"smoothing", -1, w->smoothing},
                         {"z_loss", -1, w->z_loss}};
  g->weight = fixed(g, "weight", w->dtype, 2, V, H, g->W);
  g->r->vars[g->weight].needs_grad = trains;
  g->x = w->tied ? embedded(g) : fixed(g, "x", w->dtype, 2, T, H, g->X);
  g->r->vars[g->x].needs_grad = trains;
  gs_head h = {.module = "head",
               .x = g->x,
               .weight = g->weight,
               .label = fixed(g, "label", GS_I32, 1, T, 1, g->label),
               .upstream = fixed(g, "inv_count", GS_F32, 0, 1, 1, &w->upstream),
               .options = options,
               .noptions = 4};
  gs_status s = gs_record_head(g->r, &h, &err);
  if (!s && trains) s = gs_record_backward(g->r, &err);
  for (int i = 0; i < 2 && !s && trains; i++)
    g->r->vars[g->r->vars[i ? g->weight : g->x].grad].keep = true;
  return s;
}

static rig open_rig(want w) {
  rig g = {.w = w};
  gs_device_options o = {.checked = true};
  tiny_state = 777;
  err = (gs_error){0};
  must(gs_device_open("emu", &o, &g.d, &err), &err);
  must(gs_library_new(g.d, &g.l, &err), &err);
  fill(g.X, T * H, 1);
  fill(g.W, V * H, 0.5);
  for (int i = 0; i < T; i++) {
    g.label[i] = w.ignore_all || i % 4 == 3 ? -100 : (i * 11) % V;
    g.id[i] = (i * 7) % 5;
  }
  if (w.lora) make_params(&g);
  g.r = gs_record_new(g.l, g.p, w.mode, w.dtype, T);
  g.r->chunk = w.chunk;
  g.r->keep_logits = w.keep_logits;
  must(record(&g), &err);
  must(gs_plan_record(g.r, true, &g.plan, &err), &err);
  must(gs_device_alloc(g.d, g.plan.bytes, &g.arena, &err), &err);
  gs_plan_place(&g.plan, g.r, g.arena);
  must(gs_library_compile(g.l, &err), &err);
  must(gs_run_acts(g.d, g.r, &err), &err);
  must(gs_device_sync(g.d, &err), &err);
  return g;
}

static void close_rig(rig *g) {
  gs_record_free(g->r);
  gs_params_free(g->p);
  gs_library_free(g->l);
  gs_device_close(g->d);
}

/* A variable's values, f32; until the fourth call after this one. */
static const float *read_var(const rig *g, int var) {
  static float v[4][V * H + T * V];
  static int next;
  float *to = v[next++ % 4];
  const gs_var *x = &g->r->vars[var];
  must(gs_device_download(g->d, to, x->ptr, gs_var_bytes(x), &err), &err);
  must(gs_device_sync(g->d, &err), &err);
  return to;
}

static double loss_of(const rig *g) {
  return read_var(g, g->r->head.loss)[0];
}
static const float *grad_of(const rig *g, int var) {
  return read_var(g, g->r->vars[var].grad);
}

/* ---- in float64 ---- */

typedef struct exact {
  double loss, dx[T * H], dW[V * H], dA[R * H], dB[V * R];
} exact;

typedef struct adapter {
  float *values; /* A and B where the flat buffer has them */
  const float *A, *B;
  double s;
} adapter;

static adapter read_adapter(const rig *g, gs_param_kind kind) {
  adapter a = {0};
  int64_t at[2];
  if (!g->p) return a;
  a.values = malloc(sizeof(float) * (size_t)gs_params_count(g->p));
  must(gs_params_read(g->p, kind, a.values, &err), &err);
  for (int i = 0; i < 2; i++) gs_params_tensor(g->p, i, &at[i]);
  a.A = a.values + at[0];
  a.B = a.values + at[1];
  a.s = gs_params_scale(g->p);
  return a;
}

/* z of one row, and what of the adapter it is made of. */
static void scores(const rig *g, const adapter *ad, const double *x, double *a, double *z,
                   double *slope) {
  const want *w = &g->w;
  for (int r = 0; r < R && ad->A; r++) {
    a[r] = 0;
    for (int k = 0; k < H; k++) a[r] += ad->A[r * H + k] * x[k];
  }
  for (int v = 0; v < V; v++) {
    double u = 0;
    for (int k = 0; k < H; k++) u += g->W[v * H + k] * x[k];
    for (int r = 0; r < R && ad->A; r++) u += ad->s * ad->B[v * R + r] * a[r];
    u *= w->scale;
    z[v] = w->softcap > 0 ? w->softcap * tanh(u / w->softcap) : u;
    slope[v] = w->scale * (w->softcap > 0 ? 1 - pow(z[v] / w->softcap, 2) : 1);
  }
}

static double row_loss(const want *w, const double *z, int label, const double *slope, double *dz) {
  double top = z[0], sum = 0, mean = 0;
  for (int v = 1; v < V; v++) top = fmax(top, z[v]);
  for (int v = 0; v < V; v++) sum += exp(z[v] - top);
  double lse = top + log(sum);
  for (int v = 0; v < V; v++) {
    double p = exp(z[v] - lse);
    mean += z[v] / V;
    dz[v] = (p - (1 - w->smoothing) * (v == label) - w->smoothing / V + 2 * w->z_loss * lse * p) *
            slope[v] * w->upstream;
  }
  return w->upstream * ((1 - w->smoothing) * (lse - z[label]) + w->smoothing * (lse - mean) +
                        w->z_loss * lse * lse);
}

static void spread_row(const rig *g, const adapter *ad, const double *x, const double *a,
                       const double *dz, double *dx, exact *e) {
  double da[R] = {0};
  for (int v = 0; v < V; v++)
    for (int r = 0; r < R && ad->A; r++) {
      e->dB[v * R + r] += ad->s * dz[v] * a[r];
      da[r] += ad->s * dz[v] * ad->B[v * R + r];
    }
  for (int k = 0; k < H; k++) {
    for (int v = 0; v < V; v++) {
      dx[k] += dz[v] * g->W[v * H + k];
      e->dW[v * H + k] += dz[v] * x[k];
    }
    for (int r = 0; r < R && ad->A; r++) {
      dx[k] += da[r] * ad->A[r * H + k];
      e->dA[r * H + k] += da[r] * x[k];
    }
  }
}

static exact *exact_of(const rig *g) {
  exact *e = calloc(1, sizeof *e);
  adapter ad = read_adapter(g, GS_MASTER);
  for (int t = 0; t < T; t++) {
    double a[R], z[V], slope[V], dz[V];
    const double *x = g->w.tied ? g->W + (int)g->id[t] * H : g->X + t * H;
    if (g->label[t] < 0) continue;
    scores(g, &ad, x, a, z, slope);
    e->loss += row_loss(&g->w, z, (int)g->label[t], slope, dz);
    spread_row(g, &ad, x, a, dz, e->dx + t * H, e);
  }
  for (int t = 0; t < T && g->w.tied; t++)
    for (int k = 0; k < H; k++) e->dW[(int)g->id[t] * H + k] += e->dx[t * H + k];
  free(ad.values);
  return e;
}

static void near(const char *what, const float *have, const double *w, int n, double tolerance) {
  double largest = 0;
  for (int i = 0; i < n; i++) largest = fmax(largest, fabs(w[i]));
  cr_assert(largest > 1e-4, "%s is nothing", what);
  for (int i = 0; i < n; i++)
    cr_assert(fabs(have[i] - w[i]) <= tolerance * largest, "%s[%d]: %g, exact %g", what, i, have[i],
              w[i]);
}

static void check_exact(want w, double tolerance) {
  rig g = open_rig(w);
  exact *e = exact_of(&g);
  adapter d = read_adapter(&g, GS_GRAD);
  cr_assert(fabs(loss_of(&g) - e->loss) < tolerance * e->loss, "loss %g, exact %g", loss_of(&g),
            e->loss);
  near("dx", grad_of(&g, g.x), e->dx, T * H, tolerance);
  near("dW", grad_of(&g, g.weight), e->dW, V * H, tolerance);
  if (d.A) near("dA", d.A, e->dA, R * H, tolerance);
  if (d.B) near("dB", d.B, e->dB, V * R, tolerance);
  free(d.values);
  free(e);
  close_rig(&g);
}

static const int64_t chunks[] = {1, 3, 5, T - 1, T, 100, 0};
enum { NCHUNKS = sizeof chunks / sizeof *chunks };

Test(head, every_chunk_against_float64) {
  for (int i = 0; i < NCHUNKS; i++) {
    want w = plain();
    w.chunk = chunks[i];
    check_exact(w, 2e-5);
    w.lora = NULL;
    check_exact(w, 2e-5);
  }
}

Test(head, options_against_float64) {
  want w = plain();
  w.scale = 0.7;
  check_exact(w, 2e-5);
  w.softcap = 3;
  w.smoothing = 0.2;
  w.z_loss = 0.02;
  w.upstream = 3.5;
  check_exact(w, 2e-5);
}

Test(head, bfloat16_against_float64) {
  want w = plain();
  w.dtype = GS_BF16;
  check_exact(w, 0.03);
  w.lora = NULL;
  w.chunk = 1;
  check_exact(w, 0.03);
}

Test(head, tied_weight_takes_both_gradients) {
  want w = plain();
  w.tied = true;
  for (int i = 0; i < 3; i++) {
    w.chunk = chunks[2 * i];
    check_exact(w, 2e-5);
  }
}

/* ---- bits ---- */

/* Values are multiples of 1/8, so that the logits are exact in any order of adding; what a matrix
 * product makes of their gradient may depend on its number of rows. */
Test(head, chunks_change_no_bit_of_the_loss) {
  want w = plain();
  for (int dtype = 0; dtype < 2; dtype++) {
    w.dtype = dtype ? GS_BF16 : GS_F32;
    w.chunk = T;
    rig whole = open_rig(w);
    float dx[T * H];
    memcpy(dx, grad_of(&whole, whole.x), sizeof dx);
    for (int i = 0; i < 3; i++) {
      w.chunk = chunks[i];
      rig g = open_rig(w);
      cr_assert(loss_of(&g) == loss_of(&whole));
      const float *have = grad_of(&g, g.x);
      for (int k = 0; k < T * H; k++)
        cr_assert(fabs((double)have[k] - dx[k]) < 1e-6, "dx[%d]: %g, %g", k, have[k], dx[k]);
      close_rig(&g);
    }
    close_rig(&whole);
  }
}

Test(head, a_second_run_gives_the_same_bits) {
  rig g = open_rig(plain());
  adapter one = read_adapter(&g, GS_GRAD);
  double loss = loss_of(&g);
  const float *dx = grad_of(&g, g.x), *dW = grad_of(&g, g.weight);
  must(gs_run_acts(g.d, g.r, &err), &err);
  adapter two = read_adapter(&g, GS_GRAD);
  cr_assert(loss == loss_of(&g));
  cr_assert(memcmp(dx, grad_of(&g, g.x), sizeof *dx * T * H) == 0);
  cr_assert(memcmp(dW, grad_of(&g, g.weight), sizeof *dW * V * H) == 0);
  cr_assert(memcmp(one.A, two.A, sizeof *one.A * R * H) == 0);
  cr_assert(memcmp(one.B, two.B, sizeof *one.B * V * R) == 0);
  free(one.values);
  free(two.values);
  close_rig(&g);
}

/* ---- nothing to learn from ---- */

static void expect_zeros(const char *what, const float *v, int n) {
  for (int i = 0; i < n; i++) cr_assert(v[i] == 0, "%s[%d] is %g", what, i, v[i]);
}

Test(head, all_labels_ignored) {
  for (int i = 0; i < 2; i++) {
    want w = plain();
    w.ignore_all = true;
    w.upstream = i; /* 0 as the step gives it, and one that is not */
    rig g = open_rig(w);
    adapter d = read_adapter(&g, GS_GRAD);
    cr_assert(loss_of(&g) == 0);
    expect_zeros("dx", grad_of(&g, g.x), T * H);
    expect_zeros("dW", grad_of(&g, g.weight), V * H);
    expect_zeros("dA", d.A, R * H);
    expect_zeros("dB", d.B, V * R);
    free(d.values);
    close_rig(&g);
  }
}

/* ---- memory, and what is recorded ---- */

static int count(const rig *g, gs_act_kind kind, const char *what) {
  int n = 0;
  for (int i = 0; i < g->r->nacts; i++)
    n += g->r->acts[i].kind == kind && strcmp(g->r->acts[i].what, what) == 0;
  return n;
}

Test(head, logits_are_one_small_buffer) {
  want w = plain();
  w.lora = NULL;
  rig g = open_rig(w);
  gs_ptr at = 0;
  int found = 0, stride = 64; /* 37 f32 in rows of 128 bytes */
  for (int v = 0; v < g.r->nvars; v++) {
    const gs_var *x = &g.r->vars[v];
    if (x->base != v || strcmp(x->name, "head logits") != 0) continue;
    cr_assert(x->shape[0] == (found < 2 ? 5 : 3) && x->shape[1] == V + 3 && x->stride == stride);
    cr_assert(!found || x->ptr == at, "chunk %d lies elsewhere", found);
    at = x->ptr;
    found++;
  }
  cr_assert(found == 3 && g.plan.ncopies == 0);
  cr_assert(count(&g, GS_ACT_GEMM, "head") ==
            3 * (2 * 3 + 1)); /* V = 32 + 5, and 3 that are none */
  size_t others = sizeof(float) * (T * H + V * H + T + 1) + 8 * GS_PLAN_ALIGN;
  cr_assert(g.plan.bytes <= sizeof(float) * 5 * (size_t)stride + others, "%zu", g.plan.bytes);
  close_rig(&g);
}

Test(head, evaluation_makes_no_gradient) {
  want w = plain();
  rig train = open_rig(w);
  w.mode = GS_STEP_EVAL;
  rig eval = open_rig(w);
  cr_assert(loss_of(&train) == loss_of(&eval));
  cr_assert(count(&eval, GS_ACT_GEMM, "head") == 1 + 3 * (2 * 2 + 1));
  cr_assert(count(&eval, GS_ACT_LAUNCH, "cross_entropy") == 3);
  for (int v = 0; v < eval.r->nvars; v++)
    cr_assert(eval.r->vars[v].name[0] != 'd', "%s", eval.r->vars[v].name);
  close_rig(&train);
  close_rig(&eval);
}

Test(head, kept_logits_survive_the_gradient) {
  want w = plain();
  w.lora = NULL;
  w.keep_logits = true;
  rig g = open_rig(w);
  int z = g.r->head.logits;
  adapter none = {0};
  cr_assert(g.r->vars[z].shape[0] == T);
  const float *have = read_var(&g, z);
  for (int t = 0; t < T; t++) {
    double a[R], want_z[V], slope[V];
    scores(&g, &none, g.X + t * H, a, want_z, slope);
    near("logits", have + t * gs_var_stride(&g.r->vars[z]), want_z, V, 1e-5);
  }
  close_rig(&g);
}

static gs_type grad_type(const rig *g, int64_t classes) {
  gs_record *r = gs_record_new(g->l, g->p, GS_STEP_GRADIENT, GS_BF16, T);
  int64_t sx[2] = {T, H}, sw[2] = {classes, H};
  const gs_var *v = g->r->vars;
  gs_head h = {.module = "head",
               .x = gs_record_fixed(r, "x", GS_BF16, 2, sx, v[g->x].ptr),
               .weight = gs_record_fixed(r, "weight", GS_BF16, 2, sw, v[g->weight].ptr),
               .label = gs_record_fixed(r, "label", GS_I32, 1, sx, 0),
               .upstream = gs_record_fixed(r, "inv_count", GS_F32, 0, NULL, 0)};
  r->vars[h.x].needs_grad = true;
  must(gs_record_head(r, &h, &err), &err);
  gs_type t = r->vars[r->vars[h.x].grad].type;
  gs_record_free(r);
  return t;
}

Test(head, gradient_of_x_is_rounded_where_one_product_makes_it) {
  for (int with = 0; with < 2; with++) {
    want w = plain();
    w.dtype = GS_BF16;
    if (!with) w.lora = NULL;
    rig g = open_rig(w);
    cr_assert(grad_type(&g, V / 8 * 8) == (with ? GS_F32 : GS_BF16));
    cr_assert(grad_type(&g, V) == GS_F32);
    close_rig(&g);
  }
}

Test(head, chunks_fit_their_memory) {
  static const int64_t sizes[] = {1, 37, 32000, 50257, 128256, 151936, 262144, 3000000};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (int64_t tokens = 1; tokens < 100000; tokens = tokens * 3 + 1) {
      int64_t c = gs_head_chunk(tokens, sizes[i], GS_BF16);
      cr_assert(c >= 1 && c <= tokens);
      cr_assert(c * sizes[i] * 2 <= (int64_t)512 << 20);
      cr_assert(c == tokens || c % 256 == 0 || c * sizes[i] * 4 > (int64_t)256 << 20);
    }
  cr_assert(gs_head_chunk(8192, 128256, GS_BF16) == 1024);
  cr_assert(gs_head_chunk(8192, 151936, GS_BF16) == 1024);
  cr_assert(gs_head_chunk(8192, 262144, GS_BF16) == 512);
  cr_assert(gs_head_chunk(8192, 32000, GS_BF16) == 4096);
}

/* ---- refusals ---- */

static void refuses(rig *g, gs_head h, const char *part) {
  err = (gs_error){0};
  cr_assert(gs_record_head(g->r, &h, &err) == GS_ERR_USE);
  cr_assert(strstr(err.message, part), "%s", err.message);
}

Test(head, what_is_refused) {
  rig g = {.w = plain()};
  gs_device_options o = {0};
  gs_named reduction = {"reduction", -1, 1};
  must(gs_device_open("emu", &o, &g.d, &err), &err);
  must(gs_library_new(g.d, &g.l, &err), &err);
  g.r = gs_record_new(g.l, NULL, GS_STEP_EVAL, GS_F32, T);
  gs_head h = {.module = "head",
               .x = fixed(&g, "x", GS_F32, 2, T, H, g.X),
               .weight = fixed(&g, "w", GS_F32, 2, V, H, g.W),
               .label = fixed(&g, "label", GS_I32, 1, T, 1, g.label),
               .upstream = fixed(&g, "inv_count", GS_F32, 0, 1, 1, &g.w.upstream)};
  gs_head bad = h;
  bad.options = &reduction;
  bad.noptions = 1;
  refuses(&g, bad, "\"reduction\"");
  bad = h;
  bad.x = fixed(&g, "x", GS_F32, 2, T - 1, H + 1, g.X);
  refuses(&g, bad, "[12, 13]");
  bad = h;
  bad.x = fixed(&g, "x", GS_BF16, 2, T, H, g.X);
  refuses(&g, bad, "bf16");
  must(gs_record_head(g.r, &h, &err), &err);
  refuses(&g, h, "already");
  close_rig(&g);
}
