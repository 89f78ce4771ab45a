/* internal.h: what the files of runtime/lint share. */
#ifndef GS_LINT_INTERNAL_H
#define GS_LINT_INTERNAL_H

#include "lint/clang_api.h"
#include "lint/lint.h"

struct gs_lint {
  gs_clang_api cx;
  char path[1024];
};

/* One text being looked at. */
typedef struct look {
  const gs_clang_api *cx;
  gs_arena *a; /* of what is found out about the text */
  gs_cx_unit unit;
  const gs_launch_list *list;
  const gs_kernel *k; /* whose function is looked at, or NULL */
  gs_text *found;
  int nfound;
} look;

typedef struct cursors {
  gs_cursor *v;
  int n, cap;
} cursors;

/* The children of a node. */
cursors children_of(const look *l, gs_cursor c);
/* Copies and gives the string back. */
void take_string(const look *l, gs_cx_string s, char *out, size_t cap);
void spelling_of(const look *l, gs_cursor c, char *out, size_t cap);
/* The annotation of a declaration; false where it has none. */
bool annotation_of(const look *l, gs_cursor c, char *out, size_t cap);
void complain(look *l, gs_cursor at, const char *fmt, ...) GS_PRINTF(3, 4);
void complain_at(look *l, gs_cx_at at, const char *fmt, ...) GS_PRINTF(3, 4);

void lint_params(look *l, gs_cursor function, int threads, int barrier_free); /* params.c */
void lint_body(look *l, gs_cursor function);                                  /* body.c */

#endif
