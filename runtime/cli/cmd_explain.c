/* cmd_explain.c: `gradsmith explain NAME`: for each pass the formula, the graph, the schedule and
 * its reason, the bytes it must move and moves, the arithmetic, and what the machine code takes.
 *
 * Rates are those that the vendor states for a named GPU; for any other, "unknown" is printed. */
#include "cli/args.h"
#include "cli/choice.h"

#include "emit/compile.h"
#include "jit/jit.h"
#include "tune/bytes.h"

#include <stdio.h>
#include <string.h>

typedef struct wish {
  gs_wish layer;
  const char *arch, *gpu, *pass;
  bool graph;
  int64_t rows;
} wish;

/* Peak rates from the vendor's data sheets. */
static const struct gpu {
  const char *name, *arch;
  double bytes, flops; /* a second: memory, f32 without tensor cores */
} gpus[] = {
    {"A100-80GB", "sm_80", 2.039e12, 19.5e12}, {"L40S", "sm_89", 0.864e12, 91.6e12},
    {"RTX4090", "sm_89", 1.008e12, 82.6e12},   {"H100-SXM", "sm_90a", 3.35e12, 67e12},
    {"H200", "sm_90a", 4.8e12, 67e12},
};
enum { NGPUS = sizeof gpus / sizeof *gpus };

typedef struct explained {
  const wish *w;
  const gs_caps *caps;
  gs_jit *jit; /* NULL: none was found, and why */
  char no_jit[512];
  const struct gpu *gpu;
  int64_t sizes[GS_MAX_DIMS];
} explained;

static gs_status find_gpu(const wish *w, const struct gpu **out, gs_error *err) {
  *out = NULL;
  if (!w->gpu) return GS_OK;
  for (int k = 0; k < NGPUS; k++)
    if (strcmp(gpus[k].name, w->gpu) == 0) *out = &gpus[k];
  if (*out) return GS_OK;
  gs_text known = {0};
  for (int k = 0; k < NGPUS; k++) gs_text_printf(&known, " %s", gpus[k].name);
  gs_fail(err, GS_ERR_USE, "explain: --gpu: the rates of '%s' are unknown; known:%s", w->gpu,
          known.s);
  gs_text_free(&known);
  return GS_ERR_USE;
}

/* ---- bytes ---- */

/* What the kernel reads and writes if each tensor goes through it once. */
static double kernel_bytes(const gs_launch_list *l, const gs_kernel *k, const int64_t *sizes) {
  double bytes = 0;
  for (int i = 0; i < k->nargs; i++) {
    const gs_arg *a = &k->args[i];
    double size = 0;
    if (a->kind == GS_ARG_TENSOR || a->kind == GS_ARG_MAP)
      size = gs_bytes_of(l, &l->bindings[a->index], sizes);
    else if (a->kind == GS_ARG_TEMP)
      size = (double)gs_count_value(&l->temps[a->index].count, sizes) *
             (double)gs_type_size(l->temps[a->index].type);
    bytes += size * (a->is_read + a->is_written);
  }
  return bytes;
}

static void print_bytes(const char *what, double bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int k = 0;
  for (; bytes >= 1024 && k < 4; k++) bytes /= 1024;
  printf("%s%.*f %s", what, k ? 2 : 0, bytes, units[k]);
}

/* ---- machine code ---- */

static void print_use(const explained *x, const gs_kernel *k) {
  gs_error err = {0};
  gs_jit_code code = {0};
  gs_jit_use use;
  if (!x->jit) {
    printf("    machine code: not compiled (%s)\n", x->no_jit);
    return;
  }
  gs_jit_source s = {.prelude = gs_prelude(false, k->prelude),
                     .text = k->text,
                     .entry = k->entry,
                     .arch = x->caps->arch};
  gs_status st = gs_jit_compile(x->jit, &s, &code, &err);
  if (st == GS_OK) st = gs_jit_resources(&code, k->entry, &use, &err);
  if (st != GS_OK) {
    printf("    machine code: %s\n", err.message);
  } else {
    printf("    machine code: %d registers a thread, %d bytes of shared memory a block",
           use.registers, use.shared_bytes);
    if (use.local_bytes == 0 && use.spill_bytes <= 0)
      printf(", nothing spilled\n");
    else
      printf(", %d bytes of local memory a thread, %d spilled\n", use.local_bytes,
             use.spill_bytes > 0 ? use.spill_bytes : 0);
  }
  gs_jit_code_free(&code);
}

static void open_jit(explained *x) {
  gs_error err = {0};
  if (x->caps->is_emulator) {
    snprintf(x->no_jit, sizeof x->no_jit, "the emulator is no GPU");
  } else if (gs_jit_open(0, &x->jit, &err) != GS_OK) {
    snprintf(x->no_jit, sizeof x->no_jit, "%s", err.message);
  } else if (!gs_jit_supports(x->jit, x->caps->arch)) {
    snprintf(x->no_jit, sizeof x->no_jit, "this NVRTC knows no %s", x->caps->arch);
    gs_jit_close(x->jit);
    x->jit = NULL;
  }
}

/* ---- a pass ---- */

/* What the author of an attention says; what is made of it fills pages. */
static void print_programs(const gs_instance *i) {
  for (int k = 0; k < i->nprograms; k++) {
    gs_text t = {0};
    gs_print_expr(i->g, i->programs[k].expr, &t);
    printf("  %s = ", i->programs[k].name);
    for (const char *c = t.s; *c; c++)
      if (*c != '@') putchar(*c); /* the mark of a leaf */
    printf("\n");
    gs_text_free(&t);
  }
}

static void print_formulas(const gs_pass *p) {
  if (p->instance->nprograms) {
    print_programs(p->instance);
    return;
  }
  for (int k = 0; k < p->nresults; k++) {
    gs_text t = {0};
    gs_print_expr(p->g, p->results[k].expr, &t);
    printf("  %s = %s\n", p->results[k].name, t.s);
    gs_text_free(&t);
  }
}

/* Each line of a text that a pass of the compiler left. */
static void print_lines(const char *title, const gs_text *t) {
  printf("  %s\n", title);
  for (const char *s = t->s, *end; s && *s; s = end + 1) {
    end = strchr(s, '\n');
    if (!end) break;
    printf("    %.*s\n", (int)(end - s), s);
  }
}

static void print_graph(const gs_pass *p) {
  gs_text t = {0};
  gs_id roots[64];
  const char *names[64];
  int n = p->nresults < 64 ? p->nresults : 64;
  for (int k = 0; k < n; k++) {
    roots[k] = p->results[k].expr;
    names[k] = p->results[k].name;
  }
  gs_dump(p->g, roots, names, n, &t);
  print_lines("graph", &t);
  gs_text_free(&t);
}

static bool is_streamed(const gs_kernel *k) {
  return strstr(k->tunables, "mode=") && !strstr(k->tunables, "mode=resident");
}

static void print_reason(const char *template_name, const char *tunables) {
  static const struct {
    const char *name, *reason;
  } reasons[] = {
      {"map", "nothing is reduced: every element by itself, in vectors"},
      {"row", "a row is reduced over its inner dims: the threads of a group share it"},
      {"row_column", "rows are also summed over the outer dim: persistent blocks keep the parts"},
      {"columns", "only sums over the outer dim: threads lie along the columns"},
      {"all", "reduced over everything: each block keeps a part"},
      {"total", "adds the parts of the kernel before it, in a fixed order"},
      {"sum_by", "grouped by a key: a group's elements are added in their order"},
      {"attention_plan", "lists the batch's tiles, longest first; once a batch"},
      {"attention_sm80", "tiles of queries and keys, products by mma.sync"},
      {"attention_sm80_backward", "a tile of keys stays, tiles of queries pass; dq in turns"},
      {"attention_sm90", "tiles by TMA, products by wgmma"},
      {"attention_sm90_backward", "a tile of keys stays, tiles of queries pass; dq in turns"},
      {"attention_prepare", "what stands before and after the backward's products"},
      {"attention_plain", "no tile fits f32, or these heads: lanes share a query or a key"},
      {"cuda", "the layer brings its own kernels"},
  };
  for (size_t k = 0; k < sizeof reasons / sizeof *reasons; k++)
    if (strcmp(reasons[k].name, template_name) == 0) printf("    because %s\n", reasons[k].reason);
  if (strstr(tunables, "mode=resident"))
    printf("    what is read twice stays in registers\n");
  else if (strstr(tunables, "mode="))
    printf("    the row is too long for registers: it is read again\n");
}

static void print_kernel(const explained *x, const gs_launch_list *l, const gs_kernel *k) {
  printf("  kernel %s\n    template %s: %s\n", k->entry, k->template_name, k->tunables);
  print_reason(k->template_name, k->tunables);
  printf("    grid %lld blocks of %d threads", (long long)gs_count_value(&k->grid, x->sizes),
         k->threads);
  print_bytes("; reads and writes ", kernel_bytes(l, k, x->sizes));
  printf("\n");
  print_use(x, k);
}

/* Only what follows from stated rates: a bound, no promise. */
static void print_times(const explained *x, double must, double moved, bool again, double flops) {
  print_bytes("  must move ", must);
  print_bytes(", moves ", moved);
  if (again) printf(" and rows again");
  printf(": at most %.0f %% of the copy rate; %.3g flops, %.2f a byte\n",
         100 * must / (moved > 0 ? moved : 1), flops, flops / (moved > 0 ? moved : 1));
  if (!x->gpu) {
    printf("  time unknown: --gpu names a GPU whose rates are known\n");
    return;
  }
  double memory = moved / x->gpu->bytes * 1e6, arithmetic = flops / x->gpu->flops * 1e6;
  printf("  %s at its stated rates: memory %.2f us, arithmetic %.2f us: bound by %s\n",
         x->gpu->name, memory, arithmetic, memory >= arithmetic ? "memory" : "arithmetic");
}

static gs_status explain_pass(const explained *x, gs_instance *in, gs_pass_kind kind,
                              gs_error *err) {
  gs_pass *p = NULL;
  gs_launch_list *l = NULL;
  gs_text dump = {0};
  gs_dump_sink sink = {"schedule", &dump};
  gs_status st = gs_layer_pass(in, kind, NULL, 0, NULL, 0, &p, err);
  if (st == GS_OK) st = gs_compile(p, x->caps, &sink, &l, err);
  if (st == GS_OK) {
    gs_id roots[64];
    double moved = 0;
    bool again = false; /* rows that do not stay are read more than once */
    int n = p->nresults < 64 ? p->nresults : 64;
    printf("%s on %s\n", p->key, x->caps->arch);
    print_formulas(p);
    if (x->w->graph) print_graph(p);
    print_lines("schedule", &dump);
    for (int k = 0; k < n; k++) roots[k] = p->results[k].expr;
    for (int k = 0; k < l->nkernels; k++) {
      print_kernel(x, l, &l->kernels[k]);
      moved += kernel_bytes(l, &l->kernels[k], x->sizes);
      again |= is_streamed(&l->kernels[k]);
    }
    print_times(x, gs_bytes_fewest(l, x->sizes), moved, again, gs_flops(p->g, roots, n, x->sizes));
    printf("\n");
  }
  gs_text_free(&dump);
  return st;
}

static gs_status explain(explained *x, gs_instance *in, gs_error *err) {
  static const char *const names[] = {"forward", "infer", "backward", "terminal"};
  gs_status st = GS_OK;
  bool any = false;
  for (int k = 0; k < 4 && st == GS_OK; k++) {
    gs_pass_kind kind = (gs_pass_kind)k;
    bool can = kind == GS_PASS_BACKWARD   ? in->nbackward > 0
               : kind == GS_PASS_TERMINAL ? gs_is_loss(in)
                                          : true;
    bool asked = x->w->pass ? strcmp(x->w->pass, names[k]) == 0 : kind != GS_PASS_INFER;
    if (!can || !asked) continue;
    any = true;
    st = explain_pass(x, in, kind, err);
  }
  if (st == GS_OK && !any)
    st = gs_fail(err, GS_ERR_USE,
                 "explain: --pass takes forward, infer, backward or terminal, as far as the layer "
                 "has them, not '%s'",
                 x->w->pass);
  return st;
}

/* Sizes of every dim of the graph: those asked for, outer ones `rows` where none is. */
static void fill_sizes(explained *x, const gs_chosen *c, const gs_instance *in) {
  for (int d = 0; d < gs_graph_ndims(in->g); d++) {
    bool given = d < gs_layer_declaration(c->layer)->ndims && c->sizes[d] > 0;
    x->sizes[d] = given ? c->sizes[d] : x->w->rows;
  }
  gs_graph_sizes(in->g, x->sizes);
}

static gs_status run(const wish *w, gs_error *err) {
  explained x = {.w = w, .caps = gs_caps_find(w->arch)};
  gs_chosen chosen = {0};
  gs_instance *in = NULL;
  gs_status st = find_gpu(w, &x.gpu, err);
  if (st == GS_OK && !x.caps)
    st = gs_fail(err, GS_ERR_USE,
                 "explain: unknown architecture '%s'; known: sm_80 sm_86 sm_89 sm_90 sm_100 sm_120 "
                 "emu",
                 w->arch);
  if (st == GS_OK && x.gpu && strcmp(x.gpu->arch, x.caps->arch) != 0)
    st = gs_fail(err, GS_ERR_USE, "explain: %s is of architecture %s, not %s", x.gpu->name,
                 x.gpu->arch, x.caps->arch);
  if (st == GS_OK) st = gs_chosen_open("explain", &w->layer, &chosen, err);
  if (st == GS_OK) st = gs_layer_instantiate(chosen.layer, &chosen.choice, &in, err);
  if (st == GS_OK) {
    fill_sizes(&x, &chosen, in);
    open_jit(&x);
    st = explain(&x, in, err);
  }
  if (x.jit) gs_jit_close(x.jit);
  gs_instance_free(in);
  gs_chosen_close(&chosen);
  return st;
}

int gs_cmd_explain(int argc, char **argv) {
  wish w = {.layer = {.dtype = "bf16"}, .arch = "sm_90a", .rows = 4096};
  const gs_option options[] = {
      {"--arch", "NAME", GS_OPT_STRING, &w.arch,
       "sm_80, sm_86, sm_89, sm_90, sm_100, sm_120 or emu"},
      {"--gpu", "NAME", GS_OPT_STRING, &w.gpu, "A100-80GB, L40S, RTX4090, H100-SXM or H200"},
      {"--dims", "H=4096,...", GS_OPT_STRING, &w.layer.dims, "sizes of the dims"},
      {"--rows", "N", GS_OPT_INT, &w.rows, "size of outer dims not in --dims (default 4096)"},
      {"--options", "K=V,...", GS_OPT_STRING, &w.layer.options, "the layer's options"},
      {"--dtype", "TYPE", GS_OPT_STRING, &w.layer.dtype, "f32, bf16 or f16 (default bf16)"},
      {"--pass", "NAME", GS_OPT_STRING, &w.pass, "forward, infer, backward or terminal"},
      {"--graph", NULL, GS_OPT_FLAG, &w.graph, "also the graph, a line a node"},
  };
  const gs_usage usage = {
      "explain", "NAME --dims H=4096,... [--arch sm_90]",
      "Says for each pass of a layer what it computes, how, and what that costs.", options,
      sizeof options / sizeof *options};
  int n = 0;
  bool helped = false;
  gs_error err = {0};
  gs_status st = gs_args_parse(&usage, argc, argv, &w.layer.name, 1, &n, &helped, &err);
  if (helped) return 0;
  if (st == GS_OK && n != 1)
    st = gs_fail(&err, GS_ERR_USE, "explain: the name of one layer is needed");
  if (st == GS_OK && w.rows < 1) st = gs_fail(&err, GS_ERR_USE, "explain: --rows takes 1 or more");
  if (st == GS_OK) st = run(&w, &err);
  return st == GS_OK ? 0 : gs_report(&err);
}
