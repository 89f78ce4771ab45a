/* cmd_train.c: `gradsmith train`: options, progress, and what Ctrl-C does. */
#include "cli/args.h"

#include "base/clock.h"
#include "step/train.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Set by a signal: the only way in which one can tell. */
static volatile sig_atomic_t stop_asked;

/* The first asks to stop after the step; the second ends at once. */
static void on_signal(int sig) {
  (void)sig;
  if (stop_asked) _exit(130);
  stop_asked = 1;
}

static void catch_signals(void) {
  struct sigaction a;
  memset(&a, 0, sizeof a);
  a.sa_handler = on_signal;
  sigemptyset(&a.sa_mask);
  sigaction(SIGINT, &a, NULL);
  sigaction(SIGTERM, &a, NULL);
}

typedef struct command {
  gs_settings said;
  const char *out, *resume, *device, *pack, *log, *init_adapter;
  bool quiet, plan, log_rows, timing;
  gs_phases phases;
} command;

static gs_status parse(command *c, int argc, char **argv, bool *helped, gs_error *err) {
  gs_settings *s = &c->said;
  const gs_option options[] = {
      {"--model", "DIR", GS_OPT_STRING, &s->model,
       "model folder (config.json, *.safetensors, tokenizer.json)"},
      {"--data", "FILE", GS_OPT_STRING, &s->data,
       "training samples: JSONL with text, prompt/completion or messages"},
      {"--out", "DIR", GS_OPT_STRING, &c->out,
       "folder to make: the adapter, and the state of the run"},
      {"--resume", "DIR", GS_OPT_STRING, &c->resume,
       "go on with the run in DIR; its settings hold"},
      {"--eval", "FILE", GS_OPT_STRING, &s->eval, "held-out samples: their loss before and after"},
      {"--lora", "TEXT", GS_OPT_STRING, &s->lora,
       "r=16,alpha=32,targets=q_proj+v_proj (default: r=16,alpha=32,targets=all)"},
      {"--init-adapter", "DIR", GS_OPT_STRING, &c->init_adapter, "start from this PEFT adapter"},
      {"--steps", "N", GS_OPT_INT, &s->steps, "steps, each of one packed row"},
      {"--epochs", "N", GS_OPT_INT, &s->epochs, "or passes over the data (default 1)"},
      {"--seq", "N", GS_OPT_INT, &s->seq, "tokens of a row (default 512)"},
      {"--lr", "X", GS_OPT_FLOAT, &s->lr, "learning rate at the top (default 2e-4)"},
      {"--schedule", "NAME", GS_OPT_STRING, &s->schedule, "cosine (default), linear or constant"},
      {"--warmup", "N", GS_OPT_INT, &s->warmup, "steps of linear rise (default: 3 % of all)"},
      {"--clip", "X", GS_OPT_FLOAT, &s->clip, "largest norm of the gradient (default 1; 0: none)"},
      {"--weight-decay", "X", GS_OPT_FLOAT, &s->weight_decay, "AdamW's decay (default 0)"},
      {"--seed", "N", GS_OPT_INT, &s->seed, "of the adapter and the order of samples (default 0)"},
      {"--dtype", "NAME", GS_OPT_STRING, &s->dtype,
       "f32 or bf16 (default: bf16 on a GPU, f32 on the emulator)"},
      {"--device", "NAME", GS_OPT_STRING, &c->device, "cuda, emu or auto (default)"},
      {"--pack", "FILE", GS_OPT_STRING, &c->pack,
       "kernels come from this pack (gradsmith pack): no compiler is needed"},
      {"--eval-every", "N", GS_OPT_INT, &s->eval_every, "held-out loss every N steps, too"},
      {"--save-every", "N", GS_OPT_INT, &s->save_every, "save every N steps, too"},
      {"--log", "FILE", GS_OPT_STRING, &c->log, "one JSON line a step (appended)"},
      {"--log-rows", NULL, GS_OPT_FLAG, &c->log_rows, "with each step's tokens, labels, positions"},
      {"--plan", NULL, GS_OPT_FLAG, &c->plan,
       "print every action of the step and its memory, first"},
      {"--timing", NULL, GS_OPT_FLAG, &c->timing, "print how long the start took, part by part"},
      {"--quiet", NULL, GS_OPT_FLAG, &c->quiet, "no line for each step"},
  };
  const gs_usage u = {.command = "train",
                      .options = options,
                      .noptions = (int)(sizeof options / sizeof *options),
                      .synopsis = "--model DIR --data FILE.jsonl --out DIR [options]",
                      .summary = "Fine-tunes a model with LoRA and writes a PEFT adapter."};
  int nwords;
  return gs_args_parse(&u, argc, argv, NULL, 0, &nwords, helped, err);
}

/* What must be there, and what cannot be together. */
static gs_status check(const command *c, gs_error *err) {
  const gs_settings *s = &c->said;
  if (c->resume) {
    if (c->out && strcmp(c->out, c->resume) != 0)
      return gs_fail(err, GS_ERR_USE,
                     "train: --resume %s already says where to write; leave out --out", c->resume);
    if (c->init_adapter)
      return gs_fail(err, GS_ERR_USE, "train: --resume and --init-adapter cannot go together");
    return GS_OK;
  }
  const char *missing = !s->model  ? "--model DIR"
                        : !s->data ? "--data FILE.jsonl"
                        : !c->out  ? "--out DIR"
                                   : NULL;
  if (missing)
    return gs_fail(err, GS_ERR_USE, "train: %s is missing (gradsmith train --help)", missing);
  return GS_OK;
}

/* ---- what is shown ---- */

static void show_start(const gs_device *d, const gs_trainer *t, bool resumed, bool plan) {
  gs_trainer_about a = gs_trainer_info(t);
  gs_step_info i = gs_step_about(a.step);
  printf("device   %s, %s\n", gs_device_name(d), a.settings->dtype);
  printf("model    %s: %.1f M parameters, %.1f MiB\n", gs_model_dir(a.model),
         (double)gs_model_parameters(a.model) / 1e6, (double)i.weight_bytes / 1048576);
  printf("adapter  %s: %.2f M trained parameters, %.1f MiB with gradients and moments\n",
         a.settings->lora, (double)gs_params_trained(a.params) / 1e6,
         (double)i.param_bytes / 1048576);
  printf("step     %lld tokens: %d kernel launches of %d kernels, %d matrix products, %.1f MiB of "
         "activations "
         "(%.1f without reuse)\n",
         (long long)a.settings->seq, i.launches, i.kernels, i.gemms,
         (double)i.arena_bytes / 1048576, (double)i.arena_bytes_without_reuse / 1048576);
  printf("data     %s: %d samples, %d rows", a.settings->data, a.samples, a.rows);
  if (a.truncated)
    printf("; %d longer than --seq %lld are cut", a.truncated, (long long)a.settings->seq);
  printf("\n");
  if (resumed) printf("resumed  after step %lld of %lld\n", (long long)a.done, (long long)a.steps);
  if (!plan) return;
  gs_text text = {0};
  gs_step_print(a.step, &text);
  fputs(text.s, stdout);
  gs_text_free(&text);
}

static void show_step(const gs_device *d, const gs_progress *p, int64_t steps, double seconds,
                      double left) {
  printf("step %lld/%lld  loss %.4f  lr %.2e  norm %.3f  %.0f tokens/s  %.0f MiB  left %d:%02d\n",
         (long long)p->step, (long long)steps, p->result.loss, p->lr, p->result.grad_norm,
         (double)p->tokens / seconds, (double)gs_device_memory_peak(d) / 1048576, (int)left / 60,
         (int)left % 60);
  fflush(stdout);
}

/* After the first step. */
static void show_timing(gs_phases *p) {
  gs_phase(p, "step");
  printf("timing   %.3f s to the end of the first step:", p->last - p->begin);
  for (int i = 0; i < p->n; i++) {
    printf("%s %s %.3f", i ? "," : "", p->name[i], p->seconds[i]);
    if (strcmp(p->name[i], "kernels") == 0 && p->kept + p->compiled)
      printf(" (%d kept, %d compiled)", p->kept, p->compiled);
  }
  printf("\n");
}

static void warn(const gs_progress *p, bool *warned) {
  if (p->result.skipped && !*warned) {
    fprintf(stderr,
            "warning: step %lld: no token of the row has a label; such rows change nothing\n",
            (long long)p->step);
    *warned = true;
  }
  if (p->zero_gradients)
    fprintf(
        stderr,
        "warning: after step %lld the gradient of these parameters is zero in every element; they "
        "do not train:\n%s\n",
        (long long)p->step, p->zero_gradients);
}

static void log_array(FILE *f, const char *name, const int32_t *v, int n) {
  fprintf(f, ", \"%s\": [", name);
  for (int i = 0; i < n; i++) fprintf(f, i ? ",%d" : "%d", v[i]);
  fputc(']', f);
}

/* seq > 0: with the row of that many tokens, for who would repeat the step elsewhere. */
static gs_status log_step(FILE *f, const gs_progress *p, double seconds, int seq, gs_error *err) {
  if (!f) return GS_OK;
  fprintf(f,
          "{\"step\": %lld, \"loss\": %.9g, \"lr\": %.9g, \"grad_norm\": %.9g, \"labels\": %lld, "
          "\"tokens\": %lld, \"seconds\": %.6f",
          (long long)p->step, p->result.loss, p->lr, p->result.grad_norm,
          (long long)p->result.labels, (long long)p->tokens, seconds);
  if (seq > 0) {
    log_array(f, "id", p->row->id, seq);
    log_array(f, "label", p->row->label, seq);
    log_array(f, "position", p->row->position, seq);
    log_array(f, "cu", p->row->cu, p->row->documents + 1);
  }
  fputs("}\n", f);
  if (fflush(f) != 0 || ferror(f))
    return gs_fail(err, GS_ERR_IO, "--log: the line could not be written");
  return GS_OK;
}

static gs_status show_eval(gs_trainer *t, const char *when, double *loss, gs_error *err) {
  int64_t labels;
  gs_status s = gs_trainer_eval(t, loss, &labels, err);
  if (s) return s;
  printf("held-out loss %s %.4f (%lld tokens)\n", when, *loss, (long long)labels);
  fflush(stdout);
  return GS_OK;
}

/* ---- the run ---- */

/* Is something due after this step, by the setting "every N"? The end has its own. */
static bool is_due(int64_t every, int64_t done, int64_t steps) {
  return every > 0 && done % every == 0 && done < steps;
}

static gs_status run_steps(const command *c, const gs_device *d, gs_trainer *t, FILE *log,
                           gs_error *err) {
  bool warned = false;
  gs_trainer_about a = gs_trainer_info(t);
  double begin = gs_seconds(), loss;
  int64_t first = a.done;
  while (a.done < a.steps && !stop_asked) {
    gs_progress p;
    double at = gs_seconds();
    gs_status s = gs_trainer_step(t, &p, err);
    double seconds = gs_seconds() - at;
    if (!s) s = log_step(log, &p, seconds, c->log_rows ? (int)a.settings->seq : 0, err);
    if (s) return s;
    a = gs_trainer_info(t);
    if (c->timing && a.done == first + 1) show_timing(gs_device_phases(d));
    double each = (gs_seconds() - begin) / (double)(a.done - first);
    if (!c->quiet) show_step(d, &p, a.steps, seconds, each * (double)(a.steps - a.done));
    warn(&p, &warned);
    if (is_due(a.settings->save_every, a.done, a.steps)) s = gs_trainer_save(t, err);
    if (!s && a.settings->eval && is_due(a.settings->eval_every, a.done, a.steps))
      s = show_eval(t, "now", &loss, err);
    if (s) return s;
  }
  return GS_OK;
}

static gs_status train(const command *c, const gs_device *d, gs_trainer *t, FILE *log,
                       gs_error *err) {
  double before = 0, after = 0;
  gs_trainer_about a = gs_trainer_info(t);
  gs_status s = GS_OK;
  bool eval = a.settings->eval && a.done == 0;
  if (eval) s = show_eval(t, "before", &before, err);
  if (eval) gs_phase(gs_device_phases(d), "evaluation");
  if (!s) s = run_steps(c, d, t, log, err);
  if (s) return s;
  s = gs_trainer_save(t, err);
  if (s) return s;
  a = gs_trainer_info(t);
  if (a.done < a.steps)
    return gs_fail(err, GS_ERR_INTERRUPTED,
                   "stopped after step %lld of %lld; adapter and state are saved. To go "
                   "on: gradsmith train --resume %s",
                   (long long)a.done, (long long)a.steps, a.out);
  if (a.settings->eval) s = show_eval(t, "after", &after, err);
  if (!s) printf("adapter  %s (adapter_config.json, adapter_model.safetensors)\n", a.out);
  return s;
}

static gs_status run(command *c, gs_device *d, gs_error *err) {
  gs_trainer *t = NULL;
  FILE *log = NULL;
  gs_status s;
  if (c->resume)
    s = gs_trainer_resume(d, &c->said, c->resume, &t, err);
  else
    s = gs_trainer_start(d, &c->said, c->out, c->init_adapter, &t, err);
  if (!s && c->log && !(log = fopen(c->log, "a")))
    s = gs_fail(err, GS_ERR_USE, "--log %s cannot be opened for writing", c->log);
  if (!s) {
    gs_phase(gs_device_phases(d), "files");
    show_start(d, t, c->resume != NULL, c->plan);
    catch_signals();
    s = train(c, d, t, log, err);
  }
  if (log) fclose(log);
  gs_trainer_free(t);
  return s;
}

int gs_cmd_train(int argc, char **argv) {
  gs_error err = {0};
  command c = {.said = gs_settings_none(), .device = "auto"};
  bool helped = false;
  gs_device *d = NULL;
  gs_device_options o = {0};
  gs_status s = parse(&c, argc, argv, &helped, &err);
  if (!s && helped) return 0;
  if (!s) s = check(&c, &err);
  gs_phases_begin(&c.phases);
  o.pack = c.pack;
  o.phases = &c.phases;
  if (!s) s = gs_device_open(c.device, &o, &d, &err);
  if (!s) s = run(&c, d, &err);
  if (d) gs_device_close(d);
  return s ? gs_report(&err) : 0;
}
