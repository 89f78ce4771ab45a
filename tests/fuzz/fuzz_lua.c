/* fuzz_lua.c: any text as a layer file: a message that names file and line, or a layer whose passes
 * are made, and compiled where they are small. Run from the top of the repository.
 *
 *   (the program's assets first: cmake --build --preset debug --target gs_assets)
 *   clang -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
 *     -D_XOPEN_SOURCE=700 -D_DEFAULT_SOURCE \
 *     -Igen -Iruntime -isystem /usr/include/lua5.4 tests/fuzz/fuzz_lua.c gen/lua/[a-z]*.c \
 *     gen/graph/[a-z]*.c gen/derive/[a-z]*.c gen/emit/[a-z]*.c runtime/base/[a-z]*.c \
 *     build/debug/assets.c -llua5.4 -lpthread -lm -o fuzz_lua
 *   ./fuzz_lua -dict=tests/fuzz/lua.dict -max_len=2000 -timeout=20 -rss_limit_mb=4000 \
 *     -max_total_time=600 NEW tests/fuzz/corpus_lua
 */
#include "fuzz_file.h"

#include "emit/compile.h"
#include "lua/layer.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SMALL = 400 }; /* nodes of a graph that is compiled too */

/* Every mistake has a place; what is left is a choice of sizes that the layer cannot have. */
static void check_message(const gs_error *e) {
  if (e->status == GS_OK || !e->message[0]) abort();
  if (e->status == GS_ERR_INPUT && !strstr(e->message, ": error: ")) abort();
}

static void passes(gs_instance *i) {
  static const gs_caps *caps;
  if (!caps) caps = gs_caps_find("sm_90a");
  for (int kind = GS_PASS_FORWARD; kind <= GS_PASS_TERMINAL; kind++) {
    gs_pass *p;
    gs_launch_list *list;
    gs_error e = {0};
    bool backward = kind == GS_PASS_BACKWARD || kind == GS_PASS_TERMINAL;
    if (backward && i->is_kernel) continue;
    if (gs_layer_pass(i, (gs_pass_kind)kind, NULL, 0, NULL, 0, &p, &e)) {
      if (!e.message[0]) abort();
    } else if (gs_graph_size(i->g) < SMALL && gs_compile(p, caps, NULL, &list, &e)) {
      if (!e.message[0]) abort();
    }
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  gs_author *a;
  gs_layer *l;
  gs_instance *i;
  gs_error e = {0};
  char path[80];
  int64_t sizes[GS_MAX_DIMS];
  for (int k = 0; k < GS_MAX_DIMS; k++) sizes[k] = 6;
  gs_choice c = {.dtype = size % 2 ? GS_BF16 : GS_F32, .sizes = sizes};
  snprintf(path, sizeof path, "%s", fuzz_file(data, size));
  if (gs_author_new(&a, &e)) abort();
  if (gs_layer_open(a, path, &l, &e)) {
    check_message(&e);
  } else if (gs_layer_instantiate(l, &c, &i, &e)) {
    check_message(&e);
  } else {
    passes(i);
    gs_instance_free(i);
  }
  gs_author_free(a);
  return 0;
}
