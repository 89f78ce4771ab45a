/* uses: gs_step gs_model gs_data */
/* The program as its user meets it: every mistake ends as one message that names the place, with
 * the exit code 2 for wrong use, 1 for failure and 130 when interrupted, and leaves no half-written
 * file under its final name; an interrupted run goes on to the bits of one that was not stopped. */
#define _GNU_SOURCE
#include "tiny_model.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char dir[512], model[600], data[600], out[600], said[1 << 16];
static gs_error err;
static rlim_t file_limit; /* 0: none */

static void put(const char *path, const char *text) {
  must(gs_file_write(path, text, strlen(text), &err), &err);
}

static void write_model(const tiny *t) {
  char path[700];
  tiny_write(model, t, 1);
  char *text;
  size_t n;
  must(gs_file_read(GS_TEST_DIR "/golden/tokenizers/smollm/tokenizer.json", &text, &n, &err), &err);
  snprintf(path, sizeof path, "%s/tokenizer.json", model);
  must(gs_file_write(path, text, n, &err), &err);
  free(text);
}

static tiny small(void) {
  tiny t = tiny_default();
  t.vocab = 431;
  t.layers = 1;
  return t;
}

static void setup(void) {
  err = (gs_error){0};
  file_limit = 0;
  must(gs_temp_dir(dir, sizeof dir, &err), &err);
  snprintf(model, sizeof model, "%s/model", dir);
  snprintf(data, sizeof data, "%s/data.jsonl", dir);
  snprintf(out, sizeof out, "%s/out", dir);
  put(data, "{\"text\": \"the first sample\"}\n{\"text\": \"another, longer one\"}\n");
}
static void teardown(void) {
  gs_remove_tree(dir);
}
TestSuite(cli, .init = setup, .fini = teardown, .timeout = 60);

/* ---- running ---- */

enum { MAX_ARGS = 40 };

/* Starts the program; stdout and stderr go to DIR/stdout and DIR/stderr. */
static pid_t start(char *const *argv) {
  char o[600], e[600];
  snprintf(o, sizeof o, "%s/stdout", dir);
  snprintf(e, sizeof e, "%s/stderr", dir);
  pid_t pid = fork();
  if (pid != 0) return pid;
  int fo = open(o, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  int fe = open(e, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (dup2(fo, 1) < 0 || dup2(fe, 2) < 0) _exit(99);
  if (file_limit) {
    struct rlimit r = {file_limit, file_limit};
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &r) != 0) _exit(99);
  }
  execv(GS_PROGRAM, argv);
  _exit(98);
}

/* The exit code; what it said on stderr is in said. */
static int finish(pid_t pid) {
  int status;
  char path[600], *text;
  size_t n;
  cr_assert(waitpid(pid, &status, 0) == pid);
  snprintf(path, sizeof path, "%s/stderr", dir);
  must(gs_file_read(path, &text, &n, &err), &err);
  snprintf(said, sizeof said, "%s", text);
  free(text);
  cr_assert(WIFEXITED(status), "ended by signal %d: %s", WTERMSIG(status), said);
  return WEXITSTATUS(status);
}

static int count(const char *s, const char *part) {
  int n = 0;
  while ((s = strstr(s, part))) n++, s += strlen(part);
  return n;
}

/* Runs the words up to NULL: wants that code, one message, and every part (after the NULL, up to
 * another) in it. */
static void expect(int code, const char *first, ...) {
  char *argv[MAX_ARGS] = {(char *)"gradsmith"};
  int n = 1;
  const char *w;
  va_list ap;
  va_start(ap, first);
  for (w = first; w; w = va_arg(ap, const char *)) argv[n++] = (char *)w;
  argv[n] = NULL;
  int got = finish(start(argv));
  cr_assert(got == code, "%s %s: exit code %d, not %d: %s", first, argv[2] ? argv[2] : "", got,
            code, said);
  cr_assert(count(said, "gradsmith: ") == 1, "not one message: %s", said);
  while ((w = va_arg(ap, const char *)))
    cr_assert(strstr(said, w), "\"%s\" is not in: %s", w, said);
  va_end(ap);
}

#define TRAIN                                                                                      \
  "train", "--model", model, "--data", data, "--out", out, "--device", "emu", "--seq", "32",       \
      "--steps", "40", "--quiet"

/* Nothing in out, or no out. */
static void nothing_written(void) {
  DIR *d = opendir(out);
  if (!d) return;
  for (struct dirent *e; (e = readdir(d));)
    cr_assert(e->d_name[0] == '.', "%s is left in the output folder", e->d_name);
  closedir(d);
}

/* ---- wrong use ---- */

Test(cli, wrong_use) {
  char *alone[] = {(char *)"gradsmith", NULL};
  cr_assert(finish(start(alone)) == 2 && strstr(said, "gradsmith train"), "%s", said);
  expect(2, "trian", NULL, "no command 'trian'", "--help", NULL);
  expect(2, "train", "--speed", "3", NULL, "--speed", "--help", NULL);
  expect(2, "train", "--steps", NULL, "--steps needs a value", NULL);
  expect(2, "train", "--steps=ten", NULL, "--steps", "'ten'", NULL);
  expect(2, "train", NULL, "--model DIR is missing", NULL);
  expect(2, "generate", "--prompt", "x", NULL, "--model DIR is missing", NULL);
  expect(2, TRAIN, "--device", "tpu", NULL, "\"tpu\"", "cuda, emu or auto", NULL);
  expect(2, "gen", "rmsnorm", "--dims", "Q=3", NULL, "'Q'", "T H", NULL);
  expect(2, "gen", "rmsnorm", "--dims", "H=64", "--arch", "sm_33", NULL, "sm_33", "sm_90", NULL);
  expect(2, "import", "a.gguf", NULL, "gradsmith import FILE.gguf DIR", NULL);
  nothing_written();
}

Test(cli, no_gpu) {
  char *doctor[] = {(char *)"gradsmith", (char *)"doctor", NULL}, path[600], *text;
  size_t n;
  cr_assert(finish(start(doctor)) == 0);
  snprintf(path, sizeof path, "%s/stdout", dir);
  must(gs_file_read(path, &text, &n, &err), &err);
  bool gpu = strstr(text, "auto takes the GPU") != NULL;
  free(text);
  if (gpu) return;
  expect(1, "train", "--model", model, "--data", data, "--out", out, "--device", "cuda", NULL,
         "no CUDA device", "--device emu", NULL);
}

/* ---- models ---- */

Test(cli, models_that_cannot_be) {
  char path[700], *text;
  size_t n;
  expect(1, TRAIN, NULL, model, "no such model folder", NULL);
  tiny t = small();
  t.leave_out = "model.layers.0.mlp.up_proj.weight";
  write_model(&t);
  expect(1, TRAIN, NULL, "model.layers.0.mlp.up_proj.weight", model, NULL);
  t = small();
  t.more = "\"attention_window\": 12,";
  write_model(&t);
  expect(1, TRAIN, NULL, "config.json", "attention_window", NULL);
  t = small();
  write_model(&t);
  expect(2, TRAIN, "--lora", "rank=3", NULL, "--lora", "\"rank=3\"", "r=N", NULL);
  snprintf(path, sizeof path, "%s/model.safetensors", model);
  must(gs_file_read(path, &text, &n, &err), &err);
  must(gs_file_write(path, text, n / 2, &err), &err);
  free(text);
  expect(1, TRAIN, NULL, "model.safetensors", "byte", NULL);
  snprintf(path, sizeof path, "%s/config.json", model);
  put(path, "{\"architectures\": [\"MambaForCausalLM\"]}");
  expect(1, TRAIN, NULL, "config.json", "MambaForCausalLM", "LlamaForCausalLM", NULL);
  snprintf(path, sizeof path, "%s/tokenizer_config.json", model);
  put(path, "{\"chat_template\": \"{{ 'a template of nobody' }}\"}");
  expect(1, "generate", "--model", model, "--prompt", "x", "--device", "emu", NULL, model,
         "chat template", "a template of nobody", "--raw", NULL);
  nothing_written();
}

/* ---- data and folders ---- */

Test(cli, data_and_folders_that_cannot_be) {
  char path[700], under[700];
  tiny t = small();
  write_model(&t);
  put(data, "{\"text\": \"fine\"}\n\n{\"text\": \"cut\n");
  expect(1, TRAIN, NULL, "data.jsonl:3", "byte", NULL);
  put(data, "");
  expect(1, TRAIN, NULL, data, "no sample", NULL);
  put(data, "{\"text\": \"the only sample\"}\n");
  snprintf(path, sizeof path, "%s/file", dir);
  put(path, "mine");
  snprintf(under, sizeof under, "%s/file/out", dir);
  expect(2, TRAIN, "--out", under, NULL, under, "Not a directory", NULL);
  nothing_written();
  must(gs_mkdirs(out, &err), &err);
  snprintf(path, sizeof path, "%s/note", out);
  put(path, "mine");
  expect(2, TRAIN, NULL, out, "not empty", "--resume", NULL);
  snprintf(path, sizeof path, "%s/bad.gguf", dir);
  put(path, "GGUF but not one");
  expect(2, "import", path, out, NULL, out, "has files already", NULL);
  snprintf(under, sizeof under, "%s/imported", dir);
  expect(1, "import", path, under, NULL, "bad.gguf", NULL);
  cr_assert(!gs_path_exists(under));
}

/* The limit is above the emulator's libraries and below the state at rank 8192. */
Test(cli, no_room) {
  tiny t = small();
  write_model(&t);
  file_limit = 8 << 20;
  expect(1, TRAIN, "--lora", "r=8192", NULL, out, "cannot write", NULL);
  nothing_written();
}

/* ---- layers ---- */

Test(cli, layers_that_cannot_be) {
  const char *several = GS_TEST_DIR "/layers/wrong/several.lua";
  expect(1, "check", several, NULL, several, NULL);
  char place[700];
  snprintf(place, sizeof place, "%s:", several);
  int lines = 0;
  for (char *s = said, *end; *s; s = end) { /* each error on a line FILE:LINE: error: ... */
    end = s + strcspn(s, "\n");
    if (*end) *end++ = 0;
    if (!strstr(s, ": error: ")) continue;
    char *at = strstr(s, place);
    cr_assert(at && at[strlen(place)] >= '1' && at[strlen(place)] <= '9', "%s", s);
    lines++;
  }
  cr_assert(lines > 1, "%d errors", lines);
  expect(1, "check", "./nowhere.lua", NULL, "./nowhere.lua:1: error: cannot open", "No such file",
         NULL);
  expect(1, "check", "nowhere", NULL, "no layer 'nowhere'", NULL);
}

/* ---- the author's tools ---- */

/* Runs the words up to NULL, which must go well; every part (up to another NULL) is in what it
 * printed. */
static void prints(const char *first, ...) {
  char *argv[MAX_ARGS] = {(char *)"gradsmith"}, path[600], *text;
  int n = 1;
  size_t len;
  const char *w;
  va_list ap;
  va_start(ap, first);
  for (w = first; w; w = va_arg(ap, const char *)) argv[n++] = (char *)w;
  argv[n] = NULL;
  int got = finish(start(argv));
  cr_assert(got == 0, "%s: exit code %d: %s", first, got, said);
  snprintf(path, sizeof path, "%s/stdout", dir);
  must(gs_file_read(path, &text, &len, &err), &err);
  while ((w = va_arg(ap, const char *)))
    cr_assert(strstr(text, w), "\"%s\" is not in: %s", w, text);
  va_end(ap);
  free(text);
}

Test(cli, new_layers_pass_check) {
  static const char *const kinds[] = {"elementwise", "rmsnorm", "loss", "kernel"};
  cr_assert(chdir(dir) == 0);
  for (int k = 0; k < 4; k++) {
    char name[32], path[64];
    snprintf(name, sizeof name, "mine_%d", k);
    snprintf(path, sizeof path, "./mine_%d.lua", k);
    prints("new", "layer", name, "--like", kinds[k], NULL, path, NULL);
    prints("check", path, "--rounds", "1", "--seed", "1", NULL, " ok ",
           "1 layers checked, 0 failed", NULL);
    expect(2, "new", "layer", name, NULL, "is there already", NULL);
  }
  prints("new", "layer", "plain", NULL, "plain.lua", NULL);
  expect(2, "new", "layer", "9lives", NULL, "'9lives'", "letters, digits", NULL);
  expect(2, "new", "layer", "end", NULL, "'end'", NULL);
  expect(2, "new", "layer", "../up", NULL, "'../up'", NULL);
  expect(2, "new", "layer", "a", "--like", "b", NULL, "--like", "'b'", "rmsnorm", NULL);
  expect(2, "new", "model", "a", NULL, "new layer NAME", NULL);
}

Test(cli, derive) {
  char path[700], *text;
  size_t n;
  snprintf(path, sizeof path, "%s/mine.lua", dir);
  prints("derive", "rmsnorm", "--options", "gemma=1", NULL, "for gemma = 1", "p.w + 1",
         "gs.mean(p.x * g, \"H\")", NULL);
  cr_assert(strstr(said, "flops an element") && strstr(said, "checked"), "%s", said);
  prints("derive", "softmax", "--out", path, NULL, NULL);
  must(gs_file_read(path, &text, &n, &err), &err);
  cr_assert(strstr(text, "s.y * (d.y - gs.sum(d.y * s.y, \"V\"))"), "%s", text);
  free(text);
  prints("check", path, "--rounds", "1", "--device", "none", NULL, " ok ", NULL);
  expect(2, "derive", "softmax", "--out", path, NULL, path, "is there already", NULL);
  expect(2, "derive", "adamw", NULL, "adamw is a kernel", NULL);
  expect(2, "derive", "rmsnorm", "--options", "zz=1", NULL, "no option 'zz'", "gemma", NULL);
  expect(2, "derive", "softmax", "--options", "zz=1", NULL, "no option 'zz'", "it has none", NULL);
  expect(2, "derive", NULL, "the name of one layer", NULL);
}

/* Without libclang it looks at nothing and says so, unless that is required. */
Test(cli, lint) {
  const char *right = GS_TEST_DIR "/layers/lint/right.lua";
  const char *wrong = GS_TEST_DIR "/layers/lint/int_offset.lua";
  char *argv[] = {(char *)"gradsmith", (char *)"lint", (char *)"--require", (char *)right, NULL};
  bool there = finish(start(argv)) == 0;
  if (!there) cr_assert(strstr(said, "libclang was not found"), "%s", said);
  prints("lint", right, NULL, there ? "12 kernels looked at" : "lint did not look at any kernel",
         there ? " 0 findings" : "apt install clang", NULL);
  char *bad[] = {(char *)"gradsmith", (char *)"lint", (char *)wrong, NULL};
  cr_assert_eq(finish(start(bad)), there ? 1 : 0, "%s", said);
  if (there) expect(1, "lint", "nosuch", NULL, "nosuch", NULL);
}

Test(cli, cache) {
  char *clear[] = {(char *)"gradsmith", (char *)"cache", (char *)"--clear", NULL};
  char path[600];
  snprintf(path, sizeof path, "%s/kernels", dir);
  setenv("GRADSMITH_CACHE", path, 1);
  prints("cache", NULL, path, "entries  0", NULL);
  must(gs_mkdirs(path, &err), &err);
  snprintf(path, sizeof path, "%s/kernels/0123.gsk", dir);
  put(path, "12345");
  snprintf(path, sizeof path, "%s/kernels/of-the-user", dir);
  put(path, "not ours");
  prints("cache", NULL, "entries  1", "bytes    5", NULL);
  cr_assert_eq(finish(start(clear)), 0);
  prints("cache", NULL, "entries  0", NULL);
  cr_assert(gs_path_exists(path));
  setenv("GRADSMITH_CACHE", "off", 1);
  prints("cache", NULL, "off ", NULL);
}

Test(cli, packs_that_cannot_be) {
  char pack[600];
  snprintf(pack, sizeof pack, "%s/some.pack", dir);
  expect(2, "pack", NULL, "--model DIR, --layers", NULL);
  expect(2, "pack", "--layers", "rmsnorm", NULL, "--out FILE is needed", NULL);
  expect(1, "pack", "--inspect", pack, NULL, pack, "cannot open", NULL);
  put(pack, "gradsmith pack 1\n and then nothing");
  expect(1, "pack", "--inspect", pack, NULL, pack, "cut or altered", NULL);
  expect(2, TRAIN, "--pack", pack, NULL, "the emulator takes none", pack, NULL);
}

/* Bytes by hand: add reads two tensors of 10 rows of 64 and writes one. */
Test(cli, explain) {
  prints("explain", "add", "--dims", "H=64", "--rows", "10", "--dtype", "f32", "--arch", "emu",
         "--graph", NULL, "h = x + r", "= add", "template map", "because", "must move 7.50 KiB",
         "moves 7.50 KiB", "at most 100 %", "640 flops", "time unknown", "not compiled", NULL);
  prints("explain", "embedding", "--dims", "H=64,V=50000", "--rows", "10", "--dtype", "f32",
         "--arch", "emu", "--pass", "forward", NULL, "must move 5.04 KiB", NULL);
  prints("explain", "rmsnorm", "--dims", "H=4096", "--rows", "1024", "--gpu", "H200", NULL,
         "rmsnorm.backward", "row_column", "bound by memory", "registers", NULL);
  expect(2, "explain", "rmsnorm", "--dims", "H=64", "--gpu", "Q1", NULL, "'Q1'", "H200", NULL);
  expect(2, "explain", "rmsnorm", "--dims", "H=64", "--arch", "sm_80", "--gpu", "H200", NULL,
         "sm_90a", NULL);
  expect(2, "explain", "rmsnorm", NULL, "dim H needs a size", NULL);
  expect(2, "explain", "adamw", "--pass", "backward", NULL, "--pass", NULL);
  expect(2, "gen", "rmsnorm", "--dims", "H=64", "--options", "zz=1", NULL, "no option 'zz'",
         "gemma", NULL);
}

Test(cli, check_writes_a_table) {
  char path[700], *text;
  size_t n;
  snprintf(path, sizeof path, "%s/table.md", dir);
  prints("check", "rmsnorm", GS_TEST_DIR "/layers/derive/long_tanh.lua", "--rounds", "1",
         "--device", "none", "--table", path, NULL, "note: the derived backward costs less", NULL);
  must(gs_file_read(path, &text, &n, &err), &err);
  cr_assert(strstr(text, "| rmsnorm | ") && strstr(text, "| 9.0 / 9.0 | 1 / 1 |"), "%s", text);
  cr_assert(count(text, "\n") == 4, "%s", text);
  free(text);
}

/* ---- Ctrl-C ---- */

static bool same_file(const char *a, const char *b, const char *name) {
  char pa[800], pb[800], *x, *y;
  size_t n, m;
  snprintf(pa, sizeof pa, "%s/%s", a, name);
  snprintf(pb, sizeof pb, "%s/%s", b, name);
  must(gs_file_read(pa, &x, &n, &err), &err);
  must(gs_file_read(pb, &y, &m, &err), &err);
  bool same = n == m && memcmp(x, y, n) == 0;
  free(x);
  free(y);
  return same;
}

/* Waits until the log has a line, so that the run is between its steps. */
static void wait_for_step(const char *log) {
  struct stat s;
  struct timespec t = {0, 1000000};
  for (int i = 0; i < 30000 && (stat(log, &s) != 0 || s.st_size == 0); i++) nanosleep(&t, NULL);
}

/* A prompt that fills its row: every label of such a row is ignored. */
Test(cli, rows_without_labels_are_said_once) {
  tiny t = small();
  write_model(&t);
  put(data, "{\"prompt\": \"a long prompt, of more tokens than a row has room for\", "
            "\"completion\": \"x\"}\n{\"prompt\": \"a\", \"completion\": \" b\"}\n");
  char *args[] = {(char *)"gradsmith", TRAIN, (char *)"--seq", (char *)"8", (char *)"--steps",
                  (char *)"5",         NULL};
  cr_assert(finish(start(args)) == 0, "%s", said);
  cr_assert(count(said, "no token of the row has a label") == 1, "%s", said);
}

Test(cli, interrupted_run_goes_on) {
  char whole[600], log[600];
  tiny t = small();
  write_model(&t);
  snprintf(whole, sizeof whole, "%s/whole", dir);
  snprintf(log, sizeof log, "%s/log", dir);
  char *full[] = {
      (char *)"gradsmith", TRAIN, (char *)"--steps", (char *)"400", (char *)"--out", whole, NULL};
  cr_assert(finish(start(full)) == 0, "%s", said);
  char *args[] = {
      (char *)"gradsmith", TRAIN, (char *)"--steps", (char *)"400", (char *)"--log", log, NULL};
  pid_t pid = start(args);
  wait_for_step(log);
  kill(pid, SIGINT);
  int code = finish(pid);
  cr_assert(code == 130, "exit code %d: %s", code, said);
  cr_assert(count(said, "gradsmith: ") == 1 && strstr(said, "--resume") && strstr(said, out), "%s",
            said);
  static const char *const names[] = {"adapter_config.json", "adapter_model.safetensors",
                                      "state.safetensors"};
  for (int i = 0; i < 3; i++) {
    char path[800];
    snprintf(path, sizeof path, "%s/%s", out, names[i]);
    cr_assert(gs_path_exists(path), "%s is missing", path);
  }
  cr_assert(!same_file(out, whole, "adapter_model.safetensors"), "it was not stopped early");
  char *resume[] = {(char *)"gradsmith", (char *)"train", (char *)"--resume", out,
                    (char *)"--device",  (char *)"emu",   (char *)"--quiet",  NULL};
  cr_assert(finish(start(resume)) == 0, "%s", said);
  cr_assert(same_file(out, whole, "adapter_model.safetensors"), "the adapter differs");
  cr_assert(same_file(out, whole, "state.safetensors"), "the state differs");
}
