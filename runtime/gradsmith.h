/* gradsmith.h: what every caller of gradsmith sees first: status codes, the error record, storage
 * types; and libgradsmith, which launches the kernels of a pack.
 *
 * Every fallible function returns gs_status and takes a gs_error *, which it fills on failure
 * (it may be NULL). Libraries never print and never exit. */
#ifndef GRADSMITH_H
#define GRADSMITH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define GS_PUBLIC __attribute__((visibility("default"))) /* what libgradsmith exports */
#else
#define GS_PUBLIC
#endif

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
GS_PUBLIC gs_status gs_fail(gs_error *err, gs_status status, const char *fmt, ...) GS_PRINTF(3, 4);
#ifdef __clang_analyzer__ /* it reads one file at a time: what gs_fail returns must stand here */
#define gs_fail(err, status, ...) (gs_fail(err, status, __VA_ARGS__), (status))
#endif

/* Puts "context: " before the message already in *err; returns its status. */
GS_PUBLIC gs_status gs_fail_in(gs_error *err, const char *fmt, ...) GS_PRINTF(2, 3);

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
  GS_I8,
  GS_E4M3, /* FP8, OCP: 4 bits of exponent, no infinities, 448 the largest; rounding saturates */
  GS_E5M2, /* FP8, OCP: 5 bits of exponent; 57344 the largest; rounding saturates */
  GS_E8M0, /* a power of two, 2^(byte - 127): scales of MXFP4; rounding goes up */
} gs_type;

GS_PUBLIC size_t gs_type_size(gs_type t);           /* bytes of one element */
GS_PUBLIC const char *gs_type_name(gs_type t);      /* "f32", "bf16", ... as in Lua, in kernels */
GS_PUBLIC gs_type gs_type_from_name(const char *s); /* GS_TYPE_NONE when unknown */

#define GS_MAX_RANK 6 /* dims of one tensor */

/* ---- libgradsmith: kernels of a pack, launched by the caller ----
 *
 * A pack (gradsmith pack) is one file of compiled kernels with their records. Opening one needs
 * neither Lua nor a compiler; finding a pass in it needs the NVIDIA driver and a current CUDA
 * context (what the runtime API, PyTorch or cuCtxSetCurrent made). Nothing here allocates device
 * memory or waits for the GPU, and launches may be captured. A pack may be used by several threads
 * at once. */
typedef struct gs_pack gs_pack;
typedef struct gs_pack_call gs_pack_call; /* one pass of a layer, loaded for one context */

/* Reads and verifies the whole file. GS_ERR_INPUT: it is no pack, or one that was cut or altered. */
GS_PUBLIC gs_status gs_pack_open(const char *path, gs_pack **out, gs_error *err);
GS_PUBLIC void gs_pack_close(gs_pack *p); /* unloads its kernels; harmless on NULL */

/* What the pack has: passes, each with the key that finds it, such as
 * "rmsnorm.backward bf16 H=4096 gemma=0 -> dx,dw". */
GS_PUBLIC int gs_pack_count(const gs_pack *p);
GS_PUBLIC const char *gs_pack_key(const gs_pack *p, int i); /* NULL past the end */

/* The pass of that key, loaded for the GPU of the current context; it lives as long as the pack.
 * GS_ERR_USE: the pack lacks it; the message names the nearest that it has. GS_ERR_DEVICE: no
 * driver, no context, or no code for this GPU. */
GS_PUBLIC gs_status gs_pack_find(gs_pack *p, const char *key, gs_pack_call **out, gs_error *err);

typedef enum gs_operand_kind {
  GS_OPERAND_INPUT,         /* a tensor that is read */
  GS_OPERAND_RESULT,        /* a tensor that is written */
  GS_OPERAND_SUM,           /* a tensor that the result is added to */
  GS_OPERAND_NUMBER,        /* a number, given with the call (eps) */
  GS_OPERAND_DEVICE_NUMBER, /* one f32 in device memory (lr) */
} gs_operand_kind;

/* What a call takes under one name: x, w, eps, y, rstd, dy, dx. */
typedef struct gs_operand_info {
  const char *name;
  gs_operand_kind kind;
  gs_type type;
  int rank;
  int64_t shape[GS_MAX_RANK];    /* the size that a dim must have; -1: any (the first dim only) */
  const char *dim[GS_MAX_RANK];  /* its name: equal names have equal sizes */
  const char *shares;            /* a result that lies in this operand's memory; NULL: none. It may
                                    be left out of a call */
} gs_operand_info;
GS_PUBLIC int gs_pack_operands(const gs_pack_call *c);
GS_PUBLIC const gs_operand_info *gs_pack_operand(const gs_pack_call *c, int i);

/* An operand as the caller has it. The last dim is contiguous, all but the first are packed. */
typedef struct gs_operand {
  const char *name;
  gs_type type;               /* of what ptr points to; ignored of a number */
  int rank;
  int64_t shape[GS_MAX_RANK];
  int64_t stride; /* elements between steps of the first dim; 0: packed. Where the elements of a
                     step are a multiple of 2, 4 or 8, so must it be */
  uint64_t ptr;   /* device address, a multiple of 16 (of 4 for a device number) */
  double value;   /* of a number */
} gs_operand;

/* Bytes of device memory that the kernels work in, for these operands. */
GS_PUBLIC gs_status gs_pack_workspace(const gs_pack_call *c, const gs_operand *operands, int n,
                                      size_t *bytes, gs_error *err);
/* Holds names, types, shapes, strides and addresses against the record, then launches on the
 * stream (a CUstream or cudaStream_t; NULL: the default stream) of the context that the call was
 * found in. workspace: a device address, a multiple of 256; 0 where none is wanted. GS_ERR_USE:
 * an operand is not as the record has it; nothing was launched. */
GS_PUBLIC gs_status gs_pack_launch(const gs_pack_call *c, void *stream, const gs_operand *operands,
                                   int n, uint64_t workspace, size_t workspace_bytes,
                                   gs_error *err);

#ifdef __cplusplus
}
#endif

#endif
