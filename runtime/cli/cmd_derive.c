/* cmd_derive.c: `gradsmith derive NAME`: the layer with its backward made from the forward alone.
 */
#include "cli/args.h"
#include "cli/choice.h"

#include "base/file.h"
#include "check/check.h"
#include "check/derived.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct wish {
  gs_wish layer;
  const char *out;
} wish;

/* The options for which the text was derived, for those that it still has. */
static void options_text(const gs_derived *d, const gs_layer *written, char *out, size_t cap) {
  const gs_layer_decl *decl = gs_layer_declaration(d->i->layer);
  size_t n = 0;
  out[0] = 0;
  for (int k = 0; k < gs_layer_declaration(written)->noptions && n < cap; k++)
    n += (size_t)snprintf(out + n, cap - n, "%s%s=%.17g", k ? "," : "", decl->options[k],
                          d->option[k]);
}

/* A file for the text while it is checked: beside the author's, whose other files it may require;
 * for a shipped layer in a folder of its own. */
static gs_status place_for(const gs_layer_decl *decl, char *path, size_t cap, char *folder,
                           size_t folder_cap, gs_error *err) {
  folder[0] = 0;
  if (gs_path_exists(decl->file)) {
    snprintf(path, cap, "%s.derived.%ld.lua", decl->file, (long)getpid());
    return GS_OK;
  }
  gs_status st = gs_temp_dir(folder, folder_cap, err);
  snprintf(path, cap, "%s/%s.lua", folder, decl->name);
  return st;
}

/* What is printed must be a layer whose gradient is right: it is read again and held against its
 * own forward. */
static gs_status check_text(const wish *w, const gs_derived *d, const gs_text *text,
                            gs_error *err) {
  char folder[512] = "", path[4096], options[1024] = "";
  gs_author *a = NULL;
  gs_layer *l = NULL;
  gs_check_report r;
  gs_status st = GS_OK;
  snprintf(path, sizeof path, "%s", w->out ? w->out : "");
  if (!w->out) {
    st =
        place_for(gs_layer_declaration(d->i->layer), path, sizeof path, folder, sizeof folder, err);
    if (st == GS_OK) st = gs_file_write(path, text->s, text->len, err);
  }
  if (st == GS_OK) st = gs_author_new(&a, err);
  if (st == GS_OK) st = gs_layer_open(a, path, &l, err);
  if (st == GS_OK) options_text(d, l, options, sizeof options);
  gs_check_options o = {.seed = 1, .dims = w->layer.dims, .options = *options ? options : NULL};
  if (st == GS_OK) st = gs_check_layer(a, path, &o, &r, err);
  gs_author_free(a);
  if (!w->out) remove(path);
  if (*folder) gs_remove_tree(folder);
  return st;
}

static void print_cost(const gs_derived *d) {
  double per = d->elements;
  fprintf(stderr, "derived: %.1f flops an element, %d tensors read, %d saved",
          d->derived.flops / per, d->derived.tensors, d->derived_saved);
  if (d->has_closed)
    fprintf(stderr, "; the author's: %.1f, %d, %d", d->closed.flops / per, d->closed.tensors,
            d->closed_saved);
  fprintf(stderr, "\n");
}

static gs_status run(const wish *w, gs_error *err) {
  gs_chosen chosen = {0};
  gs_derived *d = NULL;
  gs_text text = {0};
  gs_status st = gs_chosen_open("derive", &w->layer, &chosen, err);
  if (st == GS_OK) st = gs_derived_new(chosen.layer, &chosen.choice, &d, err);
  if (st == GS_OK) st = gs_derived_text(d, &text, err);
  if (st == GS_OK && w->out && gs_path_exists(w->out))
    st = gs_fail(err, GS_ERR_USE, "derive: %s is there already, and is not overwritten", w->out);
  if (st == GS_OK && w->out) st = gs_file_write(w->out, text.s, text.len, err);
  if (st == GS_OK && !w->out) fputs(text.s, stdout);
  if (st == GS_OK) {
    fflush(stdout);
    print_cost(d);
    st = check_text(w, d, &text, err);
    if (st == GS_OK) fputs("checked: equal to the adjoint and to differences\n", stderr);
  }
  gs_text_free(&text);
  gs_derived_free(d);
  gs_chosen_close(&chosen);
  return st;
}

int gs_cmd_derive(int argc, char **argv) {
  /* f16: that the author rounds to the layer's type is seen, as nobody writes f16 */
  wish w = {.layer = {.dtype = "f16"}};
  const gs_option options[] = {
      {"--options", "K=V,...", GS_OPT_STRING, &w.layer.options,
       "values of the layer's options that it is derived for"},
      {"--dims", "K=8,...", GS_OPT_STRING, &w.layer.dims,
       "sizes that it is derived for (default: any)"},
      {"--out", "FILE", GS_OPT_STRING, &w.out, "a new file (default: printed)"},
  };
  const gs_usage usage = {
      "derive", "NAME [--options K=V,...] [--out FILE.lua]",
      "Writes the layer with a backward derived from its forward alone, as short as it gets. NAME "
      "is a shipped layer or a path to a Lua file.",
      options, sizeof options / sizeof *options};
  int n = 0;
  bool helped = false;
  gs_error err = {0};
  gs_status st = gs_args_parse(&usage, argc, argv, &w.layer.name, 1, &n, &helped, &err);
  if (helped) return 0;
  if (st == GS_OK && n != 1)
    st = gs_fail(&err, GS_ERR_USE, "derive: the name of one layer is needed");
  if (st == GS_OK) st = run(&w, &err);
  return st == GS_OK ? 0 : gs_report(&err);
}
