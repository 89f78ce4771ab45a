/* nvrtc_api.h: the part of NVRTC's binary interface that we call, versions 12 and 13. Written from
 * the documented interface, so that building needs no CUDA header. Private to runtime/jit. */
#ifndef GS_NVRTC_API_H
#define GS_NVRTC_API_H

#include <stddef.h>

typedef struct gs_nvrtc_program_tag *gs_nvrtc_program;
enum { GS_NVRTC_OK = 0, GS_NVRTC_INVALID_OPTION = 5, GS_NVRTC_COMPILATION = 6 };

/* field, symbol, result, parameters */
#define GS_NVRTC_FUNCTIONS(F)                                                                      \
  F(error_string, "nvrtcGetErrorString", const char *, (int result))                               \
  F(version, "nvrtcVersion", int, (int *major, int *minor))                                        \
  F(narchs, "nvrtcGetNumSupportedArchs", int, (int *n))                                            \
  F(archs, "nvrtcGetSupportedArchs", int, (int *archs))                                            \
  F(create, "nvrtcCreateProgram", int,                                                             \
    (gs_nvrtc_program * p, const char *text, const char *name, int nheaders,                       \
     const char *const *headers, const char *const *header_names))                                 \
  F(destroy, "nvrtcDestroyProgram", int, (gs_nvrtc_program * p))                                   \
  F(compile, "nvrtcCompileProgram", int, (gs_nvrtc_program p, int n, const char *const *options))  \
  F(cubin_size, "nvrtcGetCUBINSize", int, (gs_nvrtc_program p, size_t * size))                     \
  F(cubin, "nvrtcGetCUBIN", int, (gs_nvrtc_program p, char *to))                                   \
  F(ptx_size, "nvrtcGetPTXSize", int, (gs_nvrtc_program p, size_t * size))                         \
  F(ptx, "nvrtcGetPTX", int, (gs_nvrtc_program p, char *to))                                       \
  F(log_size, "nvrtcGetProgramLogSize", int, (gs_nvrtc_program p, size_t * size))                  \
  F(log, "nvrtcGetProgramLog", int, (gs_nvrtc_program p, char *to))

typedef struct gs_nvrtc_api {
#define GS_FIELD(field, symbol, result, params) result(*field) params;
  GS_NVRTC_FUNCTIONS(GS_FIELD)
#undef GS_FIELD
} gs_nvrtc_api;

#endif
