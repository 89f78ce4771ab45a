/* args.h: one table of options a command, from which parsing, defaults and --help follow. */
#ifndef GS_ARGS_H
#define GS_ARGS_H

#include "gradsmith.h"

#include <stdbool.h>

typedef struct gs_option {
  const char *name; /* "--steps" */
  const char *meta; /* "N"; NULL for a flag */
  enum { GS_OPT_FLAG, GS_OPT_STRING, GS_OPT_INT, GS_OPT_FLOAT } kind;
  void *to; /* bool *, const char **, int64_t *, double * */
  const char *help;
} gs_option;

typedef struct gs_usage {
  const char *command;  /* "train" */
  const char *synopsis; /* "--model DIR --data FILE.jsonl --out DIR" */
  const char *summary;  /* one line */
  const gs_option *options;
  int noptions;
} gs_usage;

/* Parses argv[1..argc). Words that are no options go to words (at most max_words; *nwords of them).
 * Unknown options, missing values and bad numbers are GS_ERR_USE. `--help` prints the usage to
 * stdout and sets *helped. "--name=value" and "--name value" are both taken. */
gs_status gs_args_parse(const gs_usage *u, int argc, char **argv, const char **words, int max_words,
                        int *nwords, bool *helped, gs_error *err);
/* Prints "gradsmith: MESSAGE" to stderr; the exit code: 2 for GS_ERR_USE, 130 when interrupted,
 * else 1. */
int gs_report(const gs_error *err);

/* A command: `gradsmith NAME ...`; argv[0] is NAME. Returns the exit code. Each is in cmd_NAME.c.
 */
int gs_cmd_train(int argc, char **argv);
int gs_cmd_generate(int argc, char **argv);
int gs_cmd_check(int argc, char **argv);
int gs_cmd_lint(int argc, char **argv);
int gs_cmd_gen(int argc, char **argv);
int gs_cmd_derive(int argc, char **argv);
int gs_cmd_explain(int argc, char **argv);
int gs_cmd_new(int argc, char **argv);
int gs_cmd_import(int argc, char **argv);
int gs_cmd_compile(int argc, char **argv);
int gs_cmd_pack(int argc, char **argv);
int gs_cmd_cache(int argc, char **argv);
int gs_cmd_tune(int argc, char **argv);
int gs_cmd_bench(int argc, char **argv);
int gs_cmd_doctor(int argc, char **argv);

#endif
