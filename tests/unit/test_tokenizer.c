/* uses: gs_data gs_assets */
/* test_tokenizer.c: ids against those that Hugging Face's tokenizers gave
 * (tests/golden/tokenizers), what is refused and how it is said, and the parts against simple
 * references. */
#include "tokenizer_case.h"

#include <time.h>

static const char *names[] = {"gpt2", "smollm", "qwen", "llama3", "spm", "metaspace", "split"};
#define NNAMES (sizeof names / sizeof *names)

static void check_vectors(const char *name, const char *key, int add_special) {
  json_t *v = load_json(GOLDEN "vectors.json");
  const json_t *texts = json_object_get(v, "texts"),
               *ids = json_object_get(json_object_get(v, name), key);
  gs_tokenizer *t = open_golden(name);
  cr_assert_gt(json_array_size(ids), 0);
  for (size_t k = 0; k < json_array_size(ids); k++) {
    const json_t *text = json_array_get(texts, k);
    gs_ids got = {0}, ends = {0};
    gs_error err = {0};
    gs_status st = gs_tokenizer_encode_ends(t, json_string_value(text), json_string_length(text),
                                            add_special, &got, &ends, &err);
    cr_assert_eq(st, GS_OK, "%s", err.message);
    expect_ids(&got, json_array_get(ids, k), name, k, json_string_value(text));
    cr_assert_eq(got.n, ends.n);
    for (size_t i = 0; i < ends.n; i++) {
      cr_expect(ends.id[i] >= 0 && ends.id[i] <= (int32_t)json_string_length(text));
      cr_expect(i == 0 || ends.id[i] >= ends.id[i - 1], "%s: text %zu: ends go back", name, k);
    }
    gs_ids_free(&got);
    gs_ids_free(&ends);
  }
  gs_tokenizer_free(t);
  json_decref(v);
}

Test(tokenizer, ids_are_those_of_the_reference) {
  for (size_t i = 0; i < NNAMES; i++) check_vectors(names[i], "ids", 0);
}

Test(tokenizer, post_processor_adds_what_the_reference_adds) {
  for (size_t i = 0; i < NNAMES; i++) check_vectors(names[i], "special", 1);
}

static void check_decoded(const char *name, const char *key, size_t first, int skip) {
  json_t *v = load_json(GOLDEN "vectors.json");
  const json_t *of = json_object_get(v, name), *want = json_object_get(of, key);
  gs_tokenizer *t = open_golden(name);
  for (size_t k = 0; k < json_array_size(want); k++) {
    const json_t *list = json_array_get(json_object_get(of, "ids"), first + k);
    gs_ids ids = {0};
    gs_error err = {0};
    char *text = NULL;
    for (size_t i = 0; i < json_array_size(list); i++)
      gs_ids_add(&ids, (int32_t)json_integer_value(json_array_get(list, i)));
    cr_assert_eq(gs_tokenizer_decode(t, ids.id, ids.n, skip, &text, &err), GS_OK, "%s",
                 err.message);
    cr_expect_str_eq(text, json_string_value(json_array_get(want, k)), "%s: text %zu", name,
                     first + k);
    free(text);
    gs_ids_free(&ids);
  }
  gs_tokenizer_free(t);
  json_decref(v);
}

Test(tokenizer, decoded_text_is_that_of_the_reference) {
  for (size_t i = 0; i < NNAMES; i++) check_decoded(names[i], "decoded", 0, 0);
  for (size_t i = 0; i < NNAMES; i++) check_decoded(names[i], "skipped", 44, 1);
}

Test(tokenizer, bad_utf8_is_refused_with_its_offset) {
  static const struct {
    const char *s;
    int at;
  } cases[] = {{"ab\xff", 2},           {"\xc0\x80", 0},   {"x\xed\xa0\x80", 1},
               {"\xf4\x90\x80\x80", 0}, {"ok\xe2\x82", 2}, {"\xc3\xa9\x80", 2}};
  gs_tokenizer *t = open_golden("gpt2");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    gs_ids ids = {0};
    gs_error err = {0};
    char want[32];
    snprintf(want, sizeof want, "offset %d", cases[i].at);
    cr_expect_eq(gs_tokenizer_encode(t, cases[i].s, strlen(cases[i].s), 0, &ids, &err),
                 GS_ERR_INPUT);
    cr_expect(strstr(err.message, want) != NULL, "%zu: %s", i, err.message);
    cr_expect_eq(ids.n, 0);
    gs_ids_free(&ids);
  }
  gs_tokenizer_free(t);
}

Test(tokenizer, ends_point_into_the_text) {
  gs_tokenizer *t = open_golden("qwen");
  const char *s = "e\xcc\x81 Gr\xc3\xb6\xc3\x9f"
                  "e<|end|>x";
  gs_ids ids = {0}, ends = {0};
  gs_error err = {0};
  cr_assert_eq(gs_tokenizer_encode_ends(t, s, strlen(s), 0, &ids, &ends, &err), GS_OK);
  cr_expect_eq(ends.id[ends.n - 1], (int32_t)strlen(s));
  cr_expect_eq(ends.id[ends.n - 2], (int32_t)strlen(s) - 1);
  cr_expect_eq(ends.id[ends.n - 3], (int32_t)strlen(s) - 8);
  cr_expect_eq(ends.id[0], 3, "the composed character ends where its parts end");
  gs_ids_free(&ids);
  gs_ids_free(&ends);
  gs_tokenizer_free(t);
}

/* --- what is refused --- */

typedef struct refusal {
  const char *path;  /* of the field set, dots between; the last key is set */
  const char *value; /* JSON */
  const char *says;
} refusal;

static const refusal refusals[] = {
    {"model.type", "\"WordPiece\"", "WordPiece"},
    {"model.dropout", "0.1", "dropout"},
    {"model.continuing_subword_prefix", "\"##\"", "continuing_subword_prefix"},
    {"model.end_of_word_suffix", "\"</w>\"", "end_of_word_suffix"},
    {"model.unk_token", "\"[UNK]\"", "[UNK]"},
    {"model.surprise", "1", "surprise"},
    {"model.byte_fallback", "3", "byte_fallback"},
    {"model.merges", "[\"a b c\"]", "merges[0]"},
    {"model.merges", "[[\"a\", \"qqq\"]]", "qqq"},
    {"model.vocab.new", "-1", "new"},
    {"normalizer", "{\"type\": \"Lowercase\"}", "Lowercase"},
    {"normalizer",
     "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFC\"}, {\"type\": \"Nmt\"}]}",
     "normalizer[1]: \"Nmt\""},
    {"pre_tokenizer", "{\"type\": \"BertPreTokenizer\"}", "BertPreTokenizer"},
    {"pre_tokenizer", "{\"type\": \"ByteLevel\", \"extra\": 1}", "extra"},
    {"pre_tokenizer",
     "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"a\\\\hb\"}, \"behavior\": "
     "\"Isolated\", \"invert\": false}",
     "a\\hb: byte 1"},
    {"pre_tokenizer",
     "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"[a[b]]\"}, \"behavior\": "
     "\"Isolated\"}",
     "a class inside a class"},
    {"pre_tokenizer",
     "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"a{1,3}+\"}, \"behavior\": "
     "\"Isolated\"}",
     "+ after {"},
    {"pre_tokenizer",
     "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"(a\"}, \"behavior\": "
     "\"Isolated\"}",
     "(a"},
    {"pre_tokenizer",
     "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"a\"}, \"behavior\": \"Other\"}", "Other"},
    {"post_processor", "{\"type\": \"RobertaProcessing\"}", "RobertaProcessing"},
    {"decoder", "{\"type\": \"WordPiece\"}", "WordPiece"},
    {"surprise", "{}", "surprise"},
    {"version model", "{}", "version model"},
    {"", "{}", "field \"\" is not supported"},
    {"added_tokens", "[{\"id\": 7, \"content\": \"<|end|>\"}]", "<|end|>"},
    {"added_tokens", "[{\"id\": -7, \"content\": \"<new>\"}]", "added_tokens[0].id"},
};

static void set_field(json_t *j, const char *path, const char *value) {
  const char *dot = strchr(path, '.');
  if (dot != NULL) {
    char key[64];
    snprintf(key, sizeof key, "%.*s", (int)(dot - path), path);
    set_field(json_object_get(j, key), dot + 1, value);
    return;
  }
  json_t *v = json_loads(value, JSON_DECODE_ANY, NULL);
  cr_assert(v != NULL, "%s", value);
  json_object_set_new(j, path, v);
}

Test(tokenizer, what_would_change_ids_is_refused_by_name) {
  char dir[256], path[512];
  gs_error err = {0};
  cr_assert_eq(gs_temp_dir(dir, sizeof dir, &err), GS_OK);
  snprintf(path, sizeof path, "%s/tokenizer.json", dir);
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
    json_t *j = load_json(GOLDEN "smollm/tokenizer.json");
    gs_tokenizer *t = (gs_tokenizer *)1;
    set_field(j, refusals[i].path, refusals[i].value);
    cr_assert_eq(json_dump_file(j, path, 0), 0);
    json_decref(j);
    cr_expect_eq(gs_tokenizer_open(dir, &t, &err), GS_ERR_INPUT, "%s was taken", refusals[i].value);
    cr_expect(t == NULL);
    cr_expect(strstr(err.message, refusals[i].says) != NULL, "%s: %s", refusals[i].says,
              err.message);
    cr_expect(strncmp(err.message, path, strlen(path)) == 0, "no file in: %s", err.message);
  }
  write_file(dir, "tokenizer.json", "{\"model\": ");
  gs_tokenizer *t;
  cr_expect_eq(gs_tokenizer_open(dir, &t, &err), GS_ERR_INPUT);
  cr_expect(strstr(err.message, "byte") != NULL);
  gs_remove_tree(dir);
  cr_expect_eq(gs_tokenizer_open(dir, &t, &err), GS_ERR_IO);
}

/* --- the files beside --- */

static gs_status open_with(const char *dir, const char *name, const char *text, gs_tokenizer **t,
                           gs_error *err) {
  write_file(dir, name, text);
  return gs_tokenizer_open(dir, t, err);
}

Test(tokenizer, configuration) {
  char dir[256], *data;
  size_t n;
  gs_error err = {0};
  gs_tokenizer *t;
  cr_assert_eq(gs_temp_dir(dir, sizeof dir, &err), GS_OK);
  cr_assert_eq(gs_file_read(GOLDEN "qwen/tokenizer.json", &data, &n, &err), GS_OK);
  write_file(dir, "tokenizer.json", data);
  free(data);
  cr_assert_eq(gs_tokenizer_open(dir, &t, &err), GS_OK);
  cr_expect_eq(gs_tokenizer_eos(t), -1);
  cr_expect_eq(gs_tokenizer_bos(t), -1);
  cr_expect(gs_tokenizer_chat_template(t) == NULL);
  cr_expect_eq(gs_tokenizer_id(t, "nothing of the kind"), -1);
  int end = gs_tokenizer_id(t, "<|end|>"), start = gs_tokenizer_id(t, "<|start|>");
  cr_expect(end >= 0 && start >= 0 && gs_tokenizer_size(t) > start);
  gs_tokenizer_free(t);

  char config[64];
  snprintf(config, sizeof config, "{\"eos_token_id\": [%d, 3]}", start);
  cr_assert_eq(open_with(dir, "config.json", config, &t, &err), GS_OK);
  cr_expect_eq(gs_tokenizer_eos(t), start);
  gs_tokenizer_free(t);
  cr_assert_eq(
      open_with(dir, "tokenizer_config.json",
                "{\"eos_token\": {\"content\": \"<|end|>\"}, \"bos_token\": \"<|start|>\", "
                "\"add_bos_token\": true, \"chat_template\": [{\"name\": \"tool_use\", "
                "\"template\": \"no\"}, {\"name\": \"default\", \"template\": \"yes\"}]}",
                &t, &err),
      GS_OK, "%s", err.message);
  cr_expect_eq(gs_tokenizer_eos(t), end);
  cr_expect_eq(gs_tokenizer_bos(t), start);
  cr_expect_str_eq(gs_tokenizer_chat_template(t), "yes");
  gs_tokenizer_free(t);
  cr_assert_eq(open_with(dir, "chat_template.jinja", "{{ file }}", &t, &err), GS_OK);
  cr_expect_str_eq(gs_tokenizer_chat_template(t), "{{ file }}");
  gs_tokenizer_free(t);
  cr_expect_eq(open_with(dir, "tokenizer_config.json", "{\"eos_token\": \"</nowhere>\"}", &t, &err),
               GS_ERR_INPUT);
  cr_expect(strstr(err.message, "</nowhere>") != NULL, "%s", err.message);
  cr_expect_eq(open_with(dir, "tokenizer_config.json",
                         "{\"added_tokens_decoder\": {\"9999\": {\"content\": \"<more>\"}}}", &t,
                         &err),
               GS_ERR_INPUT);
  cr_expect(strstr(err.message, "<more>") != NULL, "%s", err.message);
  gs_remove_tree(dir);
}

/* --- parts against simple references --- */

/* All merges of a word done by looking for the lowest rank again and again. */
static size_t slow_bpe(const gs_bpe *b, int32_t *sym, size_t n) {
  while (true) {
    size_t at = n;
    gs_merge best = {INT32_MAX, 0};
    for (size_t i = 0; i + 1 < n; i++) {
      const gs_merge *m = gs_pairs_find(&b->merges, sym[i], sym[i + 1]);
      if (m != NULL && m->rank < best.rank) best = *m, at = i;
    }
    if (at == n) return n;
    sym[at] = best.id;
    memmove(sym + at + 1, sym + at + 2, (n - at - 2) * sizeof *sym);
    n--;
  }
}

static char *token_of[600];

static void random_bpe(gs_bpe *b) {
  int n = 6;
  *b = (gs_bpe){.unk = -1};
  for (int i = 0; i < n; i++) {
    char s[2] = {(char)('a' + i), 0};
    token_of[i] = gs_tk_strndup(s, 1);
    gs_words_put(&b->vocab, s, 1, i);
  }
  for (int rank = 0; rank < 80; rank++) {
    char s[256];
    int l = rand() % n, r = rand() % n;
    if (strlen(token_of[l]) + strlen(token_of[r]) > 24) continue;
    snprintf(s, sizeof s, "%s%s", token_of[l], token_of[r]);
    if (gs_words_find(&b->vocab, s, strlen(s)) >= 0) continue;
    token_of[n] = gs_tk_strndup(s, strlen(s));
    gs_words_put(&b->vocab, s, strlen(s), n);
    gs_pairs_put(&b->merges, l, r, (gs_merge){rank, n++});
  }
  gs_bpe_finish(b);
}

Test(tokenizer, merging_agrees_with_the_slow_way) {
  unsigned seed = (unsigned)time(NULL);
  srand(seed);
  for (int round = 0; round < 60; round++) {
    gs_bpe b;
    gs_bpe_work w = {0};
    random_bpe(&b);
    for (int k = 0; k < 40; k++) {
      char s[300];
      int32_t end[300], sym[300];
      size_t n = 1 + (size_t)(rand() % (k < 30 ? 30 : 299));
      for (size_t i = 0; i < n; i++)
        s[i] = (char)('a' + rand() % 6), end[i] = (int32_t)i + 1, sym[i] = s[i] - 'a';
      gs_ids ids = {0}, ends = {0};
      gs_bpe_word(&b, &w, s, end, n, &ids, &ends);
      size_t want = slow_bpe(&b, sym, n);
      cr_assert_eq(ids.n, want, "seed %u: %zu tokens, not %zu", seed, ids.n, want);
      cr_assert_arr_eq(ids.id, sym, want * sizeof *sym, "seed %u", seed);
      size_t at = 0;
      for (size_t i = 0; i < ids.n; i++) {
        at += strlen(token_of[ids.id[i]]);
        cr_assert_eq(ends.id[i], (int32_t)at);
      }
      gs_ids_free(&ids);
      gs_ids_free(&ends);
    }
    free(w.sym);
    free(w.heap);
    for (int i = 0; i < 600; i++) free(token_of[i]), token_of[i] = NULL;
    gs_bpe_free(&b);
  }
}

Test(tokenizer, a_word_of_a_million_characters_is_no_trouble) {
  gs_tokenizer *t = open_golden("spm");
  size_t n = 1000000;
  char *s = malloc(n);
  for (size_t i = 0; i < n; i++) s[i] = "the rows of a norm are read once "[i % 33];
  gs_ids ids = {0};
  gs_error err = {0};
  clock_t from = clock();
  cr_assert_eq(gs_tokenizer_encode(t, s, n, 0, &ids, &err), GS_OK, "%s", err.message);
  cr_expect_lt((double)(clock() - from) / CLOCKS_PER_SEC, 20.0);
  cr_expect(ids.n > n / 33 && ids.n < n);
  char *back;
  cr_assert_eq(gs_tokenizer_decode(t, ids.id, ids.n, 0, &back, &err), GS_OK);
  cr_expect(strlen(back) == n && memcmp(back, s, n) == 0);
  free(back);
  free(s);
  gs_ids_free(&ids);
  gs_tokenizer_free(t);
}

Test(tokenizer, bytes_and_their_characters) {
  bool seen[0x144] = {false};
  for (int b = 0; b < 256; b++) {
    char u[4];
    uint32_t c;
    int n = gs_byte_char((unsigned char)b, u);
    cr_assert_eq(gs_utf8_next(u, (size_t)n, &c), n);
    cr_assert(c < 0x144 && !seen[c]);
    seen[c] = true;
    cr_expect_eq(gs_char_byte(c), b);
  }
  cr_expect_eq(gs_char_byte(' '), -1);
  cr_expect_eq(gs_char_byte(0x144), -1);
}

static size_t first_match(const char *pattern, const char *s, size_t n) {
  pcre2_code *re;
  gs_match m;
  gs_cuts cuts = {0};
  gs_error err = {0};
  size_t count = 0;
  cr_assert_eq(gs_regex_compile(pattern, strlen(pattern), false, &re, &err), GS_OK, "%s",
               err.message);
  cr_assert_eq(gs_match_init(&m, &err), GS_OK);
  cr_assert_eq(gs_regex_cuts(re, &m, s, n, &cuts, &err), GS_OK);
  for (size_t i = 0; i < cuts.n; i++) count += cuts.v[i].match && cuts.v[i].n > 0;
  free(cuts.v);
  gs_match_free(&m);
  pcre2_code_free(re);
  return count;
}

Test(tokenizer, patterns_mean_what_oniguruma_means) {
  static const struct {
    const char *pattern, *text;
    size_t matches;
  } cases[] = {
      {"\\s", "\xe1\xa0\x8e", 0}, /* U+180E is white space for PCRE2's \s alone */
      {"[\\s]", "\xc2\x85\xc2\xa0\xe2\x80\xa8", 3},
      {"\\S", "a \xc2\x85", 1},
      {"\\w", "a\xcc\x81_1\xe2\x80\xbf-", 5}, /* marks and connectors are word characters */
      {"\\W", "a-\xcc\x81", 1},
      {"\\d", "1\xd9\xa3\xc2\xbd", 2},
      {"(?i:'s)", "'S's'\xc5\xbf", 3},
      {"\\bx", "x ax x", 2},
      {"\\p{Han}", "\xe5\xbd\xa2\xe3\x80\x81", 1}, /* U+3001 has Han among its extensions only */
      {"^b", "a\nb", 1},
      {"a$", "a\nb", 1},
      {"\\u0041\\x42\\x{43}", "ABC", 1},
      {"x*", "axxb", 1},
      {"a++b|\\v", "aab\x0b", 2}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    size_t got = first_match(cases[i].pattern, cases[i].text, strlen(cases[i].text));
    cr_expect_eq(got, cases[i].matches, "%s: %zu matches, not %zu", cases[i].pattern, got,
                 cases[i].matches);
  }
  for (uint32_t c = 1; c < 0x3100; c++) {
    char u[4];
    int n = gs_utf8_put(u, c);
    if (c >= 0x250 && c < 0x1600) continue;
    cr_expect_eq(first_match("\\s", u, (size_t)n), gs_utf8_white(c), "U+%04X", c);
    if (c == 0x400) c = 0x1600;
  }
}

Test(tokenizer, lossy_text_marks_each_ill_formed_part) {
  static const struct {
    const char *in, *out;
  } cases[] = {{"a\xff"
                "b",
                "a\xEF\xBF\xBD"
                "b"},
               {"\xe2\x82", "\xEF\xBF\xBD"},
               {"\xe2\x28", "\xEF\xBF\xBD("},
               {"\xf0\x9f\x91\xf0", "\xEF\xBF\xBD\xEF\xBF\xBD"},
               {"\xed\xa0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    size_t n;
    char *s = gs_utf8_lossy(cases[i].in, strlen(cases[i].in), &n);
    cr_expect_str_eq(s, cases[i].out);
    cr_expect_eq(n, strlen(s));
    free(s);
  }
}
