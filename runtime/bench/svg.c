/* svg.c: the roofline: arithmetic a byte across, arithmetic a second upwards, both in powers of
 * ten; the slope is this GPU's copy rate, the roof its bf16 products, as measured. */
#include "base/text.h"
#include "bench/bench.h"

#include <math.h>

enum { WIDTH = 900, HEIGHT = 560, LEFT = 70, RIGHT = 20, TOP = 40, BOTTOM = 60 };

typedef struct axes {
  double x0, x1, y0, y1; /* powers of ten at the edges */
} axes;

static double across(const axes *a, double v) {
  return LEFT + (log10(v) - a->x0) / (a->x1 - a->x0) * (WIDTH - LEFT - RIGHT);
}

static double upward(const axes *a, double v) {
  return HEIGHT - BOTTOM - (log10(v) - a->y0) / (a->y1 - a->y0) * (HEIGHT - TOP - BOTTOM);
}

static bool has_point(const gs_bench_row *r) {
  return !r->why[0] && r->t.median > 0 && r->bytes > 0 && r->flops > 0;
}

static axes axes_of(const gs_bench *b) {
  axes a = {-1, 3, 11, 15};
  for (int i = 0; i < b->n; i++) {
    const gs_bench_row *r = &b->rows[i];
    if (!has_point(r)) continue;
    a.x0 = fmin(a.x0, floor(log10(r->flops / r->bytes)));
    a.x1 = fmax(a.x1, ceil(log10(r->flops / r->bytes)));
    a.y0 = fmin(a.y0, floor(log10(r->flops / r->t.median)));
  }
  return a;
}

static void grid(const axes *a, gs_text *t) {
  for (int x = (int)a->x0; x <= (int)a->x1; x++)
    gs_text_printf(t,
                   "<line x1='%.1f' y1='%d' x2='%.1f' y2='%d' stroke='#ddd'/>"
                   "<text x='%.1f' y='%d' text-anchor='middle'>%g</text>\n",
                   across(a, pow(10, x)), TOP, across(a, pow(10, x)), HEIGHT - BOTTOM,
                   across(a, pow(10, x)), HEIGHT - BOTTOM + 18, pow(10, x));
  for (int y = (int)a->y0; y <= (int)a->y1; y++)
    gs_text_printf(t,
                   "<line x1='%d' y1='%.1f' x2='%d' y2='%.1f' stroke='#ddd'/>"
                   "<text x='%d' y='%.1f' text-anchor='end'>%g</text>\n",
                   LEFT, upward(a, pow(10, y)), WIDTH - RIGHT, upward(a, pow(10, y)), LEFT - 6,
                   upward(a, pow(10, y)) + 4, pow(10, y - 12));
}

/* From the left edge up the copy rate to the roof, and along it. */
static void roof(const gs_bench *b, const axes *a, gs_text *t) {
  double copy = b->rates.copy, gemm = b->rates.gemm;
  if (copy <= 0) return;
  double left = fmax(pow(10, a->x0), pow(10, a->y0) / copy);
  double knee = gemm > 0 ? gemm / copy : pow(10, a->x1);
  knee = fmin(fmin(knee, pow(10, a->x1)), pow(10, a->y1) / copy);
  gs_text_printf(t,
                 "<polyline fill='none' stroke='#333' stroke-width='2' points='%.1f,%.1f "
                 "%.1f,%.1f",
                 across(a, left), upward(a, left * copy), across(a, knee), upward(a, knee * copy));
  if (gemm > 0) gs_text_printf(t, " %d,%.1f", WIDTH - RIGHT, upward(a, gemm));
  gs_text_add(t, "'/>\n");
  gs_text_printf(t, "<text x='%.1f' y='%.1f'>copy %.2f TB/s</text>\n", across(a, left) + 8,
                 upward(a, left * copy) - 14, copy * 1e-12);
  if (gemm > 0)
    gs_text_printf(t, "<text x='%d' y='%.1f' text-anchor='end'>bf16 %.0f TFLOP/s</text>\n",
                   WIDTH - RIGHT - 6, upward(a, gemm) - 8, gemm * 1e-12);
}

static void points(const gs_bench *b, const axes *a, gs_text *t) {
  for (int i = 0; i < b->n; i++) {
    const gs_bench_row *r = &b->rows[i];
    if (!has_point(r)) continue;
    gs_text_printf(t, "<circle cx='%.1f' cy='%.1f' r='4' fill='#06c' fill-opacity='0.7'><title>",
                   across(a, r->flops / r->bytes), upward(a, r->flops / r->t.median));
    gs_text_printf(t, "%s %s: %.1f us, %.2f TB/s</title></circle>\n", r->name, r->shape,
                   r->t.median * 1e6, r->bytes / r->t.median * 1e-12);
  }
}

void gs_bench_svg(const gs_bench *b, gs_text *t) {
  axes a = axes_of(b);
  gs_text_printf(t,
                 "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' "
                 "font-family='sans-serif' font-size='12'>\n"
                 "<rect width='100%%' height='100%%' fill='white'/>\n"
                 "<text x='%d' y='24' font-size='15'>%s: kernels, protocol %d</text>\n",
                 WIDTH, HEIGHT, LEFT, b->about.name, GS_MEASURE_PROTOCOL);
  grid(&a, t);
  roof(b, &a, t);
  points(b, &a, t);
  gs_text_printf(t,
                 "<text x='%d' y='%d' text-anchor='middle'>flops a byte</text>\n"
                 "<text x='16' y='%d' transform='rotate(-90 16 %d)' text-anchor='middle'>"
                 "TFLOP/s</text>\n</svg>\n",
                 (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 18, HEIGHT / 2, HEIGHT / 2);
}
