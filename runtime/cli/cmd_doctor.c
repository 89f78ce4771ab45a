/* cmd_doctor.c: `gradsmith doctor`: what of GPU, driver, libraries and compiler was found, where,
 * and what each lack costs. A report: it succeeds whatever it finds. */
#include "cli/args.h"
#include "device/cuda/probe.h"
#include "device/emu/blas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void found(const char *part, const char *what, const char *where) {
  printf("  %-13s %s\n", part, what);
  if (where && *where) printf("  %-13s %s\n", "", where);
}

/* Every line of why is put under the first. */
static void lacking(const char *part, const char *why, const char *cost) {
  printf("  %-13s not found: ", part);
  for (const char *c = why; *c; c++) {
    putchar(*c);
    if (*c == '\n') printf("  %-13s ", "");
  }
  printf("\n  %-13s costs: %s\n", "", cost);
}

static void show_gpus(const gs_cuda_probe *p) {
  char line[256];
  if (!p->driver.found) {
    lacking("GPU, driver", p->driver.why,
            "kernels run in the emulator, on the CPU: right for checks and small models, too slow "
            "for large ones");
    return;
  }
  for (int i = 0; i < p->ngpus; i++) {
    const gs_gpu *g = &p->gpus[i];
    snprintf(line, sizeof line, "%s, compute capability %d.%d, %d multiprocessors, %.1f GiB%s",
             g->name, g->major, g->minor, g->sm_count,
             (double)g->bytes / (1024.0 * 1024.0 * 1024.0),
             p->ngpus > 1 && i == 0 ? " (the one used)" : "");
    found(i == 0 ? "GPU" : "", line, NULL);
  }
  if (!p->usable) lacking("usable GPU", p->unusable_why, "kernels run in the emulator");
  snprintf(line, sizeof line, "for CUDA %s", p->driver.version);
  found("driver", line, p->driver.path);
}

static void show_library(const char *part, const gs_probed_library *l, const char *cost) {
  if (l->found)
    found(part, l->version, l->path);
  else
    lacking(part, l->why, cost);
}

static void show_processor(void) {
  char line[64];
  snprintf(line, sizeof line, "%ld cores", sysconf(_SC_NPROCESSORS_ONLN));
  found("processor", line, NULL);
}

static void show_blas(void) {
  gs_blas *b = gs_blas_open(true);
  const gs_blas_info *info = b ? gs_blas_about(b) : NULL;
  char line[256];
  if (!info || !info->present) {
    lacking("BLAS",
            "no CBLAS library (libopenblas.so.0, libblas.so.3) on the loader's path\n"
            "Install it: apt-get install libopenblas0-pthread",
            "the emulator multiplies matrices with its own loop, many times slower; a GPU does not "
            "need it");
  } else {
    snprintf(line, sizeof line, "%s%s%s%s", info->name, *info->core ? ", kernels for " : "",
             info->core, info->core_set ? " (chosen by us: OpenBLAS does not know this CPU)" : "");
    found("BLAS", line, info->path);
  }
  gs_blas_close(b);
}

/* True when a compiler of that name lies on the PATH and runs. */
static bool run_compiler(const char *name, char *path, size_t cap, char *version, size_t vcap) {
  char command[1200];
  version[0] = path[0] = 0;
  if (strpbrk(name, "'\n") ||
      snprintf(command, sizeof command, "command -v '%s' 2>/dev/null && '%s' --version 2>/dev/null",
               name, name) >= (int)sizeof command)
    return false;
  FILE *f = popen(command, "r");
  if (!f) return false;
  bool ok = fgets(path, (int)cap, f) && fgets(version, (int)vcap, f);
  char rest[256];
  while (fgets(rest, sizeof rest, f)) continue; /* or the compiler sees a closed pipe */
  if (pclose(f) != 0) ok = false;
  path[strcspn(path, "\n")] = version[strcspn(version, "\n")] = 0;
  return ok;
}

/* The emulator takes the first of these (device/emu/build.c), clang++ first: its kernels are
 * faster. */
static bool show_compiler(void) {
  static const char *const names[] = {"clang++",    "clang++-20", "clang++-19", "clang++-18",
                                      "clang++-17", "clang++-16", "clang++-15", "clang++-14",
                                      "g++",        "c++"};
  char path[1024], version[256];
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (run_compiler(names[i], path, sizeof path, version, sizeof version)) {
      found("C++ compiler", version, path);
      return true;
    }
  lacking("C++ compiler",
          "no clang++, g++ or c++ on the PATH runs\nInstall one: apt-get install clang",
          "the emulator can't build kernels; a GPU with NVRTC does not need it");
  return false;
}

static void verdict(const gs_cuda_probe *p, bool has_compiler) {
  bool gpu = p->driver.found && p->usable && p->nvrtc.found;
  if (gpu && p->cublaslt.found)
    printf("\n--device auto takes the GPU: %s.\n", p->gpus[0].name);
  else if (gpu)
    printf("\n--device auto takes the GPU, but training on it needs cuBLASLt first.\n");
  else if (has_compiler)
    printf("\n--device auto takes the emulator, on the CPU.\n");
  else
    printf("\nNothing can run kernels here: install a C++ compiler, or NVRTC where a GPU is.\n");
}

static void examine(void) {
  gs_cuda_probe *p = calloc(1, sizeof *p);
  if (!p) return;
  gs_cuda_probe_all(p);
  printf("On a GPU\n");
  show_gpus(p);
  show_library("NVRTC", &p->nvrtc,
               "no kernel can be compiled for a GPU, not even for another machine's");
  show_library("cuBLASLt", &p->cublaslt,
               "no matrix product on a GPU: train and generate can't use one");
  printf("\nWithout a GPU\n");
  show_processor();
  show_blas();
  bool has_compiler = show_compiler();
  verdict(p, has_compiler);
  free(p);
}

int gs_cmd_doctor(int argc, char **argv) {
  const gs_usage usage = {
      .command = "doctor",
      .synopsis = "",
      .summary = "Says what of GPU, driver, NVRTC, cuBLASLt, BLAS and C++ compiler was "
                 "found, where, and what each lack costs.",
      .options = NULL,
      .noptions = 0};
  gs_error err = {0};
  int nwords = 0;
  bool helped = false;
  gs_status st = gs_args_parse(&usage, argc, argv, NULL, 0, &nwords, &helped, &err);
  if (st != GS_OK) return gs_report(&err);
  if (!helped) examine();
  return 0;
}
