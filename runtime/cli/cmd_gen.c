/* cmd_gen.c: `gradsmith gen NAME`: the CUDA that a layer becomes, one file a pass. */
#include "cli/args.h"

#include "base/file.h"
#include "emit/compile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CHOICES = 32 };

typedef struct wish {
  const char *name, *arch, *dims, *options, *dtype, *pass, *dump, *out;
} wish;

typedef struct pairs {
  int n;
  char text[1024];
  const char *name[MAX_CHOICES];
  const char *value[MAX_CHOICES];
} pairs;

/* "T=4096,H=64" */
static gs_status parse_pairs(const char *option, const char *s, pairs *p, gs_error *err) {
  p->n = 0;
  if (!s) return GS_OK;
  if (strlen(s) >= sizeof p->text) return gs_fail(err, GS_ERR_USE, "gen: %s is too long", option);
  strcpy(p->text, s);
  char *save = NULL;
  for (char *w = strtok_r(p->text, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
    char *eq = strchr(w, '=');
    if (!eq || eq == w || !eq[1])
      return gs_fail(err, GS_ERR_USE, "gen: %s takes NAME=VALUE,...; '%s' is none", option, w);
    if (p->n == MAX_CHOICES)
      return gs_fail(err, GS_ERR_USE, "gen: %s takes at most %d values", option, MAX_CHOICES);
    *eq = '\0';
    p->name[p->n] = w;
    p->value[p->n++] = eq + 1;
  }
  return GS_OK;
}

static gs_status number(const char *option, const char *name, const char *s, double *out,
                        gs_error *err) {
  char *end;
  errno = 0;
  *out = strtod(s, &end);
  if (errno || *end || end == s)
    return gs_fail(err, GS_ERR_USE, "gen: %s: %s=%s is not a number", option, name, s);
  return GS_OK;
}

static gs_status read_sizes(const wish *w, const gs_layer_decl *d, int64_t *sizes, gs_error *err) {
  pairs p;
  gs_status st = parse_pairs("--dims", w->dims, &p, err);
  for (int i = 0; st == GS_OK && i < p.n; i++) {
    double v = 0;
    int k = 0;
    while (k < d->ndims && strcmp(d->dims[k], p.name[i]) != 0) k++;
    if (k == d->ndims) {
      gs_fail(err, GS_ERR_USE, "gen: --dims: layer '%s' has no dim '%s'; its dims:", d->name,
              p.name[i]);
      for (int j = 0; err && j < d->ndims; j++) {
        size_t n = strlen(err->message);
        snprintf(err->message + n, sizeof err->message - n, " %s", d->dims[j]);
      }
      return GS_ERR_USE;
    }
    st = number("--dims", p.name[i], p.value[i], &v, err);
    if (st == GS_OK && (v < 1 || v > 1e12 || v != (double)(int64_t)v))
      st = gs_fail(err, GS_ERR_USE, "gen: --dims: %s=%s is not a positive whole number", p.name[i],
                   p.value[i]);
    sizes[k] = (int64_t)v;
  }
  return st;
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
  gs_text_printf(&text, "// The text of templates/prelude_%s goes before this.\n\n",
                 caps->is_emulator ? "emu.h" : "cuda.cuh");
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

/* A loss: all its outputs are numbers, or one number a token. */
static bool is_loss(const gs_instance *in) {
  if (in->is_kernel || in->body || in->nbackward == 0) return false;
  for (int i = 0; i < in->nforward; i++)
    if (!in->forward[i].is_saved && in->forward[i].ndims > 1) return false;
  return true;
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
                : passes[i].kind == GS_PASS_TERMINAL ? is_loss(in)
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
  gs_author *a = NULL;
  gs_layer *layer = NULL;
  gs_instance *in = NULL;
  int64_t sizes[GS_MAX_DIMS] = {0};
  double values[MAX_CHOICES];
  pairs options;
  const gs_caps *caps = gs_caps_find(w->arch);
  gs_choice c = {.dtype = gs_type_from_name(w->dtype), .sizes = sizes};
  gs_status st = GS_OK;
  if (!caps)
    st = gs_fail(err, GS_ERR_USE,
                 "gen: unknown architecture '%s'; known: sm_80 sm_86 sm_89 sm_90 "
                 "sm_100 sm_120 emu",
                 w->arch);
  if (st == GS_OK && c.dtype != GS_F32 && c.dtype != GS_BF16 && c.dtype != GS_F16)
    st = gs_fail(err, GS_ERR_USE, "gen: --dtype takes f32, bf16 or f16, not '%s'", w->dtype);
  if (st == GS_OK) st = parse_pairs("--options", w->options, &options, err);
  for (int i = 0; st == GS_OK && i < options.n; i++)
    st = number("--options", options.name[i], options.value[i], &values[i], err);
  if (st == GS_OK) st = gs_author_new(&a, err);
  if (st == GS_OK) st = gs_layer_open(a, w->name, &layer, err);
  if (st == GS_OK) st = read_sizes(w, gs_layer_declaration(layer), sizes, err);
  if (st == GS_OK) {
    c.noptions = options.n;
    c.option_names = options.name;
    c.option_values = values;
    st = gs_layer_instantiate(layer, &c, &in, err);
  }
  if (st == GS_OK) st = write_passes(w, in, gs_layer_declaration(layer)->name, caps, err);
  if (in) gs_instance_free(in);
  gs_author_free(a);
  return st;
}

int gs_cmd_gen(int argc, char **argv) {
  wish w = {.arch = "sm_90a", .dtype = "bf16", .out = "out"};
  const gs_option options[] = {
      {"--arch", "NAME", GS_OPT_STRING, &w.arch,
       "sm_80, sm_86, sm_89, sm_90, sm_100, sm_120 or emu"},
      {"--dims", "H=4096,...", GS_OPT_STRING, &w.dims,
       "sizes of the inner dims; outer ones may stand"},
      {"--options", "K=V,...", GS_OPT_STRING, &w.options, "the layer's options"},
      {"--dtype", "TYPE", GS_OPT_STRING, &w.dtype, "f32, bf16 or f16 (default bf16)"},
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
  gs_status st = gs_args_parse(&usage, argc, argv, &w.name, 1, &n, &helped, &err);
  if (helped) return 0;
  if (st == GS_OK && n != 1) st = gs_fail(&err, GS_ERR_USE, "gen: the name of one layer is needed");
  if (st == GS_OK) st = run(&w, &err);
  return st == GS_OK ? 0 : gs_report(&err);
}
