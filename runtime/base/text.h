/* text.h: a growing string. Zero-initialise, append, free. Always NUL-terminated once appended to.
 */
#ifndef GS_TEXT_H
#define GS_TEXT_H

#include <stddef.h>

typedef struct gs_text {
  char *s;
  size_t len, cap;
} gs_text;

void gs_text_free(gs_text *t);
void gs_text_add(gs_text *t, const char *s);
void gs_text_add_n(gs_text *t, const char *s, size_t n);
void gs_text_printf(gs_text *t, const char *fmt, ...);

#endif
