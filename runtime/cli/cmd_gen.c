/* cmd_gen.c: `gradsmith gen NAME`: the CUDA that a layer becomes, one file a pass. */
#include "cli/args.h"
#include "cli/choice.h"

#include "base/file.h"
#include "emit/compile.h"

#include <stdio.h>
#include <string.h>

typedef struct wish {
  gs_wish layer;
  const char *arch, *pass, *dump, *out;
} wish;

/* What goes before the text: the preludes up to that of the kernel that asks for most. */
static void add_head(const gs_launch_list *l, const gs_caps *caps, gs_text *text) {
  gs_prelude_level most = GS_PRELUDE_PLAIN;
  for (int k = 0; k < l->nkernels; k++)
    if (l->kernels[k].prelude > most) most = l->kernels[k].prelude;
  gs_text_add(text, "// The text of ");
  for (int i = 0; i <= (int)most; i++)
    gs_text_printf(text, "%stemplates/%s", i ? ", " : "",
                   gs_prelude_name(caps->is_emulator, (gs_prelude_level)i));
  gs_text_add(text, " goes before this.\n\n");
}

/* Writes one pass to OUT/LAYER_PASS_ARCH.cu and says what it holds. */
static gs_status write_pass(const wish *w, gs_instance *in, const char *layer, gs_pass_kind kind,
                            const char *pass_name, const gs_caps *caps, gs_error *err) {
  gs_pass *p = NULL;
  gs_launch_list *l = NULL;
  gs_text text = {0}, dump = {0};
  char path[4096];
  gs_dump_sink sink = {w->dump, &dump};
  gs_status st = gs_layer_pass(in, kind, NULL, 0, NULL, 0, &p, err);
  if (st == GS_OK) st = gs_compile(p, caps, &sink, &l, err);
  if (dump.s) fputs(dump.s, stdout);
  if (st != GS_OK) goto done;
  add_head(l, caps, &text);
  for (int k = 0; k < l->nkernels; k++)
    gs_text_printf(&text, "%s%s", k ? "\n" : "", l->kernels[k].text);
  snprintf(path, sizeof path, "%s/%s_%s_%s.cu", w->out, layer, pass_name, caps->arch);
  st = gs_mkdirs(w->out, err);
  if (st == GS_OK) st = gs_file_write(path, text.s, text.len, err);
  if (st != GS_OK) goto done;
  printf("%s: %d kernel%s, %zu bytes\n", path, l->nkernels, l->nkernels == 1 ? "" : "s", text.len);
  for (int k = 0; k < l->nkernels; k++)
    printf("  %s  (%s: %s)\n", l->kernels[k].entry, l->kernels[k].template_name,
           l->kernels[k].tunables);
done:
  gs_text_free(&text);
  gs_text_free(&dump);
  return st;
}

static gs_status write_passes(const wish *w, gs_instance *in, const char *layer,
                              const gs_caps *caps, gs_error *err) {
  static const struct {
    const char *name;
    gs_pass_kind kind;
  } passes[] = {{"forward", GS_PASS_FORWARD},
                {"infer", GS_PASS_INFER},
                {"backward", GS_PASS_BACKWARD},
                {"terminal", GS_PASS_TERMINAL}};
  bool any = false;
  gs_status st = GS_OK;
  for (int i = 0; st == GS_OK && i < 4; i++) {
    bool here = w->pass                              ? strcmp(w->pass, passes[i].name) == 0
                : passes[i].kind == GS_PASS_FORWARD  ? true
                : passes[i].kind == GS_PASS_BACKWARD ? in->nbackward > 0
                : passes[i].kind == GS_PASS_TERMINAL ? gs_is_loss(in)
                                                     : false;
    if (!here) continue;
    any = true;
    if (passes[i].kind >= GS_PASS_BACKWARD && in->nbackward == 0)
      return gs_fail(err, GS_ERR_USE, "gen: layer '%s' has no backward", layer);
    st = write_pass(w, in, layer, passes[i].kind, passes[i].name, caps, err);
  }
  if (!any)
    st = gs_fail(err, GS_ERR_USE,
                 "gen: --pass takes forward, infer, backward or terminal, not '%s'", w->pass);
  return st;
}

static gs_status run(const wish *w, gs_error *err) {
  gs_chosen chosen = {0};
  gs_instance *in = NULL;
  const gs_caps *caps = gs_caps_find(w->arch);
  gs_status st = GS_OK;
  if (!caps)
    st = gs_fail(err, GS_ERR_USE,
                 "gen: unknown architecture '%s'; known: sm_80 sm_86 sm_89 sm_90 "
                 "sm_100 sm_120 emu",
                 w->arch);
  if (st == GS_OK) st = gs_chosen_open("gen", &w->layer, &chosen, err);
  if (st == GS_OK) st = gs_layer_instantiate(chosen.layer, &chosen.choice, &in, err);
  if (st == GS_OK) st = write_passes(w, in, gs_layer_declaration(chosen.layer)->name, caps, err);
  if (in) gs_instance_free(in);
  gs_chosen_close(&chosen);
  return st;
}

int gs_cmd_gen(int argc, char **argv) {
  wish w = {.layer = {.dtype = "bf16"}, .arch = "sm_90a", .out = "out"};
  const gs_option options[] = {
      {"--arch", "NAME", GS_OPT_STRING, &w.arch,
       "sm_80, sm_86, sm_89, sm_90, sm_100, sm_120 or emu"},
      {"--dims", "H=4096,...", GS_OPT_STRING, &w.layer.dims,
       "sizes of the inner dims; outer ones may stand"},
      {"--options", "K=V,...", GS_OPT_STRING, &w.layer.options, "the layer's options"},
      {"--dtype", "TYPE", GS_OPT_STRING, &w.layer.dtype, "f32, bf16 or f16 (default bf16)"},
      {"--pass", "NAME", GS_OPT_STRING, &w.pass,
       "forward, infer, backward or terminal (default all)"},
      {"--dump", "LIST", GS_OPT_STRING, &w.dump, "print graph, schedule, text of each pass"},
      {"--out", "DIR", GS_OPT_STRING, &w.out, "where the files go (default out)"},
  };
  const gs_usage usage = {
      "gen", "NAME --dims H=4096,... [--arch sm_90]",
      "Writes the CUDA that a layer becomes. NAME is a shipped layer or a path to a "
      "Lua file.",
      options, sizeof options / sizeof *options};
  int n = 0;
  bool helped = false;
  gs_error err = {0};
  gs_status st = gs_args_parse(&usage, argc, argv, &w.layer.name, 1, &n, &helped, &err);
  if (helped) return 0;
  if (st == GS_OK && n != 1) st = gs_fail(&err, GS_ERR_USE, "gen: the name of one layer is needed");
  if (st == GS_OK) st = run(&w, &err);
  return st == GS_OK ? 0 : gs_report(&err);
}
