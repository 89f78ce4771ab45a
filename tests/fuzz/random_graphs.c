/* random_graphs.c: random layers through the whole compiler: Lua, graph, schedule, text, the
 * emulator; every value against float64 within its derived bound, every derived backward against
 * differences.
 *
 *   random_graphs [COUNT [SEED [SIZE]]]      40 layers, a seed from the time, 10 operations
 *
 * A layer follows from its seed, its machine (the emulator as itself, or standing for a GPU) from
 * seed / BATCH, so that `random_graphs 1 SEED SIZE` repeats one of a long run. Two processes with
 * seeds apart use two cores.
 *
 * Prints the text of each layer that is wrong, and of each that no schedule covers. Exit code 1
 * when one is wrong, when more than 5 % are not covered, or when fewer than 90 % of all elements
 * have a finite value and bound, so that the rest would say nothing.
 */
#include "random_layer.h"

#include "base/clock.h"
#include "base/file.h"
#include "check/case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH = 64 }; /* those of one batch, by their seeds, share a machine */

typedef struct tally {
  int checked, refused, wrong, dropped, gradients;
  double values, elements;
} tally;

typedef struct item {
  random_layer layer;
  uint64_t seed;
  char path[600];
  gs_author *author;
  gs_case c;
  bool is_ready;
} item;

static gs_status save(item *it, const char *dir, gs_error *err) {
  snprintf(it->path, sizeof it->path, "%s/random_%llx.lua", dir, (unsigned long long)it->seed);
  FILE *f = fopen(it->path, "w");
  if (!f) return gs_fail(err, GS_ERR_IO, "cannot write %s", it->path);
  fputs(it->layer.text, f);
  return fclose(f) ? gs_fail(err, GS_ERR_IO, "cannot write %s", it->path) : GS_OK;
}

/* A layer whose inputs or dims vanish in simplification says nothing: dropped. */
static bool is_empty(const gs_error *err) {
  return strstr(err->message, "the value has dims") != NULL ||
         strstr(err->message, "is what output") != NULL ||
         strstr(err->message, "is not used") != NULL ||
         strstr(err->message, "does not depend") != NULL || strstr(err->message, "is lost") != NULL;
}

static void close_item(item *it) {
  if (it->is_ready) gs_case_free(&it->c);
  gs_author_free(it->author);
  it->author = NULL;
  it->is_ready = false;
}

static gs_status prepare(item *it, gs_error *err) {
  static const gs_type types[] = {GS_F32, GS_BF16, GS_F16};
  gs_rng r = {it->seed};
  gs_check_options o = {.dims = it->layer.dims};
  gs_layer *l;
  gs_status st = gs_author_new(&it->author, err);
  if (st == GS_OK) st = gs_layer_open(it->author, it->path, &l, err);
  if (st == GS_OK)
    st = gs_case_new(l, types[it->seed % 3], 1, it->seed % 5 ? GS_MOOD_ORDINARY : GS_MOOD_REPEATED,
                     &o, &r, &it->c, err);
  it->is_ready = st == GS_OK;
  gs_check_report rep = {0};
  if (st == GS_OK) st = gs_check_simplified(&it->c, err);
  return st == GS_OK && it->layer.has_gradient ? gs_check_math(&it->c, &r, &rep, err) : st;
}

static void keep(const item *it, const char *what, const gs_error *err) {
  printf("%s: seed %llu (%s): %s\n--- the layer:\n%s---\n", what, (unsigned long long)it->seed,
         it->layer.dims, err->message, it->layer.text);
  fflush(stdout);
}

/* Items are compiled together; when something is wrong, halves of them say which it is. */
static gs_status run_some(item *items, int n, gs_device *d, gs_check_report *rep, gs_error *err) {
  static gs_case cases[BATCH];
  gs_check_options o = {.seed = items[0].seed};
  for (int k = 0; k < n; k++) cases[k] = items[k].c;
  return gs_check_runs(cases, n, d, &o, rep, err);
}

static void run_batch(item *items, int n, gs_device *d, tally *t) {
  gs_check_report rep = {0};
  gs_error err = {0};
  gs_status st = run_some(items, n, d, &rep, &err);
  if (st != GS_OK && n > 1) {
    run_batch(items, n / 2, d, t);
    run_batch(items + n / 2, n - n / 2, d, t);
    return;
  }
  t->values += rep.values;
  t->elements += rep.elements;
  bool refused = strstr(err.message, "no schedule") || strstr(err.message, "more than");
  if (st == GS_OK) {
    t->checked += n;
    for (int k = 0; k < n; k++) t->gradients += items[k].layer.has_gradient;
  } else {
    *(refused ? &t->refused : &t->wrong) += 1;
    keep(items, refused ? "refused" : "WRONG", &err);
  }
}

static gs_status run_all(int count, uint64_t seed, int size, const char *dir, tally *t,
                         gs_error *err) {
  static item items[BATCH];
  static const char *const arch[] = {NULL, "sm_90a", NULL, "sm_80"};
  for (int done = 0; done < count;) {
    int batch = (int)(seed / BATCH % 4);
    gs_device_options o = {
        .checked = true, .arch = arch[batch], .reverse = seed / (4 * BATCH) & 1, .threads = 1};
    gs_device *d;
    gs_status st = gs_device_open("emu", &o, &d, err);
    int n = 0;
    uint64_t end = seed - seed % BATCH + BATCH;
    for (; st == GS_OK && seed < end && done < count; done++) {
      item *it = &items[n];
      *it = (item){.seed = seed++};
      random_layer_write(&it->layer, it->seed, size);
      st = save(it, dir, err);
      if (st != GS_OK) break;
      gs_error mistake = {0};
      if (prepare(it, &mistake) == GS_OK) {
        n++;
        continue;
      }
      if (is_empty(&mistake)) {
        t->dropped++;
      } else {
        t->wrong++;
        keep(it, "WRONG", &mistake);
      }
      close_item(it);
    }
    if (st == GS_OK && n) run_batch(items, n, d, t);
    for (int k = 0; k < n; k++) close_item(&items[k]);
    gs_device_close(d);
    if (st != GS_OK) return st;
  }
  return GS_OK;
}

int main(int argc, char **argv) {
  int count = argc > 1 ? atoi(argv[1]) : 40, size = argc > 3 ? atoi(argv[3]) : 10;
  uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL) * 1000003u;
  char dir[256];
  gs_error err = {0};
  tally t = {0};
  double start = gs_seconds();
  setenv("GRADSMITH_CACHE", "off", 1); /* no layer comes twice */
  gs_status st = gs_temp_dir(dir, sizeof dir, &err);
  if (st == GS_OK) {
    st = run_all(count, seed, size, dir, &t, &err);
    gs_remove_tree(dir);
  }
  if (st != GS_OK) {
    fprintf(stderr, "random_graphs: %s\n", err.message);
    return 1;
  }
  printf(
      "random_graphs: %d layers from seed %llu: %d checked (%d with a derived backward), %.0f "
      "values (%.1f %% of all: the rest is not finite), %d refused, %d empty, %d wrong; %.0f s\n",
      count, (unsigned long long)seed, t.checked, t.gradients, t.values,
      t.elements > 0 ? 100 * t.values / t.elements : 0, t.refused, t.dropped, t.wrong,
      gs_seconds() - start);
  bool says_much = t.values >= 0.9 * t.elements;
  return t.wrong || t.refused > count / 20 || !says_much ? 1 : 0;
}
