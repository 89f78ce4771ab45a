/* number.c: numbers as text that reads back to the same value, and numbers that are really sizes.
 *
 * In a graph the size of an inner dim is a constant like any other. A layer derived at sizes that
 * nobody writes (large primes) shows which constants come from them: 1/1009 is 1 / gs.size "H". */
#include "derive/print.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { PLAIN = 9, FEW = 4 }; /* digits of a number that a person writes; of a factor of a size */

static bool is_short(double v, int digits) {
  char text[64];
  snprintf(text, sizeof text, "%.*g", digits, v);
  return fabs(strtod(text, NULL) - v) <= fabs(v) * 4e-16;
}

static double rounded(double v, int digits) {
  char text[64];
  snprintf(text, sizeof text, "%.*g", digits, v);
  return strtod(text, NULL);
}

/* v = c * size(d)^power, with few digits in c. */
static bool fits(const printer *p, double v, int d, int power, double *c) {
  double size = (double)gs_graph_dim_at(p->g, d)->size;
  double rest = power > 0 ? v / size : v * size;
  if (!is_short(rest, FEW)) return false;
  *c = rounded(rest, FEW);
  return true;
}

factor_of_sizes derive_recognise(const printer *p, double v) {
  factor_of_sizes f = {.c = v, .up = -1, .down = {-1, -1}};
  if (v == 0 || !isfinite(v)) return f;
  for (int d = 0; d < gs_graph_ndims(p->g); d++) {
    if (!(p->opt->free >> d & 1)) continue;
    bool whole =
        fits(p, v, d, 1, &f.c) && fabs(f.c) <= 16 && (fabs(f.c) >= 1 || f.c * 4 == floor(f.c * 4));
    if (whole) return f.up = d, f;
  }
  f.c = v;
  if (is_short(v, PLAIN)) return f;
  for (int d = 0; d < gs_graph_ndims(p->g); d++)
    if (p->opt->free >> d & 1 && fits(p, v, d, -1, &f.c)) return f.down[0] = d, f;
  for (int d = 0; d < gs_graph_ndims(p->g); d++)
    for (int e = d; e < gs_graph_ndims(p->g); e++) {
      if (!(p->opt->free >> d & 1) || !(p->opt->free >> e & 1)) continue;
      if (!fits(p, v * (double)gs_graph_dim_at(p->g, d)->size, e, -1, &f.c)) continue;
      f.down[0] = d;
      f.down[1] = e;
      return f;
    }
  f.c = v;
  return f;
}

void gs_derive_number(gs_text *t, double v) {
  char text[64];
  if (isnan(v)) {
    gs_text_add(t, "(0 / 0)");
    return;
  }
  if (isinf(v)) {
    gs_text_add(t, v > 0 ? "math.huge" : "-math.huge");
    return;
  }
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, v);
    if (strtod(text, NULL) == v) break;
  }
  if (fabs(v) < 1e15 && v == floor(v)) snprintf(text, sizeof text, "%.0f", v);
  gs_text_add(t, text);
}
