/* measure.c: warm-up, cold cache, backlog, marks, medians. */
#include "tune/measure.h"

#include "base/clock.h"
#include "base/half.h"
#include "base/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  PAIRS = GS_DEVICE_MARKS / 2, /* timed launches under way at once */
  AHEAD = 8,                   /* fills before the first */
  GEMM_SIZE = 8192,
};
static const size_t least_flush = (size_t)1 << 20;

struct gs_meter {
  gs_device *device;
  gs_ptr flush;
  size_t flush_bytes;
  double warm_seconds;
  unsigned char byte; /* of the next fill */
};

gs_status gs_meter_open(gs_device *d, gs_meter **out, gs_error *err) {
  *out = NULL;
  gs_about about;
  gs_status st = gs_device_about(d, &about, err);
  if (st != GS_OK) return st;
  gs_meter *m = calloc(1, sizeof *m);
  if (!m) return gs_fail(err, GS_ERR_MEMORY, "no memory to measure with");
  *m = (gs_meter){.device = d, .warm_seconds = 0.15, .flush_bytes = 4 * about.l2_bytes};
  if (m->flush_bytes < least_flush) m->flush_bytes = least_flush;
  st = gs_device_alloc(d, m->flush_bytes, &m->flush, err);
  if (st != GS_OK) {
    free(m);
    return st;
  }
  *out = m;
  return GS_OK;
}

void gs_meter_close(gs_meter *m) {
  if (!m) return;
  gs_device_free(m->device, m->flush);
  free(m);
}

void gs_meter_warm_seconds(gs_meter *m, double seconds) {
  m->warm_seconds = seconds;
}

static gs_status flush(gs_meter *m, gs_error *err) {
  m->byte = (unsigned char)(m->byte * 5 + 1);
  return gs_device_fill(m->device, m->flush, m->byte, m->flush_bytes, err);
}

static gs_status prepare(const gs_contender *c, gs_error *err) {
  return c->prepare ? c->prepare(c->context, err) : GS_OK;
}

static gs_status warm_one(gs_meter *m, const gs_contender *c, gs_error *err) {
  gs_status st = GS_OK;
  double start = gs_seconds();
  do {
    for (int i = 0; st == GS_OK && i < 4; i++) {
      st = prepare(c, err);
      if (st == GS_OK) st = c->submit(c->context, err);
    }
    if (st == GS_OK) st = gs_device_sync(m->device, err);
  } while (st == GS_OK && gs_seconds() - start < m->warm_seconds);
  return st;
}

gs_status gs_meter_warm(gs_meter *m, const gs_contender *c, int n, gs_error *err) {
  gs_status st = GS_OK;
  for (int i = 0; st == GS_OK && i < n; i++) st = warm_one(m, &c[i], err);
  return st;
}

static gs_status time_one(gs_meter *m, const gs_contender *c, int pair, gs_error *err) {
  gs_status st = prepare(c, err);
  if (st == GS_OK) st = flush(m, err);
  if (st == GS_OK) st = gs_device_mark(m->device, 2 * pair, err);
  if (st == GS_OK) st = c->submit(c->context, err);
  if (st == GS_OK) st = gs_device_mark(m->device, 2 * pair + 1, err);
  return st;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void summarise(gs_timing *t) {
  double sorted[GS_MEASURE_MOST];
  memcpy(sorted, t->seconds, sizeof *sorted * (size_t)t->n);
  qsort(sorted, (size_t)t->n, sizeof *sorted, by_size);
  t->low = sorted[0];
  t->high = sorted[t->n - 1];
  t->median = t->n % 2 ? sorted[t->n / 2] : (sorted[t->n / 2 - 1] + sorted[t->n / 2]) / 2;
}

double gs_timing_spread(const gs_timing *t) {
  return t->median > 0 ? (t->high - t->low) / t->median : 0;
}

/* Reads the `count` pairs under way: of contenders first, first + 1, ... in turns. */
static gs_status collect(gs_meter *m, int count, int first, int n, gs_timing *t, gs_error *err) {
  gs_status st = GS_OK;
  for (int i = 0; st == GS_OK && i < count; i++) {
    gs_timing *x = &t[(first + i) % n];
    double seconds = 0;
    st = gs_device_elapsed(m->device, 2 * i, 2 * i + 1, &seconds, err);
    if (st == GS_OK && x->n < GS_MEASURE_MOST) x->seconds[x->n++] = seconds;
  }
  return st;
}

gs_status gs_meter_run(gs_meter *m, const gs_contender *c, int n, int samples, gs_timing *t,
                       gs_error *err) {
  gs_status st = GS_OK;
  int left = n * samples, who = 0;
  while (st == GS_OK && left > 0) {
    int count = left < PAIRS ? left : PAIRS, first = who;
    for (int i = 0; st == GS_OK && i < AHEAD; i++) st = flush(m, err);
    for (int i = 0; st == GS_OK && i < count; i++) {
      st = time_one(m, &c[who], i, err);
      who = (who + 1) % n;
    }
    if (st == GS_OK) st = collect(m, count, first, n, t, err);
    left -= count;
  }
  for (int i = 0; st == GS_OK && i < n; i++)
    if (t[i].n) summarise(&t[i]);
  return st;
}

/* ---- rates ---- */

typedef struct copying {
  gs_device *d;
  gs_ptr from, to;
  size_t bytes;
} copying;

static gs_status copy(void *context, gs_error *err) {
  const copying *c = context;
  return gs_device_copy(c->d, c->to, c->from, c->bytes, err);
}

static gs_status nothing(void *context, gs_error *err) {
  (void)context, (void)err;
  return GS_OK;
}

gs_status gs_fill_normal(gs_device *d, gs_ptr p, size_t bytes, double scale, gs_error *err) {
  enum { N = (1 << 18) - 5 };
  uint64_t state = 0x5eed;
  unsigned char *bits = malloc(2 * (size_t)N);
  if (!bits) return gs_fail(err, GS_ERR_MEMORY, "no host memory for values");
  for (int i = 0; i < N; i++) {
    double u = 1 - (double)(gs_random_next(&state) >> 11) * 0x1p-53;
    double v = (double)(gs_random_next(&state) >> 11) * 0x1p-53;
    gs_store_f64(bits, GS_BF16, (size_t)i, scale * sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
  }
  size_t done = 2 * (size_t)N < bytes ? 2 * (size_t)N : bytes;
  gs_status st = gs_device_upload(d, p, bits, done, err);
  while (st == GS_OK && done < bytes) {
    size_t more = bytes - done < done ? bytes - done : done;
    st = gs_device_copy(d, p + done, p, more, err);
    done += more;
  }
  free(bits);
  return st;
}

static gs_status time_alone(gs_meter *m, const gs_contender *c, double *seconds, gs_error *err) {
  gs_timing t = {0};
  gs_status st = gs_meter_warm(m, c, 1, err);
  if (st == GS_OK) st = gs_meter_run(m, c, 1, GS_MEASURE_SAMPLES, &t, err);
  *seconds = t.median;
  return st;
}

/* The largest of 1 GiB, 512 MiB ... that fits twice. */
static gs_status copy_rate(gs_meter *m, double *rate, gs_error *err) {
  copying c = {.d = m->device};
  gs_status st = GS_ERR_MEMORY;
  for (c.bytes = (size_t)1 << 30; st == GS_ERR_MEMORY && c.bytes >= (size_t)1 << 24; c.bytes /= 2) {
    st = gs_device_alloc(c.d, c.bytes, &c.from, err);
    if (st == GS_OK) st = gs_device_alloc(c.d, c.bytes, &c.to, err);
    if (st == GS_OK) break;
    gs_device_free(c.d, c.from);
    c.from = 0;
  }
  double seconds = 0;
  const gs_contender one = {.context = &c, .submit = copy};
  if (st == GS_OK) st = gs_fill_normal(c.d, c.from, c.bytes, 1, err);
  if (st == GS_OK) st = time_alone(m, &one, &seconds, err);
  if (st == GS_OK && seconds > 0) *rate = 2 * (double)c.bytes / seconds;
  gs_device_free(c.d, c.to);
  gs_device_free(c.d, c.from);
  return st;
}

typedef struct product {
  gs_device *d;
  gs_gemm g;
} product;

static gs_status multiply(void *context, gs_error *err) {
  const product *p = context;
  return gs_device_gemm(p->d, &p->g, err);
}

static gs_status gemm_rate(gs_meter *m, double *rate, gs_error *err) {
  const size_t bytes = (size_t)GEMM_SIZE * GEMM_SIZE * 2;
  gs_device *d = m->device;
  product p = {d,
               {.m = GEMM_SIZE,
                .n = GEMM_SIZE,
                .k = GEMM_SIZE,
                .lda = GEMM_SIZE,
                .ldb = GEMM_SIZE,
                .ldc = GEMM_SIZE,
                .ab_type = GS_BF16,
                .c_type = GS_BF16,
                .alpha = 1}};
  gs_status st = gs_device_alloc(d, bytes, &p.g.a, err);
  if (st == GS_OK) st = gs_device_alloc(d, bytes, &p.g.b, err);
  if (st == GS_OK) st = gs_device_alloc(d, bytes, &p.g.c, err);
  if (st == GS_OK) st = gs_fill_normal(d, p.g.a, bytes, 1, err);
  if (st == GS_OK) st = gs_fill_normal(d, p.g.b, bytes, 1, err);
  double seconds = 0;
  const gs_contender one = {.context = &p, .submit = multiply};
  if (st == GS_OK) st = time_alone(m, &one, &seconds, err);
  if (st == GS_OK && seconds > 0) *rate = 2.0 * GEMM_SIZE * GEMM_SIZE * GEMM_SIZE / seconds;
  gs_device_free(d, p.g.c);
  gs_device_free(d, p.g.b);
  gs_device_free(d, p.g.a);
  return st;
}

gs_status gs_meter_rates(gs_meter *m, gs_rates *out, gs_error *err) {
  *out = (gs_rates){0};
  if (gs_device_is_emulator(m->device))
    return gs_fail(err, GS_ERR_USE, "%s has no rates: the emulator is a checker",
                   gs_device_name(m->device));
  const gs_contender idle = {.submit = nothing};
  gs_timing t = {0};
  gs_status st = copy_rate(m, &out->copy, err);
  gs_device_clocks(m->device, &out->processor_clock, &out->memory_clock);
  if (st == GS_OK) st = gs_meter_run(m, &idle, 1, GS_MEASURE_SAMPLES, &t, err);
  out->idle = t.median;
  if (st != GS_OK) return st;
  gs_error why = {0};
  if (gemm_rate(m, &out->gemm, &why) != GS_OK) { /* as where cuBLASLt is absent */
    out->gemm = 0;
    memcpy(out->no_gemm, why.message, sizeof out->no_gemm - 1);
  }
  return GS_OK;
}
