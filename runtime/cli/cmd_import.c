/* cmd_import.c: `gradsmith import FILE.gguf DIR`: a GGUF model made into a Hugging Face folder. */
#include "base/file.h"
#include "cli/args.h"
#include "model/gguf.h"

#include <stdio.h>
#include <string.h>

static gs_status run(const char *file, const char *dir, const char *dtype, gs_error *err) {
  gs_type type = gs_type_from_name(dtype);
  if (type != GS_BF16 && type != GS_F32)
    return gs_fail(err, GS_ERR_USE, "--dtype %s: bf16 or f32", dtype);
  return gs_gguf_import(file, dir, type, err);
}

int gs_cmd_import(int argc, char **argv) {
  const char *dtype = "bf16", *words[2];
  const gs_option options[] = {
      {"--dtype", "TYPE", GS_OPT_STRING, &dtype,
       "bf16 (default) or f32: how the weights are stored"},
  };
  const gs_usage usage = {.command = "import",
                          .synopsis = "FILE.gguf DIR",
                          .summary =
                              "Makes a Hugging Face model folder of a GGUF file (llama models).",
                          .options = options,
                          .noptions = 1};
  gs_error err = {0};
  int nwords = 0;
  bool helped = false;
  gs_status st = gs_args_parse(&usage, argc, argv, words, 2, &nwords, &helped, &err);
  if (st == GS_OK && helped) return 0;
  if (st == GS_OK && nwords != 2)
    st = gs_fail(&err, GS_ERR_USE,
                 "import takes a GGUF file and the folder to make: gradsmith import "
                 "FILE.gguf DIR");
  if (st == GS_OK) st = run(words[0], words[1], dtype, &err);
  if (st != GS_OK) return gs_report(&err);
  printf("imported %s into %s (%s)\n", words[0], words[1], dtype);
  return 0;
}
