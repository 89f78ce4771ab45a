/* report.c: a line a case, JSON, Markdown. What is not known is said so, never guessed. */
#include "base/file.h"
#include "base/text.h"
#include "bench/bench.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void share(const gs_bench *b, const gs_bench_row *r, char *out, size_t cap) {
  double rate = r->by_flops ? b->rates.gemm : b->rates.copy;
  if (rate > 0)
    snprintf(out, cap, "%.1f %%", 100 * (r->by_flops ? r->flops : r->bytes) / r->t.median / rate);
  else
    snprintf(out, cap, "unknown");
}

static void rate_of(const gs_bench_row *r, char *out, size_t cap) {
  if (r->by_flops)
    snprintf(out, cap, "%.0f TFLOP/s", r->flops / r->t.median * 1e-12);
  else
    snprintf(out, cap, "%.2f TB/s", r->bytes / r->t.median * 1e-12);
}

/* "1.09 x its products alone, 383 MiB"; "" where neither was asked. */
static void beyond(const gs_bench_row *r, char *out, size_t cap) {
  out[0] = 0;
  if (r->products > 0)
    snprintf(out, cap, "%.3f x its products alone, %.0f MiB", r->t.median / r->products,
             (double)r->memory / 1048576);
}

/* "1.03 x liger": how many times faster than the best peer, both in turns. */
static void against(const gs_bench_row *r, char *out, size_t cap) {
  out[0] = 0;
  if (r->npeers && r->beside > 0)
    snprintf(out, cap, "%.2f x %s", r->peers[0].seconds / r->beside, r->peers[0].name);
}

/* Our time in turns with the peers; "" where there were none, or where ours is in turns with its
 * products. */
static void in_turns(const gs_bench_row *r, char *out, size_t cap) {
  out[0] = 0;
  if (r->npeers && r->beside > 0 && r->products == 0) snprintf(out, cap, "%.1f", r->beside * 1e6);
}

void gs_bench_line(const gs_bench *b, const gs_bench_row *r, gs_text *out) {
  char of[32], peer[96], rate[32], more[96], turns[32];
  gs_text_printf(out, "%-30s %-24s %-4s ", r->name, r->shape, gs_type_name(r->dtype));
  if (r->why[0]) {
    gs_text_printf(out, "none: %s", r->why);
    return;
  }
  share(b, r, of, sizeof of);
  against(r, peer, sizeof peer);
  rate_of(r, rate, sizeof rate);
  beyond(r, more, sizeof more);
  in_turns(r, turns, sizeof turns);
  gs_text_printf(out, "%9.1f us %11s %7s of %s  spread %2.0f %%%s%s", r->t.median * 1e6, rate, of,
                 r->by_flops ? "GEMM" : "copy", 100 * gs_timing_spread(&r->t), more[0] ? "  " : "",
                 more);
  if (turns[0]) gs_text_printf(out, "  in turns %s us", turns);
  if (peer[0]) gs_text_printf(out, "  %s", peer);
}

/* ---- JSON ---- */

static json_t *number_or_unknown(double v) {
  return v > 0 ? json_real(v) : json_string("unknown");
}

static json_t *about_of(const gs_bench *b) {
  const gs_about *a = &b->about;
  json_t *o = json_object();
  json_object_set_new(o, "protocol", json_integer(GS_MEASURE_PROTOCOL));
  json_object_set_new(o, "gpu", json_string(a->name));
  json_object_set_new(o, "capability", json_sprintf("%d.%d", a->major, a->minor));
  json_object_set_new(o, "processors", json_integer(a->sm_count));
  json_object_set_new(o, "memory_clock_mhz", number_or_unknown(a->memory_clock));
  json_object_set_new(o, "power_cap_w", number_or_unknown(a->power_cap));
  json_object_set_new(o, "driver", json_string(a->driver));
  json_object_set_new(o, "compiler", json_string(a->compiler));
  json_object_set_new(o, "copy_bytes_per_s", number_or_unknown(b->rates.copy));
  json_object_set_new(o, "gemm_bf16_flops_per_s", number_or_unknown(b->rates.gemm));
  json_object_set_new(o, "empty_us", json_real(b->rates.idle * 1e6));
  if (b->rates.no_gemm[0]) json_object_set_new(o, "no_gemm", json_string(b->rates.no_gemm));
  if (b->missing[0]) json_object_set_new(o, "missing_peers", json_string(b->missing));
  return o;
}

static json_t *row_of(const gs_bench *b, const gs_bench_row *r) {
  json_t *o = json_object();
  json_object_set_new(o, "name", json_string(r->name));
  json_object_set_new(o, "shape", json_string(r->shape));
  json_object_set_new(o, "dtype", json_string(gs_type_name(r->dtype)));
  if (r->why[0]) {
    json_object_set_new(o, "none", json_string(r->why));
    return o;
  }
  json_object_set_new(o, "us", json_real(r->t.median * 1e6));
  json_object_set_new(o, "spread", json_real(gs_timing_spread(&r->t)));
  json_object_set_new(o, "bytes", json_real(r->bytes));
  json_object_set_new(o, "bytes_formula", json_string(r->formula));
  json_object_set_new(o, "flops", json_real(r->flops));
  json_object_set_new(o, "bytes_per_s", json_real(r->bytes / r->t.median));
  json_object_set_new(o, "of_copy",
                      b->rates.copy > 0 ? json_real(r->bytes / r->t.median / b->rates.copy)
                                        : json_string("unknown"));
  if (r->by_flops)
    json_object_set_new(o, "of_gemm",
                        b->rates.gemm > 0 ? json_real(r->flops / r->t.median / b->rates.gemm)
                                          : json_string("unknown"));
  if (r->products > 0) {
    json_object_set_new(o, "products_us", json_real(r->products * 1e6));
    json_object_set_new(o, "memory_bytes", json_integer((json_int_t)r->memory));
  }
  json_object_set_new(o, "kernels", json_integer(r->kernels));
  json_object_set_new(o, "tunables", json_string(r->tunables));
  json_object_set_new(o, "processor_clock_mhz", number_or_unknown(r->processor_clock));
  json_object_set_new(o, "memory_clock_mhz", number_or_unknown(r->memory_clock));
  json_t *all = json_array(), *peers = json_object();
  for (int i = 0; i < r->t.n; i++) json_array_append_new(all, json_real(r->t.seconds[i] * 1e6));
  json_object_set_new(o, "all_us", all);
  if (r->beside > 0) json_object_set_new(peers, "gradsmith", json_real(r->beside * 1e6));
  for (int i = 0; i < r->npeers; i++)
    json_object_set_new(peers, r->peers[i].name, json_real(r->peers[i].seconds * 1e6));
  json_object_set_new(o, "beside_us", peers);
  return o;
}

static gs_status write_json(const gs_bench *b, const char *path, gs_error *err) {
  json_t *rows = json_array();
  for (int i = 0; i < b->n; i++) json_array_append_new(rows, row_of(b, &b->rows[i]));
  json_t *all = json_pack("{s:o, s:o}", "machine", about_of(b), "cases", rows);
  char *text = all ? json_dumps(all, JSON_INDENT(1)) : NULL;
  gs_status st = text ? gs_file_write(path, text, strlen(text), err)
                      : gs_fail(err, GS_ERR_MEMORY, "no memory for %s", path);
  free(text);
  json_decref(all);
  return st;
}

/* ---- Markdown ---- */

static void table(const gs_bench *b, gs_text *t) {
  char of[32], peer[96], rate[32], more[96], turns[32];
  const gs_about *a = &b->about;
  gs_text_printf(t, "%s, driver %s, %s; protocol %d: medians of %d, cold L2.\n", a->name, a->driver,
                 a->compiler, GS_MEASURE_PROTOCOL, GS_MEASURE_SAMPLES);
  gs_text_printf(t, "Copy rate %.3f TB/s; ", b->rates.copy * 1e-12);
  if (b->rates.gemm > 0)
    gs_text_printf(t, "cuBLASLt bf16 8192^3 %.0f TFLOP/s.\n\n", b->rates.gemm * 1e-12);
  else
    gs_text_add(t, "cuBLASLt rate unknown.\n\n");
  gs_text_add(t,
              "Alone: this program's launches by themselves; rate and share are of that. In turns: "
              "ours between the peers, by one script, with what a call costs there. Only times in "
              "turns compare.\n\n"
              "| kernel | shape | alone, us | rate | of copy or GEMM | in turns, us "
              "| peers in turns, us | against the best peer |\n"
              "|---|---|---|---|---|---|---|---|\n");
  for (int i = 0; i < b->n; i++) {
    const gs_bench_row *r = &b->rows[i];
    if (r->why[0]) continue;
    share(b, r, of, sizeof of);
    against(r, peer, sizeof peer);
    rate_of(r, rate, sizeof rate);
    beyond(r, more, sizeof more);
    in_turns(r, turns, sizeof turns);
    gs_text_printf(t, "| %s | %s | %.1f | %s | %s | %s |", r->name, r->shape, r->t.median * 1e6,
                   rate, of, turns);
    for (int k = 0; k < r->npeers; k++)
      gs_text_printf(t, "%s %s %.1f", k ? "," : "", r->peers[k].name, r->peers[k].seconds * 1e6);
    gs_text_printf(t, " | %s%s%s |\n", peer, more[0] && peer[0] ? "; " : "", more);
  }
  if (b->missing[0]) gs_text_printf(t, "\nPeers not there: %s.\n", b->missing);
}

gs_status gs_bench_write(const gs_bench *b, const char *folder, gs_error *err) {
  char path[4096];
  gs_text t = {0};
  gs_status st = gs_mkdirs(folder, err);
  snprintf(path, sizeof path, "%s/bench.json", folder);
  if (st == GS_OK) st = write_json(b, path, err);
  table(b, &t);
  snprintf(path, sizeof path, "%s/bench.md", folder);
  if (st == GS_OK) st = gs_file_write(path, t.s, t.len, err);
  gs_text_free(&t);
  gs_bench_svg(b, &t);
  snprintf(path, sizeof path, "%s/bench.svg", folder);
  if (st == GS_OK) st = gs_file_write(path, t.s, t.len, err);
  gs_text_free(&t);
  return st;
}
