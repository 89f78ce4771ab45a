/* phases.h: how long the parts of a start took, one after the other. Every function takes NULL,
 * which keeps nothing. */
#ifndef GS_PHASES_H
#define GS_PHASES_H

#include "base/clock.h"

#include <stdbool.h>

enum { GS_PHASES = 24 };

typedef struct gs_phases {
  int n;
  const char *name[GS_PHASES]; /* literals */
  double seconds[GS_PHASES];
  double begin, last;
  int kept, compiled; /* kernels that were found compiled, and that were not */
} gs_phases;

static inline void gs_phases_begin(gs_phases *p) {
  if (!p) return;
  *p = (gs_phases){0};
  p->begin = p->last = gs_seconds();
}

/* What went by since the phase before belongs to this one; equal names in a row are one. */
static inline void gs_phase(gs_phases *p, const char *name) {
  if (!p) return;
  double now = gs_seconds();
  bool again = p->n > 0 && p->name[p->n - 1] == name;
  if (!again && p->n < GS_PHASES) p->name[p->n++] = name;
  p->seconds[p->n - 1] += now - p->last;
  p->last = now;
}

#endif
