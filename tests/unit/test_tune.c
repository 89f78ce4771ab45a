/* uses: gs_tune gs_check gs_device gs_emit gs_author */
/* Tuning records outlive everything that may happen to their file: another process that holds it,
 * damage, a process killed while it writes; a record counts for its own GPU alone; ties go to the
 * default. And the measuring protocol over the emulator's wall clock: turns, counts, medians. */
#define _GNU_SOURCE
#include "base/file.h"
#include "base/half.h"
#include "tune/store.h"
#include "tune/subject.h"
#include "tune/tuned.h"

#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[512], path[600];
static gs_error err;
static gs_about gpu;

#define must(call) cr_assert((call) == GS_OK, "%s", err.message)

static void setup(void) {
  err = (gs_error){0};
  must(gs_temp_dir(dir, sizeof dir, &err));
  snprintf(path, sizeof path, "%s/data/tuning.db", dir);
  gpu = (gs_about){.name = "GPU of a test",
                   .major = 9,
                   .sm_count = 132,
                   .memory_clock = 3201,
                   .power_cap = 700,
                   .driver = "1.2.3",
                   .compiler = "NVRTC 13.0"};
}
static void teardown(void) {
  gs_remove_tree(dir);
}
TestSuite(tune, .init = setup, .fini = teardown, .timeout = 60);

static gs_status put(gs_store *s, const char *bucket, const char *tuned, double seconds) {
  gs_measured m = {"rmsnorm.forward bf16 H=4096",
                   bucket,
                   tuned,
                   &gpu,
                   GS_MEASURE_PROTOCOL,
                   {.n = 3, .seconds = {seconds, seconds, seconds * 1.01}, .median = seconds}};
  return gs_store_put(s, &m, &err);
}

static char *best(gs_store *s, const char *bucket, const gs_about *about) {
  gs_found f;
  must(gs_store_best(s, "rmsnorm.forward bf16 H=4096", bucket, about, &f, &err));
  return f.tuned;
}

static void is_best(gs_store *s, const char *bucket, const gs_about *about, const char *want) {
  char *got = best(s, bucket, about);
  cr_assert_str_eq(got, want);
  free(got);
}

static gs_store *filled(void) {
  gs_store *s = NULL;
  must(gs_store_open(path, true, &s, &err));
  must(put(s, "T=16384", "", 100e-6));
  must(put(s, "T=16384", "row.threads=512", 90e-6));
  must(put(s, "T=16384", "row.threads=64", 200e-6));
  must(put(s, "T=1024", "", 10e-6));
  must(put(s, "T=1024", "row.threads=512", 9.9e-6)); /* a tie */
  return s;
}

Test(tune, best_of_its_bucket) {
  gs_store *s = filled();
  is_best(s, "T=16384", &gpu, "row.threads=512");
  is_best(s, "T=1024", &gpu, "");                 /* 1 % is no gain */
  is_best(s, "T=32768", &gpu, "row.threads=512"); /* the nearest */
  is_best(s, "T=1", &gpu, "");
  is_best(s, "N=16384", &gpu, ""); /* other dims */
  gs_store_close(s);
}

Test(tune, shown) {
  gs_store *s = filled();
  gs_text t = {0};
  must(gs_store_show(s, &t, &err));
  cr_assert(strstr(t.s, "row.threads=512, 90.0 us; default 100.0 us; 3 measured"), "%s", t.s);
  cr_assert(strstr(t.s, "default, 10.0 us; 2 measured"), "%s", t.s);
  gs_text_free(&t);
  gs_store_close(s);
}

Test(tune, measured_again_replaces) {
  gs_store *s = filled();
  must(put(s, "T=16384", "row.threads=512", 120e-6));
  is_best(s, "T=16384", &gpu, "");
  gs_store_close(s);
}

Test(tune, records_of_another_gpu_do_not_count) {
  gs_store *s = filled();
  for (int k = 0; k < 6; k++) {
    gs_about other = gpu;
    if (k == 0) strcpy(other.name, "Another GPU");
    if (k == 1) other.minor = 3;
    if (k == 2) other.sm_count = 114;
    if (k == 3) other.memory_clock = 2619;
    if (k == 4) other.power_cap = 350;
    if (k == 5) strcpy(other.compiler, "NVRTC 12.8");
    is_best(s, "T=16384", &other, "");
  }
  gs_store_close(s);
}

Test(tune, absent_is_empty) {
  gs_store *s = NULL;
  gs_text t = {0};
  must(gs_store_open(path, false, &s, &err));
  is_best(s, "T=16384", &gpu, "");
  must(gs_store_show(s, &t, &err));
  cr_assert(t.len == 0);
  gs_store_close(s);
  cr_assert(!gs_path_exists(path), "looking made the file");
}

Test(tune, held_by_another) {
  gs_store *s = filled();
  sqlite3 *other = NULL;
  cr_assert(sqlite3_open(path, &other) == SQLITE_OK);
  cr_assert(sqlite3_exec(other, "BEGIN EXCLUSIVE", NULL, NULL, NULL) == SQLITE_OK);
  cr_assert(put(s, "T=1", "", 1) == GS_ERR_IO);
  cr_assert(strstr(err.message, "another process") && strstr(err.message, path), "%s", err.message);
  cr_assert(sqlite3_exec(other, "COMMIT", NULL, NULL, NULL) == SQLITE_OK);
  must(put(s, "T=1", "", 1));
  sqlite3_close(other);
  gs_store_close(s);
}

static bool is_message(const char *text) {
  return strstr(text, path) && (strstr(text, "damaged") || strstr(text, "something else") ||
                                strstr(text, "format") || strstr(text, "move it"));
}

/* Whatever is damaged, the answer is a message or an answer. */
Test(tune, damaged) {
  gs_store_close(filled());
  char *data;
  size_t len;
  int messages = 0;
  must(gs_file_read(path, &data, &len, &err));
  for (size_t at = 0; at < len; at += at < 128 ? 1 : 397) {
    char *copy = malloc(len);
    memcpy(copy, data, len);
    memset(copy + at, 0xa5, len - at < 24 ? len - at : 24);
    must(gs_file_write(path, copy, len, &err));
    free(copy);
    gs_store *s = NULL;
    gs_found f = {0};
    gs_status st = gs_store_open(path, at % 2, &s, &err);
    if (st == GS_OK)
      st = gs_store_best(s, "rmsnorm.forward bf16 H=4096", "T=16384", &gpu, &f, &err);
    if (st == GS_ERR_INPUT) {
      messages++;
      cr_assert(is_message(err.message), "at %zu: %s", at, err.message);
    } else {
      cr_assert(st == GS_OK || st == GS_ERR_IO, "at %zu: %d", at, st);
    }
    free(f.tuned);
    gs_store_close(s);
  }
  cr_assert(messages > 10, "%d", messages);
  for (size_t n = 600; n < len; n = n * 3 / 2) { /* cut; what has no page yet is an empty store */
    gs_store *s = NULL;
    must(gs_file_write(path, data, n, &err));
    gs_found f = {0};
    gs_status st = gs_store_open(path, true, &s, &err);
    if (st == GS_OK)
      st = gs_store_best(s, "rmsnorm.forward bf16 H=4096", "T=16384", &gpu, &f, &err);
    cr_assert(st == GS_OK ? f.tuned != NULL : is_message(err.message), "cut to %zu: %s", n,
              err.message);
    free(f.tuned);
    gs_store_close(s);
  }
  free(data);
}

Test(tune, a_database_of_something_else) {
  sqlite3 *other = NULL;
  gs_store *s = NULL;
  snprintf(path, sizeof path, "%s/other.db", dir);
  cr_assert(sqlite3_open(path, &other) == SQLITE_OK);
  sqlite3_exec(other, "CREATE TABLE measured (a)", NULL, NULL, NULL);
  sqlite3_close(other);
  cr_assert(gs_store_open(path, true, &s, &err) == GS_ERR_INPUT);
  cr_assert(strstr(err.message, "something else"), "%s", err.message);
}

/* As a user who may not write: root may do anything. */
Test(tune, not_writable) {
  gs_store_close(filled());
  chmod(path, 0444);
  char folder[600];
  snprintf(folder, sizeof folder, "%s/data", dir);
  chmod(dir, 0755);
  chmod(folder, 0555);
  pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && setuid(65534) != 0) _exit(9);
    gs_store *s = NULL;
    if (gs_store_open(path, true, &s, &err) != GS_ERR_IO) _exit(1);
    if (!strstr(err.message, "writable")) _exit(2);
    if (gs_store_open(path, false, &s, &err) != GS_OK) _exit(3); /* still read */
    gs_found f;
    if (gs_store_best(s, "rmsnorm.forward bf16 H=4096", "T=16384", &gpu, &f, &err)) _exit(4);
    _exit(strcmp(f.tuned, "row.threads=512") == 0 ? 0 : 5);
  }
  int state = 0;
  waitpid(child, &state, 0);
  chmod(folder, 0755);
  cr_assert(WIFEXITED(state) && WEXITSTATUS(state) == 0, "%d", WEXITSTATUS(state));
}

static int count(void) {
  sqlite3 *db = NULL;
  sqlite3_stmt *q = NULL;
  int n = -1;
  cr_assert(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK);
  cr_assert(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &q, NULL) == SQLITE_OK);
  cr_assert(sqlite3_step(q) == SQLITE_ROW);
  cr_assert_str_eq((const char *)sqlite3_column_text(q, 0), "ok");
  sqlite3_finalize(q);
  cr_assert(sqlite3_prepare_v2(db, "SELECT count(*) FROM measured", -1, &q, NULL) == SQLITE_OK);
  if (sqlite3_step(q) == SQLITE_ROW) n = sqlite3_column_int(q, 0);
  sqlite3_finalize(q);
  sqlite3_close(db);
  return n;
}

/* Killed at any moment: everything that gs_store_put has said is done is there. */
Test(tune, killed_while_it_writes) {
  volatile int *done =
      mmap(NULL, sizeof *done, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  *done = 0;
  gs_store *first = NULL;
  must(gs_store_open(path, true, &first, &err));
  gs_store_close(first);
  for (int round = 0; round < 12; round++) {
    int before = *done;
    pid_t child = fork();
    if (child == 0) {
      gs_store *s = NULL;
      if (gs_store_open(path, true, &s, &err) != GS_OK) _exit(1);
      for (int i = *done;; i++) {
        char bucket[32];
        snprintf(bucket, sizeof bucket, "T=%d", i);
        if (put(s, bucket, "", 1e-3) != GS_OK) _exit(2);
        *done = i + 1;
      }
    }
    for (int k = 0; k < 2000 && *done == before; k++) usleep(1000);
    usleep((useconds_t)(round * 731 % 9000));
    kill(child, SIGKILL);
    int state;
    waitpid(child, &state, 0);
    cr_assert(WIFSIGNALED(state), "the writer ended by itself: %d", WEXITSTATUS(state));
    int has = count(), said = *done;
    cr_assert(said > before, "nothing was written");
    cr_assert(has >= said && has <= said + 1, "%d said, %d there", said, has);
    *done = has;
  }
}

Test(tune, exported_and_imported) {
  gs_store *s = filled(), *t = NULL;
  char file[600], again[600], *a, *b;
  size_t na, nb;
  int n;
  snprintf(file, sizeof file, "%s/records.json", dir);
  snprintf(again, sizeof again, "%s/again.json", dir);
  must(gs_store_export(s, file, &err));
  gs_store_close(s);
  snprintf(path, sizeof path, "%s/other/tuning.db", dir);
  must(gs_store_open(path, true, &t, &err));
  must(gs_store_import(t, file, &n, &err));
  cr_assert(n == 5, "%d", n);
  is_best(t, "T=16384", &gpu, "row.threads=512");
  must(gs_store_import(t, file, &n, &err)); /* twice is the same */
  must(gs_store_export(t, again, &err));
  must(gs_file_read(file, &a, &na, &err));
  must(gs_file_read(again, &b, &nb, &err));
  cr_assert(na == nb && memcmp(a, b, na) == 0);
  char *wrong = strstr(b, "\"processors\": 132"); /* one bad record: none is taken */
  wrong = wrong ? strstr(wrong + 1, "\"processors\": 132") : NULL;
  cr_assert(wrong);
  memcpy(wrong, "\"Processors\": 132", 17);
  must(gs_file_write(again, b, nb, &err));
  gs_store_close(t);
  snprintf(path, sizeof path, "%s/third/tuning.db", dir);
  must(gs_store_open(path, true, &t, &err));
  cr_assert(gs_store_import(t, again, &n, &err) == GS_ERR_INPUT && n == 0);
  cr_assert(strstr(err.message, "record 2") && strstr(err.message, "processors"), "%s",
            err.message);
  is_best(t, "T=16384", &gpu, "");
  for (size_t cut = 0; cut < na; cut += 97) {
    must(gs_file_write(again, a, cut, &err));
    cr_assert(gs_store_import(t, again, &n, &err) == GS_ERR_INPUT, "cut at %zu", cut);
  }
  free(a);
  free(b);
  gs_store_close(t);
}

/* Files of format 1, as they were written when it was new: later code reads them, or says why not.
 */
Test(tune, files_of_format_1) {
  gs_store *s = NULL, *t = NULL;
  char *data, *again, file[600];
  size_t len, n;
  int taken;
  must(gs_file_read(GS_TEST_DIR "/golden/tuning/format1.db", &data, &len, &err));
  must(gs_file_write((snprintf(path, sizeof path, "%s/old.db", dir), path), data, len, &err));
  free(data);
  must(gs_store_open(path, false, &s, &err));
  is_best(s, "T=16384", &gpu, "row.threads=512");
  must(gs_store_open((snprintf(file, sizeof file, "%s/new.db", dir), file), true, &t, &err));
  must(gs_store_import(t, GS_TEST_DIR "/golden/tuning/format1.json", &taken, &err));
  cr_assert(taken == 3);
  is_best(t, "T=16384", &gpu, "row.threads=512");
  snprintf(file, sizeof file, "%s/again.json", dir);
  must(gs_store_export(s, file, &err));
  must(gs_file_read(GS_TEST_DIR "/golden/tuning/format1.json", &data, &len, &err));
  must(gs_file_read(file, &again, &n, &err));
  cr_assert(n == len && memcmp(data, again, n) == 0, "the format changed without its number");
  free(data);
  free(again);
  gs_store_close(s);
  gs_store_close(t);
}

/* ---- tunables ---- */

typedef struct pass_of {
  gs_author *a;
  gs_instance *i;
  gs_pass *p;
  int64_t sizes[GS_MAX_DIMS];
} pass_of;

static pass_of rmsnorm(int64_t T, int64_t H) {
  pass_of x = {.sizes = {T, H}};
  gs_layer *l = NULL;
  must(gs_author_new(&x.a, &err));
  must(gs_layer_open(x.a, "rmsnorm", &l, &err));
  gs_choice c = {.dtype = GS_BF16, .sizes = x.sizes};
  must(gs_layer_instantiate(l, &c, &x.i, &err));
  gs_graph_sizes(x.i->g, x.sizes);
  must(gs_layer_pass(x.i, GS_PASS_FORWARD, NULL, 0, NULL, 0, &x.p, &err));
  return x;
}

static void drop(pass_of *x) {
  gs_instance_free(x->i);
  gs_author_free(x->a);
}

Test(tune, buckets_are_powers_of_two) {
  pass_of x = rmsnorm(4097, 64);
  char bucket[64];
  gs_store_bucket(x.p->g, x.sizes, bucket, sizeof bucket);
  cr_assert_str_eq(bucket, "T=8192");
  x.sizes[0] = 4096;
  gs_store_bucket(x.p->g, x.sizes, bucket, sizeof bucket);
  cr_assert_str_eq(bucket, "T=4096");
  drop(&x);
}

Test(tune, unknown_and_illegal_tunables_are_refused) {
  pass_of x = rmsnorm(64, 4096);
  gs_launch_list *l = NULL;
  const gs_caps *caps = gs_caps_find("sm_90a");
  must(gs_compile(x.p, caps, NULL, &l, &err));
  cr_assert(gs_compile_tuned(x.p, caps, "row.nonsense=3", NULL, &l, &err) == GS_ERR_INPUT);
  cr_assert(strstr(err.message, "no 'row.nonsense'"), "%s", err.message);
  for (int k = 0; k < l->ntunables; k++) {
    const gs_tunable *t = &l->tunables[k];
    for (int v = 0; v < t->nlegal; v++) { /* each legal value compiles, and is what is chosen */
      char tuned[128];
      gs_launch_list *m = NULL;
      snprintf(tuned, sizeof tuned, "%s=%lld", t->name, (long long)t->legal[v]);
      must(gs_compile_tuned(x.p, caps, tuned, NULL, &m, &err));
      cr_assert(m->tunables[k].chosen == t->legal[v], "%s", tuned);
    }
    char tuned[128];
    snprintf(tuned, sizeof tuned, "%s=77777", t->name);
    cr_assert(gs_compile_tuned(x.p, caps, tuned, NULL, &l, &err) == GS_ERR_INPUT);
    cr_assert(strstr(err.message, "not legal"), "%s", err.message);
    must(gs_compile(x.p, caps, NULL, &l, &err));
  }
  drop(&x);
}

/* ---- the protocol ---- */

static int order[64], norder;
static gs_status note(void *context, gs_error *e) {
  (void)e;
  if (norder < 64) order[norder++] = *(int *)context;
  usleep(*(int *)context == 1 ? 4000 : 1000);
  return GS_OK;
}

Test(tune, contenders_are_timed_in_turns) {
  gs_device *d = NULL;
  gs_meter *m = NULL;
  int who[2] = {0, 1};
  gs_contender c[2] = {{&who[0], NULL, note}, {&who[1], NULL, note}};
  gs_timing t[2] = {{0}, {0}};
  must(gs_device_open("emu", NULL, &d, &err));
  must(gs_meter_open(d, &m, &err));
  must(gs_meter_run(m, c, 2, 5, t, &err));
  cr_assert(norder == 10);
  for (int i = 0; i < 10; i++) cr_assert(order[i] == i % 2);
  cr_assert(t[0].n == 5 && t[1].n == 5);
  cr_assert(t[1].low >= 4e-3 && t[0].low >= 1e-3 && t[0].low <= t[0].median);
  cr_assert(t[0].median <= t[0].high);
  gs_rates r;
  cr_assert(gs_meter_rates(m, &r, &err) == GS_ERR_USE);
  cr_assert(strstr(err.message, "checker"), "%s", err.message);
  gs_meter_close(m);
  gs_device_close(d);
}

/* A layer in place begins each launch from its first values: twice the same result. */
Test(tune, inputs_are_brought_back) {
  gs_device *d = NULL;
  gs_author *a = NULL;
  gs_layer *l = NULL;
  gs_instance *i = NULL;
  gs_pass *p = NULL;
  gs_launch_list *list = NULL;
  gs_subject *s = NULL;
  gs_variant *v = NULL;
  int64_t sizes[GS_MAX_DIMS] = {300};
  must(gs_device_open("emu", NULL, &d, &err));
  must(gs_author_new(&a, &err));
  must(gs_layer_open(a, "adamw", &l, &err));
  gs_choice c = {.dtype = GS_F32, .sizes = sizes};
  must(gs_layer_instantiate(l, &c, &i, &err));
  gs_graph_sizes(i->g, sizes);
  must(gs_layer_pass(i, GS_PASS_FORWARD, NULL, 0, NULL, 0, &p, &err));
  must(gs_compile(p, gs_device_caps(d), NULL, &list, &err));
  must(gs_subject_new(d, i, list, sizes, 7, &s, &err));
  must(gs_variant_new(s, list, &v, &err));
  float got[3][300];
  for (int k = 0; k < 3; k++) {
    if (k != 1) must(gs_variant_prepare(v, &err));
    must(gs_variant_submit(v, &err));
    must(gs_variant_read(v, "p_out", got[k], sizeof got[k], &err));
  }
  cr_assert(memcmp(got[0], got[1], sizeof got[0]) != 0, "a second step changed nothing");
  cr_assert(memcmp(got[0], got[2], sizeof got[0]) == 0);
  gs_subject_free(s);
  gs_instance_free(i);
  gs_author_free(a);
  gs_device_close(d);
}

/* What a tuner may choose is as right as the default: on the emulator, as for a GPU, the backward's
 * gradients agree to the rounding of another order of summation. */
Test(tune, other_choices_compute_the_same, .timeout = 120) {
  enum { T = 37, H = 2048 };
  gs_device *d = NULL;
  gs_device_options o = {.arch = "sm_90a"};
  pass_of x = rmsnorm(T, H);
  gs_launch_list *l = NULL;
  gs_subject *s = NULL;
  gs_variant *v = NULL;
  static uint16_t dx[2][T * H];
  static float dw[2][H];
  must(gs_layer_pass(x.i, GS_PASS_BACKWARD, NULL, 0, NULL, 0, &x.p, &err));
  must(gs_device_open("emu", &o, &d, &err));
  must(gs_compile(x.p, gs_device_caps(d), NULL, &l, &err));
  must(gs_subject_new(d, x.i, l, x.sizes, 3, &s, &err));
  must(gs_variant_new(s, l, &v, &err));
  must(gs_variant_submit(v, &err));
  must(gs_variant_read(v, "dx", dx[0], sizeof dx[0], &err));
  must(gs_variant_read(v, "dw", dw[0], sizeof dw[0], &err));
  cr_assert(l->ntunables > 0);
  for (int k = 0; k < l->ntunables; k++)
    for (int n = 0; n < l->tunables[k].nlegal; n += 3) {
      char tuned[128];
      gs_launch_list *m = NULL;
      snprintf(tuned, sizeof tuned, "%s=%lld", l->tunables[k].name,
               (long long)l->tunables[k].legal[n]);
      must(gs_compile_tuned(x.p, gs_device_caps(d), tuned, NULL, &m, &err));
      must(gs_variant_new(s, m, &v, &err));
      must(gs_variant_submit(v, &err));
      must(gs_variant_read(v, "dx", dx[1], sizeof dx[1], &err));
      must(gs_variant_read(v, "dw", dw[1], sizeof dw[1], &err));
      for (int i = 0; i < T * H; i++) {
        double a = gs_load_f64(dx[0], GS_BF16, i), b = gs_load_f64(dx[1], GS_BF16, i);
        cr_assert(fabs(a - b) <= fabs(a) * 0x1p-6 + 1e-5, "%s: dx[%d] %g, %g", tuned, i, a, b);
      }
      for (int i = 0; i < H; i++) {
        double a = dw[0][i], b = dw[1][i];
        cr_assert(fabs(a - b) <= fabs(a) * 1e-5 + 1e-4, "%s: dw[%d] %g, %g", tuned, i, a, b);
      }
      gs_variant_free(v);
    }
  gs_subject_free(s);
  drop(&x);
  gs_device_close(d);
}
