/* args.c: options from one table a command. */
#include "args.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_usage(const gs_usage *u) {
  printf("gradsmith %s %s\n%s\n", u->command, u->synopsis, u->summary);
  for (int i = 0; i < u->noptions; i++) {
    char left[64];
    snprintf(left, sizeof left, "%s %s", u->options[i].name,
             u->options[i].meta ? u->options[i].meta : "");
    printf("  %-26s %s\n", left, u->options[i].help);
  }
}

static const gs_option *find(const gs_usage *u, const char *word, size_t len) {
  for (int i = 0; i < u->noptions; i++)
    if (strlen(u->options[i].name) == len && memcmp(u->options[i].name, word, len) == 0)
      return &u->options[i];
  return NULL;
}

static gs_status set(const gs_usage *u, const gs_option *o, const char *value, gs_error *err) {
  char *end = NULL;
  errno = 0;
  if (o->kind == GS_OPT_STRING) {
    *(const char **)o->to = value;
    return GS_OK;
  }
  if (o->kind == GS_OPT_INT)
    *(int64_t *)o->to = strtoll(value, &end, 10);
  else
    *(double *)o->to = strtod(value, &end);
  if (errno || end == value || *end)
    return gs_fail(err, GS_ERR_USE, "%s: %s takes %s, not '%s'", u->command, o->name,
                   o->kind == GS_OPT_INT ? "a whole number" : "a number", value);
  return GS_OK;
}

static gs_status option(const gs_usage *u, int argc, char **argv, int *i, gs_error *err) {
  const char *word = argv[*i], *eq = strchr(word, '=');
  const gs_option *o = find(u, word, eq ? (size_t)(eq - word) : strlen(word));
  if (!o)
    return gs_fail(err, GS_ERR_USE, "%s: no option %s; `gradsmith %s --help` lists them",
                   u->command, word, u->command);
  if (o->kind == GS_OPT_FLAG) {
    if (eq) return gs_fail(err, GS_ERR_USE, "%s: %s takes no value", u->command, o->name);
    *(bool *)o->to = true;
    return GS_OK;
  }
  if (eq) return set(u, o, eq + 1, err);
  if (*i + 1 >= argc)
    return gs_fail(err, GS_ERR_USE, "%s: %s needs a value (%s)", u->command, o->name, o->meta);
  return set(u, o, argv[++*i], err);
}

gs_status gs_args_parse(const gs_usage *u, int argc, char **argv, const char **words, int max_words,
                        int *nwords, bool *helped, gs_error *err) {
  *nwords = 0;
  *helped = false;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
      print_usage(u);
      *helped = true;
      return GS_OK;
    }
    if (argv[i][0] == '-' && argv[i][1]) {
      gs_status st = option(u, argc, argv, &i, err);
      if (st != GS_OK) return st;
    } else if (*nwords < max_words) {
      words[(*nwords)++] = argv[i];
    } else {
      return gs_fail(err, GS_ERR_USE, "%s: unexpected '%s'; usage: gradsmith %s %s", u->command,
                     argv[i], u->command, u->synopsis);
    }
  }
  return GS_OK;
}

int gs_report(const gs_error *err) {
  fprintf(stderr, "gradsmith: %s\n", err->message);
  return err->status == GS_ERR_USE ? 2 : err->status == GS_ERR_INTERRUPTED ? 130 : 1;
}
