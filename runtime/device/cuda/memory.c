/* memory.c: device memory, copies, waiting, and matrix products' argument checks. */
#include "device/cuda/machine.h"

#define STAGED ((size_t)32 << 20) /* bytes from which an upload is worth threads */

static gs_status fail_alloc(gs_cuda *m, int code, size_t bytes, gs_error *err) {
  const double gib = 1024.0 * 1024.0 * 1024.0;
  size_t free_bytes = 0, total = 0;
  if (code != GS_CU_OUT_OF_MEMORY || m->driver.api.memory_info(&free_bytes, &total) != GS_CU_OK)
    return gs_cuda_fail(m, code, err, "allocating %zu bytes on %s", bytes, m->gpu.name);
  return gs_fail(
      err, GS_ERR_MEMORY,
      "%s is out of memory: asked for %.2f GiB (%zu bytes), %.2f of %.2f GiB are free. Use a "
      "shorter --seq or a smaller model, or end other programs on this GPU (nvidia-smi lists "
      "them)",
      m->gpu.name, (double)bytes / gib, bytes, (double)free_bytes / gib, (double)total / gib);
}

gs_status gs_cuda_alloc(gs_device *d, size_t bytes, gs_ptr *out, gs_error *err) {
  gs_cuda *m = GS_CUDA_OF(d);
  *out = 0;
  gs_status st = gs_cuda_enter_now(m, "an allocation", err);
  if (st != GS_OK) return st;
  if (bytes == 0) bytes = 1; /* an address of its own all the same */
  int code = m->driver.api.alloc(out, bytes);
  if (code != GS_CU_OK) return fail_alloc(m, code, bytes, err);
  code = m->driver.api.fill(*out, 0xff, bytes, m->stream); /* poison: NaN in every float type */
  if (code == GS_CU_OK) return GS_OK;
  m->driver.api.free(*out);
  *out = 0;
  return gs_cuda_fail(m, code, err, "filling new memory");
}

void gs_cuda_free(gs_device *d, gs_ptr p) {
  gs_cuda *m = GS_CUDA_OF(d);
  if (!p || gs_cuda_enter(m, NULL) != GS_OK) return;
  m->driver.api.free(p); /* waits for work that may still use it */
}

gs_status gs_cuda_upload(gs_device *d, gs_ptr to, const void *from, size_t bytes, gs_error *err) {
  gs_cuda *m = GS_CUDA_OF(d);
  gs_status st = gs_cuda_enter_now(m, "an upload", err);
  if (st != GS_OK || bytes == 0) return st;
  bool done = false;
  int code = GS_CU_OK;
  if (bytes >= STAGED) {
    code = m->driver.api.stream_sync(m->stream); /* what went before comes before */
    if (code == GS_CU_OK) code = gs_cuda_upload_staged(m, to, from, bytes, &done);
  }
  if (code == GS_CU_OK && !done) code = m->driver.api.upload(to, from, bytes, m->stream);
  if (code == GS_CU_OK)
    code = m->driver.api.stream_sync(m->stream); /* `from` may change after this */
  return code == GS_CU_OK ? GS_OK : gs_cuda_fail(m, code, err, "uploading %zu bytes", bytes);
}

gs_status gs_cuda_download(gs_device *d, void *to, gs_ptr from, size_t bytes, gs_error *err) {
  gs_cuda *m = GS_CUDA_OF(d);
  gs_status st = gs_cuda_enter_now(m, "a download", err);
  if (st != GS_OK || bytes == 0) return st;
  int code = m->driver.api.download(to, from, bytes, m->stream);
  if (code == GS_CU_OK) code = m->driver.api.stream_sync(m->stream);
  return code == GS_CU_OK ? GS_OK : gs_cuda_fail(m, code, err, "downloading %zu bytes", bytes);
}

gs_status gs_cuda_copy(gs_device *d, gs_ptr to, gs_ptr from, size_t bytes, gs_error *err) {
  gs_cuda *m = GS_CUDA_OF(d);
  gs_status st = gs_cuda_enter(m, err);
  if (st != GS_OK || bytes == 0) return st;
  int code = m->driver.api.copy(to, from, bytes, m->stream);
  return code == GS_CU_OK ? GS_OK : gs_cuda_fail(m, code, err, "copying %zu bytes", bytes);
}

gs_status gs_cuda_fill(gs_device *d, gs_ptr to, unsigned char byte, size_t bytes, gs_error *err) {
  gs_cuda *m = GS_CUDA_OF(d);
  gs_status st = gs_cuda_enter(m, err);
  if (st != GS_OK || bytes == 0) return st;
  int code = m->driver.api.fill(to, byte, bytes, m->stream);
  return code == GS_CU_OK ? GS_OK : gs_cuda_fail(m, code, err, "filling %zu bytes", bytes);
}

gs_status gs_cuda_sync(gs_device *d, gs_error *err) {
  gs_cuda *m = GS_CUDA_OF(d);
  gs_status st = gs_cuda_enter_now(m, "waiting for the GPU", err);
  if (st != GS_OK) return st;
  int code = m->driver.api.stream_sync(m->stream);
  return code == GS_CU_OK ? GS_OK : gs_cuda_fail(m, code, err, "waiting for %s", m->gpu.name);
}

static gs_status check_gemm(const gs_gemm *g, gs_error *err) {
  bool ab_ok = g->ab_type == GS_F32 || g->ab_type == GS_BF16 || g->ab_type == GS_F16;
  if (!ab_ok || (g->c_type != GS_F32 && g->c_type != g->ab_type))
    return gs_fail(err, GS_ERR_USE,
                   "matrix product of %s into %s: inputs are f32, bf16 or f16, the "
                   "result f32 or the inputs' type",
                   gs_type_name(g->ab_type), gs_type_name(g->c_type));
  if (g->m < 0 || g->n < 0 || g->k < 0)
    return gs_fail(err, GS_ERR_USE, "matrix product with a negative size: m=%lld n=%lld k=%lld",
                   (long long)g->m, (long long)g->n, (long long)g->k);
  if (g->beta != 0 && g->beta != 1)
    return gs_fail(err, GS_ERR_USE, "matrix product with beta=%g: 0 or 1", (double)g->beta);
  int64_t a = g->ta ? g->m : g->k, b = g->tb ? g->k : g->n;
  if (g->lda < a || g->ldb < b || g->ldc < g->n)
    return gs_fail(err, GS_ERR_USE,
                   "matrix product: rows overlap: lda=%lld (row %lld), ldb=%lld (row "
                   "%lld), ldc=%lld (row %lld)",
                   (long long)g->lda, (long long)a, (long long)g->ldb, (long long)b,
                   (long long)g->ldc, (long long)g->n);
  return GS_OK;
}

/* A sum of no products: zeros, or C as it is. */
static gs_status empty_gemm(gs_cuda *m, const gs_gemm *g, gs_error *err) {
  size_t size = gs_type_size(g->c_type);
  if (g->beta != 0) return GS_OK;
  int code = m->driver.api.fill_rows(g->c, (size_t)g->ldc * size, 0, (size_t)g->n * size,
                                     (size_t)g->m, m->stream);
  return code == GS_CU_OK ? GS_OK : gs_cuda_fail(m, code, err, "zeroing an empty matrix product");
}

gs_status gs_cuda_gemm(gs_device *d, const gs_gemm *g, gs_error *err) {
  gs_cuda *m = GS_CUDA_OF(d);
  gs_status st = check_gemm(g, err);
  if (st != GS_OK || g->m == 0 || g->n == 0) return st;
  st = gs_cuda_enter(m, err);
  if (st != GS_OK) return st;
  if (g->k == 0) return empty_gemm(m, g, err);
  if (!m->lt) {
    if (err) *err = m->lt_missing;
    return gs_fail_in(err, "matrix products need cuBLASLt");
  }
  return gs_lt_gemm(m->lt, g, m->stream, err);
}
