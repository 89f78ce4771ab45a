/* blas.c: finds a CBLAS, sees to it that OpenBLAS uses a kernel fit for this CPU, and multiplies
 * with it; or with a blocked loop.
 *
 * A BLAS is used from our own workers, one thread each: so the bits do not depend on how the
 * library splits work, and its idle threads do not compete with ours. */
#define _GNU_SOURCE 1
#include "device/emu/blas.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };
typedef void sgemm_fn(int layout, int ta, int tb, int m, int n, int k, float alpha, const float *A,
                      int lda, const float *B, int ldb, float beta, float *C, int ldc);

struct gs_blas {
  gs_blas_info info;
  sgemm_fn *sgemm; /* NULL: the loop */
};

/* A POSIX way to make a function pointer of what dlsym gives. */
static void symbol(void *lib, const char *name, void *out) {
  void *p = dlsym(lib, name);
  memcpy(out, &p, sizeof p);
}

/* ---- OpenBLAS's choice of core ---- */

#if defined(__x86_64__)
static bool is_sse_core(const char *core) {
  static const char *const names[] = {"Prescott", "Nehalem", "Core2",     "Penryn", "Dunnington",
                                      "Katmai",   "Banias",  "Northwood", "Atom",   "Nano",
                                      "Athlon",   "Opteron", "Barcelona", "Bobcat", "Generic"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strncasecmp(core, names[i], strlen(names[i])) == 0) return true;
  return false;
}

/* What OpenBLAS would choose, asked of a child, since the choice is made once, on loading. */
static void probe_core(const char *name, char *core, size_t cap) {
  int p[2];
  core[0] = '\0';
  if (pipe(p) != 0) return;
  pid_t pid = fork();
  if (pid == 0) {
    char *(*get)(void) = NULL;
    void *lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (lib != NULL) symbol(lib, "openblas_get_corename", &get);
    const char *s = get != NULL ? get() : "";
    _exit(write(p[1], s, strlen(s)) < 0);
  }
  close(p[1]);
  ssize_t n = pid > 0 ? read(p[0], core, cap - 1) : 0;
  core[n > 0 ? n : 0] = '\0';
  close(p[0]);
  if (pid > 0) waitpid(pid, NULL, 0);
}

static bool choose_core(const char *name) {
  char core[64];
  if (getenv("OPENBLAS_CORETYPE") != NULL) return false;
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return false;
  probe_core(name, core, sizeof core);
  if (!is_sse_core(core)) return false;
  return setenv("OPENBLAS_CORETYPE", "Haswell", 0) == 0;
}
#else
static bool choose_core(const char *name) {
  return (void)name, false;
}
#endif

/* ---- opening ---- */

static void describe(gs_blas *b, void *lib, const char *name) {
  Dl_info where;
  char *(*core)(void) = NULL;
  void *address = NULL;
  b->info.present = true;
  snprintf(b->info.name, sizeof b->info.name, "%s", name);
  symbol(lib, "cblas_sgemm", &address);
  if (dladdr(address, &where) != 0 && where.dli_fname)
    snprintf(b->info.path, sizeof b->info.path, "%s", where.dli_fname);
  symbol(lib, "openblas_get_corename", &core);
  if (core != NULL) snprintf(b->info.core, sizeof b->info.core, "%s", core());
}

static bool open_library(gs_blas *b, const char *name) {
  bool is_openblas = strstr(name, "openblas") != NULL || strstr(name, "blas.so.3") != NULL;
  b->info.core_set = is_openblas && choose_core(name);
  /* One thread from the start: otherwise a pool of its own starts on loading. */
  bool quiet =
      getenv("OPENBLAS_NUM_THREADS") == NULL && setenv("OPENBLAS_NUM_THREADS", "1", 0) == 0;
  void *lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (quiet) unsetenv("OPENBLAS_NUM_THREADS");
  if (b->info.core_set) unsetenv("OPENBLAS_CORETYPE");
  if (lib == NULL) return false;
  symbol(lib, "cblas_sgemm", &b->sgemm);
  if (b->sgemm == NULL) {
    dlclose(lib);
    return false;
  }
  void (*threads)(int) = NULL;
  symbol(lib, "openblas_set_num_threads", &threads);
  if (threads == NULL) symbol(lib, "bli_thread_set_num_threads", &threads);
  if (threads != NULL) threads(1);
  describe(b, lib, name);
  return true;
}

gs_blas *gs_blas_open(bool use_library) {
  static const char *const names[] = {"libopenblas.so.0", "libopenblas.so", "libblis.so.4",
                                      "libcblas.so.3",    "libblas.so.3",   "libcblas.so",
                                      "libblas.so"};
  gs_blas *b = calloc(1, sizeof *b);
  if (b == NULL || !use_library) return b;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (open_library(b, names[i])) break;
  return b;
}

/* The library stays loaded: some start threads that do not survive unloading. */
void gs_blas_close(gs_blas *b) {
  free(b);
}

const gs_blas_info *gs_blas_about(const gs_blas *b) {
  return &b->info;
}

/* ---- the loop ---- */

enum { TILE = 64, DEPTH = 256 };

/* op(X)[r0.., c0..] as a dense [rows, cols]. */
static void pack(float *out, const float *X, int ldx, bool trans, int r0, int c0, int rows,
                 int cols) {
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < cols; c++) {
      size_t row = (size_t)(r0 + r), col = (size_t)(c0 + c), ld = (size_t)ldx;
      out[r * cols + c] = trans ? X[col * ld + row] : X[row * ld + col];
    }
}

/* acc[rows, cols] += a[rows, depth] b[depth, cols] */
static void multiply(float *restrict acc, const float *restrict a, const float *restrict b,
                     int rows, int cols, int depth) {
  for (int r = 0; r < rows; r++)
    for (int d = 0; d < depth; d++) {
      float x = a[r * depth + d];
      for (int c = 0; c < cols; c++) acc[r * cols + c] += x * b[d * cols + c];
    }
}

static void tile(bool ta, bool tb, int i0, int j0, int rows, int cols, int k, float alpha,
                 const float *A, int lda, const float *B, int ldb, float beta, float *C, int ldc) {
  float a[TILE * DEPTH], b[DEPTH * TILE], acc[TILE * TILE];
  memset(acc, 0, sizeof acc);
  for (int d = 0; d < k; d += DEPTH) {
    int depth = k - d < DEPTH ? k - d : DEPTH;
    pack(a, A, lda, ta, i0, d, rows, depth);
    pack(b, B, ldb, tb, d, j0, depth, cols);
    multiply(acc, a, b, rows, cols, depth);
  }
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < cols; c++) {
      float *out = &C[(size_t)(i0 + r) * (size_t)ldc + (size_t)(j0 + c)];
      *out = alpha * acc[r * cols + c] + (beta != 0 ? beta * *out : 0);
    }
}

void gs_blas_sgemm(const gs_blas *b, bool ta, bool tb, int m, int n, int k, float alpha,
                   const float *A, int lda, const float *B, int ldb, float beta, float *C,
                   int ldc) {
  if (m <= 0 || n <= 0) return;
  if (b->sgemm != NULL && k > 0) {
    b->sgemm(ROW_MAJOR, ta ? TRANS : NO_TRANS, tb ? TRANS : NO_TRANS, m, n, k, alpha, A, lda, B,
             ldb, beta, C, ldc);
    return;
  }
  for (int i = 0; i < m; i += TILE)
    for (int j = 0; j < n; j += TILE)
      tile(ta, tb, i, j, m - i < TILE ? m - i : TILE, n - j < TILE ? n - j : TILE, k, alpha, A, lda,
           B, ldb, beta, C, ldc);
}
