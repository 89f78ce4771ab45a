/* uses: gs_device */
/* test_cluster.c: clusters in the emulator: blocks that meet and write to each other's shared
 * memory. Kernels without faults give the same bits for any number of workers, in reverse order and
 * checked; a barrier left out is found at the line of what it leaves unordered. */
#include "device/device.h"
#include "device/launch.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gs_device *open_emu(bool checked, bool reverse, int threads) {
  gs_device_options o = {
      .checked = checked, .reverse = reverse, .threads = threads, .compile_jobs = 1};
  gs_device *d = NULL;
  gs_error err = {0};
  cr_assert_eq(gs_device_open("emu", &o, &d, &err), GS_OK, "%s", err.message);
  return d;
}

/* Runs a kernel of (GS_IN(f32, x) or GS_INOUT, GS_OUT(f32, y), GS_DIM(N)). */
static gs_status run(gs_device *d, const char *text, int threads, int64_t grid, float *x, int nx,
                     float *y, int ny, gs_error *err) {
  gs_kernel k = {.entry = "k", .text = text, .threads = threads};
  const gs_kernel *list[] = {&k};
  gs_func *f = NULL;
  cr_assert_eq(gs_device_compile(d, list, 1, &f, err), GS_OK, "%s", err->message);
  gs_ptr px, py;
  size_t bx = sizeof(float) * (size_t)nx, by = sizeof(float) * (size_t)ny;
  cr_assert_eq(gs_device_alloc(d, bx, &px, err), GS_OK);
  cr_assert_eq(gs_device_alloc(d, by, &py, err), GS_OK);
  cr_assert_eq(gs_device_upload(d, px, x, bx, err), GS_OK);
  gs_value args[] = {{.kind = GS_VALUE_PTR, .ptr = px, .bytes = bx},
                     {.kind = GS_VALUE_PTR, .ptr = py, .bytes = by},
                     {.kind = GS_VALUE_I64, .i64 = nx}};
  gs_status s = gs_device_launch(d, f, grid, args, 3, err);
  if (s == GS_OK) s = gs_device_sync(d, err);
  if (s == GS_OK) {
    cr_assert_eq(gs_device_download(d, y, py, by, err), GS_OK);
    cr_assert_eq(gs_device_download(d, x, px, bx, err), GS_OK);
  }
  return s;
}

/* Each row of N / rows elements is scaled by its sum, in place; y: sum, max, min, -sum of maxima.
 */
static const char scale[] =
    "GS_KERNEL_CLUSTER(k, 64, 1, 4, GS_INOUT(f32, x), GS_OUT(f32, y), GS_DIM(N)) {\n"
    "  GS_SHARED(f32, scratch, 32);\n"
    "  GS_SHARED(f32, meet, 8);\n"
    "  const i64 row = GS_BID / 4, n = N / (GS_NBLOCKS / 4);\n"
    "  f32 sum = 0.0f, top = -GS_INF, low = GS_INF;\n"
    "  for (i64 i = GS_CLUSTER_RANK * 64 + GS_TID; i < n; i += 256) {\n"
    "    const f32 v = x[row * n + i];\n"
    "    sum += v;\n"
    "    top = gs_max(top, v);\n"
    "    low = gs_min(low, v);\n"
    "  }\n"
    "  sum = GS_BLOCK_SUM(sum, scratch);\n"
    "  top = GS_BLOCK_MAX(top, scratch);\n"
    "  low = GS_BLOCK_MIN(low, scratch);\n"
    "  const f32 own[2] = {sum, top};\n"
    "  f32 all[8];\n"
    "  GS_CLUSTER_GATHER(4, all, own, meet);\n"
    "  sum = GS_CLUSTER_SUM(4, sum, meet);\n"
    "  top = GS_CLUSTER_MAX(4, top, meet);\n"
    "  low = GS_CLUSTER_MIN(4, low, meet);\n"
    "  if (GS_CLUSTER_RANK == 3 && GS_TID == 7) {\n"
    "    y[row * 4] = sum;\n"
    "    y[row * 4 + 1] = top;\n"
    "    y[row * 4 + 2] = low;\n"
    "    y[row * 4 + 3] = ((all[0] + all[4]) + (all[2] + all[6])) - sum;\n"
    "  }\n"
    "  for (i64 i = GS_CLUSTER_RANK * 64 + GS_TID; i < n; i += 256)\n"
    "    x[row * n + i] = x[row * n + i] * sum;\n"
    "}\n";

enum { ROWS = 37, WIDE = 777 };

static void check_scaled(const float *x, const float *was, const float *y) {
  for (int r = 0; r < ROWS; r++) {
    double sum = 0;
    float top = -INFINITY, low = INFINITY;
    for (int i = 0; i < WIDE; i++) {
      float v = was[r * WIDE + i];
      sum += v;
      top = v > top ? v : top;
      low = v < low ? v : low;
    }
    cr_assert(fabs(y[r * 4] - sum) < 1e-4 * WIDE, "row %d: %g, not %g", r, y[r * 4], sum);
    cr_assert(y[r * 4 + 1] == top && y[r * 4 + 2] == low, "row %d", r);
    cr_assert(fabsf(y[r * 4 + 3]) < 1e-3f, "row %d: parts %g", r, y[r * 4 + 3]);
    for (int i = 0; i < WIDE; i++)
      cr_assert_float_eq(x[r * WIDE + i], was[r * WIDE + i] * y[r * 4], 0.0f);
  }
}

Test(cluster, rows_are_shared) {
  static float was[ROWS * WIDE], x[ROWS * WIDE], first[ROWS * WIDE], y[ROWS * 4];
  srand(11);
  for (int i = 0; i < ROWS * WIDE; i++) was[i] = (float)rand() / (float)RAND_MAX * 2 - 1;
  for (int way = 0; way < 5; way++) {
    gs_error err = {0};
    gs_device *d = open_emu(way > 2, way & 1, way == 0 ? 1 : 3);
    memcpy(x, was, sizeof x);
    gs_status s = run(d, scale, 64, 4 * ROWS, x, ROWS * WIDE, y, ROWS * 4, &err);
    cr_assert_eq(s, GS_OK, "way %d: %s", way, err.message);
    check_scaled(x, was, y);
    if (way == 0) memcpy(first, x, sizeof x);
    cr_assert(memcmp(first, x, sizeof x) == 0, "way %d: other bits", way);
    gs_device_close(d);
  }
}

Test(cluster, a_grid_is_whole_clusters) {
  static float x[8], y[8];
  gs_error err = {0};
  gs_device *d = open_emu(true, false, 1);
  cr_assert_eq(run(d, scale, 64, 6, x, 8, y, 8, &err), GS_ERR_USE);
  cr_assert(strstr(err.message, "a grid of 6 blocks is not whole clusters of 4"), "%s",
            err.message);
  gs_device_close(d);
}

typedef struct fault {
  const char *body, *report;
  int line; /* of the kernel's text */
} fault;

static const fault faults[] = {
    /* the label's read is not over when a peer overwrites it */
    {"  const f32 own = x[5];\n"
     "  if (GS_TID == 5 && GS_CLUSTER_RANK == 0) x[5] = 2.0f;\n"
     "  GS_CLUSTER_SYNC();\n"
     "  if (GS_TID == 0) y[GS_BID] = own;\n",
     "race", 3},
    {"  if (GS_CLUSTER_RANK == 1 && GS_TID == 0) y[GS_BID] = x[5];\n"
     "  GS_SYNC();\n"
     "  if (GS_TID == 5 && GS_CLUSTER_RANK == 0) x[5] = 2.0f;\n",
     "with no cluster barrier between", 0},
    /* written by a peer, read with no barrier */
    {"  GS_CLUSTER_SYNC();\n"
     "  if (GS_TID < 2) GS_CLUSTER_PUT(meet, GS_TID, GS_CLUSTER_RANK, 1.0f);\n"
     "  GS_SYNC();\n"
     "  if (GS_TID == 0) y[GS_BID] = meet[0];\n"
     "  GS_CLUSTER_SYNC();\n",
     "shared meet[0] is read", 5},
    {"  if (GS_TID < 2) GS_CLUSTER_PUT(meet, GS_TID, GS_CLUSTER_RANK, 1.0f);\n"
     "  GS_CLUSTER_SYNC();\n"
     "  if (GS_TID == 0) y[GS_BID] = meet[0];\n",
     "before any cluster barrier", 2},
    {"  GS_CLUSTER_SYNC();\n"
     "  if (GS_TID < 2) GS_CLUSTER_PUT(meet, GS_TID, GS_CLUSTER_RANK, 1.0f);\n",
     "no cluster barrier after it", 3},
    {"  GS_CLUSTER_SYNC();\n"
     "  if (GS_TID == 0) GS_CLUSTER_PUT(meet, 2, 0, 1.0f);\n"
     "  GS_CLUSTER_SYNC();\n",
     "block 2 of a cluster of 2", 3},
    {"  GS_CLUSTER_SYNC();\n"
     "  if (GS_TID == 0) GS_CLUSTER_PUT(meet, 1, 4, 1.0f);\n"
     "  GS_CLUSTER_SYNC();\n",
     "out of bounds: shared meet[4]", 3},
    /* a second exchange through memory that may still be read */
    {"  GS_CLUSTER_SYNC();\n"
     "  if (GS_TID < 2) GS_CLUSTER_PUT(meet, GS_TID, GS_CLUSTER_RANK, 1.0f);\n"
     "  GS_CLUSTER_SYNC();\n"
     "  const f32 v = meet[0];\n"
     "  if (GS_TID < 2) GS_CLUSTER_PUT(meet, GS_TID, GS_CLUSTER_RANK, v);\n"
     "  GS_CLUSTER_SYNC();\n",
     "race", 0},
    /* one block does not come */
    {"  if (GS_CLUSTER_RANK == 0) GS_CLUSTER_SYNC();\n",
     "divergent cluster barrier: 32 threads of 64", 2},
};

Test(cluster, faults_are_found) {
  gs_device *d = open_emu(true, false, 1);
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    char text[2048], entry[32];
    snprintf(entry, sizeof entry, "k%d", (int)i);
    snprintf(text, sizeof text,
             "GS_KERNEL_CLUSTER(%s, 32, 1, 2, GS_INOUT(f32, x), GS_OUT(f32, y), GS_DIM(N)) {"
             "  GS_SHARED(f32, meet, 4);\n%s}\n",
             entry, faults[i].body);
    gs_kernel k = {.entry = entry, .text = text, .threads = 32};
    const gs_kernel *list[] = {&k};
    gs_func *f = NULL;
    gs_error err = {0};
    cr_assert_eq(gs_device_compile(d, list, 1, &f, &err), GS_OK, "%s", err.message);
    float x[64] = {0};
    gs_ptr px, py;
    cr_assert_eq(gs_device_alloc(d, sizeof x, &px, &err), GS_OK);
    cr_assert_eq(gs_device_alloc(d, sizeof x, &py, &err), GS_OK);
    cr_assert_eq(gs_device_upload(d, px, x, sizeof x, &err), GS_OK);
    gs_value args[] = {{.kind = GS_VALUE_PTR, .ptr = px, .bytes = sizeof x},
                       {.kind = GS_VALUE_PTR, .ptr = py, .bytes = sizeof x},
                       {.kind = GS_VALUE_I64, .i64 = 64}};
    cr_assert_eq(gs_device_launch(d, f, 4, args, 3, &err), GS_ERR_CHECK, "fault %zu", i);
    cr_assert(strstr(err.message, faults[i].report), "fault %zu: %s", i, err.message);
    char where[32];
    snprintf(where, sizeof where, "line %d,", faults[i].line);
    if (faults[i].line) cr_assert(strstr(err.message, where), "fault %zu: %s", i, err.message);
  }
  gs_device_close(d);
}
