/* arena.h: memory that is freed all at once. Compile-time data of gen and plans of the step live
 * in one. Not thread-safe: one arena a thread. Allocation never returns NULL: on exhaustion it
 * calls abort() after printing one line, since compile-time data are small. */
#ifndef GS_ARENA_H
#define GS_ARENA_H

#include <stdarg.h>
#include <stddef.h>

typedef struct gs_arena gs_arena;

gs_arena *gs_arena_new(void);
void gs_arena_free(gs_arena *a);
void *gs_arena_alloc(gs_arena *a, size_t bytes); /* zeroed, 16-byte aligned */
char *gs_arena_strdup(gs_arena *a, const char *s);
char *gs_arena_printf(gs_arena *a, const char *fmt, ...);
void *gs_arena_copy(gs_arena *a, const void *p, size_t bytes);
/* An array of n elements with room for one more: old, or a larger copy (old is left behind). */
void *gs_arena_room(gs_arena *a, void *old, int n, int *cap, size_t size);

#define GS_NEW(a, T) ((T *)gs_arena_alloc((a), sizeof(T)))
#define GS_NEW_N(a, T, n) ((T *)gs_arena_alloc((a), sizeof(T) * (size_t)(n)))

#endif
