/* tunables.c: the choices that a tuner may change, by name: default, legal values and override are
 * one call where the choice is made (geometry.c), so that they cannot disagree. */
#include "emit/emit.h"

#include <stdlib.h>
#include <string.h>

struct tuning {
  const char *wanted; /* "row.threads=512,row.chunks=4", or NULL */
  int nused;
  const char *used[GS_MAX_TUNABLES];
  const char *failure; /* the first, or NULL */
};

void tuning_begin(emit *e, const char *wanted) {
  e->tuning = GS_NEW(e->a, tuning);
  e->tuning->wanted = wanted;
  e->list->tunables = GS_NEW_N(e->a, gs_tunable, GS_MAX_TUNABLES);
}

/* The text behind "NAME=" in the override, or NULL. */
static const char *wanted_value(const tuning *t, const char *name) {
  size_t n = strlen(name);
  for (const char *p = t->wanted; p && *p; p += *p == ',') {
    if (strncmp(p, name, n) == 0 && p[n] == '=') return p + n + 1;
    p += strcspn(p, ",");
  }
  return NULL;
}

static gs_tunable *noted(const emit *e, const char *name) {
  for (int i = 0; i < e->list->ntunables; i++)
    if (strcmp(e->list->tunables[i].name, name) == 0) return &e->list->tunables[i];
  return NULL;
}

static bool is_legal(const gs_tunable *t, int64_t value) {
  for (int i = 0; i < t->nlegal; i++)
    if (t->legal[i] == value) return true;
  return false;
}

static void add_legal(gs_tunable *t, int64_t value) {
  if (!is_legal(t, value) && t->nlegal < GS_MAX_LEGAL) t->legal[t->nlegal++] = value;
}

/* A name that several kernels of a pass have takes what is legal for all of them. */
static void note(const emit *e, const gs_tunable *t) {
  gs_tunable *old = noted(e, t->name);
  if (!old) {
    if (e->list->ntunables < GS_MAX_TUNABLES) e->list->tunables[e->list->ntunables++] = *t;
    return;
  }
  int n = 0;
  for (int i = 0; i < old->nlegal; i++)
    if (is_legal(t, old->legal[i])) old->legal[n++] = old->legal[i];
  old->nlegal = n;
}

static void fail_value(const emit *e, const gs_tunable *t, const char *value) {
  if (e->tuning->failure) return;
  gs_text s = {0};
  for (int i = 0; i < t->nlegal; i++)
    gs_text_printf(&s, "%s%lld", i ? ", " : "", (long long)t->legal[i]);
  e->tuning->failure = gs_arena_printf(e->a, "%s=%.*s is not legal here; it may be %s", t->name,
                                       (int)strcspn(value, ","), value, s.s ? s.s : "nothing");
  gs_text_free(&s);
}

int64_t tunable(const emit *e, const char *template_name, const char *name, int64_t by_default,
                const int64_t *legal, int n) {
  gs_tunable t = {.name = gs_arena_printf(e->a, "%s.%s", template_name, name),
                  .by_default = by_default,
                  .chosen = by_default};
  add_legal(&t, by_default);
  for (int i = 0; i < n; i++) add_legal(&t, legal[i]);
  const char *value = wanted_value(e->tuning, t.name);
  if (value) {
    char *end = NULL;
    int64_t v = strtoll(value, &end, 10);
    if (end == value || (*end && *end != ',') || !is_legal(&t, v))
      fail_value(e, &t, value);
    else
      t.chosen = v;
  }
  note(e, &t);
  return t.chosen;
}

/* Every name of the override must have been asked for. */
static const char *unknown_name(const emit *e) {
  for (const char *p = e->tuning->wanted; p && *p; p += *p == ',') {
    size_t n = strcspn(p, "=,"), known = 0;
    for (int i = 0; i < e->list->ntunables; i++) {
      const char *name = e->list->tunables[i].name;
      known |= strlen(name) == n && memcmp(name, p, n) == 0;
    }
    if (!known) return p;
    p += strcspn(p, ",");
  }
  return NULL;
}

void tuning_end(emit *e) {
  const char *unknown = unknown_name(e);
  if (e->tuning->failure) {
    emit_fail(e, 0, "tunables: %s", e->tuning->failure);
  } else if (unknown) {
    gs_text s = {0};
    for (int i = 0; i < e->list->ntunables; i++)
      gs_text_printf(&s, " %s", e->list->tunables[i].name);
    emit_fail(e, 0, "tunables: its kernels have no '%.*s'; they have:%s",
              (int)strcspn(unknown, "=,"), unknown, s.s ? s.s : " none");
    gs_text_free(&s);
  }
}
