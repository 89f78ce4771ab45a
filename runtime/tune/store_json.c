/* store_json.c: tuning records to JSON and back. */
#include "base/file.h"
#include "tune/store_row.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char *const what = "gradsmith tuning records";
enum { FORMAT = 1 };

/* Columns as the file has them, in the order of the SELECT. */
static const struct {
  const char *name;
  enum { TEXT, INTEGER, REAL } kind;
} columns[] = {{"key", TEXT},
               {"bucket", TEXT},
               {"tuned", TEXT},
               {"gpu", TEXT},
               {"capability", TEXT},
               {"processors", INTEGER},
               {"memory_clock", INTEGER},
               {"power_cap", INTEGER},
               {"driver", TEXT},
               {"compiler", TEXT},
               {"protocol", INTEGER},
               {"median", REAL},
               {"timings", TEXT}};
enum { NCOLUMNS = sizeof columns / sizeof *columns };

static const char *const list = "key, bucket, tuned, gpu, capability, processors, memory_clock,"
                                " power_cap, driver, compiler, protocol, median, timings";

static json_t *record_of(sqlite3_stmt *q) {
  json_t *o = json_object();
  for (int c = 0; c < NCOLUMNS; c++) {
    json_t *v = columns[c].kind == TEXT      ? json_string((const char *)sqlite3_column_text(q, c))
                : columns[c].kind == INTEGER ? json_integer(sqlite3_column_int64(q, c))
                                             : json_real(sqlite3_column_double(q, c));
    json_object_set_new(o, columns[c].name, v);
  }
  return o;
}

gs_status gs_store_export(gs_store *s, const char *file, gs_error *err) {
  char sql[512];
  sqlite3_stmt *q = NULL;
  json_t *records = json_array();
  int code = SQLITE_DONE;
  snprintf(sql, sizeof sql, "SELECT %s FROM measured ORDER BY %s", list, list);
  if (!s->is_empty) code = sqlite3_prepare_v2(s->db, sql, -1, &q, NULL);
  while (q && (code = sqlite3_step(q)) == SQLITE_ROW) json_array_append_new(records, record_of(q));
  sqlite3_finalize(q);
  json_t *all = json_pack("{s:s, s:i, s:o}", "what", what, "format", FORMAT, "records", records);
  char *text = all ? json_dumps(all, JSON_INDENT(1)) : NULL;
  gs_status st = GS_OK;
  if (code != SQLITE_DONE)
    st = gs_store_fail(s, code, err);
  else if (!text)
    st = gs_fail(err, GS_ERR_MEMORY, "no memory to export");
  else
    st = gs_file_write(file, text, strlen(text), err);
  free(text);
  json_decref(all);
  return st;
}

/* Binds one record; -1, or the number of the column that is not as it must be. */
static int bind_record(sqlite3_stmt *q, const json_t *record) {
  for (int c = 0; c < NCOLUMNS; c++) {
    const json_t *v = json_object_get(record, columns[c].name);
    if (columns[c].kind == TEXT && json_is_string(v))
      sqlite3_bind_text(q, c + 1, json_string_value(v), -1, SQLITE_TRANSIENT);
    else if (columns[c].kind == INTEGER && json_is_integer(v))
      sqlite3_bind_int64(q, c + 1, json_integer_value(v));
    else if (columns[c].kind == REAL && json_is_real(v) && json_real_value(v) > 0)
      sqlite3_bind_double(q, c + 1, json_real_value(v));
    else
      return c;
  }
  return -1;
}

static gs_status insert(gs_store *s, sqlite3_stmt *q, const json_t *records, const char *file,
                        int *n, gs_error *err) {
  for (size_t i = 0; i < json_array_size(records); i++) {
    int wrong = bind_record(q, json_array_get(records, i));
    if (wrong >= 0)
      return gs_fail(err, GS_ERR_INPUT, "%s: record %zu: \"%s\" is missing or wrong", file, i + 1,
                     columns[wrong].name);
    int code = sqlite3_step(q);
    if (code != SQLITE_DONE) return gs_store_fail(s, code, err);
    sqlite3_reset(q);
    ++*n;
  }
  return GS_OK;
}

static gs_status read_file(const char *file, json_t **out, gs_error *err) {
  json_error_t e;
  *out = json_load_file(file, JSON_REJECT_DUPLICATES, &e);
  if (!*out) return gs_fail(err, GS_ERR_INPUT, "%s:%d: %s", file, e.line, e.text);
  const char *says = json_string_value(json_object_get(*out, "what"));
  json_int_t format = json_integer_value(json_object_get(*out, "format"));
  if (!says || strcmp(says, what) != 0 || !json_is_array(json_object_get(*out, "records")))
    return gs_fail(err, GS_ERR_INPUT, "%s: no exported tuning records", file);
  if (format != FORMAT)
    return gs_fail(err, GS_ERR_INPUT, "%s: format %lld; this gradsmith knows format %d", file,
                   (long long)format, FORMAT);
  return GS_OK;
}

gs_status gs_store_import(gs_store *s, const char *file, int *n, gs_error *err) {
  char sql[512];
  json_t *all = NULL;
  sqlite3_stmt *q = NULL;
  *n = 0;
  gs_status st = read_file(file, &all, err);
  if (st != GS_OK) goto done;
  snprintf(sql, sizeof sql,
           "INSERT OR REPLACE INTO measured (%s) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)", list);
  int code = sqlite3_exec(s->db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
  if (code == SQLITE_OK) code = sqlite3_prepare_v2(s->db, sql, -1, &q, NULL);
  if (code != SQLITE_OK) {
    st = gs_store_fail(s, code, err);
    goto done;
  }
  st = insert(s, q, json_object_get(all, "records"), file, n, err);
  sqlite3_finalize(q);
  code = sqlite3_exec(s->db, st == GS_OK ? "COMMIT" : "ROLLBACK", NULL, NULL, NULL);
  if (st == GS_OK && code != SQLITE_OK) st = gs_store_fail(s, code, err);
done:
  if (st != GS_OK) *n = 0;
  json_decref(all);
  return st;
}
