/* probe.c: looking at each part on its own, so that one lack does not hide another. */
#include "device/cuda/probe.h"

#include "device/cuda/lt.h"
#include "jit/jit.h"

#include <stdio.h>
#include <string.h>

static void note(gs_probed_library *l, const char *path, const char *version, const char *why) {
  l->found = !why;
  snprintf(l->path, sizeof l->path, "%.1000s", path ? path : "");
  snprintf(l->version, sizeof l->version, "%.30s", version ? version : "");
  snprintf(l->why, sizeof l->why, "%.1000s", why ? why : "");
}

/* Returns the newest major version of the other libraries that the driver takes; 0 for any. */
static int probe_driver(gs_cuda_probe *p) {
  gs_driver d;
  gs_error err = {0};
  char version[32];
  if (gs_driver_open(&d, &err) != GS_OK) {
    note(&p->driver, NULL, NULL, err.message);
    return 0;
  }
  snprintf(version, sizeof version, "%d.%d", d.version / 1000, d.version % 1000 / 10);
  note(&p->driver, d.lib.path, version, NULL);
  for (int i = 0; i < d.ngpus && i < GS_PROBE_GPUS; i++)
    if (gs_driver_gpu(&d, i, &p->gpus[p->ngpus], &err) == GS_OK) p->ngpus++;
  p->usable = p->ngpus > 0 && gs_gpu_require(&p->gpus[0], &err) == GS_OK;
  if (!p->usable) snprintf(p->unusable_why, sizeof p->unusable_why, "%.500s", err.message);
  return gs_driver_max_major(&d);
}

static void probe_nvrtc(gs_cuda_probe *p, int max_major) {
  gs_jit *j = NULL;
  gs_error err = {0};
  if (gs_jit_open(max_major, &j, &err) != GS_OK) {
    note(&p->nvrtc, NULL, NULL, err.message);
    return;
  }
  char version[32];
  int major, minor;
  gs_jit_version(j, &major, &minor);
  snprintf(version, sizeof version, "%d.%d", major, minor);
  note(&p->nvrtc, gs_jit_path(j), version, NULL);
  gs_jit_close(j);
}

static void probe_cublaslt(gs_cuda_probe *p, int max_major) {
  gs_library lib;
  gs_lt_api api;
  gs_error err = {0};
  if (gs_lt_find(max_major, &lib, &api, &err) != GS_OK) {
    note(&p->cublaslt, NULL, NULL, err.message);
    return;
  }
  char version[32];
  gs_lt_version_text(api.version(), version, sizeof version);
  note(&p->cublaslt, lib.path, version, NULL);
}

void gs_cuda_probe_all(gs_cuda_probe *p) {
  memset(p, 0, sizeof *p);
  int max_major = probe_driver(p);
  probe_nvrtc(p, max_major);
  probe_cublaslt(p, max_major);
}
