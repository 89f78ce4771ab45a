/* source.h: where the parts of a layer file stand. Private to check. */
#ifndef GS_CHECK_SOURCE_H
#define GS_CHECK_SOURCE_H

#include <stdbool.h>
#include <stddef.h>

/* A stretch of the text: [from, to). */
typedef struct stretch {
  size_t from, to;
} stretch;

typedef struct source {
  const char *text;
  size_t len;
  struct token *token;
  int ntokens;
  const char **strings; /* short texts that the file has */
  int nstrings;
} source;

bool source_read(source *s, const char *text, size_t len); /* false: no memory */
void source_free(source *s);

/* The value of the field `name` in the layer's table: outside of functions. Returns how many fields
 * have that name; the last of them is given. */
int source_field(const source *s, const char *name, stretch *out);

/* Inside a function: the field `save` of what it returns, or how many `return` there are. */
typedef struct source_return {
  int returns, saves; /* how often the words stand there */
  bool is_written;    /* the last `save` is followed by a table written there */
  stretch save;       /* that table, braces included */
  size_t save_at;     /* where the name `save` begins */
  bool is_table;      /* the last return gives a table written there */
  size_t close;       /* its closing brace */
  bool has_comma;     /* a comma stands before the closing brace */
} source_return;
source_return source_returns(const source *s, stretch function);

/* In a table `{ name = value, ... }`: the text "name = value" of a field. */
bool source_entry(const source *s, stretch table, const char *name, stretch *out);

#endif
