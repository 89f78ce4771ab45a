/* uses: gs_author gs_graph gs_assets */
/* What losses must hold to whatever the values: labels that count nowhere, upstreams of any size,
 * unequal microbatches, the softcap's formula, masks before exponentials. In float64; the kernels
 * are held against the same expressions by `gradsmith check` and by test_layers_golden. */
#include "layer_case.h"

enum { T = 6, V = 9 };

typedef struct option {
  const char *name;
  double value;
} option;

static gs_author *author(void) {
  gs_author *a;
  gs_error e;
  cr_assert_eq(gs_author_new(&a, &e), GS_OK, "%s", e.message);
  return a;
}

/* Options end with a NULL name. */
static layer_case opened(gs_author *a, const char *name, int64_t s0, int64_t s1, const option *o,
                         uint64_t seed) {
  int64_t sizes[GS_MAX_DIMS] = {s0, s1};
  const char *names[16];
  double values[16];
  gs_choice c = {.dtype = GS_F32, .option_names = names, .option_values = values};
  for (; o && o[c.noptions].name; c.noptions++) {
    names[c.noptions] = o[c.noptions].name;
    values[c.noptions] = o[c.noptions].value;
  }
  return case_open(a, name, sizes, &c, seed);
}

static double *in(layer_case *c, const char *name) {
  int t = case_tensor(c, name);
  cr_assert(t >= 0, "no tensor %s", name);
  return c->tensor[t];
}

/* A result of forward or backward: n values, to be freed. */
static double *out(layer_case *c, const char *name, size_t n) {
  const gs_result *r = case_result(c->i->forward, c->i->nforward, name);
  if (!r) r = case_result(c->i->backward, c->i->nbackward, name);
  cr_assert(r, "%s has no %s", c->decl->name, name);
  cr_assert_eq(case_result_count(c, r), n);
  case_forward(c);
  gs_array a = case_eval(c, r->expr);
  double *v = malloc(sizeof *v * (n + 1));
  for (size_t k = 0; k < n; k++) v[k] = case_value(c, &a, r, k);
  gs_array_free(&a);
  return v;
}

static void near(double got, double want, const char *what, size_t at) {
  cr_expect(fabs(got - want) <= 1e-12 * (1 + fabs(want)), "%s[%zu] is %.17g, not %.17g", what, at,
            got, want);
}

static void all_zero(layer_case *c, const char *name, size_t n) {
  double *v = out(c, name, n);
  for (size_t k = 0; k < n; k++) cr_expect(v[k] == 0, "%s[%zu] is %g, not 0", name, k, v[k]);
  free(v);
}

/* No label counts: no loss, no gradient, no NaN, whatever the reduction and the count. */
Test(losses, every_label_ignored) {
  gs_author *a = author();
  for (int reduction = 0; reduction < 3; reduction++) {
    option o[] = {{"reduction", reduction}, {"smoothing", 0.1},  {"z_loss", 0.01}, {"weighted", 1},
                  {"with_accuracy", 1},     {"with_entropy", 1}, {NULL, 0}};
    layer_case c = opened(a, "cross_entropy", T, V, o, 3);
    for (int t = 0; t < T; t++) in(&c, "label")[t] = -100;
    if (reduction == 2) in(&c, "count")[0] = 0;
    size_t n = reduction ? 1 : T;
    all_zero(&c, "loss", n);
    all_zero(&c, "accuracy", n);
    all_zero(&c, "entropy", n);
    all_zero(&c, "dlogits", T * V);
    case_close(&c);
  }
  static const char *const others[] = {"token_logprob", "kl_distillation", "jsd_distillation"};
  for (int k = 0; k < 3; k++) {
    layer_case c = opened(a, others[k], T, V, NULL, 3);
    for (int t = 0; t < T; t++) in(&c, "label")[t] = -100;
    all_zero(&c, k ? "loss" : "logp", T);
    all_zero(&c, k ? "dstudent" : "dlogits", T * V);
    case_close(&c);
  }
  gs_author_free(a);
}

/* Each token's gradient has its own upstream, also behind an ignored first token; and it is linear
 * in it: 0 gives 0, 1024 gives 1024 times. */
Test(losses, upstream_of_each_token) {
  gs_author *a = author();
  option o[] = {{"smoothing", 0.1}, {"z_loss", 0.01}, {"softcap", 3}, {NULL, 0}};
  layer_case c = opened(a, "cross_entropy", T, V, o, 8);
  in(&c, "label")[0] = -100;
  for (int t = 1; t < T; t++) in(&c, "label")[t] = t;
  for (int t = 0; t < T; t++) in(&c, "dloss")[t] = 1;
  double *one = out(&c, "dlogits", T * V);
  static const double up[T] = {0, 1024, 0, -2, 0.5, 1};
  for (int t = 0; t < T; t++) in(&c, "dloss")[t] = up[t];
  double *scaled = out(&c, "dlogits", T * V);
  for (size_t k = 0; k < T * V; k++) {
    near(scaled[k], one[k] * up[k / V], "dlogits", k);
    cr_expect(k < V ? one[k] == 0 : one[k] != 0, "dlogits[%zu] is %g", k, one[k]);
  }
  free(one);
  free(scaled);
  case_close(&c);
  gs_author_free(a);
}

/* z = c·tanh(x/c), not x·tanh(x/c): 124 with a cap of 30 is 29.985. */
Test(losses, softcap_formula) {
  gs_author *a = author();
  option o[] = {{"softcap", 30}, {NULL, 0}};
  layer_case c = opened(a, "cross_entropy", 1, 2, o, 1);
  in(&c, "logits")[0] = 124;
  in(&c, "logits")[1] = 0;
  in(&c, "label")[0] = 1;
  double *loss = out(&c, "loss", 1);
  cr_expect(fabs(loss[0] - 29.9846) < 1e-3, "%.17g", loss[0]);
  free(loss);
  case_close(&c);
  gs_author_free(a);
}

/* One batch of T tokens, or two of T/3 and the rest with the same count: the same mean, whose
 * parts have unequal numbers of labels. */
Test(losses, microbatches_add_up) {
  gs_author *a = author();
  option o[] = {{"reduction", 2}, {"weighted", 1}, {NULL, 0}};
  enum { SMALL = T / 3 };
  layer_case whole = opened(a, "cross_entropy", T, V, o, 5);
  for (int t = 0; t < T; t++) in(&whole, "label")[t] = t == 1 || t == 4 ? -100 : t;
  in(&whole, "count")[0] = 3.75;
  in(&whole, "dloss")[0] = 0.625;
  double *loss = out(&whole, "loss", 1), *grad = out(&whole, "dlogits", T * V), sum = 0;
  for (int part = 0; part < 2; part++) {
    int from = part ? SMALL : 0, n = part ? T - SMALL : SMALL;
    layer_case c = opened(a, "cross_entropy", n, V, o, 6);
    memcpy(in(&c, "logits"), in(&whole, "logits") + from * V, sizeof(double) * (size_t)(n * V));
    memcpy(in(&c, "label"), in(&whole, "label") + from, sizeof(double) * (size_t)n);
    memcpy(in(&c, "weight"), in(&whole, "weight"), sizeof(double) * V);
    in(&c, "count")[0] = 3.75;
    in(&c, "dloss")[0] = 0.625;
    double *l = out(&c, "loss", 1), *g = out(&c, "dlogits", (size_t)(n * V));
    sum += l[0];
    for (int k = 0; k < n * V; k++) near(g[k], grad[from * V + k], "dlogits", (size_t)k);
    free(l);
    free(g);
    case_close(&c);
  }
  near(sum, loss[0], "loss", 0);
  free(loss);
  free(grad);
  case_close(&whole);
  gs_author_free(a);
}

/* What counts nowhere is masked before the exponential: its ratio would be infinite. */
Test(losses, grpo_masks_before_the_exponential) {
  gs_author *a = author();
  enum { S = 2 };
  for (int sequence = 0; sequence < 2; sequence++) {
    option o[] = {{"beta", 0.1}, {"sequence", sequence}, {"with_metrics", 1}, {NULL, 0}};
    layer_case c = opened(a, "grpo", T, S, o, 4);
    static const double segment[T] = {-1, 0, 0, -1, 1, -1};
    for (int t = 0; t < T; t++) {
      in(&c, "segment")[t] = segment[t];
      in(&c, "logp")[t] = segment[t] < 0 ? 2000 : -1;
      in(&c, "old")[t] = segment[t] < 0 ? -2000 : -1.125;
      in(&c, "ref")[t] = segment[t] < 0 ? 9000 : -1;
    }
    in(&c, "count")[0] = S;
    in(&c, "dloss")[0] = 1;
    in(&c, "advantage")[0] = 1;
    in(&c, "advantage")[1] = -2;
    double *loss = out(&c, "loss", 1), *d = out(&c, "dlogp", T), ratio = exp(0.125);
    near(loss[0], (-ratio + 2 * ratio) / S, "loss", 0);
    for (int t = 0; t < T; t++)
      near(d[t],
           segment[t] < 0    ? 0
           : segment[t] == 0 ? -ratio / S / 2
                             : 2 * ratio / S,
           "dlogp", (size_t)t);
    free(loss);
    free(d);
    case_close(&c);
  }
  gs_author_free(a);
}

/* Far from 0 the losses of pairs neither overflow nor lose what is left of them. */
Test(losses, preferences_far_apart) {
  gs_author *a = author();
  layer_case c = opened(a, "dpo", 2, 0, NULL, 4);
  static const char *const names[] = {"chosen", "rejected", "ref_chosen", "ref_rejected"};
  for (int k = 0; k < 4; k++) in(&c, names[k])[0] = in(&c, names[k])[1] = 0;
  in(&c, "beta")[0] = 0.5;
  in(&c, "chosen")[0] = 80;
  in(&c, "chosen")[1] = -3000;
  in(&c, "dloss")[0] = in(&c, "dloss")[1] = 1;
  double *loss = out(&c, "loss", 2), *d = out(&c, "dchosen", 2);
  cr_expect(fabs(loss[0] - exp(-40)) < 1e-12 * exp(-40), "%.17g", loss[0]);
  near(loss[1], 1500, "loss", 1);
  cr_expect(fabs(d[0] + 0.5 * exp(-40)) < 1e-12 * exp(-40), "%.17g", d[0]);
  near(d[1], -0.5, "dchosen", 1);
  free(loss);
  free(d);
  case_close(&c);
  gs_author_free(a);
}

/* Ties go to the lowest index; a bias moves the choice and not the weight. */
Test(losses, router_ties_and_bias) {
  gs_author *a = author();
  option o[] = {{"top_k", 3}, {"sigmoid", 1}, {"renormalise", 0}, {"biased", 1}, {NULL, 0}};
  layer_case c = opened(a, "router", 1, 5, o, 4);
  for (int e = 0; e < 5; e++) {
    in(&c, "logits")[e] = 0.25;
    in(&c, "bias")[e] = e == 3 ? 1 : 0;
  }
  double *w = out(&c, "w", 3), *index = out(&c, "index", 3);
  static const double want[] = {3, 0, 1};
  for (int k = 0; k < 3; k++) {
    cr_expect(index[k] == want[k], "index[%d] is %g", k, index[k]);
    near(w[k], in(&c, "scale")[0] / (1 + exp(-0.25)), "w", (size_t)k);
  }
  free(w);
  free(index);
  case_close(&c);
  gs_author_free(a);
}
