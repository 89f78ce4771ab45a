/* store.c: the tuning records in SQLite. */
#include "tune/store.h"

#include "base/file.h"
#include "tune/store_row.h"

#include <errno.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FORMAT = 1, WAIT_MS = 5000, APPLICATION = 0x67736d74 /* "gsmt" */ };

static const char *const schema =
    "CREATE TABLE IF NOT EXISTS measured ("
    " key TEXT NOT NULL, bucket TEXT NOT NULL, tuned TEXT NOT NULL,"
    " gpu TEXT NOT NULL, capability TEXT NOT NULL, processors INTEGER NOT NULL,"
    " memory_clock INTEGER NOT NULL, power_cap INTEGER NOT NULL,"
    " driver TEXT NOT NULL, compiler TEXT NOT NULL, protocol INTEGER NOT NULL,"
    " median REAL NOT NULL, timings TEXT NOT NULL,"
    " UNIQUE (key, bucket, tuned, gpu, capability, processors, memory_clock, power_cap, driver,"
    " compiler, protocol))";

gs_status gs_store_path(char *out, size_t cap, gs_error *err) {
  const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
  int n = data && data[0] == '/' ? snprintf(out, cap, "%s/gradsmith/tuning.db", data)
          : home && home[0]      ? snprintf(out, cap, "%s/.local/share/gradsmith/tuning.db", home)
                                 : -1;
  if (n > 0 && (size_t)n < cap) return GS_OK;
  return gs_fail(err, GS_ERR_IO, "no folder for tuning records: neither XDG_DATA_HOME nor HOME");
}

/* ---- errors ---- */

gs_status gs_store_fail(gs_store *s, int code, gs_error *err) {
  const char *why = s->db ? sqlite3_errmsg(s->db) : sqlite3_errstr(code);
  switch (code & 0xff) {
  case SQLITE_NOMEM: return gs_fail(err, GS_ERR_MEMORY, "%s: no memory", s->path);
  case SQLITE_BUSY:
  case SQLITE_LOCKED:
    return gs_fail(err, GS_ERR_IO,
                   "%s: another process has held it for %d s; wait for it, or end it", s->path,
                   WAIT_MS / 1000);
  case SQLITE_NOTADB:
  case SQLITE_CORRUPT:
    return gs_fail(
        err, GS_ERR_INPUT,
        "%s: not a store of tuning records, or damaged (%s); move it away and tune again", s->path,
        why);
  case SQLITE_READONLY:
  case SQLITE_CANTOPEN:
  case SQLITE_PERM:
    return gs_fail(err, GS_ERR_IO,
                   "%s: can't be written (%s); make it writable, or name another data folder by "
                   "XDG_DATA_HOME",
                   s->path, why);
  default: return gs_fail(err, GS_ERR_IO, "%s: %s", s->path, why);
  }
}

/* ---- opening ---- */

static int run(gs_store *s, const char *sql) {
  return sqlite3_exec(s->db, sql, NULL, NULL, NULL);
}

static int read_number(gs_store *s, const char *sql, int64_t *out) {
  sqlite3_stmt *q = NULL;
  int code = sqlite3_prepare_v2(s->db, sql, -1, &q, NULL);
  if (code == SQLITE_OK) code = sqlite3_step(q);
  if (code == SQLITE_ROW) *out = sqlite3_column_int64(q, 0);
  sqlite3_finalize(q);
  return code == SQLITE_ROW ? SQLITE_OK : code;
}

/* A new file becomes a store; any other must be one, of our format. */
static gs_status check_file(gs_store *s, bool write, gs_error *err) {
  int64_t application = 0, format = 0, tables = 0;
  int code = read_number(s, "PRAGMA application_id", &application);
  if (code == SQLITE_OK) code = read_number(s, "PRAGMA user_version", &format);
  if (code == SQLITE_OK) code = read_number(s, "SELECT count(*) FROM sqlite_master", &tables);
  if (code != SQLITE_OK) return gs_store_fail(s, code, err);
  if (tables == 0 && write) {
    char sql[128];
    snprintf(sql, sizeof sql, "PRAGMA application_id=%d; PRAGMA user_version=%d", APPLICATION,
             FORMAT);
    code = run(s, "BEGIN IMMEDIATE");
    if (code == SQLITE_OK) code = run(s, schema);
    if (code == SQLITE_OK) code = run(s, sql);
    if (code == SQLITE_OK) code = run(s, "COMMIT");
    return code == SQLITE_OK ? GS_OK : gs_store_fail(s, code, err);
  }
  if (tables == 0) {
    s->is_empty = true;
    return GS_OK;
  }
  if (application != APPLICATION)
    return gs_fail(err, GS_ERR_INPUT, "%s: a database of something else; move it away", s->path);
  if (format != FORMAT)
    return gs_fail(err, GS_ERR_INPUT, "%s: records of format %lld; this gradsmith knows format %d",
                   s->path, (long long)format, FORMAT);
  return GS_OK;
}

static gs_status make_folder(const char *path, gs_error *err) {
  char *folder = strdup(path), *end = folder ? strrchr(folder, '/') : NULL;
  gs_status st = GS_OK;
  if (end && end != folder) {
    *end = 0;
    st = gs_mkdirs(folder, err);
  }
  free(folder);
  return st;
}

gs_status gs_store_open(const char *path, bool write, gs_store **out, gs_error *err) {
  *out = NULL;
  gs_store *s = calloc(1, sizeof *s);
  if (!s || !(s->path = strdup(path))) {
    free(s);
    return gs_fail(err, GS_ERR_MEMORY, "no memory for tuning records");
  }
  gs_status st = write ? make_folder(path, err) : GS_OK;
  if (st == GS_OK && !write && !gs_path_exists(path)) {
    s->is_empty = true;
    *out = s;
    return GS_OK;
  }
  /* for reading too: what a killed writer left half done is rolled back; a file that may only be
   * read is opened so by SQLite itself */
  int flags = SQLITE_OPEN_READWRITE | (write ? SQLITE_OPEN_CREATE : 0);
  if (st == GS_OK) {
    int code = sqlite3_open_v2(path, &s->db, flags, NULL);
    if (code == SQLITE_OK) code = sqlite3_busy_timeout(s->db, WAIT_MS);
    if (code == SQLITE_OK && write && sqlite3_db_readonly(s->db, "main") == 1)
      code = SQLITE_READONLY;
    if (code != SQLITE_OK) st = gs_store_fail(s, code, err);
  }
  if (st == GS_OK) st = check_file(s, write, err);
  if (st != GS_OK) {
    gs_store_close(s);
    return st;
  }
  *out = s;
  return GS_OK;
}

void gs_store_close(gs_store *s) {
  if (!s) return;
  sqlite3_close(s->db);
  free(s->path);
  free(s);
}

/* ---- records ---- */

void gs_store_timings(const gs_timing *t, gs_text *out) {
  for (int i = 0; i < t->n; i++) gs_text_printf(out, "%s%.9g", i ? " " : "", t->seconds[i]);
}

static void bind_machine(sqlite3_stmt *q, int at, const gs_about *a, int protocol) {
  char capability[32];
  snprintf(capability, sizeof capability, "%d.%d", a->major, a->minor);
  sqlite3_bind_text(q, at, a->name, -1, SQLITE_TRANSIENT);
  sqlite3_bind_text(q, at + 1, capability, -1, SQLITE_TRANSIENT);
  sqlite3_bind_int(q, at + 2, a->sm_count);
  sqlite3_bind_int(q, at + 3, a->memory_clock);
  sqlite3_bind_int(q, at + 4, a->power_cap);
  sqlite3_bind_text(q, at + 5, a->compiler, -1, SQLITE_TRANSIENT);
  sqlite3_bind_int(q, at + 6, protocol);
}

gs_status gs_store_put(gs_store *s, const gs_measured *m, gs_error *err) {
  static const char *const sql =
      "INSERT OR REPLACE INTO measured (gpu, capability, processors, memory_clock, power_cap,"
      " compiler, protocol, key, bucket, tuned, driver, median, timings)"
      " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
  sqlite3_stmt *q = NULL;
  gs_text t = {0};
  gs_store_timings(&m->timing, &t);
  int code = sqlite3_prepare_v2(s->db, sql, -1, &q, NULL);
  if (code == SQLITE_OK) {
    bind_machine(q, 1, m->about, m->protocol);
    sqlite3_bind_text(q, 8, m->key, -1, SQLITE_TRANSIENT);
    sqlite3_bind_text(q, 9, m->bucket, -1, SQLITE_TRANSIENT);
    sqlite3_bind_text(q, 10, m->tuned, -1, SQLITE_TRANSIENT);
    sqlite3_bind_text(q, 11, m->about->driver, -1, SQLITE_TRANSIENT);
    sqlite3_bind_double(q, 12, m->timing.median);
    sqlite3_bind_text(q, 13, t.s ? t.s : "", -1, SQLITE_TRANSIENT);
    code = sqlite3_step(q);
  }
  sqlite3_finalize(q);
  gs_text_free(&t);
  return code == SQLITE_DONE ? GS_OK : gs_store_fail(s, code, err);
}

/* ---- looking up ---- */

void gs_store_bucket(const gs_graph *g, const int64_t *sizes, char *out, size_t cap) {
  size_t n = 0;
  out[0] = 0;
  for (int d = 0; d < gs_graph_ndims(g) && n < cap; d++) {
    const gs_dim *x = gs_graph_dim_at(g, d);
    if (x->size >= 0) continue;
    int64_t up = 1;
    while (up < sizes[d]) up *= 2;
    n += (size_t)snprintf(out + n, cap - n, "%s%s=%lld", n ? " " : "", x->name, (long long)up);
  }
}

/* How many doublings lie between two buckets of the same dims; -1: other dims. */
static double apart(const char *a, const char *b) {
  double sum = 0;
  while (*a && *b) {
    size_t n = strcspn(a, "="), m = strcspn(b, "=");
    char *ea, *eb;
    if (n != m || memcmp(a, b, n) != 0 || !a[n]) return -1;
    double x = strtod(a + n + 1, &ea), y = strtod(b + m + 1, &eb);
    sum += x > 0 && y > 0 ? fabs(log2(x / y)) : 0;
    a = ea + (*ea == ' ');
    b = eb + (*eb == ' ');
  }
  return *a || *b ? -1 : sum;
}

/* The nearest bucket that has records of the default. */
static int nearest(gs_store *s, const char *key, const char *bucket, const gs_about *about,
                   char *out, size_t cap) {
  static const char *const sql =
      "SELECT DISTINCT bucket FROM measured WHERE gpu=?1 AND capability=?2 AND processors=?3 AND"
      " memory_clock=?4 AND power_cap=?5 AND compiler=?6 AND protocol=?7 AND key=?8 AND tuned=''"
      " ORDER BY bucket";
  sqlite3_stmt *q = NULL;
  double best = -1;
  out[0] = 0;
  int code = sqlite3_prepare_v2(s->db, sql, -1, &q, NULL);
  if (code != SQLITE_OK) return code;
  bind_machine(q, 1, about, GS_MEASURE_PROTOCOL);
  sqlite3_bind_text(q, 8, key, -1, SQLITE_TRANSIENT);
  while ((code = sqlite3_step(q)) == SQLITE_ROW) {
    const char *has = (const char *)sqlite3_column_text(q, 0);
    double far = apart(bucket, has);
    if (far < 0 || (best >= 0 && far >= best)) continue;
    best = far;
    snprintf(out, cap, "%s", has);
  }
  sqlite3_finalize(q);
  return code;
}

static int read_best(gs_store *s, const char *key, const gs_about *about, gs_found *out) {
  static const char *const sql =
      "SELECT tuned, min(median) FROM measured WHERE gpu=?1 AND capability=?2 AND processors=?3 AND"
      " memory_clock=?4 AND power_cap=?5 AND compiler=?6 AND protocol=?7 AND key=?8 AND bucket=?9"
      " GROUP BY tuned ORDER BY 2, 1";
  sqlite3_stmt *q = NULL;
  int code = sqlite3_prepare_v2(s->db, sql, -1, &q, NULL);
  if (code != SQLITE_OK) return code;
  bind_machine(q, 1, about, GS_MEASURE_PROTOCOL);
  sqlite3_bind_text(q, 8, key, -1, SQLITE_TRANSIENT);
  sqlite3_bind_text(q, 9, out->bucket, -1, SQLITE_TRANSIENT);
  while ((code = sqlite3_step(q)) == SQLITE_ROW) {
    const char *tuned = (const char *)sqlite3_column_text(q, 0);
    double median = sqlite3_column_double(q, 1);
    if (!tuned[0]) out->default_seconds = median;
    if (out->tuned) continue;
    out->tuned = strdup(tuned);
    out->seconds = median;
  }
  sqlite3_finalize(q);
  return code;
}

gs_status gs_store_best(gs_store *s, const char *key, const char *bucket, const gs_about *about,
                        gs_found *out, gs_error *err) {
  *out = (gs_found){0};
  int code =
      s->is_empty ? SQLITE_DONE : nearest(s, key, bucket, about, out->bucket, sizeof out->bucket);
  if (code == SQLITE_DONE && !s->is_empty) code = read_best(s, key, about, out);
  if (code != SQLITE_DONE) return gs_store_fail(s, code, err);
  if (out->tuned && out->seconds > out->default_seconds * (1 - GS_TIE)) {
    out->tuned[0] = 0; /* a tie goes to the default */
    out->seconds = out->default_seconds;
  }
  if (!out->tuned) out->tuned = strdup("");
  return out->tuned ? GS_OK : gs_fail(err, GS_ERR_MEMORY, "%s: no memory", s->path);
}

gs_status gs_store_show(gs_store *s, gs_text *out, gs_error *err) {
  static const char *const sql =
      "SELECT gpu, driver, key, bucket, min(median), tuned, count(*),"
      " (SELECT min(p.median) FROM measured p WHERE p.tuned='' AND p.gpu=m.gpu AND"
      " p.capability=m.capability AND p.processors=m.processors AND"
      " p.memory_clock=m.memory_clock AND p.power_cap=m.power_cap AND p.driver=m.driver AND"
      " p.compiler=m.compiler AND p.protocol=m.protocol AND p.key=m.key AND p.bucket=m.bucket),"
      " protocol FROM measured m"
      " GROUP BY gpu, capability, processors, memory_clock, power_cap, driver, compiler, protocol,"
      " key, bucket ORDER BY gpu, driver, key, bucket";
  sqlite3_stmt *q = NULL;
  if (s->is_empty) return GS_OK;
  int code = sqlite3_prepare_v2(s->db, sql, -1, &q, NULL);
  while (code == SQLITE_OK && (code = sqlite3_step(q)) == SQLITE_ROW) {
    double best = sqlite3_column_double(q, 4), plain = sqlite3_column_double(q, 7);
    const char *tuned = (const char *)sqlite3_column_text(q, 5);
    bool tie = plain > 0 && best > plain * (1 - GS_TIE);
    gs_text_printf(out, "%s, driver %s, protocol %d: %s, %s\n    ", sqlite3_column_text(q, 0),
                   sqlite3_column_text(q, 1), sqlite3_column_int(q, 8), sqlite3_column_text(q, 2),
                   sqlite3_column_text(q, 3));
    if (tie || !tuned[0])
      gs_text_printf(out, "default, %.1f us", (plain > 0 ? plain : best) * 1e6);
    else
      gs_text_printf(out, "%s, %.1f us; default %.1f us", tuned, best * 1e6, plain * 1e6);
    gs_text_printf(out, "; %d measured\n", sqlite3_column_int(q, 6));
    code = SQLITE_OK;
  }
  sqlite3_finalize(q);
  return code == SQLITE_DONE ? GS_OK : gs_store_fail(s, code, err);
}
