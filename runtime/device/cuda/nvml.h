/* nvml.h: the few readings of NVIDIA's management library that a measurement notes: clocks, power
 * cap, the driver's version. Opened at run time; whatever it does not tell is 0 or "unknown". It
 * changes nothing on the GPU. Private to runtime/device/cuda. */
#ifndef GS_CUDA_NVML_H
#define GS_CUDA_NVML_H

#include <stddef.h>

typedef struct gs_nvml gs_nvml;

/* pci: "0000:19:00.0" as the driver names it. NULL where the library or the GPU is not found. */
gs_nvml *gs_nvml_open(const char *pci);
void gs_nvml_close(gs_nvml *n); /* harmless on NULL */

/* MHz of this moment; watts. n may be NULL. */
void gs_nvml_clocks(const gs_nvml *n, int *processors, int *memory);
int gs_nvml_power_cap(const gs_nvml *n);
void gs_nvml_driver(const gs_nvml *n, char *out, size_t cap);

#endif
