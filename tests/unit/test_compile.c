/* uses: gs_step gs_model gs_device */
/* Every kernel of the training, evaluation and generation steps of real model shapes compiles for
 * GPUs that are not here, and keeps nothing in local memory. One layer is enough: all layers share
 * their kernels. The weights are a hole in a file: nobody reads them. */
#include "device/offline.h"
#include "step/step.h"

#include "base/file.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct shape {
  const char *name;
  int hidden, ffn, heads, kv, vocab;
  bool tied;
} shape;

static const shape shapes[] = {
    {"SmolLM2-135M", 576, 1536, 9, 3, 49152, true},
    {"Llama-3.1-8B", 4096, 14336, 32, 8, 128256, false},
};

typedef struct header {
  gs_text t;
  size_t at;
} header;

static void add(header *h, const char *name, size_t rows, size_t cols) {
  size_t bytes = 2 * rows * (cols ? cols : 1);
  gs_text_printf(&h->t, "%s\"%s\":{\"dtype\":\"BF16\",\"shape\":[%zu", h->at ? "," : "{", name,
                 rows);
  if (cols) gs_text_printf(&h->t, ",%zu", cols);
  gs_text_printf(&h->t, "],\"data_offsets\":[%zu,%zu]}", h->at, h->at + bytes);
  h->at += bytes;
}

static void write_weights(const char *dir, const shape *s) {
  size_t d = (size_t)(s->hidden / s->heads), h = (size_t)s->hidden, f = (size_t)s->ffn;
  header w = {0};
  add(&w, "model.embed_tokens.weight", (size_t)s->vocab, h);
  if (!s->tied) add(&w, "lm_head.weight", (size_t)s->vocab, h);
  add(&w, "model.norm.weight", h, 0);
  add(&w, "model.layers.0.input_layernorm.weight", h, 0);
  add(&w, "model.layers.0.post_attention_layernorm.weight", h, 0);
  add(&w, "model.layers.0.self_attn.q_proj.weight", h, h);
  add(&w, "model.layers.0.self_attn.k_proj.weight", d * (size_t)s->kv, h);
  add(&w, "model.layers.0.self_attn.v_proj.weight", d * (size_t)s->kv, h);
  add(&w, "model.layers.0.self_attn.o_proj.weight", h, h);
  add(&w, "model.layers.0.mlp.gate_proj.weight", f, h);
  add(&w, "model.layers.0.mlp.up_proj.weight", f, h);
  add(&w, "model.layers.0.mlp.down_proj.weight", h, f);
  gs_text_add(&w.t, "}");
  while (w.t.len % 8) gs_text_add(&w.t, " ");
  char path[640];
  snprintf(path, sizeof path, "%s/model.safetensors", dir);
  FILE *out = fopen(path, "wb");
  cr_assert(out, "%s", path);
  uint64_t len = w.t.len;
  fwrite(&len, 8, 1, out); /* the format is little-endian, as are the machines this runs on */
  fwrite(w.t.s, 1, w.t.len, out);
  fflush(out);
  cr_assert(ftruncate(fileno(out), (off_t)(8 + w.t.len + w.at)) == 0);
  fclose(out);
  gs_text_free(&w.t);
}

static void write_model(const char *dir, const shape *s) {
  gs_text t = {0};
  char path[640];
  gs_error err = {0};
  gs_text_printf(
      &t,
      "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":%d,"
      "\"intermediate_size\":%d,\"num_hidden_layers\":1,\"num_attention_heads\":%d,"
      "\"num_key_value_heads\":%d,\"vocab_size\":%d,\"rms_norm_eps\":1e-5,"
      "\"rope_theta\":500000.0,\"hidden_act\":\"silu\",\"tie_word_embeddings\":%s,"
      "\"max_position_embeddings\":8192}",
      s->hidden, s->ffn, s->heads, s->kv, s->vocab, s->tied ? "true" : "false");
  snprintf(path, sizeof path, "%s/config.json", dir);
  cr_assert(gs_file_write(path, t.s, t.len, &err) == GS_OK, "%s", err.message);
  gs_text_free(&t);
  write_weights(dir, s);
}

static void must(gs_status st, const gs_error *err) {
  cr_assert(st == GS_OK, "%s", err->message);
}

static void make_steps(gs_device *d, const char *dir) {
  static const gs_step_mode modes[] = {GS_STEP_TRAIN, GS_STEP_EVAL, GS_STEP_INFER};
  gs_error err = {0};
  gs_model *m;
  gs_params *p;
  gs_lora lora;
  int n;
  must(gs_lora_parse("", &lora, &err), &err);
  must(gs_model_open(d, dir, GS_BF16, &m, &err), &err);
  const gs_module *modules = gs_model_modules(m, &n);
  must(gs_params_new(d, modules, n, &lora, GS_BF16, 0, &p, &err), &err);
  for (int i = 0; i < 3; i++) {
    gs_step *s;
    gs_step_options o = {.mode = modes[i], .tokens = 2048, .optimizer = gs_adamw_default()};
    must(gs_step_new(m, p, &o, &s, &err), &err);
    gs_step_free(s);
  }
  gs_params_free(p);
  gs_model_close(m);
}

static void compile_for(const char *arch) {
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    gs_error err = {0};
    char dir[512];
    gs_device *d;
    gs_device_options o = {0};
    gs_status st = gs_offline_open(arch, &o, &d, &err);
    if (st == GS_ERR_DEVICE) {
      printf("skipped: compiling for %s (no NVRTC)\n", arch);
      return;
    }
    must(st, &err);
    must(gs_temp_dir(dir, sizeof dir, &err), &err);
    write_model(dir, &shapes[i]);
    make_steps(d, dir);
    gs_remove_tree(dir);
    cr_assert(gs_offline_count(d) >= 15, "only %d kernels", gs_offline_count(d));
    for (int k = 0; k < gs_offline_count(d); k++) {
      const gs_offline_kernel *x = gs_offline_at(d, k);
      cr_expect(x->use.local_bytes == 0, "%s of %s for %s keeps %d bytes a thread in local memory",
                x->entry, shapes[i].name, arch, x->use.local_bytes);
    }
    gs_device_close(d);
  }
}

Test(compile, sm_80) {
  compile_for("sm_80");
}
Test(compile, sm_90a) {
  compile_for("sm_90a");
}
Test(compile, sm_100a) {
  compile_for("sm_100a");
}
/* The consumer parts, which many fine-tuners own. */
Test(compile, sm_89) {
  compile_for("sm_89");
}
Test(compile, sm_120a) {
  compile_for("sm_120a");
}
