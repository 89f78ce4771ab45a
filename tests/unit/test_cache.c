/* uses: gs_jit gs_assets */
/* test_cache.c: the kernel cache: what is kept comes back, and whatever is wrong with an entry or a
 * folder is a miss and nothing worse. */
#include "base/file.h"
#include "jit/cache.h"
#include "jit/jit.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char code[] = "\177ELF\2\1 code with\0NUL and \n\n lines";
static const char *const log_text = "ptxas info: 0 bytes spill\n";

static gs_cache_key a_key(void) {
  return (gs_cache_key){.entry = "rmsnorm_forward_12345678",
                        .target = "sm_90a",
                        .compiler = "NVRTC 13.0, libnvrtc.so.13.0.88, 109338064 bytes",
                        .options = "--gpu-architecture=sm_90a --fmad=false",
                        .prelude = "// prelude\n",
                        .text = "// a kernel's text\n"};
}

static char dir[256];

static void open_dir(void) {
  cr_assert_eq(gs_temp_dir(dir, sizeof dir, NULL), GS_OK);
}

static void close_dir(void) {
  gs_remove_tree(dir);
}

TestSuite(cache, .init = open_dir, .fini = close_dir);

static bool reads(const gs_cache *c, const gs_cache_key *k) {
  gs_cached got;
  bool ok = gs_cache_read(c, k, &got);
  if (ok) {
    cr_expect_eq(got.len, sizeof code);
    cr_expect_eq(memcmp(got.code, code, sizeof code), 0);
    cr_expect_str_eq(got.log, log_text);
    cr_expect(gs_path_exists(got.file));
  } else {
    cr_expect(!got.code && !got.log && !got.file);
  }
  free(got.code);
  free(got.log);
  free(got.file);
  return ok;
}

static int files_in(const char *path, char *last, size_t cap) {
  int n = 0;
  DIR *d = opendir(path);
  for (struct dirent *f = d ? readdir(d) : NULL; f; f = readdir(d)) {
    if (f->d_name[0] == '.' && strncmp(f->d_name, ".part", 5) != 0) continue;
    snprintf(last, cap, "%s/%s", path, f->d_name);
    n++;
  }
  if (d) closedir(d);
  return n;
}

static void write_entry(gs_cache *c) {
  gs_cache_key k = a_key();
  gs_cache_write(c, &k, code, sizeof code, log_text);
}

Test(cache, gives_back_what_was_written) {
  gs_cache *c = gs_cache_open(dir);
  gs_cache_key k = a_key();
  int64_t n, bytes;
  char path[1024];
  cr_expect(!reads(c, &k));
  write_entry(c);
  cr_expect(reads(c, &k));
  cr_expect_eq(files_in(dir, path, sizeof path), 1);
  cr_expect_eq(gs_cache_measure(c, &n, &bytes, NULL), GS_OK);
  cr_expect_eq(n, 1);
  cr_expect(bytes > (int64_t)sizeof code);
  cr_expect_eq(gs_cache_clear(c, &n, NULL), GS_OK);
  cr_expect_eq(n, 1);
  cr_expect(!reads(c, &k));
  gs_cache_close(c);
}

/* Another GPU, compiler, option, text: each field counts, and where one field ends. */
Test(cache, every_field_is_part_of_the_key) {
  gs_cache *c = gs_cache_open(dir);
  write_entry(c);
  for (int i = 0; i < 7; i++) {
    gs_cache_key k = a_key();
    const char **fields[] = {&k.entry, &k.target, &k.compiler, &k.options, &k.prelude, &k.text};
    if (i < 6) *fields[i] = "something else";
    if (i == 6) k.prelude = "// prelude\n// a", k.text = " kernel's text\n";
    cr_expect(!reads(c, &k), "field %d", i);
  }
  gs_cache_close(c);
}

TestSuite(entry, .init = open_dir, .fini = close_dir);

/* Without waiting for the disk, a thousand times. */
static void put(const char *path, const char *data, size_t n) {
  FILE *f = fopen(path, "wb");
  cr_assert(f && fwrite(data, 1, n, f) == n && fclose(f) == 0);
}

Test(entry, altered_at_any_byte_is_a_miss) {
  gs_cache *c = gs_cache_open(dir);
  gs_cache_key k = a_key();
  char path[1024], *data;
  size_t len;
  write_entry(c);
  cr_assert_eq(files_in(dir, path, sizeof path), 1);
  cr_assert_eq(gs_file_read(path, &data, &len, NULL), GS_OK);
  for (size_t i = 0; i < len; i++) {
    data[i] ^= (char)(1 << i % 8);
    put(path, data, len);
    cr_expect(!reads(c, &k), "byte %zu", i);
    data[i] ^= (char)(1 << i % 8);
  }
  for (size_t n = 0; n < len; n++) {
    put(path, data, n);
    cr_expect(!reads(c, &k), "cut to %zu", n);
  }
  char *longer = calloc(1, len + 1);
  memcpy(longer, data, len);
  put(path, longer, len + 1);
  cr_expect(!reads(c, &k), "one byte more");
  put(path, data, len);
  cr_expect(reads(c, &k), "as it was");
  free(longer);
  free(data);
  gs_cache_close(c);
}

/* A whole and sound entry under the name of another. */
Test(entry, of_another_gpu_or_compiler_is_a_miss) {
  gs_cache *c = gs_cache_open(dir);
  gs_cache_key k = a_key(), other = a_key();
  char mine[1024], theirs[1024], *data;
  size_t len;
  write_entry(c);
  files_in(dir, mine, sizeof mine);
  unlink(mine);
  other.target = "sm_100a";
  gs_cache_write(c, &other, code, sizeof code, log_text);
  files_in(dir, theirs, sizeof theirs);
  cr_assert_str_neq(mine, theirs);
  cr_assert_eq(gs_file_read(theirs, &data, &len, NULL), GS_OK);
  cr_assert_eq(gs_file_write(mine, data, len, NULL), GS_OK);
  cr_expect(!reads(c, &k));
  cr_expect(reads(c, &other));
  free(data);
  gs_cache_close(c);
}

/* tests/golden/cache/format1.gsk was written by the first version of the format. */
Test(entry, of_format_1_stays_readable) {
  gs_cache *c = gs_cache_open(dir);
  char path[1024], *golden, *now;
  size_t n, m;
  cr_assert_eq(gs_file_read(GS_TEST_DIR "/golden/cache/format1.gsk", &golden, &n, NULL), GS_OK);
  write_entry(c);
  files_in(dir, path, sizeof path);
  cr_assert_eq(gs_file_read(path, &now, &m, NULL), GS_OK);
  cr_assert_eq(n, m);
  cr_expect_eq(memcmp(golden, now, n), 0, "the bytes of an entry have changed: a new format?");
  free(golden);
  free(now);
  gs_cache_close(c);
}

TestSuite(folder, .init = open_dir, .fini = close_dir);

Test(folder, that_cannot_be_is_no_cache) {
  char path[300];
  gs_cache_key k = a_key();
  int64_t n, bytes;
  snprintf(path, sizeof path, "%s/file", dir);
  cr_assert_eq(gs_file_write(path, "x", 1, NULL), GS_OK);
  snprintf(path, sizeof path, "%s/file/below", dir);
  const char *const places[] = {path, "/proc/gradsmith", "/dev/null"};
  for (int i = 0; i < 3; i++) {
    gs_cache *c = gs_cache_open(places[i]);
    cr_assert(c);
    write_entry(c);
    cr_expect(!reads(c, &k), "%s", places[i]);
    gs_cache_close(c);
  }
  snprintf(path, sizeof path, "%s/not/yet/there", dir);
  gs_cache *c = gs_cache_open(path);
  cr_expect_eq(gs_cache_measure(c, &n, &bytes, NULL), GS_OK);
  cr_expect_eq(n, 0);
  write_entry(c);
  cr_expect(reads(c, &k));
  gs_cache_close(c);
}

/* Runs f in a process of its own, so that what it gives up is lost there alone. */
static int apart(int (*f)(gs_cache *c)) {
  fflush(NULL);
  pid_t pid = fork();
  int rc = -1;
  if (pid == 0) {
    gs_cache *c = gs_cache_open(dir);
    _exit(f(c));
  }
  waitpid(pid, &rc, 0);
  return WIFEXITED(rc) ? WEXITSTATUS(rc) : 99;
}

static bool finds(const gs_cache *c) {
  gs_cache_key k = a_key();
  gs_cached got;
  return gs_cache_read(c, &k, &got);
}

static int write_as_nobody(gs_cache *c) {
  if (geteuid() == 0 && setuid(65534) != 0) return 3;
  write_entry(c);
  return finds(c);
}

static int write_past_the_limit(gs_cache *c) {
  struct rlimit r = {100, 100};
  signal(SIGXFSZ, SIG_IGN);
  if (setrlimit(RLIMIT_FSIZE, &r) != 0) return 3;
  write_entry(c);
  return finds(c);
}

Test(folder, read_only_is_read) {
  char path[1024];
  chmod(dir, 0555);
  cr_expect_eq(apart(write_as_nobody), 0);
  cr_expect_eq(files_in(dir, path, sizeof path), 0);
  chmod(dir, 0755);
  gs_cache *c = gs_cache_open(dir);
  write_entry(c);
  files_in(dir, path, sizeof path);
  chmod(path, 0444);
  chmod(dir, 0555);
  cr_expect_eq(apart(write_as_nobody), 1);
  chmod(dir, 0755);
  gs_cache_close(c);
}

Test(folder, full_keeps_nothing_and_leaves_nothing) {
  char path[1024];
  cr_expect_eq(apart(write_past_the_limit), 0);
  cr_expect_eq(files_in(dir, path, sizeof path), 0);
}

static int race(gs_cache *c) {
  for (int i = 0; i < 50; i++) {
    write_entry(c);
    if (!finds(c)) return 1; /* whoever replaces an entry replaces all of it */
  }
  return 0;
}

Test(folder, is_shared_by_16_processes) {
  pid_t pids[16];
  char path[1024];
  fflush(NULL);
  for (int i = 0; i < 16; i++) {
    pids[i] = fork();
    if (pids[i] == 0) _exit(race(gs_cache_open(dir)));
  }
  for (int i = 0; i < 16; i++) {
    int rc = -1;
    waitpid(pids[i], &rc, 0);
    cr_expect_eq(rc, 0);
  }
  cr_expect_eq(files_in(dir, path, sizeof path), 1);
}

Test(folder, is_found_by_the_environment) {
  setenv("GRADSMITH_CACHE", "off", 1);
  cr_expect_null(gs_cache_open(NULL));
  setenv("GRADSMITH_CACHE", dir, 1);
  gs_cache *c = gs_cache_open(NULL);
  cr_expect_str_eq(gs_cache_folder(c), dir);
  gs_cache_close(c);
  unsetenv("GRADSMITH_CACHE");
  setenv("XDG_CACHE_HOME", "/some", 1);
  c = gs_cache_open(NULL);
  cr_expect_str_eq(gs_cache_folder(c), "/some/gradsmith/kernels");
  gs_cache_close(c);
  unsetenv("XDG_CACHE_HOME");
  setenv("HOME", "/home/x", 1);
  c = gs_cache_open(NULL);
  cr_expect_str_eq(gs_cache_folder(c), "/home/x/.cache/gradsmith/kernels");
  gs_cache_close(c);
  unsetenv("HOME");
  cr_expect_null(gs_cache_open(NULL));
}

/* Nine entries a moment apart; the first is used again; half of the bytes may stay. */
Test(folder, forgets_what_is_not_used) {
  gs_cache *c = gs_cache_open(dir);
  gs_cache_key k = a_key();
  char entries[9][8], path[1024];
  int64_t n, bytes;
  const struct timespec moment = {.tv_nsec = 20000000};
  for (int i = 0; i < 9; i++) {
    snprintf(entries[i], sizeof entries[i], "k%d", i);
    k.entry = entries[i];
    gs_cache_write(c, &k, code, sizeof code, log_text);
    nanosleep(&moment, NULL);
  }
  k.entry = entries[0];
  cr_expect(reads(c, &k));
  cr_assert_eq(gs_cache_measure(c, &n, &bytes, NULL), GS_OK);
  gs_cache_shrink(c, bytes);
  cr_expect_eq(files_in(dir, path, sizeof path), 9);
  gs_cache_shrink(c, bytes * 2 / 3); /* and a quarter less */
  cr_expect_eq(files_in(dir, path, sizeof path), 4);
  for (int i = 0; i < 9; i++) {
    k.entry = entries[i];
    cr_expect_eq(reads(c, &k), i == 0 || i > 5, "%d", i);
  }
  gs_cache_close(c);
}

/* ---- with the compiler ---- */

static const gs_jit_source small = {
    .text = "extern \"C\" __global__ void small(float *y) { y[threadIdx.x] = 1; }\n",
    .entry = "small",
    .arch = "sm_90a"};

static gs_jit_code compile(const gs_jit *j, bool again, bool from_cache) {
  gs_error err = {0};
  gs_jit_code c;
  gs_jit_source s = small;
  s.again = again;
  cr_assert_eq(gs_jit_compile(j, &s, &c, &err), GS_OK, "%s", err.message);
  cr_expect_eq(c.file != NULL, from_cache);
  return c;
}

Test(folder, spares_the_compiler) {
  gs_jit *j;
  setenv("GRADSMITH_CACHE", dir, 1);
  if (gs_jit_open(0, &j, NULL) != GS_OK) {
    fprintf(stderr, "skipped: no NVRTC\n");
    return;
  }
  cr_expect(strstr(gs_jit_build(j), "libnvrtc"));
  gs_jit_code cold = compile(j, false, false), warm = compile(j, false, true);
  cr_expect_eq(cold.len, warm.len);
  cr_expect_eq(memcmp(cold.data, warm.data, cold.len), 0);
  cr_expect_str_eq(cold.log, warm.log);
  cr_assert_eq(gs_file_write(warm.file, "broken", 6, NULL), GS_OK);
  gs_jit_code anew = compile(j, false, false), again = compile(j, true, false);
  gs_jit_code last = compile(j, false, true);
  cr_expect_eq(anew.len, cold.len);
  gs_jit_code_free(&cold);
  gs_jit_code_free(&warm);
  gs_jit_code_free(&anew);
  gs_jit_code_free(&again);
  gs_jit_code_free(&last);
  gs_jit_close(j);
}
