/* gradsmith.h: what every caller of gradsmith sees first: status codes and the error record.
 *
 * Every fallible function returns gs_status and takes a gs_error *, which it fills on failure
 * (it may be NULL). Libraries never print and never exit. */
#ifndef GRADSMITH_H
#define GRADSMITH_H

#include <stddef.h>
#include <stdint.h>

typedef enum gs_status {
  GS_OK = 0,
  GS_ERR_USE,         /* the caller asked for something that cannot be: exit code 2 */
  GS_ERR_INPUT,       /* a file's content is wrong: the message names file and place */
  GS_ERR_IO,          /* the system refused: open, read, write, rename, no space */
  GS_ERR_MEMORY,      /* host or device memory ran out */
  GS_ERR_DEVICE,      /* driver, GPU, library: absent or failing */
  GS_ERR_COMPILE,     /* a kernel's text did not compile */
  GS_ERR_CHECK,       /* a check found a wrong value, a race, an access out of range */
  GS_ERR_INTERRUPTED, /* the user asked to stop */
} gs_status;

typedef struct gs_error {
  gs_status status;
  char message[4096]; /* one message, possibly of several lines, without final newline */
} gs_error;

#if defined(__GNUC__)
#define GS_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define GS_PRINTF(fmt, args)
#endif

/* Fills *err (when not NULL) and returns status, so that `return gs_fail(...)` reads well. */
gs_status gs_fail(gs_error *err, gs_status status, const char *fmt, ...) GS_PRINTF(3, 4);
#ifdef __clang_analyzer__ /* it reads one file at a time: what gs_fail returns must stand here */
#define gs_fail(err, status, ...) (gs_fail(err, status, __VA_ARGS__), (status))
#endif

/* Puts "context: " before the message already in *err; returns its status. */
gs_status gs_fail_in(gs_error *err, const char *fmt, ...) GS_PRINTF(2, 3);

/* Storage types. Arithmetic is f32 whatever the storage. */
typedef enum gs_type {
  GS_TYPE_NONE = 0,
  GS_F32,
  GS_BF16,
  GS_F16,
  GS_I32,
  GS_I64,
  GS_U8,
  GS_BOOL, /* the value of a comparison; never stored */
} gs_type;

size_t gs_type_size(gs_type t);           /* bytes of one element */
const char *gs_type_name(gs_type t);      /* "f32", "bf16", ... as in Lua and in kernels */
gs_type gs_type_from_name(const char *s); /* GS_TYPE_NONE when unknown */

#define GS_MAX_RANK 6 /* dims of one tensor */

#endif
