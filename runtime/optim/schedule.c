/* schedule.c: warm-up and decay. */
#include "optim/schedule.h"

#include <math.h>
#include <string.h>

static const char *const names[] = {"cosine", "linear", "constant"};

double gs_schedule_lr(const gs_schedule *s, int64_t t) {
  if (s->kind == GS_SCHEDULE_CONSTANT) return s->lr;
  if (t < s->warmup) return s->lr * (double)(t + 1) / (double)(s->warmup + 1);
  int64_t left = s->steps - s->warmup;
  double x = left > 0 ? (double)(t - s->warmup) / (double)left : 0;
  if (x > 1) x = 1;
  return s->kind == GS_SCHEDULE_LINEAR ? s->lr * (1 - x) : s->lr * 0.5 * (1 + cos(acos(-1.0) * x));
}

int gs_schedule_from_name(const char *name) {
  for (int i = 0; i < 3; i++)
    if (strcmp(name, names[i]) == 0) return i;
  return -1;
}

