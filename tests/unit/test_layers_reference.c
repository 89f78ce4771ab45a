/* uses: gs_author gs_graph gs_assets */
/* The forward of every shipped layer, in float64, against the formula of its reference written out
 * as plain loops here. */
#include "layer_case.h"

static gs_author *author(void) {
  gs_author *a;
  gs_error e;
  cr_assert_eq(gs_author_new(&a, &e), GS_OK, "%s", e.message);
  return a;
}

static layer_case opened(gs_author *a, const char *name, int64_t s0, int64_t s1, int64_t s2,
                         int64_t s3) {
  int64_t sizes[GS_MAX_DIMS] = {s0, s1, s2, s3};
  return case_open(a, name, sizes, NULL, 99);
}

static const double *in(const layer_case *c, const char *name) {
  int t = case_tensor(c, name);
  cr_assert(t >= 0, "no tensor %s", name);
  return c->tensor[t];
}

/* Holds a result of forward or backward against n values. */
static void same(const layer_case *c, const char *name, const double *want, size_t n) {
  const gs_result *r = case_result(c->i->forward, c->i->nforward, name);
  if (!r) r = case_result(c->i->backward, c->i->nbackward, name);
  cr_assert(r, "%s has no %s", c->decl->name, name);
  cr_assert_eq(case_result_count(c, r), n);
  gs_array a = case_eval(c, r->expr);
  for (size_t k = 0; k < n; k++) {
    double got = case_value(c, &a, r, k);
    cr_expect(fabs(got - want[k]) <= 1e-13 * (1 + fabs(want[k])), "%s: %s[%zu] is %.17g, not %.17g",
              c->decl->name, name, k, got, want[k]);
  }
  gs_array_free(&a);
}

enum { T = 5, H = 7 };

static void rmsnorm_of(const double *x, const double *w, double eps, double *y) {
  for (int t = 0; t < T; t++) {
    double ss = 0;
    for (int h = 0; h < H; h++) ss += x[t * H + h] * x[t * H + h];
    for (int h = 0; h < H; h++) y[t * H + h] = w[h] * x[t * H + h] / sqrt(ss / H + eps);
  }
}

Test(reference, norms_and_residual) {
  gs_author *a = author();
  double y[T * H], h[T * H];
  layer_case c = opened(a, "rmsnorm", T, H, 0, 0);
  rmsnorm_of(in(&c, "x"), in(&c, "w"), 1e-6, y);
  same(&c, "y", y, T * H);
  case_close(&c);
  c = opened(a, "residual_rmsnorm", T, H, 0, 0);
  for (int k = 0; k < T * H; k++) h[k] = in(&c, "x")[k] + in(&c, "r")[k];
  rmsnorm_of(h, in(&c, "w"), 1e-6, y);
  same(&c, "h", h, T * H);
  same(&c, "y", y, T * H);
  case_close(&c);
  const char *gemma = "gemma";
  double one = 1, w1[H];
  int64_t sizes[GS_MAX_DIMS] = {T, H};
  gs_choice choice = {
      .dtype = GS_F32, .noptions = 1, .option_names = &gemma, .option_values = &one};
  c = case_open(a, "rmsnorm", sizes, &choice, 4);
  for (int k = 0; k < H; k++) w1[k] = 1 + in(&c, "w")[k];
  rmsnorm_of(in(&c, "x"), w1, 1e-6, y);
  same(&c, "y", y, T * H);
  case_close(&c);
  gs_author_free(a);
}

Test(reference, swiglu_lora_mean_loss) {
  gs_author *a = author();
  double y[T * H], total = 0;
  layer_case c = opened(a, "swiglu", T, H, 0, 0);
  for (int k = 0; k < T * H; k++)
    y[k] = in(&c, "gate")[k] / (1 + exp(-in(&c, "gate")[k])) * in(&c, "up")[k];
  same(&c, "y", y, T * H);
  case_close(&c);
  c = opened(a, "lora", T, H, 0, 0);
  for (int k = 0; k < T * H; k++)
    y[k] = in(&c, "base")[k] + in(&c, "scale")[0] * in(&c, "delta")[k];
  same(&c, "y", y, T * H);
  case_close(&c);
  c = opened(a, "mean_loss", T, 0, 0, 0);
  for (int t = 0; t < T; t++) total += in(&c, "loss")[t] * in(&c, "inv_count")[0];
  same(&c, "mean", &total, 1);
  case_close(&c);
  gs_author_free(a);
}

Test(reference, rope) {
  enum { N = 2, D = 6, half = D / 2 };
  gs_author *a = author();
  double cosine[T * half], sine[T * half], y[T * N * D];
  layer_case c = opened(a, "rope_table", T, half, 0, 0);
  for (int k = 0; k < T * half; k++) {
    double angle = in(&c, "pos")[k / half] * in(&c, "inv_freq")[k % half];
    cosine[k] = cos(angle);
    sine[k] = sin(angle);
  }
  same(&c, "cos", cosine, T * half);
  same(&c, "sin", sine, T * half);
  case_close(&c);
  c = opened(a, "rope", T, N, D, 0);
  for (int k = 0; k < T * N * D; k++) {
    int t = k / (N * D), i = k % D;
    const double *x = in(&c, "x"), *co = in(&c, "cos"), *si = in(&c, "sin");
    double turned = i < half ? -x[k + half] : x[k - half]; /* rotate_half */
    y[k] = x[k] * co[t * half + i % half] + turned * si[t * half + i % half];
  }
  same(&c, "y", y, T * N * D);
  case_close(&c);
  gs_author_free(a);
}

Test(reference, cross_entropy) {
  enum { V = 11 };
  gs_author *a = author();
  double loss[T], d[T * V];
  layer_case c = opened(a, "cross_entropy", T, V, 0, 0);
  for (int t = 0; t < T; t++) {
    const double *z = in(&c, "logits") + t * V;
    double sum = 0, label = in(&c, "label")[t];
    for (int v = 0; v < V; v++) sum += exp(z[v]);
    loss[t] = label < 0 ? 0 : log(sum) - z[(int)label];
    for (int v = 0; v < V; v++)
      d[t * V + v] = label < 0 ? 0 : in(&c, "dloss")[t] * (exp(z[v]) / sum - (v == (int)label));
  }
  same(&c, "loss", loss, T);
  same(&c, "dlogits", d, T * V);
  case_close(&c);
  gs_author_free(a);
}

Test(reference, embedding) {
  enum { V = 4, W = 3 };
  gs_author *a = author();
  double y[T * W], d[V * W] = {0};
  layer_case c = opened(a, "embedding", T, V, W, 0);
  for (int k = 0; k < T * W; k++) {
    int row = (int)in(&c, "id")[k / W];
    y[k] = in(&c, "E")[row * W + k % W];
    d[row * W + k % W] += in(&c, "dy")[k];
  }
  same(&c, "y", y, T * W);
  same(&c, "dE", d, V * W);
  case_close(&c);
  gs_author_free(a);
}

Test(reference, adamw_and_clipping) {
  enum { N = 13 };
  gs_author *a = author();
  double p[N], m[N], v[N], total = 0, coef;
  layer_case c = opened(a, "adamw", N, 0, 0, 0);
  double lr = in(&c, "lr")[0], eps = in(&c, "eps")[0], decay = in(&c, "decay")[0];
  c.tensor[case_tensor(&c, "decay")][0] = decay = 0.1;
  for (int k = 0; k < N; k++) { /* the order of torch.optim.AdamW */
    double g = in(&c, "g")[k] * in(&c, "coef")[0];
    p[k] = in(&c, "p")[k] * (1 - lr * decay);
    m[k] = 0.9 * in(&c, "m")[k] + (1 - 0.9) * g;
    v[k] = 0.999 * in(&c, "v")[k] + (1 - 0.999) * g * g;
    p[k] -= lr / in(&c, "bc1")[0] * m[k] / (sqrt(v[k]) / sqrt(in(&c, "bc2")[0]) + eps);
  }
  same(&c, "p_out", p, N);
  same(&c, "m_out", m, N);
  same(&c, "v_out", v, N);
  case_close(&c);
  c = opened(a, "grad_norm", N, 0, 0, 0);
  for (int k = 0; k < N; k++) total += in(&c, "g")[k] * in(&c, "g")[k];
  total = sqrt(total);
  coef = 1 / (total + 1e-6);
  same(&c, "norm", &total, 1);
  same(&c, "coef", &coef, 1);
  c.tensor[case_tensor(&c, "max_norm")][0] = 1e3;
  coef = 1;
  same(&c, "coef", &coef, 1);
  case_close(&c);
  gs_author_free(a);
}

/* One query head: y = softmax over the document's earlier tokens. */
static void attend(const double *q, const double *k, const double *v, int first, int t, int K,
                   int head, int D, double *y) {
  double sum = 0;
  for (int d = 0; d < D; d++) y[d] = 0;
  for (int s = first; s <= t; s++) {
    double z = 0;
    for (int d = 0; d < D; d++) z += q[d] * k[(s * K + head) * D + d];
    sum += exp(z);
    for (int d = 0; d < D; d++) y[d] += exp(z) * v[(s * K + head) * D + d];
  }
  for (int d = 0; d < D; d++) y[d] /= sum;
}

Test(reference, attention) {
  enum { K = 2, G = 3, D = 4, B1 = 4 };
  gs_author *a = author();
  double y[T * K * G * D];
  int64_t sizes[GS_MAX_DIMS] = {T, T, B1, K, G, D};
  layer_case c = case_open(a, "attention", sizes, NULL, 99);
  for (int n = 0; n < T * K * G; n++) {
    int t = n / (K * G), document = 0;
    while (document + 1 < B1 && in(&c, "cu_k")[document + 1] <= t) document++;
    attend(in(&c, "q") + n * D, in(&c, "k"), in(&c, "v"), (int)in(&c, "cu_k")[document], t, K,
           n / G % K, D, y + n * D);
  }
  same(&c, "y", y, T * K * G * D);
  case_close(&c);
  gs_author_free(a);
}
