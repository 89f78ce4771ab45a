/* uses: gs_model */
/* test_gguf.c: block formats against an element-by-element reading in double; a whole small model
 * of every format imported and compared; hostile, cut and bit-flipped files; what an import leaves.
 */
#include "base/arena.h"
#include "base/file.h"
#include "base/half.h"
#include "gguf_maker.h"
#include "model/gguf.h"
#include "model/gguf_blocks.h"
#include "model/gguf_llama.h"
#include "model/gguf_tokenizer.h"
#include "model/json.h"
#include "model/safetensors.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

static char dir[256], file[512], target[512];
static gs_error err;

static void setup(void) {
  cr_assert(gs_temp_dir(dir, sizeof dir, &err) == GS_OK, "%s", err.message);
  snprintf(file, sizeof file, "%s/model.gguf", dir);
  snprintf(target, sizeof target, "%s/made", dir);
}
static void teardown(void) {
  gs_remove_tree(dir);
}
TestSuite(gguf, .init = setup, .fini = teardown);

static void put_file(const char *where, const char *data, size_t n) {
  FILE *f = fopen(where, "wb");
  cr_assert(f && fwrite(data, 1, n, f) == n && fclose(f) == 0);
}

static void put(maker *m) {
  gs_text f = m_file(m);
  put_file(file, f.s, f.len);
  gs_text_free(&f);
}

static uint64_t fresh_seed(void) {
  const char *again = getenv("GRADSMITH_TEST_SEED");
  uint64_t s = again ? strtoull(again, NULL, 10) : (uint64_t)time(NULL) * 1000003u;
  fprintf(stderr, "seed %llu\n", (unsigned long long)s);
  return s;
}

Test(gguf, blocks_decode_to_their_values) {
  maker m = {.seed = fresh_seed()};
  float out[512];
  for (int k = 0; k < M_NTYPES; k++) {
    const m_type *t = &m_types[k];
    const gs_gguf_block_type *b = gs_gguf_block(t->id);
    cr_assert(b && b->decode && b->elements == (unsigned)t->elements &&
              b->bytes == (unsigned)t->bytes);
    for (int round = 0; round < 50; round++) {
      unsigned char data[1024];
      double size;
      m_block(&m, t, data);
      m_block(&m, t, data + t->bytes);
      for (int i = 0; i < 512; i++) out[i] = NAN;
      gs_gguf_decode(b, data, out, 2 * b->elements);
      for (size_t i = 0; i < 2 * b->elements; i++) {
        double want = m_value(t->id, data, i, &size);
        cr_assert(fabs(out[i] - want) <= size * 0x1p-22, "%s element %zu: %.9g, not %.9g", b->name,
                  i, out[i], want);
      }
    }
  }
  cr_assert_null(gs_gguf_block(4));
  cr_assert_null(gs_gguf_block(-1));
}

/* ---- a small model ---- */

static const char *const tokens[] = {"<|end|>", "<|start|>", "<extra>", "!",        "a",  "b",
                                     "c",       "d",         "e",       "\304\240", "ab", "cd",
                                     "abcd",    "\304\240a", "[PAD14]", "0"};
static const int32_t token_types[] = {3, 1, 4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 5, 1};
static const char *const merges[] = {"a b", "c d", "ab cd", "\304\240 a"};
#define NTOKENS 16

typedef struct shape {
  uint64_t hidden, ffn, heads, kv, layers, vocab;
} shape;

static void put_meta(maker *m, const shape *s) {
  m_text(m, "general.architecture", "llama");
  m_u32(m, "llama.block_count", (uint32_t)s->layers);
  m_u32(m, "llama.context_length", 77);
  m_u32(m, "llama.embedding_length", (uint32_t)s->hidden);
  m_u32(m, "llama.feed_forward_length", (uint32_t)s->ffn);
  m_u32(m, "llama.attention.head_count", (uint32_t)s->heads);
  m_u32(m, "llama.attention.head_count_kv", (uint32_t)s->kv);
  m_f32(m, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
  m_f32(m, "llama.rope.freq_base", 500000);
  m_text(m, "tokenizer.ggml.model", "gpt2");
  m_text(m, "tokenizer.ggml.pre", "smollm");
  m_texts(m, "tokenizer.ggml.tokens", tokens, NTOKENS);
  m_ints(m, "tokenizer.ggml.token_type", token_types, NTOKENS);
  m_texts(m, "tokenizer.ggml.merges", merges, 4);
  m_u32(m, "tokenizer.ggml.bos_token_id", 1);
  m_u32(m, "tokenizer.ggml.eos_token_id", 0);
  m_text(m, "tokenizer.chat_template", "{{ messages }} \"x\"\n");
}

typedef struct placed {
  char from[64], to[96];
  int type;
  uint64_t cols, rows, heads; /* heads: 0, or of a rotated projection */
  size_t at;
} placed;

static const struct {
  const char *from, *to;
  char rows, cols, rotated; /* h hidden, f ffn, q, k, v vocab, 1 */
} layer_tensors[] = {
    {"attn_norm", "input_layernorm", '1', 'h', 0},
    {"attn_q", "self_attn.q_proj", 'q', 'h', 'q'},
    {"attn_k", "self_attn.k_proj", 'k', 'h', 'k'},
    {"attn_v", "self_attn.v_proj", 'k', 'h', 0},
    {"attn_output", "self_attn.o_proj", 'h', 'q', 0},
    {"ffn_norm", "post_attention_layernorm", '1', 'h', 0},
    {"ffn_gate", "mlp.gate_proj", 'f', 'h', 0},
    {"ffn_up", "mlp.up_proj", 'f', 'h', 0},
    {"ffn_down", "mlp.down_proj", 'h', 'f', 0},
};

static uint64_t extent(const shape *s, char c) {
  switch (c) {
  case 'h': return s->hidden;
  case 'f': return s->ffn;
  case 'k': return s->hidden / s->heads * s->kv;
  case 'v': return s->vocab;
  case 'q': return s->hidden;
  default: return 0;
  }
}

static void place(maker *m, placed *p, const shape *s, int type, char rows, char cols) {
  p->cols = extent(s, cols);
  p->rows = extent(s, rows);
  p->type = type;
  p->at = m_tensor(m, p->from, type, p->cols, p->rows);
}

/* All tensors; the types go round through those whose blocks fit. Returns how many. */
static int put_tensors(maker *m, const shape *s, placed *list) {
  int n = 0, next = 0, largest = s->hidden % 256 || s->ffn % 256 ? 32 : 256;
  strcpy(list[n].from, "token_embd.weight");
  strcpy(list[n].to, "model.embed_tokens.weight");
  place(m, &list[n++], s, 8, 'v', 'h');
  strcpy(list[n].from, "output_norm.weight");
  strcpy(list[n].to, "model.norm.weight");
  place(m, &list[n++], s, 0, '1', 'h');
  for (uint64_t l = 0; l < s->layers; l++) {
    for (size_t k = 0; k < sizeof layer_tensors / sizeof *layer_tensors; k++, n++) {
      do next = (next + 1) % M_NTYPES;
      while (m_types[next].elements > largest);
      snprintf(list[n].from, 64, "blk.%d.%s.weight", (int)l, layer_tensors[k].from);
      snprintf(list[n].to, 96, "model.layers.%d.%s.weight", (int)l, layer_tensors[k].to);
      char r = layer_tensors[k].rotated;
      list[n].heads = r == 'q' ? s->heads : r == 'k' ? s->kv : 0;
      place(m, &list[n], s, m_types[next].id, layer_tensors[k].rows, layer_tensors[k].cols);
    }
  }
  return n;
}

/* Row by row and half by half, as a reshape to [heads, half, 2] and an exchange of the last two. */
static void source_rows(const placed *p, size_t *rows) {
  size_t half = p->heads ? p->rows / p->heads / 2 : 0, out = 0;
  for (size_t h = 0; h < p->heads; h++)
    for (size_t part = 0; part < 2; part++)
      for (size_t i = 0; i < half; i++) rows[out++] = (h * half + i) * 2 + part;
  for (; out < (p->rows ? p->rows : 1); out++) rows[out] = out;
}

static void compare(const placed *p, const maker *m, const gs_weights *f32,
                    const gs_weights *bf16) {
  const gs_weight *a = gs_weights_find(f32, p->to), *b = gs_weights_find(bf16, p->to);
  const unsigned char *data = (const unsigned char *)m->data.s + p->at;
  size_t rows = p->rows ? p->rows : 1, from[1024];
  cr_assert(a && b, "%s", p->to);
  cr_assert(a->type == GS_F32 && b->type == GS_BF16 && a->ndims == (p->rows ? 2 : 1));
  cr_assert(a->shape[a->ndims - 1] == (int64_t)p->cols &&
            a->shape[0] == (int64_t)(p->rows ? rows : p->cols));
  source_rows(p, from);
  for (size_t r = 0; r < rows; r++)
    for (size_t c = 0; c < p->cols; c++) {
      double size, want = m_value(p->type, data, from[r] * p->cols + c, &size);
      float got = ((const float *)a->data)[r * p->cols + c];
      cr_assert(fabs(got - want) <= size * 0x1p-22, "%s [%zu, %zu]: %g, not %g", p->to, r, c, got,
                want);
      cr_assert_eq(((const uint16_t *)b->data)[r * p->cols + c], gs_f32_to_bf16(got));
    }
}

static int64_t whole(const json_t *v, const char *key) {
  cr_assert(json_is_integer(json_object_get(v, key)), "%s", key);
  return json_integer_value(json_object_get(v, key));
}

static json_t *made(const char *name) {
  char path[600];
  json_t *v;
  snprintf(path, sizeof path, "%s/%s", target, name);
  cr_assert(gs_json_read(path, &v, &err) == GS_OK, "%s", err.message);
  return v;
}

static void check_config(const shape *s) {
  json_t *c = made("config.json");
  cr_assert_eq(whole(c, "hidden_size"), (int64_t)s->hidden);
  cr_assert_eq(whole(c, "head_dim"), (int64_t)(s->hidden / s->heads));
  cr_assert_eq(whole(c, "num_key_value_heads"), (int64_t)s->kv);
  cr_assert_eq(whole(c, "max_position_embeddings"), 77);
  cr_assert_eq(whole(c, "vocab_size"), (int64_t)s->vocab);
  cr_assert_eq(whole(c, "bos_token_id"), 1);
  cr_assert_eq(json_real_value(json_object_get(c, "rms_norm_eps")), 1e-5,
               "not the f32's own decimal");
  cr_assert_eq(json_real_value(json_object_get(c, "rope_theta")), 500000.0);
  cr_assert(json_is_true(json_object_get(c, "tie_word_embeddings")));
  json_decref(c);
}

static void check_tokenizer(void) {
  json_t *t = made("tokenizer.json"), *c = made("tokenizer_config.json");
  json_t *model = json_object_get(t, "model"), *vocab = json_object_get(model, "vocab");
  cr_assert_eq(json_object_size(vocab), NTOKENS - 1, "the unused token stays out");
  cr_assert_eq(whole(vocab, "abcd"), 12);
  cr_assert_null(json_object_get(vocab, "[PAD14]"));
  cr_assert_eq(json_array_size(json_object_get(model, "merges")), 4);
  cr_assert_str_eq(json_string_value(json_array_get(json_object_get(model, "merges"), 2)), "ab cd");
  json_t *added = json_object_get(t, "added_tokens");
  cr_assert_eq(json_array_size(added), 3, "bos is special by its office");
  cr_assert(json_is_true(json_object_get(json_array_get(added, 1), "special")));
  cr_assert(json_is_false(json_object_get(json_array_get(added, 2), "special")), "user-defined");
  json_t *pre = json_object_get(json_object_get(t, "pre_tokenizer"), "pretokenizers");
  cr_assert_str_eq(json_string_value(json_object_get(json_array_get(pre, 0), "type")), "Digits");
  cr_assert_str_eq(json_string_value(json_object_get(c, "eos_token")), "<|end|>");
  cr_assert_str_eq(json_string_value(json_object_get(c, "chat_template")),
                   "{{ messages }} \"x\"\n");
  json_decref(t);
  json_decref(c);
}

Test(gguf, a_model_of_every_block_format) {
  const shape s = {256, 512, 4, 2, 2, 19};
  maker m = {.seed = fresh_seed()};
  placed list[32] = {0};
  gs_weights *f32, *bf16;
  put_meta(&m, &s);
  int n = put_tensors(&m, &s, list);
  put(&m);
  cr_assert(gs_gguf_import(file, target, GS_BF16, &err) == GS_OK, "%s", err.message);
  check_config(&s);
  check_tokenizer();
  cr_assert(gs_weights_open(target, &bf16, &err) == GS_OK, "%s", err.message);
  snprintf(target, sizeof target, "%s/f32", dir);
  cr_assert(gs_gguf_import(file, target, GS_F32, &err) == GS_OK, "%s", err.message);
  cr_assert(gs_weights_open(target, &f32, &err) == GS_OK, "%s", err.message);
  cr_assert_eq(gs_weights_count(f32), n);
  for (int i = 0; i < n; i++) compare(&list[i], &m, f32, bf16);
  gs_weights_close(f32);
  gs_weights_close(bf16);
  m_free(&m);
}

/* ---- a smaller one, spoilt in many ways ---- */

static const shape small = {32, 64, 2, 1, 1, 17};

static gs_text small_file(size_t *header) {
  maker m = {.seed = 1};
  placed list[16] = {0};
  put_meta(&m, &small);
  put_tensors(&m, &small, list);
  gs_text f = m_file(&m);
  *header = m.header;
  m_free(&m);
  return f;
}

/* All that an import reads but for writing files: the sanitizers watch. */
static gs_status read_all(void) {
  gs_gguf *g;
  gs_llama llama;
  gs_gguf_tokens t;
  gs_status st = gs_gguf_open(file, &g, &err);
  if (st != GS_OK) return st;
  gs_arena *a = gs_arena_new();
  st = gs_llama_read(g, GS_F32, a, &llama, &err);
  if (st == GS_OK) st = gs_gguf_tokens_read(g, llama.vocab, llama.context, &t, &err);
  if (st == GS_OK) {
    float out[256];
    for (int i = 0; i < llama.n; i++) {
      const gs_gguf_block_type *b = gs_gguf_block(llama.sources[i]->type);
      for (size_t at = 0; at < llama.sources[i]->bytes; at += b->bytes)
        b->decode(llama.sources[i]->data + at, out);
    }
    gs_gguf_tokens_free(&t);
  }
  gs_arena_free(a);
  gs_gguf_close(g);
  return st;
}

/* The file is cut shorter and shorter in place: quicker than writing thousands of files. */
Test(gguf, cut_at_every_byte) {
  size_t header;
  gs_text f = small_file(&header);
  put_file(file, f.s, f.len);
  cr_assert(read_all() == GS_OK, "%s", err.message);
  for (size_t cut = f.len; cut-- > 0;) {
    if (cut > header && cut % 7) continue;
    cr_assert_eq(truncate(file, (off_t)cut), 0);
    cr_assert_eq(read_all(), GS_ERR_INPUT, "read after %zu of %zu bytes", cut, f.len);
    cr_assert(strstr(err.message, file));
  }
  gs_text_free(&f);
}

Test(gguf, each_bit_of_the_header_turned) {
  size_t header, fine = 0;
  gs_text f = small_file(&header);
  put_file(file, f.s, f.len);
  int fd = open(file, O_WRONLY);
  for (size_t bit = 0; bit < 8 * header; bit++) {
    char turned = (char)(f.s[bit / 8] ^ 1 << bit % 8);
    cr_assert_eq(pwrite(fd, &turned, 1, (off_t)(bit / 8)), 1);
    if (read_all() == GS_OK) fine++;
    cr_assert_eq(pwrite(fd, &f.s[bit / 8], 1, (off_t)(bit / 8)), 1);
  }
  close(fd);
  cr_assert(fine > 0 && fine < 4 * header, "%zu of %zu read", fine, 8 * header);
  gs_text_free(&f);
}

/* Nothing but the GGUF file in dir. */
static void nothing_left(void) {
  DIR *d = opendir(dir);
  for (struct dirent *e; (e = readdir(d)) != NULL;)
    cr_assert(e->d_name[0] == '.' || strcmp(e->d_name, "model.gguf") == 0, "%s was left",
              e->d_name);
  closedir(d);
}

static void refused(maker *m, const char *says) {
  put(m);
  m_free(m);
  memset(&err, 0, sizeof err);
  cr_assert_eq(gs_gguf_import(file, target, GS_BF16, &err), GS_ERR_INPUT, "not refused: %s", says);
  cr_assert(strstr(err.message, says), "\"%s\" is not in: %s", says, err.message);
  nothing_left();
}

/* The small model with one key more, of this kind and value. */
static void with_key(const char *key, uint32_t kind, uint64_t value, int bytes, const char *says) {
  maker m = {.seed = 1};
  placed list[16] = {0};
  put_meta(&m, &small);
  put_tensors(&m, &small, list);
  m_key(&m, key, kind);
  m_num(&m.meta, value, bytes);
  refused(&m, says);
}

Test(gguf, settings_that_would_be_dropped) {
  with_key("llama.expert_count", 4, 8, 4, "llama.expert_count");
  with_key("llama.logit_scale", 6, 0x3f800000, 4, "llama.logit_scale");
  with_key("llama.rope.dimension_count", 4, 8, 4, "llama.rope.dimension_count");
  with_key("llama.attention.key_length", 4, 8, 4, "tensor");
  with_key("llama.vocab_size", 4, 18, 4, "llama.vocab_size");
  with_key("llama.rope.scaling.type", 8, 0, 8, "llama.rope.scaling.type");
  with_key("llama.block_count", 4, 1, 4, "twice");
  with_key("split.count", 4, 2, 4, "split.count");
  with_key("general.quantization_version", 4, 1, 4, "general.quantization_version");
  with_key("general.alignment", 4, 3, 4, "alignment");
  with_key("general.alignment", 4, 0, 4, "alignment");
  with_key("general.alignment", 4, 64, 4, "multiple of 64");
  with_key("tokenizer.ggml.padding_token_id", 4, NTOKENS, 4, "padding_token_id");
  with_key("tokenizer.ggml.unknown_token_id", 4, 14, 4, "unused");
  with_key("tokenizer.ggml.add_space_prefix", 7, 1, 1, "add_space_prefix");
  with_key("x", 13, 0, 8, "kind of value 13");
}

Test(gguf, settings_that_may_pass) {
  maker m = {.seed = 1};
  placed list[16] = {0};
  put_meta(&m, &small);
  put_tensors(&m, &small, list);
  m_u32(&m, "llama.expert_count", 0);
  m_u32(&m, "llama.vocab_size", (uint32_t)small.vocab);
  m_u32(&m, "llama.rope.dimension_count", 16);
  m_text(&m, "llama.rope.scaling.type", "none");
  m_text(&m, "general.name", "x");
  m_key(&m, "nested", 9); /* [[[1, 2]], [[]]] */
  m_num(&m.meta, 9, 4), m_num(&m.meta, 2, 8);
  m_num(&m.meta, 9, 4), m_num(&m.meta, 1, 8), m_num(&m.meta, 0, 4), m_num(&m.meta, 2, 8);
  m_num(&m.meta, 0x0201, 2);
  m_num(&m.meta, 9, 4), m_num(&m.meta, 1, 8), m_num(&m.meta, 0, 4), m_num(&m.meta, 0, 8);
  m.version = 2;
  put(&m);
  m_free(&m);
  cr_assert(gs_gguf_import(file, target, GS_BF16, &err) == GS_OK, "%s", err.message);
}

/* The small model with one tensor more. */
static void with_tensor(const char *name, uint32_t ndims, uint64_t d0, uint64_t d1, uint32_t type,
                        uint64_t offset, const char *says) {
  maker m = {.seed = 1};
  placed list[16] = {0};
  put_meta(&m, &small);
  put_tensors(&m, &small, list);
  m.ntensors++;
  m_str(&m.infos, name);
  m_num(&m.infos, ndims, 4);
  m_num(&m.infos, d0, 8);
  for (uint32_t i = 1; i < ndims && i < 6; i++) m_num(&m.infos, d1, 8);
  m_num(&m.infos, type, 4);
  m_num(&m.infos, offset, 8);
  refused(&m, says);
}

Test(gguf, tensors_that_cannot_be) {
  with_tensor("rope_freqs.weight", 1, 8, 1, 0, 1 << 20, "outside");
  with_tensor("x", 1, 8, 1, 0, 0, "overlap");
  with_tensor("x", 1, 8, 1, 0, 4, "multiple of 32");
  with_tensor("x", 1, 8, 1, 0, UINT64_MAX - 31, "outside");
  with_tensor("x", 1, 0, 1, 0, 0, "no file could hold");
  with_tensor("x", 0, 8, 1, 0, 0, "0 dims");
  with_tensor("x", 5, 8, 1, 0, 0, "5 dims");
  with_tensor("x", 1, 8, 1, 4, 0, "unknown type 4");
  with_tensor("x", 1, 8, 1, 0xffffffff, 0, "unknown type");
  with_tensor("x", 1, 33, 1, 2, 0, "multiple of");
  with_tensor("x", 2, 1u << 31, 1ull << 33, 0, 0, "no file could hold");
  with_tensor("x", 4, 1ull << 62, 1ull << 62, 0, 0, "no file could hold");
  with_tensor("x", 2, 1u << 30, 2, 0, 0, "outside"); /* 8 GB claimed */
  with_tensor("", 1, 8, 1, 0, 0, "empty");
}

Test(gguf, a_tensor_too_many_or_too_few) {
  maker m = {.seed = 1};
  placed list[16] = {0};
  put_meta(&m, &small);
  put_tensors(&m, &small, list);
  m_tensor(&m, "rope_freqs.weight", 0, 8, 0);
  refused(&m, "rope_freqs.weight");
  m = (maker){.seed = 1};
  put_meta(&m, &small);
  m_tensor(&m, "token_embd.weight", 0, 32, 17);
  m_tensor(&m, "output_norm.weight", 0, 32, 0);
  refused(&m, "attn_norm.weight\" is missing");
  m = (maker){.seed = 1};
  put_meta(&m, &(shape){32, 64, 2, 1, 2, 17});
  put_tensors(&m, &small, list);
  refused(&m, "blk.1.attn_norm.weight\" is missing");
  m = (maker){.seed = 1};
  put_meta(&m, &(shape){64, 64, 2, 1, 1, 17});
  put_tensors(&m, &small, list);
  refused(&m, "token_embd.weight");
}

Test(gguf, a_value_that_is_not_finite) {
  size_t header;
  gs_text f = small_file(&header);
  f.s[header] = 0, f.s[header + 1] = 0x7c; /* the first scale of token_embd: infinity */
  put_file(file, f.s, f.len);
  cr_assert_eq(gs_gguf_import(file, target, GS_BF16, &err), GS_ERR_INPUT);
  cr_assert(strstr(err.message, "not finite"), "%s", err.message);
  nothing_left();
  gs_text_free(&f);
}

/* ---- tokenizers that cannot be imported ---- */

static void with_tokenizer(const char *model, const char *pre, const char *const *words, size_t n,
                           const char *const *pairs, size_t npairs, const char *says) {
  maker m = {.seed = 1};
  placed list[16] = {0};
  m_text(&m, "general.architecture", "llama");
  m_u32(&m, "llama.block_count", 1);
  m_u32(&m, "llama.context_length", 77);
  m_u32(&m, "llama.embedding_length", 32);
  m_u32(&m, "llama.feed_forward_length", 64);
  m_u32(&m, "llama.attention.head_count", 2);
  m_u32(&m, "llama.attention.head_count_kv", 1);
  m_f32(&m, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
  if (model) m_text(&m, "tokenizer.ggml.model", model);
  if (pre) m_text(&m, "tokenizer.ggml.pre", pre);
  m_texts(&m, "tokenizer.ggml.tokens", words, n);
  m_texts(&m, "tokenizer.ggml.merges", pairs, npairs);
  put_tensors(&m, &small, list);
  refused(&m, says);
}

Test(gguf, tokenizers_that_cannot_be) {
  static const char *const twice[] = {"a", "b", "a"}, *const bytes[] = {"a", "\xff"};
  static const char *const words[] = {"a", "b", "ab", "a b"}, *const none[] = {"ab a"};
  static const char *const shape_of_merge[] = {"ab", " ab", "a ", "a b ab", ""};
  const char *many[20];
  for (int i = 0; i < 20; i++) many[i] = "x";
  with_tokenizer(NULL, "gpt-2", words, 3, NULL, 0, "tokenizer.ggml.model");
  with_tokenizer("llama", "gpt-2", words, 3, NULL, 0, "\"llama\"");
  with_tokenizer("gpt2", NULL, words, 3, NULL, 0, "tokenizer.ggml.pre");
  with_tokenizer("gpt2", "qwen2", words, 3, NULL, 0, "\"qwen2\"");
  with_tokenizer("gpt2", "gpt-2", twice, 3, NULL, 0, "twice");
  with_tokenizer("gpt2", "gpt-2", bytes, 2, NULL, 0, "UTF-8");
  with_tokenizer("gpt2", "gpt-2", NULL, 0, NULL, 0, "tokenizer.ggml.tokens");
  with_tokenizer("gpt2", "gpt-2", many, 20, NULL, 0, "17 rows");
  with_tokenizer("gpt2", "gpt-2", words, 4, none, 1, "merge 0");
  for (int i = 0; i < 5; i++)
    with_tokenizer("gpt2", "gpt-2", words, 4, shape_of_merge + i, 1, "merge 0");
}

/* ---- headers ---- */

static void head(const char *bytes, size_t n, const char *says) {
  gs_gguf *g;
  put_file(file, bytes, n);
  cr_assert_eq(gs_gguf_open(file, &g, &err), GS_ERR_INPUT, "%s", says);
  cr_assert(strstr(err.message, says), "%s", err.message);
}

Test(gguf, headers_that_lie) {
  static const char zeros[24] = {0};
  head("", 0, "not a GGUF");
  head("GGML\3\0\0\0", 8, "not a GGUF");
  head("GGUF\1\0\0\0", 8, "version 1");
  head("GGUF\4\0\0\0", 8, "version 4");
  head("GGUF\0\0\0\3", 8, "big-endian");
  head("GGUF\3\0\0\0\377\377\377\377\377\377\377\377\0\0\0\0\0\0\0\0", 24, "cut off");
  head("GGUF\3\0\0\0\0\0\0\0\0\0\0\0\377\377\377\377\377\377\377\177", 24, "cut off");
  head("GGUF\3\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\377\377\377\377\377\377\377\377\0\0\0\0\0", 37,
       "characters");
  head(zeros, 24, "not a GGUF");
  for (char kind = 4; kind < 10; kind++) { /* an array that claims 2^63 elements */
    char array[] = "GGUF\3\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0x"
                   "\11\0\0\0K\0\0\0\0\0\0\0\0\0\0\200";
    *(char *)memchr(array + 33, 'K', 8) = kind;
    head(array, sizeof array - 1, "cut off");
  }
}

/* ---- where it goes ---- */

Test(gguf, the_target_folder) {
  size_t header;
  char inside[600];
  gs_text f = small_file(&header);
  put_file(file, f.s, f.len);
  gs_text_free(&f);
  cr_assert_eq(gs_gguf_import(file, file, GS_BF16, &err), GS_ERR_USE, "a file is in the way");
  cr_assert_eq(gs_gguf_import(file, target, GS_I32, &err), GS_ERR_USE);
  cr_assert_eq(gs_mkdirs(target, &err), GS_OK);
  snprintf(inside, sizeof inside, "%s/", target);
  cr_assert(gs_gguf_import(file, inside, GS_BF16, &err) == GS_OK, "an empty folder: %s",
            err.message);
  snprintf(inside, sizeof inside, "%s/config.json", target);
  cr_assert(gs_path_exists(inside));
  cr_assert_eq(gs_gguf_import(file, target, GS_BF16, &err), GS_ERR_USE, "it has files now");
  cr_assert(strstr(err.message, "files already"), "%s", err.message);
  snprintf(target, sizeof target, "%s/new/er", dir);
  cr_assert(gs_gguf_import(file, target, GS_BF16, &err) == GS_OK, "%s", err.message);
  snprintf(inside, sizeof inside, "%s/absent.gguf", dir);
  snprintf(target, sizeof target, "%s/never", dir);
  cr_assert_eq(gs_gguf_import(inside, target, GS_BF16, &err), GS_ERR_IO);
  cr_assert_not(gs_path_exists(target));
}
