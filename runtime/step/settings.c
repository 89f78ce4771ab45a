/* settings.c: the table of settings. */
#include "step/settings.h"

#include "base/text.h"
#include "optim/schedule.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct row {
  const char *name;
  enum { TEXT, WHOLE, REAL } kind;
  size_t offset;
} row;

#define ROW(name, kind, field)                                                                     \
  { name, kind, offsetof(gs_settings, field) }
static const row rows[GS_NSETTINGS] = {
    ROW("model", TEXT, model),
    ROW("data", TEXT, data),
    ROW("eval", TEXT, eval),
    ROW("lora", TEXT, lora),
    ROW("dtype", TEXT, dtype),
    ROW("schedule", TEXT, schedule),
    ROW("steps", WHOLE, steps),
    ROW("epochs", WHOLE, epochs),
    ROW("seq", WHOLE, seq),
    ROW("seed", WHOLE, seed),
    ROW("warmup", WHOLE, warmup),
    ROW("eval-every", WHOLE, eval_every),
    ROW("save-every", WHOLE, save_every),
    ROW("lr", REAL, lr),
    ROW("clip", REAL, clip),
    ROW("weight-decay", REAL, weight_decay),
};

static const char **text_of(const gs_settings *s, int i) {
  return (const char **)((char *)s + rows[i].offset);
}
static int64_t *whole_of(const gs_settings *s, int i) {
  return (int64_t *)(void *)((char *)s + rows[i].offset);
}
static double *real_of(const gs_settings *s, int i) {
  return (double *)(void *)((char *)s + rows[i].offset);
}

gs_settings gs_settings_none(void) {
  gs_settings s = {0};
  for (int i = 0; i < GS_NSETTINGS; i++) {
    if (rows[i].kind == WHOLE) *whole_of(&s, i) = GS_UNSAID;
    if (rows[i].kind == REAL) *real_of(&s, i) = NAN;
  }
  return s;
}

const char *gs_settings_name(int i) {
  return rows[i].name;
}

/* The shortest decimal that reads back as v. */
static void print_real(gs_text *t, double v) {
  char s[40];
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(s, sizeof s, "%.*g", digits, v);
    if (strtod(s, NULL) == v) break;
  }
  gs_text_add(t, s);
}

char *gs_settings_text(const gs_settings *s, int i) {
  gs_text t = {0};
  if (rows[i].kind == TEXT && *text_of(s, i)) gs_text_add(&t, *text_of(s, i));
  if (rows[i].kind == WHOLE && *whole_of(s, i) != GS_UNSAID)
    gs_text_printf(&t, "%lld", (long long)*whole_of(s, i));
  if (rows[i].kind == REAL && !isnan(*real_of(s, i))) print_real(&t, *real_of(s, i));
  return t.s;
}

gs_status gs_settings_set(gs_settings *s, int i, const char *text, gs_error *err) {
  char *end = NULL;
  if (rows[i].kind == TEXT) {
    *text_of(s, i) = text;
    return GS_OK;
  }
  if (rows[i].kind == WHOLE)
    *whole_of(s, i) = strtoll(text, &end, 10);
  else
    *real_of(s, i) = strtod(text, &end);
  if (end == text || *end)
    return gs_fail(err, GS_ERR_INPUT, "\"%s\" is no number, as %s must be", text, rows[i].name);
  return GS_OK;
}

gs_status gs_settings_agree(const gs_settings *said, const gs_settings *was, gs_error *err) {
  gs_status st = GS_OK;
  for (int i = 0; i < GS_NSETTINGS && !st; i++) {
    char *a = gs_settings_text(said, i), *b = gs_settings_text(was, i);
    if (a && (!b || strcmp(a, b) != 0))
      st = gs_fail(err, GS_ERR_USE,
                   "--resume goes on with --%s %s as the run was started; leave out "
                   "--%s %s, or start anew with another --out",
                   rows[i].name, b ? b : "(none)", rows[i].name, a);
    free(a);
    free(b);
  }
  return st;
}

static gs_status check_range(const char *name, double v, double low, double high, gs_error *err) {
  if (v >= low && v <= high) return GS_OK;
  return gs_fail(err, GS_ERR_USE, "--%s is %g; it must be from %g to %g", name, v, low, high);
}

static void whole_default(int64_t *v, int64_t value) {
  if (*v == GS_UNSAID) *v = value;
}

static void real_default(double *v, double value) {
  if (isnan(*v)) *v = value;
}

static gs_status check_ranges(const gs_settings *s, gs_error *err) {
  gs_status st = check_range("seq", (double)s->seq, 2, 1 << 24, err);
  if (!st && s->steps != GS_UNSAID) st = check_range("steps", (double)s->steps, 1, 1e9, err);
  if (!st && s->epochs != GS_UNSAID) st = check_range("epochs", (double)s->epochs, 1, 1e6, err);
  if (!st && s->warmup != GS_UNSAID) st = check_range("warmup", (double)s->warmup, 0, 1e9, err);
  if (!st) st = check_range("seed", (double)s->seed, 0, 9e18, err);
  if (!st) st = check_range("eval-every", (double)s->eval_every, 0, 1e9, err);
  if (!st) st = check_range("save-every", (double)s->save_every, 0, 1e9, err);
  if (!st) st = check_range("lr", s->lr, 0, 1e3, err);
  if (!st) st = check_range("clip", s->clip, 0, 1e30, err);
  if (!st) st = check_range("weight-decay", s->weight_decay, 0, 1e3, err);
  return st;
}

gs_status gs_settings_complete(gs_settings *s, gs_error *err) {
  if (!s->lora) s->lora = "r=16,alpha=32,targets=all";
  if (!s->schedule) s->schedule = "cosine";
  if (s->steps == GS_UNSAID) whole_default(&s->epochs, 1);
  whole_default(&s->seq, 512);
  whole_default(&s->seed, 0);
  whole_default(&s->eval_every, 0);
  whole_default(&s->save_every, 0);
  real_default(&s->lr, 2e-4);
  real_default(&s->clip, 1);
  real_default(&s->weight_decay, 0);
  if (gs_schedule_from_name(s->schedule) < 0)
    return gs_fail(err, GS_ERR_USE, "--schedule %s is unknown; it is cosine, linear or constant",
                   s->schedule);
  if (s->steps != GS_UNSAID && s->epochs != GS_UNSAID)
    return gs_fail(err, GS_ERR_USE, "give --steps or --epochs, not both");
  return check_ranges(s, err);
}
