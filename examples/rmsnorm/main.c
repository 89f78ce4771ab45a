/* main.c: RMSNorm, forward and backward, by the kernels of a pack on device buffers, compared with
 * float64 on the host.
 *
 *   gradsmith pack --layers rmsnorm:bf16:H=4096 --arch sm_80,sm_90a --out rmsnorm.pack
 *   rmsnorm rmsnorm.pack [ROWS]
 *
 * Needs the NVIDIA driver and nothing else of CUDA: a program that has the CUDA runtime or its own
 * context and stream calls gs_pack_launch with those. Exit code 0: every value within its bound. */
#include <dlfcn.h>
#include <gradsmith.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { H = 4096 };
static const double eps = 1e-6;

static void check(int ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "rmsnorm: %s\n", what);
  exit(1);
}

/* ---- the driver ---- */

static struct {
  int (*init)(unsigned);
  int (*device)(int *, int);
  int (*retain)(void **, int);
  int (*enter)(void *);
  int (*alloc)(uint64_t *, size_t);
  int (*upload)(uint64_t, const void *, size_t, void *);
  int (*download)(void *, uint64_t, size_t, void *);
  int (*wait)(void *);
} cuda;

static void open_driver(void) {
  static const char *const names[] = {
      "cuInit",        "cuDeviceGet",          "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent",
      "cuMemAlloc_v2", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2",     "cuStreamSynchronize"};
  void *library = dlopen("libcuda.so.1", RTLD_NOW), *context;
  int device;
  check(library != NULL, "no NVIDIA driver: libcuda.so.1 is not there");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    void *address = dlsym(library, names[i]);
    check(address != NULL, names[i]);
    memcpy((char *)&cuda + i * sizeof address, &address, sizeof address);
  }
  check(cuda.init(0) == 0 && cuda.device(&device, 0) == 0, "no GPU");
  check(cuda.retain(&context, device) == 0 && cuda.enter(context) == 0, "no context");
}

static uint64_t to_device(const void *data, size_t bytes) {
  uint64_t p = 0;
  check(cuda.alloc(&p, bytes ? bytes : 1) == 0, "no device memory");
  check(!data || cuda.upload(p, data, bytes, NULL) == 0, "upload");
  return p;
}

/* ---- numbers ---- */

static uint16_t to_bf16(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static double of_bf16(uint16_t h) {
  uint32_t u = (uint32_t)h << 16;
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

static uint16_t *random_values(size_t n, double middle) {
  uint16_t *v = malloc(n * sizeof *v);
  check(v != NULL, "no memory");
  for (size_t i = 0; i < n; i++) v[i] = to_bf16((float)(middle + 2.0 * rand() / RAND_MAX - 1));
  return v;
}

/* The largest error, as a part of what rounding allows. */
static double worst(double so_far, double got, double want, double bound) {
  double part = fabs(got - want) / bound;
  return part <= so_far ? so_far : part; /* NaN counts */
}

/* ---- a pass of the pack ---- */

static void launch(gs_pack *pack, const char *key, const gs_operand *operands, int n) {
  gs_error err;
  gs_pack_call *call;
  size_t bytes;
  check(gs_pack_find(pack, key, &call, &err) == GS_OK, err.message);
  check(gs_pack_workspace(call, operands, n, &bytes, &err) == GS_OK, err.message);
  uint64_t workspace = bytes ? to_device(NULL, bytes) : 0;
  check(gs_pack_launch(call, NULL, operands, n, workspace, bytes, &err) == GS_OK, err.message);
  printf("launched %s, %zu bytes of workspace\n", key, bytes);
}

typedef struct data {
  int64_t rows;
  uint16_t *x, *w, *dy, *y, *dx;
  float *rstd, *dw;
} data;

static void run(gs_pack *pack, data *d) {
  size_t n = (size_t)d->rows * H;
  int64_t T = d->rows;
  gs_operand x = {"x", GS_BF16, 2, {T, H}, 0, to_device(d->x, 2 * n), 0};
  gs_operand w = {"w", GS_BF16, 1, {H}, 0, to_device(d->w, 2 * H), 0};
  gs_operand number = {.name = "eps", .value = eps};
  gs_operand y = {"y", GS_BF16, 2, {T, H}, 0, to_device(NULL, 2 * n), 0};
  gs_operand rstd = {"rstd", GS_F32, 1, {T}, 0, to_device(NULL, 4 * (size_t)T), 0};
  gs_operand dy = {"dy", GS_BF16, 2, {T, H}, 0, to_device(d->dy, 2 * n), 0};
  gs_operand dx = {"dx", GS_BF16, 2, {T, H}, 0, to_device(NULL, 2 * n), 0};
  gs_operand dw = {"dw", GS_F32, 1, {H}, 0, to_device(NULL, 4 * H), 0};
  const gs_operand forward[] = {x, w, number, y, rstd}, backward[] = {x, w, rstd, dy, dx, dw};
  launch(pack, "rmsnorm.forward bf16 H=4096 gemma=0 -> y,rstd", forward, 5);
  launch(pack, "rmsnorm.backward bf16 H=4096 gemma=0 -> dx,dw", backward, 6);
  check(cuda.download(d->y, y.ptr, 2 * n, NULL) == 0 &&
            cuda.download(d->rstd, rstd.ptr, 4 * (size_t)T, NULL) == 0 &&
            cuda.download(d->dx, dx.ptr, 2 * n, NULL) == 0 &&
            cuda.download(d->dw, dw.ptr, 4 * H, NULL) == 0 && cuda.wait(NULL) == 0,
        "download");
}

/* y = w·round(x·rstd); dx = rstd·(g - x·rstd²·mean(x·g)), g = dy·w; dw = Σ dy·x·rstd. */
static double compare(const data *d) {
  double part[3] = {0}, *dw = calloc(2 * H, sizeof *dw), *size = dw + H;
  check(dw != NULL, "no memory");
  for (int64_t t = 0; t < d->rows; t++) {
    const uint16_t *x = d->x + t * H, *dy = d->dy + t * H;
    double square = 0, dot = 0, scale = 0;
    for (int i = 0; i < H; i++) {
      double xv = of_bf16(x[i]), g = of_bf16(dy[i]) * of_bf16(d->w[i]);
      square += xv * xv / H;
      dot += xv * g / H;
      scale += fabs(xv * g) / H;
    }
    double r = 1 / sqrt(square + eps);
    for (int i = 0; i < H; i++) {
      double xv = of_bf16(x[i]), wv = of_bf16(d->w[i]), g = of_bf16(dy[i]) * wv;
      double y = wv * xv * r, pull = xv * r * r * dot, dx = r * (g - pull);
      part[0] = worst(part[0], of_bf16(d->y[t * H + i]), y, fabs(y) * 0x1p-7 + 1e-30);
      part[1] = worst(part[1], of_bf16(d->dx[t * H + i]), dx,
                      fabs(dx) * 0x1p-8 + 1e-5 * r * (fabs(g) + fabs(xv) * r * r * scale));
      dw[i] += of_bf16(dy[i]) * xv * r;
      size[i] += fabs(of_bf16(dy[i]) * xv * r);
    }
  }
  for (int i = 0; i < H; i++) part[2] = worst(part[2], d->dw[i], dw[i], 1e-5 * size[i] + 1e-30);
  printf("y  worst error %.3f of its bound\ndx worst error %.3f of its bound\n"
         "dw worst error %.3f of its bound\n",
         part[0], part[1], part[2]);
  free(dw);
  double most = worst(worst(part[0], part[1], 0, 1), part[2], 0, 1);
  return most;
}

int main(int argc, char **argv) {
  gs_error err;
  gs_pack *pack;
  data d = {.rows = argc > 2 ? atoll(argv[2]) : 77};
  check(argc > 1 && d.rows > 0, "usage: rmsnorm PACK [ROWS]");
  check(gs_pack_open(argv[1], &pack, &err) == GS_OK, err.message);
  open_driver();
  size_t n = (size_t)d.rows * H;
  d.x = random_values(n, 0);
  d.w = random_values(H, 1);
  d.dy = random_values(n, 0);
  d.y = calloc(n, 2);
  d.dx = calloc(n, 2);
  d.rstd = calloc((size_t)d.rows, 4);
  d.dw = calloc(H, 4);
  check(d.y && d.dx && d.rstd && d.dw, "no memory");
  run(pack, &d);
  int ok = compare(&d) <= 1;
  puts(ok ? "all within their bounds" : "WRONG");
  gs_pack_close(pack);
  free(d.x), free(d.w), free(d.dy), free(d.y), free(d.dx), free(d.rstd), free(d.dw);
  return ok ? 0 : 1;
}
