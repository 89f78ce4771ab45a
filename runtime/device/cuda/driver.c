/* driver.c: finding and starting the CUDA driver. */
#include "device/cuda/driver.h"

#include <stdio.h>
#include <string.h>

/* Where containers and odd installations keep the driver, besides the loader's own path. */
static const char *const places[] = {
    "libcuda.so.1",
    "/usr/local/nvidia/lib64/libcuda.so.1",
    "/usr/local/nvidia/lib/libcuda.so.1",
    "/usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so.1",
    "/usr/lib/wsl/lib/libcuda.so.1",
};

static bool find_driver(gs_library *lib) {
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    if (gs_library_try(places[i], lib)) return true;
  return false;
}

static gs_status load_api(gs_driver *d, gs_error *err) {
#define GS_LOAD(field, symbol, params)                                                             \
  if (!gs_library_symbol(&d->lib, symbol, &d->api.field))                                          \
    return gs_fail(err, GS_ERR_DEVICE,                                                             \
                   "the NVIDIA driver (%s) has no function %s: it is too old; CUDA 12 needs "      \
                   "version 525 or later",                                                         \
                   d->lib.path, symbol);
  GS_CU_FUNCTIONS(GS_LOAD)
#undef GS_LOAD
  return GS_OK;
}

gs_status gs_driver_open(gs_driver *d, gs_error *err) {
  char why[512];
  memset(d, 0, sizeof *d);
  if (!find_driver(&d->lib))
    return gs_fail(err, GS_ERR_DEVICE,
                   "no NVIDIA driver: libcuda.so.1 is not on the loader's path");
  gs_status st = load_api(d, err);
  if (st != GS_OK) return st;
  int code = d->api.init(0);
  if (code == GS_CU_OK) code = d->api.driver_version(&d->version);
  if (code == GS_CU_OK) code = d->api.device_count(&d->ngpus);
  if (code == GS_CU_NO_DEVICE || (code == GS_CU_OK && d->ngpus == 0))
    return gs_fail(err, GS_ERR_DEVICE,
                   "the NVIDIA driver (%s) sees no GPU; is CUDA_VISIBLE_DEVICES set to hide it?",
                   d->lib.path);
  if (code != GS_CU_OK) {
    gs_driver_explain(d, code, why, sizeof why);
    return gs_fail(err, GS_ERR_DEVICE, "the NVIDIA driver (%s) does not start: %s", d->lib.path,
                   why);
  }
  if (d->version < 12000)
    return gs_fail(
        err, GS_ERR_DEVICE,
        "the NVIDIA driver (%s) supports CUDA %d.%d; 12.0 is needed: version 525 or later",
        d->lib.path, d->version / 1000, d->version % 1000 / 10);
  return GS_OK;
}

void gs_driver_explain(const gs_driver *d, int code, char *out, size_t cap) {
  const char *name = NULL, *meaning = NULL;
  if (d->api.error_name(code, &name) != GS_CU_OK || !name) name = "unknown error";
  if (d->api.error_string(code, &meaning) != GS_CU_OK || !meaning) meaning = "no description";
  snprintf(out, cap, "%s (%d: %s)", name, code, meaning);
}

int gs_driver_max_major(const gs_driver *d) {
  return d->version < 13000 ? 12 : 0;
}

gs_status gs_driver_gpu(const gs_driver *d, int ordinal, gs_gpu *gpu, gs_error *err) {
  const gs_cu_api *a = &d->api;
  gs_cu_device dev = 0;
  memset(gpu, 0, sizeof *gpu);
  int code = a->device_get(&dev, ordinal);
  if (code == GS_CU_OK) code = a->device_name(gpu->name, (int)sizeof gpu->name, dev);
  if (code == GS_CU_OK) code = a->device_memory(&gpu->bytes, dev);
  if (code == GS_CU_OK) code = a->device_attribute(&gpu->major, GS_CU_MAJOR, dev);
  if (code == GS_CU_OK) code = a->device_attribute(&gpu->minor, GS_CU_MINOR, dev);
  if (code == GS_CU_OK) code = a->device_attribute(&gpu->sm_count, GS_CU_SM_COUNT, dev);
  if (code == GS_CU_OK) return GS_OK;
  char why[512];
  gs_driver_explain(d, code, why, sizeof why);
  return gs_fail(err, GS_ERR_DEVICE, "reading what GPU %d is: %s", ordinal, why);
}

gs_status gs_gpu_require(const gs_gpu *gpu, gs_error *err) {
  if (gpu->major >= 8) return GS_OK;
  return gs_fail(
      err, GS_ERR_DEVICE,
      "%s has compute capability %d.%d; gradsmith needs 8.0 or later (Ampere, Ada, Hopper, "
      "Blackwell). Use --device emu there",
      gpu->name, gpu->major, gpu->minor);
}
