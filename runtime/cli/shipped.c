/* shipped.c: the layers that the program carries, by their assets. */
#include "cli/shipped.h"

#include "base/asset.h"

#include <stdio.h>
#include <string.h>

int gs_shipped_layers(char names[][64], const char **words) {
  int n = 0;
  const gs_asset *a;
  for (size_t i = 0; (a = gs_asset_at(i)) && n < GS_MAX_SHIPPED; i++) {
    const char *base = a->path + strlen("lua/layers/"), *dot = strrchr(a->path, '.');
    if (strncmp(a->path, "lua/layers/", 11) != 0 || !dot || dot - base >= 64) continue;
    if (strchr(base, '/')) continue; /* what layers share: lua/layers/lib */
    snprintf(names[n], 64, "%.*s", (int)(dot - base), base);
    words[n] = names[n];
    n++;
  }
  return n;
}
