/* cmd_cache.c: `gradsmith cache`: what is kept of earlier compilations, and throwing it away. */
#include "cli/args.h"

#include "jit/cache.h"

#include <stdio.h>

static gs_status show(const gs_cache *c, gs_error *err) {
  int64_t entries, bytes;
  gs_status st = gs_cache_measure(c, &entries, &bytes, err);
  if (st != GS_OK) return st;
  printf("folder   %s\nentries  %lld\nbytes    %lld (%.1f MiB)\n", gs_cache_folder(c),
         (long long)entries, (long long)bytes, (double)bytes / 1048576);
  return GS_OK;
}

static gs_status clear(const gs_cache *c, gs_error *err) {
  int64_t removed;
  gs_status st = gs_cache_clear(c, &removed, err);
  if (st == GS_OK) printf("%s: %lld removed\n", gs_cache_folder(c), (long long)removed);
  return st;
}

int gs_cmd_cache(int argc, char **argv) {
  bool wipe = false, helped = false;
  int n;
  const gs_option options[] = {
      {"--clear", NULL, GS_OPT_FLAG, &wipe, "remove every entry"},
  };
  const gs_usage usage = {"cache", "[--clear]",
                          "Says where compiled kernels are kept, how many and how large. "
                          "GRADSMITH_CACHE=DIR moves them, GRADSMITH_CACHE=off keeps none.",
                          options, sizeof options / sizeof *options};
  gs_error err = {0};
  gs_status st = gs_args_parse(&usage, argc, argv, NULL, 0, &n, &helped, &err);
  if (helped) return 0;
  gs_cache *c = st == GS_OK ? gs_cache_open(NULL) : NULL;
  if (st == GS_OK && !c)
    puts("off      (GRADSMITH_CACHE=off, or there is no home folder)");
  else if (st == GS_OK)
    st = wipe ? clear(c, &err) : show(c, &err);
  gs_cache_close(c);
  return st == GS_OK ? 0 : gs_report(&err);
}
