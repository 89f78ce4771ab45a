/* nvml.c: NVIDIA's management library, by its documented interface. */
#include "device/cuda/nvml.h"

#include "jit/library.h"

#include <stdio.h>
#include <stdlib.h>

enum { CLOCK_SM = 1, CLOCK_MEMORY = 2 };

struct gs_nvml {
  gs_library lib;
  void *device;
  int (*init)(void);
  int (*shutdown)(void);
  int (*by_pci)(const char *pci, void **device);
  int (*clock)(void *device, int which, unsigned *mhz);
  int (*power_limit)(void *device, unsigned *milliwatts);
  int (*driver)(char *text, unsigned cap);
};

static const char *const places[] = {
    "libnvidia-ml.so.1",
    "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
    "/usr/lib/x86_64-linux-gnu/nvidia/current/libnvidia-ml.so.1",
    "/usr/lib/wsl/lib/libnvidia-ml.so.1",
};

static bool load(gs_nvml *n) {
  bool found = false;
  for (size_t i = 0; i < sizeof places / sizeof *places && !found; i++)
    found = gs_library_try(places[i], &n->lib);
  return found && gs_library_symbol(&n->lib, "nvmlInit_v2", &n->init) &&
         gs_library_symbol(&n->lib, "nvmlShutdown", &n->shutdown) &&
         gs_library_symbol(&n->lib, "nvmlDeviceGetHandleByPciBusId_v2", &n->by_pci) &&
         gs_library_symbol(&n->lib, "nvmlDeviceGetClockInfo", &n->clock) &&
         gs_library_symbol(&n->lib, "nvmlDeviceGetEnforcedPowerLimit", &n->power_limit) &&
         gs_library_symbol(&n->lib, "nvmlSystemGetDriverVersion", &n->driver);
}

gs_nvml *gs_nvml_open(const char *pci) {
  gs_nvml *n = calloc(1, sizeof *n);
  if (!n || !load(n) || n->init() != 0) {
    free(n);
    return NULL;
  }
  if (n->by_pci(pci, &n->device) == 0) return n;
  gs_nvml_close(n);
  return NULL;
}

void gs_nvml_close(gs_nvml *n) {
  if (n) n->shutdown();
  free(n);
}

void gs_nvml_clocks(const gs_nvml *n, int *processors, int *memory) {
  unsigned sm = 0, mem = 0;
  if (n && n->clock(n->device, CLOCK_SM, &sm) != 0) sm = 0;
  if (n && n->clock(n->device, CLOCK_MEMORY, &mem) != 0) mem = 0;
  *processors = (int)sm;
  *memory = (int)mem;
}

int gs_nvml_power_cap(const gs_nvml *n) {
  unsigned mw = 0;
  if (!n || n->power_limit(n->device, &mw) != 0) return 0;
  return (int)((mw + 500) / 1000);
}

void gs_nvml_driver(const gs_nvml *n, char *out, size_t cap) {
  if (!n || n->driver(out, (unsigned)cap) != 0) snprintf(out, cap, "unknown");
}
