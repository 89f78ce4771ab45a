/* search.c: coordinate descent over the tunables that a launch list says it has. What is legal for
 * one may depend on the others, so each choice is compiled from the last best one. */
#include "tune/search.h"

#include "tune/subject.h"

#include <stdio.h>
#include <string.h>

enum { FIRST = 3, SHORT = 12, TEXT = 512 };

typedef struct choice {
  char tuned[TEXT];
  const gs_launch_list *list;
  gs_variant *variant;
  gs_timing t;
} choice;

typedef struct searching {
  const gs_search *s;
  const gs_pass *pass;
  gs_subject *subject;
  char bucket[64];
  choice plain, best; /* best.variant may be plain's */
  gs_searched *out;
} searching;

static void say(const searching *x, const char *line) {
  if (x->s->say) x->s->say(x->s->context, line);
}

/* `from` with NAME=VALUE set, names in the order of the list; defaults are left out. */
static bool with_value(const gs_launch_list *from, const gs_tunable *changed, int64_t value,
                       char *out) {
  size_t n = 0;
  out[0] = 0;
  for (int i = 0; i < from->ntunables && n < TEXT; i++) {
    const gs_tunable *t = &from->tunables[i];
    int64_t v = t == changed ? value : t->chosen;
    if (v != t->by_default)
      n += (size_t)snprintf(out + n, TEXT - n, "%s%s=%lld", n ? "," : "", t->name, (long long)v);
  }
  return n < TEXT;
}

static gs_status make(searching *x, choice *c, gs_error *err) {
  gs_launch_list *l = NULL;
  gs_status st = gs_compile_tuned(x->pass, gs_device_caps(x->s->device), c->tuned, NULL, &l, err);
  c->list = l;
  c->t = (gs_timing){0};
  return st == GS_OK ? gs_variant_new(x->subject, l, &c->variant, err) : st;
}

static gs_status keep(const searching *x, const choice *c, gs_error *err) {
  if (!x->s->store) return GS_OK;
  const gs_measured m = {x->pass->key, x->bucket, c->tuned, x->s->about, GS_MEASURE_PROTOCOL, c->t};
  return gs_store_put(x->s->store, &m, err);
}

/* The median of each over the last n samples, which both have of the same turns. */
static void last_medians(const gs_timing *a, const gs_timing *b, int n, double *ma, double *mb) {
  double sorted[2][GS_MEASURE_MOST];
  const gs_timing *t[] = {a, b};
  for (int k = 0; k < 2; k++)
    for (int i = 0; i < n; i++) {
      double v = t[k]->seconds[t[k]->n - n + i];
      int at = i;
      for (; at > 0 && sorted[k][at - 1] > v; at--) sorted[k][at] = sorted[k][at - 1];
      sorted[k][at] = v;
    }
  *ma = sorted[0][n / 2];
  *mb = sorted[1][n / 2];
}

/* Times c beside the best so far. *better: by more than noise; it is then the best. */
static gs_status compare(searching *x, choice *c, bool *better, gs_error *err) {
  gs_contender both[2] = {{x->best.variant, gs_variant_prepare, gs_variant_submit},
                          {c->variant, gs_variant_prepare, gs_variant_submit}};
  gs_timing t[2] = {{0}, {0}};
  double best = 0, mine = 0;
  char line[TEXT + 128];
  const char *word = "";
  gs_status st = gs_meter_run(x->s->meter, both, 2, FIRST + 1, t, err); /* the first is cold code */
  if (st == GS_OK) last_medians(&t[0], &t[1], FIRST, &best, &mine);
  bool hopeless = st == GS_OK && mine > best * GS_HOPELESS;
  if (st == GS_OK && !hopeless) {
    st = gs_meter_run(x->s->meter, both, 2, SHORT, t, err);
    if (st == GS_OK) last_medians(&t[0], &t[1], SHORT, &best, &mine);
    *better = st == GS_OK && mine < best * 0.99;
  }
  if (st == GS_OK && *better) { /* it must hold over the whole protocol */
    st = gs_meter_run(x->s->meter, both, 2, GS_MEASURE_SAMPLES, t, err);
    if (st == GS_OK) last_medians(&t[0], &t[1], GS_MEASURE_SAMPLES, &best, &mine);
    *better = mine < best * 0.99;
    word = *better ? "  better" : "";
  }
  if (st != GS_OK) return st;
  c->t = t[1];
  c->t.median = mine;
  x->out->measured++;
  x->out->hopeless += hopeless;
  snprintf(line, sizeof line, "%-40s %9.1f us, %.2f x the best so far%s%s", c->tuned, mine * 1e6,
           mine / best, hopeless ? "  (left)" : "", word);
  say(x, line);
  return keep(x, c, err);
}

/* A choice that cannot be compiled is passed over: what is legal for one kernel of the pass need
 * not be for another. */
static gs_status try_value(searching *x, const gs_tunable *t, int64_t value, bool *changed,
                           gs_error *err) {
  choice c = {0};
  gs_error why = {0};
  bool better = false;
  if (!with_value(x->best.list, t, value, c.tuned)) return GS_OK;
  gs_status st = make(x, &c, &why);
  if (st != GS_OK) {
    gs_variant_free(c.variant);
    char line[TEXT + 128];
    x->out->refused++;
    snprintf(line, sizeof line, "%-40s refused: %.120s", c.tuned, why.message);
    say(x, line);
    return st == GS_ERR_DEVICE ? gs_fail(err, st, "%s", why.message) : GS_OK;
  }
  st = compare(x, &c, &better, err);
  if (st == GS_OK && better) {
    if (x->best.variant != x->plain.variant) gs_variant_free(x->best.variant);
    x->best = c;
    *changed = true;
  } else {
    gs_variant_free(c.variant);
  }
  return st;
}

static gs_status one_round(searching *x, bool *changed, gs_error *err) {
  gs_status st = GS_OK;
  *changed = false;
  for (int i = 0; st == GS_OK && i < x->best.list->ntunables; i++) {
    const gs_launch_list *from = x->best.list; /* its legal values, whatever becomes the best */
    int64_t legal[GS_MAX_LEGAL], chosen = from->tunables[i].chosen;
    int n = from->tunables[i].nlegal;
    memcpy(legal, from->tunables[i].legal, sizeof *legal * (size_t)n);
    for (int k = 0; st == GS_OK && k < n; k++) {
      const gs_launch_list *now = x->best.list;
      if (legal[k] == chosen || i >= now->ntunables || legal[k] == now->tunables[i].chosen)
        continue;
      st = try_value(x, &now->tunables[i], legal[k], changed, err);
    }
  }
  return st;
}

/* Default and best once more, in turns: what is said of the gain. */
static gs_status settle(searching *x, gs_error *err) {
  gs_contender both[2] = {{x->plain.variant, gs_variant_prepare, gs_variant_submit},
                          {x->best.variant, gs_variant_prepare, gs_variant_submit}};
  bool same = x->best.variant == x->plain.variant;
  gs_timing t[2] = {{0}, {0}};
  gs_status st = gs_meter_warm(x->s->meter, both, same ? 1 : 2, err);
  if (st == GS_OK) st = gs_meter_run(x->s->meter, both, same ? 1 : 2, GS_MEASURE_SAMPLES, t, err);
  x->plain.t = t[0];
  if (!same) x->best.t = t[1];
  if (st == GS_OK) st = keep(x, &x->plain, err);
  if (st == GS_OK && !same) st = keep(x, &x->best, err);
  if (st != GS_OK) return st;
  x->out->default_seconds = t[0].median;
  bool gains = !same && t[1].median < t[0].median * (1 - GS_TIE);
  x->out->seconds = gains ? t[1].median : t[0].median;
  snprintf(x->out->tuned, sizeof x->out->tuned, "%s", gains ? x->best.tuned : "");
  return GS_OK;
}

gs_status gs_search_pass(const gs_search *s, gs_instance *i, const gs_pass *p, const int64_t *sizes,
                         gs_searched *out, gs_error *err) {
  searching *x = &(searching){.s = s, .pass = p, .out = out};
  gs_launch_list *l = NULL;
  *out = (gs_searched){0};
  gs_store_bucket(p->g, sizes, x->bucket, sizeof x->bucket);
  gs_status st = gs_compile(p, gs_device_caps(s->device), NULL, &l, err);
  if (st == GS_OK) st = gs_subject_new(s->device, i, l, sizes, 1, &x->subject, err);
  if (st == GS_OK) {
    x->plain.list = l;
    out->tunables = l->ntunables;
    st = gs_variant_new(x->subject, l, &x->plain.variant, err);
  }
  x->best = x->plain;
  gs_contender c = {x->plain.variant, gs_variant_prepare, gs_variant_submit};
  if (st == GS_OK) st = gs_meter_warm(s->meter, &c, 1, err);
  bool changed = true;
  for (int k = 0; st == GS_OK && k < s->rounds && changed; k++) st = one_round(x, &changed, err);
  if (st == GS_OK) st = settle(x, err);
  gs_subject_free(x->subject);
  return st;
}
