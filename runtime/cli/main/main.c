/* main.c: `gradsmith COMMAND ...`: one table of commands. */
#include "cli/args.h"

#include <stdio.h>
#include <string.h>

static const struct {
  const char *name;
  int (*run)(int argc, char **argv);
  const char *summary;
} commands[] = {
    {"train", gs_cmd_train, "fine-tune a model with LoRA on a JSONL file"},
    {"generate", gs_cmd_generate, "answer a prompt greedily"},
    {"check", gs_cmd_check, "hold a layer's gradient and kernels against float64"},
    {"lint", gs_cmd_lint, "hold the text of a layer's kernels against their records and rules"},
    {"new", gs_cmd_new, "write a layer to start from"},
    {"derive", gs_cmd_derive, "write a layer's backward from its forward"},
    {"gen", gs_cmd_gen, "write the CUDA that a layer becomes"},
    {"explain", gs_cmd_explain, "say what a layer's kernels do, why, and what they cost"},
    {"compile", gs_cmd_compile, "compile a model's kernels for GPUs that need not be here"},
    {"pack", gs_cmd_pack, "put compiled kernels into one file, for machines without a compiler"},
    {"cache", gs_cmd_cache, "show or clear the kernels that were compiled before"},
    {"import", gs_cmd_import, "make a Hugging Face folder from a GGUF file"},
    {"tune", gs_cmd_tune, "find the fastest legal kernels on the GPU at hand"},
    {"bench", gs_cmd_bench, "time kernels on the GPU at hand, also beside other libraries"},
    {"doctor", gs_cmd_doctor, "say what of GPU, driver and libraries was found"},
};
enum { NCOMMANDS = sizeof commands / sizeof *commands };

static void usage(FILE *f) {
  fputs("gradsmith: hand-derived gradients, machine-made kernels\n\n", f);
  for (int i = 0; i < NCOMMANDS; i++)
    fprintf(f, "  gradsmith %-10s %s\n", commands[i].name, commands[i].summary);
  fputs("\n`gradsmith COMMAND --help` says more. `gradsmith --version` prints the version.\n", f);
}

int main(int argc, char **argv) {
  if (argc < 2) {
    usage(stderr);
    return 2;
  }
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
    usage(stdout);
    return 0;
  }
  if (strcmp(argv[1], "--version") == 0) {
    puts("gradsmith " GS_VERSION);
    return 0;
  }
  for (int i = 0; i < NCOMMANDS; i++)
    if (strcmp(commands[i].name, argv[1]) == 0) return commands[i].run(argc - 1, argv + 1);
  fprintf(stderr, "gradsmith: no command '%s'; `gradsmith --help` lists them\n", argv[1]);
  return 2;
}
