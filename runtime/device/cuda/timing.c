/* timing.c: marks between pieces of work (events of the driver), and what a measurement notes of
 * the GPU. */
#include "device/cuda/machine.h"

#include <stdio.h>

gs_status gs_cuda_mark(gs_device *d, int mark, gs_error *err) {
  gs_cuda *m = GS_CUDA_OF(d);
  gs_status st = gs_cuda_enter_now(m, "a mark", err);
  if (st != GS_OK) return st;
  int code = GS_CU_OK;
  if (!m->marks[mark]) code = m->driver.api.event_create(&m->marks[mark], 0);
  if (code == GS_CU_OK) code = m->driver.api.event_record(m->marks[mark], m->stream);
  if (code != GS_CU_OK) return gs_cuda_fail(m, code, err, "setting mark %d", mark);
  m->marked[mark] = true;
  return GS_OK;
}

gs_status gs_cuda_elapsed(gs_device *d, int from, int to, double *seconds, gs_error *err) {
  gs_cuda *m = GS_CUDA_OF(d);
  float ms = 0;
  gs_status st = gs_cuda_enter_now(m, "reading marks", err);
  if (st != GS_OK) return st;
  if (!m->marked[from] || !m->marked[to])
    return gs_fail(err, GS_ERR_USE, "marks %d and %d: one was not set", from, to);
  int code = m->driver.api.event_sync(m->marks[to]);
  if (code == GS_CU_OK) code = m->driver.api.event_elapsed(&ms, m->marks[from], m->marks[to]);
  if (code != GS_CU_OK)
    return gs_cuda_fail(m, code, err, "reading the time between marks %d and %d", from, to);
  *seconds = (double)ms * 1e-3;
  return GS_OK;
}

void gs_cuda_drop_marks(gs_cuda *m) {
  for (int i = 0; i < GS_DEVICE_MARKS; i++)
    if (m->marks[i]) m->driver.api.event_destroy(m->marks[i]);
}

static const gs_nvml *nvml_of(gs_cuda *m) {
  char pci[64];
  if (!m->nvml && m->driver.api.device_pci(pci, (int)sizeof pci, m->device) == GS_CU_OK)
    m->nvml = gs_nvml_open(pci);
  return m->nvml;
}

static int attribute(const gs_cuda *m, int which) {
  int value = 0;
  return m->driver.api.device_attribute(&value, which, m->device) == GS_CU_OK ? value : 0;
}

void gs_cuda_about(gs_device *d, gs_about *out) {
  gs_cuda *m = GS_CUDA_OF(d);
  const gs_nvml *n = nvml_of(m);
  out->major = m->gpu.major;
  out->minor = m->gpu.minor;
  out->sm_count = m->gpu.sm_count;
  out->memory_clock = attribute(m, GS_CU_MEMORY_CLOCK) / 1000;
  out->l2_bytes = (size_t)attribute(m, GS_CU_L2_BYTES);
  out->power_cap = gs_nvml_power_cap(n);
  gs_nvml_driver(n, out->driver, sizeof out->driver);
  snprintf(out->compiler, sizeof out->compiler, "%.190s", gs_cuda_compiler(m));
}

void gs_cuda_clocks(gs_device *d, int *processors, int *memory) {
  gs_nvml_clocks(nvml_of(GS_CUDA_OF(d)), processors, memory);
}
