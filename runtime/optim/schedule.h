/* schedule.h: the learning rate of each update. */
#ifndef GS_SCHEDULE_H
#define GS_SCHEDULE_H

#include <stdint.h>

typedef enum gs_schedule_kind {
  GS_SCHEDULE_COSINE,
  GS_SCHEDULE_LINEAR,
  GS_SCHEDULE_CONSTANT
} gs_schedule_kind;

typedef struct gs_schedule {
  gs_schedule_kind kind;
  double lr;      /* at the top */
  int64_t warmup; /* updates of a linear rise */
  int64_t steps;  /* updates in all */
} gs_schedule;

/* The rate of update t (from 0): lr·(t + 1)/(warmup + 1) while rising; then cosine or linear
 * towards 0, which would be reached one update after the last; or lr. */
double gs_schedule_lr(const gs_schedule *s, int64_t t);
/* -1 when the name is none of "cosine", "linear", "constant". */
int gs_schedule_from_name(const char *name);

#endif
