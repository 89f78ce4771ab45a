/* cmd_generate.c: `gradsmith generate`: the greedy answer to a prompt. */
#include "cli/args.h"
#include "data/dataset.h"
#include "step/generate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct command {
  const char *model, *adapter, *prompt, *device, *dtype, *pack;
  int64_t max_tokens;
  bool raw;
} command;

static gs_status parse(command *c, int argc, char **argv, bool *helped, gs_error *err) {
  const gs_option options[] = {
      {"--model", "DIR", GS_OPT_STRING, &c->model, "model folder"},
      {"--adapter", "DIR", GS_OPT_STRING, &c->adapter, "PEFT adapter to apply"},
      {"--prompt", "TEXT", GS_OPT_STRING, &c->prompt, "what to answer"},
      {"--max-tokens", "N", GS_OPT_INT, &c->max_tokens, "tokens at most (default 64)"},
      {"--device", "NAME", GS_OPT_STRING, &c->device, "cuda, emu or auto (default)"},
      {"--pack", "FILE", GS_OPT_STRING, &c->pack,
       "kernels come from this pack (gradsmith pack): no compiler is needed"},
      {"--dtype", "NAME", GS_OPT_STRING, &c->dtype,
       "f32 or bf16 (default: bf16 on a GPU, f32 on the emulator)"},
      {"--raw", NULL, GS_OPT_FLAG, &c->raw, "go on with the text itself: no chat template"},
  };
  const gs_usage u = {.command = "generate",
                      .options = options,
                      .noptions = (int)(sizeof options / sizeof *options),
                      .synopsis = "--model DIR [--adapter DIR] --prompt TEXT [options]",
                      .summary = "Prints the greedy answer to a prompt."};
  int nwords;
  gs_status s = gs_args_parse(&u, argc, argv, NULL, 0, &nwords, helped, err);
  if (s || *helped) return s;
  if (!c->model || !c->prompt)
    return gs_fail(err, GS_ERR_USE, "generate: %s is missing (gradsmith generate --help)",
                   c->model ? "--prompt TEXT" : "--model DIR");
  if (c->max_tokens < 1 || c->max_tokens > 1 << 20)
    return gs_fail(err, GS_ERR_USE, "generate: --max-tokens must be from 1 to %d", 1 << 20);
  return GS_OK;
}

static gs_status encode(const command *c, const gs_tokenizer *t, gs_ids *ids, gs_error *err) {
  if (c->raw || !gs_tokenizer_chat_template(t))
    return gs_tokenizer_encode(t, c->prompt, strlen(c->prompt), 1, ids, err);
  gs_chat *chat;
  gs_status s = gs_chat_open(t, &chat, err);
  if (s) return gs_fail_in(err, "%s (--raw goes without a template)", c->model);
  s = gs_chat_prompt(chat, t, c->prompt, ids, err);
  gs_chat_free(chat);
  return s;
}

/* The model with its adapter. */
static gs_status open_model(const command *c, gs_device *d, gs_model **m, gs_params **p,
                            gs_error *err) {
  const char *name = c->dtype ? c->dtype : gs_device_is_emulator(d) ? "f32" : "bf16";
  gs_type dtype = gs_type_from_name(name);
  if (dtype != GS_F32 && dtype != GS_BF16)
    return gs_fail(err, GS_ERR_USE, "generate: --dtype %s is unknown; it is f32 or bf16", name);
  gs_status s = gs_model_open(d, c->model, dtype, m, err);
  if (s || !c->adapter) return s;
  gs_lora lora;
  gs_weights *w;
  int n;
  s = gs_adapter_read(c->adapter, &lora, &w, err);
  if (s) return s;
  const gs_module *modules = gs_model_modules(*m, &n);
  s = gs_params_new(d, modules, n, &lora, dtype, 0, p, err);
  if (!s) s = gs_params_load(*p, w, c->adapter, err);
  gs_weights_close(w);
  return s;
}

static gs_status answer(const gs_tokenizer *t, gs_model *m, gs_params *p, int64_t max_tokens,
                        gs_ids *prompt, gs_error *err) {
  int32_t stop[32];
  int nstop;
  const int32_t *eos = gs_model_eos(m, &nstop);
  memcpy(stop, eos, (size_t)nstop * sizeof *eos);
  if (gs_tokenizer_eos(t) >= 0) stop[nstop++] = gs_tokenizer_eos(t);
  gs_generate_options o = {.max_tokens = max_tokens, .stop = stop, .nstop = nstop};
  int64_t n = (int64_t)prompt->n, before = n;
  int32_t *ids = malloc((size_t)(n + max_tokens) * sizeof *ids);
  if (!ids) return gs_fail(err, GS_ERR_MEMORY, "out of memory");
  memcpy(ids, prompt->id, (size_t)n * sizeof *ids);
  char *text = NULL;
  gs_status s = gs_generate(m, p, &o, ids, &n, err);
  if (!s) s = gs_tokenizer_decode(t, ids + before, (size_t)(n - before), 1, &text, err);
  if (!s) printf("%s\n", text);
  free(text);
  free(ids);
  return s;
}

static gs_status run(const command *c, gs_device *d, gs_error *err) {
  gs_tokenizer *t = NULL;
  gs_model *m = NULL;
  gs_params *p = NULL;
  gs_ids ids = {0};
  gs_status s = gs_tokenizer_open(c->model, &t, err);
  if (!s) s = encode(c, t, &ids, err);
  if (!s) s = open_model(c, d, &m, &p, err);
  if (!s) s = answer(t, m, p, c->max_tokens, &ids, err);
  gs_params_free(p);
  gs_model_close(m);
  gs_ids_free(&ids);
  if (t) gs_tokenizer_free(t);
  return s;
}

int gs_cmd_generate(int argc, char **argv) {
  gs_error err = {0};
  command c = {.device = "auto", .max_tokens = 64};
  bool helped = false;
  gs_device *d = NULL;
  gs_device_options o = {0};
  gs_status s = parse(&c, argc, argv, &helped, &err);
  if (!s && helped) return 0;
  o.pack = c.pack;
  if (!s) s = gs_device_open(c.device, &o, &d, &err);
  if (!s) s = run(&c, d, &err);
  if (d) gs_device_close(d);
  return s ? gs_report(&err) : 0;
}
