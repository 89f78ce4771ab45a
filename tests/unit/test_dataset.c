/* uses: gs_data gs_assets */
/* test_dataset.c: lines to samples: ids, which tokens are to be learnt, and what a faulty line
 * says. */
#include "base/text.h"
#include "tokenizer_case.h"

static char dir[256];
static gs_tokenizer *tok;

static void setup(void) {
  char *data;
  size_t n;
  gs_error err = {0};
  cr_assert_eq(gs_temp_dir(dir, sizeof dir, &err), GS_OK);
  cr_assert_eq(gs_file_read(GOLDEN "llama3/tokenizer.json", &data, &n, &err), GS_OK);
  write_file(dir, "tokenizer.json", data);
  free(data);
  write_file(dir, "tokenizer_config.json",
             "{\"eos_token\": \"<|end|>\", \"bos_token\": \"<|start|>\"}");
  write_file(dir, "chat_template.jinja",
             "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
             "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}"
             "{{ '<|im_start|>assistant\\n' }}{% endif %}");
  cr_assert_eq(gs_tokenizer_open(dir, &tok, &err), GS_OK, "%s", err.message);
}

static void teardown(void) {
  gs_tokenizer_free(tok);
  gs_remove_tree(dir);
}

TestSuite(dataset, .init = setup, .fini = teardown);

static gs_status read_bytes(const char *text, size_t n, int max_tokens, gs_dataset *d,
                            gs_error *err) {
  char path[512];
  snprintf(path, sizeof path, "%s/data.jsonl", dir);
  cr_assert_eq(gs_file_write(path, text, n, err), GS_OK);
  return gs_dataset_read(path, tok, max_tokens, d, err);
}

static gs_dataset read_text(const char *text, int max_tokens) {
  gs_dataset d;
  gs_error err = {0};
  cr_assert_eq(read_bytes(text, strlen(text), max_tokens, &d, &err), GS_OK, "%s", err.message);
  return d;
}

/* The text of the tokens that are to be learnt (or of the others). */
static char *part(const gs_sample *s, bool answer) {
  gs_ids ids = {0};
  gs_error err = {0};
  char *text;
  for (int32_t i = 0; i < s->n; i++)
    if (s->answer[i] == answer) gs_ids_add(&ids, s->id[i]);
  cr_assert_eq(gs_tokenizer_decode(tok, ids.id, ids.n, 0, &text, &err), GS_OK);
  gs_ids_free(&ids);
  return text;
}

static void expect_part(const gs_sample *s, bool answer, const char *want) {
  char *got = part(s, answer);
  cr_expect_str_eq(got, want);
  free(got);
}

Test(dataset, all_of_a_text_is_learnt_and_ends_with_eos) {
  gs_dataset d =
      read_text("{\"text\": \"The rows are read once.\", \"id\": 7}\n{\"text\": \"x\"}", 100);
  cr_assert_eq(d.n, 2);
  expect_part(&d.sample[0], true, "<|start|>The rows are read once.<|end|>");
  expect_part(&d.sample[0], false, "");
  cr_expect_eq(d.sample[0].id[d.sample[0].n - 1], gs_tokenizer_eos(tok));
  cr_expect_neq(d.sample[0].id[d.sample[0].n - 2], gs_tokenizer_eos(tok), "eos once only");
  cr_expect_eq(d.sample[1].line, 2);
  gs_dataset_free(&d);
}

Test(dataset, of_prompt_and_completion_the_completion_is_learnt) {
  gs_dataset d =
      read_text("{\"prompt\": \"Q: the norm? A:\", \"completion\": \" root of the mean\"}\n"
                "{\"prompt\": \"\", \"completion\": \"all\"}\n",
                100);
  cr_assert_eq(d.n, 2);
  expect_part(&d.sample[0], false, "<|start|>Q: the norm? A:");
  expect_part(&d.sample[0], true, " root of the mean<|end|>");
  expect_part(&d.sample[1], true, "all<|end|>");
  gs_dataset_free(&d);
}

Test(dataset, a_token_across_the_seam_belongs_to_the_completion) {
  gs_dataset d = read_text("{\"prompt\": \"the ro\", \"completion\": \"ws\"}", 100);
  gs_ids whole = {0};
  gs_error err = {0};
  cr_assert_eq(gs_tokenizer_encode(tok, "the rows", 8, 1, &whole, &err), GS_OK);
  cr_assert_eq((size_t)d.sample[0].n, whole.n);
  cr_expect_arr_eq(d.sample[0].id, whole.id, whole.n * sizeof *whole.id,
                   "the whole is tokenised at once");
  char *learnt = part(&d.sample[0], true);
  cr_expect(strstr(learnt, "ws<|end|>") != NULL, "%s", learnt);
  free(learnt);
  gs_ids_free(&whole);
  gs_dataset_free(&d);
}

Test(dataset, of_a_conversation_the_answers_are_learnt_with_what_ends_them) {
  gs_dataset d = read_text(
      "{\"messages\": [{\"role\": \"system\", \"content\": \"Be brief.\"}, {\"role\": \"user\", "
      "\"content\": \"Hi\"}, {\"role\": \"assistant\", \"content\": \"Hello 12.\"}, {\"role\": "
      "\"user\", "
      "\"content\": \"1\"}, {\"role\": \"assistant\", \"content\": \"2\", \"name\": \"x\"}]}\n",
      400);
  expect_part(&d.sample[0], true, "Hello 12.<|im_end|>2<|im_end|>");
  expect_part(&d.sample[0], false,
              "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
              "<|im_start|>assistant\n\n<|im_start|>user\n1<|im_end|>\n<|im_start|>assistant\n\n");
  gs_dataset_free(&d);
}

Test(dataset, a_long_sample_is_cut_and_counted) {
  gs_dataset d =
      read_text("{\"text\": \"a b c d e f g h\"}\r\n\r\n  \t\r\n\n{\"text\": \"a\"}\r\n", 5);
  cr_expect_eq(d.n, 2);
  cr_expect_eq(d.ntruncated, 1);
  cr_expect_eq(d.sample[0].n, 5);
  cr_expect_eq(d.sample[1].n, 3);
  cr_expect_eq(d.sample[1].line, 5, "blank lines count as lines");
  gs_dataset_free(&d);
}

Test(dataset, a_byte_order_mark_is_no_text) {
  gs_dataset d = read_text("\xEF\xBB\xBF{\"text\": \"a\"}", 9);
  cr_expect_eq(d.n, 1);
  gs_dataset_free(&d);
}

typedef struct fault {
  const char *line, *place, *says;
} fault;

static const fault faults[] = {
    {"{\"text\": \"a\"", ":2: byte 12: ", "not JSON"},
    {"{\"text\": \"a\"} x", ":2: byte 15: ", "not JSON"},
    {"[1]", ":2: ", "expected an object"},
    {"7", ":2: ", "expected an object"},
    {"{\"text\": 7}", ":2: ", "\"text\": expected a string"},
    {"{\"text\": \"\"}", ":2: ", "empty"},
    {"{\"text\": \"a\", \"text\": \"b\"}", ":2: byte ", "duplicate"},
    {"{\"txet\": \"a\", \"id\": 1}", ":2: ", "found \"txet\", \"id\""},
    {"{}", ":2: ", "no field"},
    {"{\"text\": \"a\", \"messages\": []}", ":2: ", "expected either"},
    {"{\"text\": \"a\", \"prompt\": \"\"}", ":2: ", "expected either"},
    {"{\"prompt\": \"a\"}", ":2: ", "expected either"},
    {"{\"prompt\": [], \"completion\": \"a\"}", ":2: ", "conversations go into"},
    {"{\"prompt\": \"a\", \"completion\": null}", ":2: ", "\"completion\": expected a string"},
    {"{\"messages\": []}", ":2: ", "not empty"},
    {"{\"messages\": {\"role\": \"user\"}}", ":2: ", "expected a list"},
    {"{\"messages\": [{\"role\": \"user\"}]}", ":2: messages[0]", "both strings"},
    {"{\"messages\": [{\"role\": \"user\", \"content\": [{}]}]}", ":2: messages[0]",
     "both strings"},
    {"{\"messages\": [\"hi\"]}", ":2: messages[0]", "both strings"},
    {"{\"messages\": [{\"role\": \"tool\", \"content\": \"\"}]}", ":2: messages[0]", "\"tool\""},
    {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}", ":2: ", "nothing to learn"},
    {"{\"tools\": [{}], \"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}",
     ":2: ", "\"tools\""},
    {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\", \"tool_calls\": []}]}",
     ":2: messages[0]", "tool_calls"},
    {"{\"text\": \"a\\u0000b\"}", ":2: byte ", "not JSON"},
    {"{\"text\": \"\\ud800\"}", ":2: byte ", "not JSON"},
    {"{\"text\": \"\xc3(\"}", ":2: byte 10: ", "not UTF-8"},
    {"nonsense", ":2: byte ", "not JSON"},
};

Test(dataset, a_fault_names_file_line_and_place) {
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    gs_text t = {0};
    gs_dataset d;
    gs_error err = {0};
    gs_text_printf(&t, "{\"text\": \"fine\"}\n%s\n", faults[i].line);
    cr_expect_eq(read_bytes(t.s, t.len, 50, &d, &err), GS_ERR_INPUT, "%s was taken",
                 faults[i].line);
    cr_expect_eq(d.n, 0);
    const char *at = strstr(err.message, "data.jsonl");
    cr_expect(at != NULL && strncmp(at + 10, faults[i].place, strlen(faults[i].place)) == 0,
              "%s: %s", faults[i].line, err.message);
    cr_expect(strstr(err.message, faults[i].says) != NULL, "%s: %s", faults[i].line, err.message);
    gs_text_free(&t);
  }
}

Test(dataset, whole_files_that_teach_nothing) {
  gs_dataset d;
  gs_error err = {0};
  char path[512];
  cr_expect_eq(read_bytes("", 0, 50, &d, &err), GS_ERR_INPUT);
  cr_expect(strstr(err.message, "no samples") != NULL, "%s", err.message);
  cr_expect_eq(read_bytes("\n \r\n", 4, 50, &d, &err), GS_ERR_INPUT);
  cr_expect_eq(read_bytes("{\"text\": \"a\0b\"}\n", 16, 50, &d, &err), GS_ERR_INPUT);
  cr_expect(strstr(err.message, ":1: byte 11: a NUL byte") != NULL, "%s", err.message);
  const char *late = "{\"prompt\": \"a b c d e f g\", \"completion\": \"x\"}";
  cr_expect_eq(read_bytes(late, strlen(late), 4, &d, &err), GS_ERR_INPUT);
  cr_expect(strstr(err.message, "nothing to learn") != NULL, "%s", err.message);
  cr_expect_eq(read_bytes(late, strlen(late), 1, &d, &err), GS_ERR_USE);
  snprintf(path, sizeof path, "%s/absent.jsonl", dir);
  cr_expect_eq(gs_dataset_read(path, tok, 9, &d, &err), GS_ERR_IO);
  cr_expect(strstr(err.message, path) != NULL, "%s", err.message);
}

Test(dataset, a_line_without_end_is_refused) {
  size_t n = (64u << 20) + 2;
  char *s = malloc(n);
  gs_dataset d;
  gs_error err = {0};
  memset(s, 'x', n);
  cr_expect_eq(read_bytes(s, n, 50, &d, &err), GS_ERR_INPUT);
  cr_expect(strstr(err.message, ":1: longer than") != NULL, "%s", err.message);
  free(s);
}

Test(dataset, conversations_need_a_known_template) {
  const char *talk = "{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}]}";
  gs_dataset d;
  gs_error err = {0};
  free(tok->chat);
  tok->chat = NULL;
  cr_expect_eq(read_bytes(talk, strlen(talk), 50, &d, &err), GS_ERR_INPUT);
  cr_expect(strstr(err.message, "data.jsonl:1: ") != NULL, "%s", err.message);
  cr_expect(strstr(err.message, "no chat template") != NULL, "%s", err.message);
}
