/* cmd_pack.c: `gradsmith pack`: the kernels of a model's steps, or of single layers, compiled for
 * several GPUs and put into one file; or what such a file holds. */
#include "cli/args.h"
#include "cli/steps.h"
#include "cli/wanted.h"

#include "base/file.h"
#include "device/offline.h"
#include "pack/write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FALLBACK "compute_80" /* what GPUs run that came later than the pack */

typedef struct wish {
  const char *model, *layers, *file, *archs, *out, *inspect, *lora, *dtype;
  int64_t seq, jobs;
} wish;

/* ---- making ---- */

typedef struct job {
  const wish *w;
  const char *target;
  gs_device *device; /* opened for the target */
  gs_pack_writer *writer;
} job;

static gs_status put_routine(void *context, const gs_routine *r, gs_error *err) {
  const job *j = context;
  const gs_launch_list *l = r->code.list;
  gs_status st = gs_pack_writer_pass(j->writer, l, gs_device_caps(j->device)->arch, err);
  for (int k = 0; k < l->nkernels && st == GS_OK; k++) {
    const gs_offline_kernel *made = gs_offline_find(j->device, l->kernels[k].entry);
    if (!made)
      return gs_fail(err, GS_ERR_COMPILE, "kernel %s was not compiled", l->kernels[k].entry);
    st = gs_pack_writer_code(j->writer, &l->kernels[k], j->target, made->code.data, made->code.len,
                             err);
  }
  return st;
}

static gs_status put_library(void *context, const gs_library *l, gs_error *err) {
  return gs_library_each(l, put_routine, context, err);
}

/* Layers separated by commas, blanks or line ends; '#' begins a comment. */
static gs_status add_layers(gs_library *l, const char *text, gs_error *err) {
  gs_status st = GS_OK;
  while (*text && st == GS_OK) {
    size_t n = strcspn(text, ", \t\r\n#");
    char one[600];
    if (n >= sizeof one) return gs_fail(err, GS_ERR_USE, "pack: '%.40s...' is too long", text);
    memcpy(one, text, n);
    one[n] = 0;
    if (n) st = gs_add_layer(l, one, err);
    text += n;
    text += *text == '#' ? strcspn(text, "\n") : *text != 0;
  }
  return st;
}

static gs_status put_layers(job *j, gs_error *err) {
  gs_library *l = NULL;
  char *text = NULL;
  size_t len;
  gs_status st = gs_library_new(j->device, &l, err);
  if (st == GS_OK && j->w->layers) st = add_layers(l, j->w->layers, err);
  if (st == GS_OK && j->w->file) st = gs_file_read(j->w->file, &text, &len, err);
  if (st == GS_OK && text) st = add_layers(l, text, err);
  if (st == GS_OK) st = gs_library_compile(l, err);
  if (st == GS_OK) st = put_library(j, l, err);
  free(text);
  gs_library_free(l);
  return st;
}

static gs_status put_target(const wish *w, const char *target, gs_pack_writer **writer,
                            gs_error *err) {
  job j = {.w = w, .target = target};
  gs_device_options o = {.compile_jobs = (int)w->jobs};
  gs_status st = gs_offline_open(target, &o, &j.device, err);
  if (st == GS_OK && !*writer)
    st = gs_pack_writer_new("gradsmith " GS_VERSION, gs_offline_compiler(j.device), writer, err);
  j.writer = *writer;
  if (st == GS_OK) {
    const char *schedule = gs_device_caps(j.device)->arch;
    if (strcmp(target, FALLBACK) != 0) j.target = schedule; /* sm_90 is taken as sm_90a */
    st = gs_pack_writer_target(j.writer, j.target, schedule, err);
  }
  if (st == GS_OK && w->model) {
    gs_steps_wish steps = {w->model, w->lora, gs_type_from_name(w->dtype), w->seq};
    st = gs_make_steps(j.device, &steps, put_library, &j, err);
  }
  if (st == GS_OK && (w->layers || w->file)) st = put_layers(&j, err);
  if (j.device) gs_device_close(j.device);
  return st;
}

static gs_status make(const wish *w, gs_error *err) {
  gs_pack_writer *writer = NULL;
  gs_status st = GS_OK;
  char list[256], *save = NULL;
  bool has_fallback = false;
  snprintf(list, sizeof list, "%s", w->archs);
  for (char *a = strtok_r(list, ",", &save); st == GS_OK && a; a = strtok_r(NULL, ",", &save)) {
    has_fallback |= strcmp(a, FALLBACK) == 0;
    st = put_target(w, a, &writer, err);
  }
  if (st == GS_OK && !has_fallback) st = put_target(w, FALLBACK, &writer, err);
  if (st == GS_OK) st = gs_pack_writer_save(writer, w->out, err);
  gs_pack_writer_free(writer);
  return st;
}

/* ---- showing ---- */

static void show_target(const gs_pack_about *a, const gs_pack_target *t) {
  int kernels = 0;
  size_t bytes = 0;
  for (int i = 0; i < a->ncodes; i++)
    if (strcmp(a->codes[i].target, t->name) == 0) {
      kernels++;
      bytes += a->codes[i].len;
    }
  printf("%-11s %d kernels, %zu bytes of %s\n", t->name, kernels, bytes,
         strncmp(t->name, "sm_", 3) == 0 ? "machine code" : "PTX");
}

static void show_record(const gs_pack_record *r) {
  const gs_launch_list *l = &r->list;
  printf("\n%s  (%s)\n ", r->key, r->schedule);
  for (int i = 0; i < l->nbindings; i++) {
    const gs_binding *b = &l->bindings[i];
    printf("%s %s %s", i ? "," : "", gs_type_name(b->type), b->name);
    for (int k = 0; k < b->ndims; k++) printf("%s%s", k ? ", " : " [", r->dims[b->dim[k]].name);
    printf("%s", b->ndims ? "]" : "");
    if (b->is_result && b->inplace >= 0) printf(" in %s", l->bindings[b->inplace].name);
  }
  printf("\n");
  for (int k = 0; k < l->nkernels; k++)
    printf("    %s  (%s: %s)\n", l->kernels[k].entry, l->kernels[k].template_name,
           l->kernels[k].tunables);
}

static gs_status inspect(const char *path, bool all, gs_error *err) {
  gs_pack_file *f = NULL;
  gs_status st = gs_pack_file_open(path, &f, err);
  if (st != GS_OK) return st;
  const gs_pack_about *a = gs_pack_file_about(f);
  printf("%s: %zu bytes, its hash fits\nformat      %d, by %s\ncompiler    %s\nlicence     %s\n",
         path, a->bytes, GS_PACK_FORMAT, a->producer, a->compiler, a->licence);
  for (int i = 0; i < a->ntargets; i++) show_target(a, &a->targets[i]);
  printf("passes      %d\n", a->nrecords);
  for (int i = 0; all && i < a->nrecords; i++) show_record(&a->records[i]);
  gs_pack_file_close(f);
  return GS_OK;
}

/* ---- the command ---- */

static gs_status check(const wish *w, gs_error *err) {
  gs_type t = gs_type_from_name(w->dtype);
  if (w->inspect) return GS_OK;
  if (!w->model && !w->layers && !w->file)
    return gs_fail(err, GS_ERR_USE, "pack: say what to pack: --model DIR, --layers or --file");
  if (!w->out) return gs_fail(err, GS_ERR_USE, "pack: --out FILE is needed");
  if (w->seq < 1) return gs_fail(err, GS_ERR_USE, "pack: --seq takes 1 or more");
  if (t != GS_F32 && t != GS_BF16)
    return gs_fail(err, GS_ERR_USE, "pack: --dtype takes f32 or bf16, not '%s'", w->dtype);
  return GS_OK;
}

int gs_cmd_pack(int argc, char **argv) {
  wish w = {.archs = "sm_80,sm_90a,sm_100a", .seq = 2048, .dtype = "bf16"};
  const gs_option options[] = {
      {"--model", "DIR", GS_OPT_STRING, &w.model,
       "every kernel of that model's training, evaluation and generation"},
      {"--lora", "r=16,...", GS_OPT_STRING, &w.lora, "as for train"},
      {"--dtype", "NAME", GS_OPT_STRING, &w.dtype, "of --model: bf16 (default) or f32"},
      {"--seq", "N", GS_OPT_INT, &w.seq, "tokens a step (default 2048)"},
      {"--layers", "LIST", GS_OPT_STRING, &w.layers,
       "layers: NAME[:TYPE][:DIM=SIZE]...[:OPTION=VALUE]...,NAME..."},
      {"--file", "FILE", GS_OPT_STRING, &w.file, "the same, one a line; # begins a comment"},
      {"--arch", "LIST", GS_OPT_STRING, &w.archs,
       "GPU architectures (default sm_80,sm_90a,sm_100a); PTX for later ones is always there"},
      {"--out", "FILE", GS_OPT_STRING, &w.out, "the pack"},
      {"--jobs", "N", GS_OPT_INT, &w.jobs, "compiling threads (default: one a core)"},
      {"--inspect", "FILE", GS_OPT_STRING, &w.inspect, "print what a pack holds"},
  };
  const gs_usage usage = {"pack", "--model DIR | --layers LIST [--arch LIST] --out FILE",
                          "Puts compiled kernels into one file, which runs where no compiler is.",
                          options, sizeof options / sizeof *options};
  int n;
  bool helped;
  gs_error err = {0};
  gs_status st = gs_args_parse(&usage, argc, argv, NULL, 0, &n, &helped, &err);
  if (helped) return 0;
  if (st == GS_OK) st = check(&w, &err);
  if (st == GS_OK && !w.inspect) st = make(&w, &err);
  if (st == GS_OK) st = inspect(w.inspect ? w.inspect : w.out, w.inspect != NULL, &err);
  return st == GS_OK ? 0 : gs_report(&err);
}
