/* peers.c: what the script beside us measured, read into the rows: its lines of one op and shape
 * are contenders of one run, ours ("gradsmith ...") among them. */
#include "bench/bench.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static void add(gs_bench_row *r, const char *who, double seconds) {
  if (strncmp(who, "gradsmith", 9) == 0) {
    r->beside = seconds;
    return;
  }
  int at = r->npeers < GS_BENCH_PEERS ? r->npeers++ : GS_BENCH_PEERS - 1;
  while (at > 0 && r->peers[at - 1].seconds > seconds) {
    r->peers[at] = r->peers[at - 1];
    at--;
  }
  snprintf(r->peers[at].name, sizeof r->peers[at].name, "%.47s", who);
  r->peers[at].seconds = seconds;
}

static void read_line(gs_bench *b, const gs_bench_case *const *cases, const json_t *line) {
  const json_t *missing = json_object_get(line, "missing");
  const char *op = NULL, *shape = NULL, *who = NULL, *name;
  double ms = 0;
  json_t *why;
  size_t n = strlen(b->missing);
  json_object_foreach((json_t *)missing, name, why) {
    if (n >= sizeof b->missing) break;
    n += (size_t)snprintf(b->missing + n, sizeof b->missing - n, "%s%s (%.80s)", n ? ", " : "",
                          name, json_string_value(why) ? json_string_value(why) : "");
  }
  if (json_unpack((json_t *)line, "{s:s, s:s, s:s, s:F}", "op", &op, "shape", &shape, "who", &who,
                  "ms", &ms))
    return;
  for (int i = 0; i < b->n; i++) {
    char key[160];
    snprintf(key, sizeof key, "%s %s", op, shape);
    if (cases[i]->peer && strcmp(cases[i]->peer, key) == 0) add(&b->rows[i], who, ms * 1e-3);
  }
}

gs_status gs_bench_add_peers(gs_bench *b, const gs_bench_case *const *cases, const char *path,
                             gs_error *err) {
  json_error_t e;
  json_t *all = json_load_file(path, 0, &e);
  if (!json_is_array(all)) {
    json_decref(all);
    return gs_fail(err, GS_ERR_INPUT, "%s:%d: %s", path, e.line, all ? "not a list" : e.text);
  }
  size_t i;
  json_t *line;
  json_array_foreach(all, i, line) read_line(b, cases, line);
  json_decref(all);
  return GS_OK;
}
