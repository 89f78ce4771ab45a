/* cmd_new.c: `gradsmith new layer NAME`: a file to start from, which passes `check` as it is. */
#include "cli/args.h"

#include "base/asset.h"
#include "base/file.h"
#include "base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* What the starting files are like; each is an asset lua/new/KIND.lua in which NAME stands for the
 * layer's name. */
static const char *const kinds[] = {"elementwise", "rmsnorm", "loss", "kernel"};
enum { NKINDS = sizeof kinds / sizeof *kinds };

static const char *const keywords[] = {"and",   "break", "do",       "else", "elseif", "end",
                                       "false", "for",   "function", "goto", "if",     "in",
                                       "local", "nil",   "not",      "or",   "repeat", "return",
                                       "then",  "true",  "until",    "while"};

static gs_status check_name(const char *name, gs_error *err) {
  bool good = name[0] && !isdigit((unsigned char)name[0]) && strlen(name) < 32;
  for (const char *c = name; *c; c++) good &= isalnum((unsigned char)*c) || *c == '_';
  for (size_t k = 0; k < sizeof keywords / sizeof *keywords; k++)
    good &= strcmp(name, keywords[k]) != 0;
  if (good) return GS_OK;
  return gs_fail(err, GS_ERR_USE,
                 "new: '%s' is not a name that a layer can have: letters, digits and _, fewer than "
                 "32, no digit first, no word of Lua",
                 name);
}

static gs_status find_kind(const char *like, const gs_asset **out, gs_error *err) {
  char path[64];
  for (int k = 0; k < NKINDS; k++) {
    if (strcmp(kinds[k], like) != 0) continue;
    snprintf(path, sizeof path, "lua/new/%s.lua", like);
    *out = gs_asset_find(path);
    return *out ? GS_OK : gs_fail(err, GS_ERR_CHECK, "new: the program lacks %s", path);
  }
  return gs_fail(err, GS_ERR_USE,
                 "new: --like takes elementwise, rmsnorm, loss or kernel, not '%s'", like);
}

/* The asset with its name in place of NAME. */
static void fill_in(const gs_asset *a, const char *name, gs_text *t) {
  const char *at = a->data, *hit;
  while ((hit = strstr(at, "NAME")) != NULL) {
    gs_text_add_n(t, at, (size_t)(hit - at));
    gs_text_add(t, name);
    at = hit + 4;
  }
  gs_text_add(t, at);
}

static gs_status run(const char *name, const char *like, gs_error *err) {
  const gs_asset *a = NULL;
  char path[64];
  gs_text text = {0};
  gs_status st = check_name(name, err);
  if (st == GS_OK) st = find_kind(like, &a, err);
  if (st != GS_OK) return st;
  snprintf(path, sizeof path, "%s.lua", name);
  if (gs_path_exists(path))
    return gs_fail(err, GS_ERR_USE, "new: %s is there already, and is not overwritten", path);
  fill_in(a, name, &text);
  st = gs_file_write(path, text.s, text.len, err);
  gs_text_free(&text);
  if (st == GS_OK)
    printf("%s: a layer that passes `gradsmith check ./%s`; change it from there\n", path, path);
  return st;
}

int gs_cmd_new(int argc, char **argv) {
  const char *words[2] = {NULL, NULL}, *like = "elementwise";
  const gs_option options[] = {
      {"--like", "KIND", GS_OPT_STRING, &like, "elementwise (default), rmsnorm, loss or kernel"},
  };
  const gs_usage usage = {"new", "layer NAME [--like rmsnorm]",
                          "Writes NAME.lua in this folder, a checked layer to start from.", options,
                          sizeof options / sizeof *options};
  int n = 0;
  bool helped = false;
  gs_error err = {0};
  gs_status st = gs_args_parse(&usage, argc, argv, words, 2, &n, &helped, &err);
  if (helped) return 0;
  if (st == GS_OK && (n != 2 || strcmp(words[0], "layer") != 0))
    st = gs_fail(&err, GS_ERR_USE, "new: gradsmith new layer NAME [--like KIND]");
  if (st == GS_OK) st = run(words[1], like, &err);
  return st == GS_OK ? 0 : gs_report(&err);
}
