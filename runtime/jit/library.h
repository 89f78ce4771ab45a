/* library.h: vendor libraries found and opened at run time, so that the same program runs where
 * none is installed and can say what it lacks and where it looked. An opened library stays open
 * until the process ends. */
#ifndef GS_LIBRARY_H
#define GS_LIBRARY_H

#include "gradsmith.h"

#include <stdbool.h>

typedef struct gs_library {
  void *handle;
  char path[1024]; /* the file that was opened */
  int version;     /* of its name: 13 of libnvrtc.so.13 */
} gs_library;

/* Opens the newest of `versions` (0-ended, newest first) of `stem` ("libnvrtc.so"). Places, in
 * order: the loader's own path; toolkit folders ($CUDA_HOME, $CUDA_PATH, /usr/local/cuda*); the
 * nvidia/ folders of Python packages ($PYTHONPATH, $VIRTUAL_ENV, python3 on the PATH, the user's
 * and the system's). `what` names the library in the message; `remedy` ends it. GS_ERR_DEVICE when
 * absent. */
typedef struct gs_library_wanted {
  const char *what, *stem, *remedy;
  const int *versions;
} gs_library_wanted;
gs_status gs_library_open(const gs_library_wanted *w, gs_library *out, gs_error *err);

/* Opens the file at `path` alone (a name without '/' goes through the loader). Quiet on failure. */
bool gs_library_try(const char *path, gs_library *out);

/* Sets *function to the address of a symbol; false when the library has none of that name. */
bool gs_library_symbol(const gs_library *lib, const char *name, void *function);

#endif
