/* uses: gs_data gs_assets */
/* test_chat.c: lua/chat against conversations that transformers rendered (tests/golden/chat), and
 * the recognition of templates, with the models' own when the real inputs are there. */
#include "base/text.h"
#include "tokenizer_case.h"

#define EXPECTED GS_TEST_DIR "/golden/chat/expected.json"

static char *joined(const gs_segments *s) {
  gs_text t = {0};
  gs_text_add(&t, "");
  for (size_t i = 0; i < s->n; i++) gs_text_add_n(&t, s->v[i].text, s->v[i].n);
  return t.s;
}

static size_t take_talk(const json_t *talk, gs_message *m) {
  const json_t *list = json_array_get(talk, 0);
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *pair = json_array_get(list, i), *content = json_array_get(pair, 1);
    m[i] = (gs_message){json_string_value(json_array_get(pair, 0)), json_string_value(content),
                        json_string_length(content)};
  }
  return json_array_size(list);
}

/* An answer piece for each message of the assistant that was rendered, never more. */
static void check_answers(const gs_segments *s, const gs_message *m, size_t n, const char *model) {
  size_t answers = 0, assistant = 0;
  for (size_t i = 0; i < s->n; i++) answers += s->v[i].answer;
  for (size_t i = 0; i < n; i++) assistant += strcmp(m[i].role, "assistant") == 0;
  cr_expect_eq(answers, assistant, "%s: %zu answers of %zu", model, answers, assistant);
}

static void check_template(const json_t *talks, const json_t *of) {
  const char *model = json_string_value(json_object_get(of, "model"));
  gs_tokenizer t = {.bos_text = (char *)json_string_value(json_object_get(of, "bos")),
                    .eos_text = (char *)json_string_value(json_object_get(of, "eos"))};
  gs_chat *c;
  gs_error err = {0};
  gs_status st = gs_chat_open_key(&t, json_string_value(json_object_get(of, "key")), "", &c, &err);
  cr_assert_eq(st, GS_OK, "%s: %s", model, err.message);
  cr_expect_str_eq(gs_chat_name(c), model);
  for (size_t k = 0; k < json_array_size(talks); k++) {
    const json_t *talk = json_array_get(talks, k);
    const json_t *want = json_array_get(json_object_get(of, "texts"), k);
    gs_message m[16];
    gs_segments s = {0};
    size_t n = take_talk(talk, m);
    st = gs_chat_render(c, m, n, json_is_true(json_array_get(talk, 1)), &s, &err);
    if (json_is_null(want)) {
      cr_expect_eq(st, GS_ERR_INPUT, "%s: talk %zu was rendered", model, k);
    } else {
      char *got = joined(&s);
      cr_expect_eq(st, GS_OK, "%s: talk %zu: %s", model, k, err.message);
      cr_expect_str_eq(got, json_string_value(want), "%s: talk %zu", model, k);
      check_answers(&s, m, n, model);
      free(got);
    }
    gs_segments_free(&s);
  }
  gs_chat_free(c);
}

Test(chat, conversations_are_rendered_as_transformers_does) {
  json_t *j = load_json(EXPECTED);
  const json_t *all = json_object_get(j, "templates");
  cr_assert_gt(json_array_size(all), 10);
  for (size_t i = 0; i < json_array_size(all); i++)
    check_template(json_object_get(j, "talks"), json_array_get(all, i));
  json_decref(j);
}

Test(chat, every_shipped_template_is_tested) {
  json_t *j = load_json(EXPECTED);
  gs_chat *c;
  gs_error err = {0};
  gs_tokenizer t = {0};
  const json_t *all = json_object_get(j, "templates");
  cr_assert_eq(gs_chat_open_key(&t, "0-0", "{{ x }}", &c, &err), GS_ERR_INPUT);
  size_t listed = 1;
  const char *from = strstr(err.message, "known are: ");
  cr_assert(from != NULL);
  for (const char *p = from; (p = strstr(p, "; ")) != NULL; p++) listed++;
  cr_expect_eq(listed, json_array_size(all), "%zu templates are known, %zu tested", listed,
               json_array_size(all));
  json_decref(j);
}

static void expect_same(const char *a, const char *b, bool same) {
  char x[64], y[64];
  gs_chat_key(a, x);
  gs_chat_key(b, y);
  cr_expect_eq(strcmp(x, y) == 0, same, "%s | %s: keys %s, %s", a, b, x, y);
}

Test(chat, a_key_ignores_what_jinja_ignores_and_nothing_else) {
  expect_same("{{ a }}", "{{a}}", true);
  expect_same("{%-  if x\n  and y %}", "{%- if x and y%}", true);
  expect_same("a\n", "a", true);
  expect_same("a\r\nb", "a\nb", true);
  expect_same("{{ a }}\n  {%- b %}", "{{ a }}{%- b %}", true);
  expect_same("{% a -%}\n  b", "{% a -%}b", true);
  expect_same("{{ 'a  b' }}", "{{ 'a b' }}", false);
  expect_same("{{ 'a\nb' }}", "{{ 'a b' }}", false);
  expect_same("{{ \"a '  ' b\" }}", "{{ \"a ' ' b\" }}", false);
  expect_same("{{ 'a\\'  b' }}", "{{ 'a\\' b' }}", false);
  expect_same("{{ 'a }}  b' }}", "{{ 'a }} b' }}", false);
  expect_same("a \n{% b %}", "a{% b %}", false);
  expect_same("a  b", "a b", false);
  expect_same("a\n\n", "a", false);
  expect_same("{% a %}\n  b", "{% a %}b", false);
  expect_same("{%- a %}", "{% a %}", false);
  expect_same("{{ a -}} b", "{{ a }} b", false);
  expect_same("{{ x", "{{ x }}", true); /* no template either way */
  expect_same("", "", true);
}

Test(chat, an_unknown_template_is_refused_by_name) {
  gs_tokenizer t = {.chat = (char *)"{% for m in messages %}Gr\xc3\xb6\xc3\x9f"
                                    "e{{ m }}\n{% endfor %}"};
  gs_chat *c = (gs_chat *)1;
  gs_error err = {0};
  cr_expect_eq(gs_chat_open(&t, &c, &err), GS_ERR_INPUT);
  cr_expect(c == NULL);
  cr_expect(strstr(err.message, "Gr\xc3\xb6\xc3\x9f"
                                "e{{ m }}\"") != NULL,
            "%s", err.message);
  cr_expect(strstr(err.message, "SmolLM2-Instruct") != NULL, "%s", err.message);
  cr_expect(strstr(err.message, "Llama-3.1-Instruct") != NULL, "%s", err.message);
  t.chat = NULL;
  cr_expect_eq(gs_chat_open(&t, &c, &err), GS_ERR_INPUT);
  cr_expect(strstr(err.message, "no chat template") != NULL, "%s", err.message);
}

Test(chat, a_missing_eos_is_named) {
  gs_tokenizer t = {0};
  json_t *j = load_json(EXPECTED);
  const json_t *all = json_object_get(j, "templates");
  size_t refused = 0;
  for (size_t i = 0; i < json_array_size(all); i++) {
    gs_chat *c;
    gs_error err = {0};
    gs_message m[] = {{"user", "a", 1}, {"assistant", "b", 1}};
    gs_segments s = {0};
    const json_t *key = json_object_get(json_array_get(all, i), "key");
    cr_assert_eq(gs_chat_open_key(&t, json_string_value(key), "", &c, &err), GS_OK);
    if (gs_chat_render(c, m, 2, false, &s, &err) != GS_OK) {
      refused++;
      cr_expect(strstr(err.message, "eos_token") != NULL, "%s", err.message);
    }
    gs_segments_free(&s);
    gs_chat_free(c);
  }
  cr_expect_eq(refused, 8, "%zu templates write the eos token", refused);
  json_decref(j);
}

Test(chat, a_prompt_ends_where_the_assistant_begins) {
  char dir[256], *data;
  size_t n;
  gs_error err = {0};
  gs_tokenizer *t;
  gs_chat *c;
  gs_ids ids = {0}, want = {0};
  cr_assert_eq(gs_temp_dir(dir, sizeof dir, &err), GS_OK);
  cr_assert_eq(gs_file_read(GOLDEN "qwen/tokenizer.json", &data, &n, &err), GS_OK);
  write_file(dir, "tokenizer.json", data);
  write_file(dir, "chat_template.jinja",
             "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
             "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}"
             "{{ '<|im_start|>assistant\\n' }}{% endif %}\n");
  free(data);
  cr_assert_eq(gs_tokenizer_open(dir, &t, &err), GS_OK, "%s", err.message);
  cr_assert_eq(gs_chat_open(t, &c, &err), GS_OK, "%s", err.message);
  cr_expect_str_eq(gs_chat_name(c), "ChatML");
  const char *text = "<|im_start|>user\nHi 1<|im_end|>\n<|im_start|>assistant\n";
  cr_assert_eq(gs_chat_prompt(c, t, "Hi 1", &ids, &err), GS_OK, "%s", err.message);
  cr_assert_eq(gs_tokenizer_encode(t, text, strlen(text), 0, &want, &err), GS_OK);
  cr_assert_eq(ids.n, want.n);
  cr_expect_arr_eq(ids.id, want.id, ids.n * sizeof *ids.id);
  gs_ids_free(&ids);
  gs_ids_free(&want);
  gs_chat_free(c);
  gs_tokenizer_free(t);
  gs_remove_tree(dir);
}

Test(chat, the_models_own_templates_are_recognised) {
  static const struct {
    const char *file, *model;
  } cases[] = {{"Qwen-Qwen2.5-7B-Instruct", "Qwen2.5-Instruct"},
               {"Qwen-Qwen3", "Qwen3"},
               {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "DeepSeek-R1-Distill-Qwen"},
               {"microsoft-Phi-3.5-mini-instruct", "Phi-3.5-mini-instruct"},
               {"mistralai-Mistral-Nemo-Instruct-2407", "Mistral-Nemo-Instruct-2407"}};
  const char *inputs = real_inputs("the models' own templates");
  if (inputs == NULL) return;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char path[1024];
    size_t n;
    gs_tokenizer t = {0};
    gs_chat *c;
    gs_error err = {0};
    snprintf(path, sizeof path, "%s/templates/%s.jinja", inputs, cases[i].file);
    cr_assert_eq(gs_file_read(path, &t.chat, &n, &err), GS_OK, "%s", err.message);
    cr_assert_eq(gs_chat_open(&t, &c, &err), GS_OK, "%s", err.message);
    cr_expect_str_eq(gs_chat_name(c), cases[i].model);
    gs_chat_free(c);
    t.chat[n / 2] ^= 1; /* one letter makes another template of it */
    cr_expect_eq(gs_chat_open(&t, &c, &err), GS_ERR_INPUT, "%s", cases[i].file);
    free(t.chat);
  }
}
