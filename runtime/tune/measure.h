/* measure.h: the measuring protocol, and the rates of this GPU that a figure is held against.
 *
 * Protocol 1. Contenders are warmed up by time, then timed in turns (A B C A B C ...). Before each
 * timed launch inputs that it overwrites are brought back, then a buffer larger than the L2 cache
 * is filled, so that inputs come from memory; that fill, and some before the first, keep the GPU
 * busy while the host submits, so that launch overhead does not show. Time runs between two marks
 * of the stream. Median and spread are over at least GS_MEASURE_SAMPLES. */
#ifndef GS_TUNE_MEASURE_H
#define GS_TUNE_MEASURE_H

#include "device/device.h"

enum { GS_MEASURE_PROTOCOL = 1, GS_MEASURE_SAMPLES = 30, GS_MEASURE_MOST = 120 };

typedef struct gs_contender {
  void *context;
  gs_status (*prepare)(void *context, gs_error *err); /* not timed; may be NULL */
  gs_status (*submit)(void *context, gs_error *err);  /* puts the work on the device's stream */
} gs_contender;

typedef struct gs_timing {
  int n;
  double seconds[GS_MEASURE_MOST]; /* as they came */
  double median, low, high;
} gs_timing;
double gs_timing_spread(const gs_timing *t); /* (high - low) / median */

typedef struct gs_meter gs_meter;
gs_status gs_meter_open(gs_device *d, gs_meter **out, gs_error *err);
void gs_meter_close(gs_meter *m);
/* Off the protocol, for tests on machines that are no GPU: how long a warm-up lasts. */
void gs_meter_warm_seconds(gs_meter *m, double seconds);

/* Runs each contender until it is warm. */
gs_status gs_meter_warm(gs_meter *m, const gs_contender *c, int n, gs_error *err);
/* Adds `samples` to each of t[0..n) in turns. */
gs_status gs_meter_run(gs_meter *m, const gs_contender *c, int n, int samples, gs_timing *t,
                       gs_error *err);

/* Normal bf16 numbers times scale, a quarter of a million drawn and repeated over all of p. */
gs_status gs_fill_normal(gs_device *d, gs_ptr p, size_t bytes, double scale, gs_error *err);

typedef struct gs_rates {
  double copy; /* bytes read and written a second, by a device copy; 0: unknown */
  double gemm; /* bf16 8192^3 by the vendor's library, flops a second; 0: unknown */
  double idle; /* seconds between two marks with nothing between them */
  int processor_clock, memory_clock; /* MHz after the copies; 0: unknown */
  char no_gemm[512];                 /* why gemm is unknown */
} gs_rates;
/* Of a GPU; the emulator has none: GS_ERR_USE. */
gs_status gs_meter_rates(gs_meter *m, gs_rates *out, gs_error *err);

#endif
