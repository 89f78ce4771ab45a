/* file.h: a pack read: one file of compiled kernels with their records, of every pass that the
 * planner wanted and for every GPU that was asked for.
 *
 * The file: the line "gradsmith pack 1", padded with NULs to 32 bytes; the index's length in 8
 * bytes (little-endian), padded to 16; the index, JSON, padded with NULs to a multiple of 16; the
 * code of each kernel and target, each padded so; and the SHA-256 of all that, 32 bytes.
 *
 * Needs neither Lua nor NVRTC nor a driver. A pack is read-only: any number of threads may use it.
 */
#ifndef GS_PACK_FILE_H
#define GS_PACK_FILE_H

#include "emit/compile.h"

#define GS_PACK_LINE "gradsmith pack "
#define GS_PACK_FORMAT 1
enum { GS_PACK_HEAD = 48, GS_PACK_ALIGN = 16 };

typedef struct gs_pack_file gs_pack_file;

/* A pass, scheduled for one row of the capability table. */
typedef struct gs_pack_record {
  const char *key;      /* "rmsnorm.forward bf16 H=4096 gemma=0 -> y,rstd" */
  const char *schedule; /* "sm_90a" */
  int ndims;
  gs_dim *dims;
  const char *tuned;   /* "row.threads=512": tunables that are not the default; "" for none */
  gs_launch_list list; /* without graph, its kernels without text */
  const char **text;   /* of each kernel: the SHA-256 of its text in hex */
} gs_pack_record;

/* What code was compiled for: "sm_90a", or "compute_80": PTX; and the schedule of its kernels. */
typedef struct gs_pack_target {
  const char *name, *schedule;
} gs_pack_target;

typedef struct gs_pack_code {
  const char *entry, *text, *target;
  const void *data; /* a cubin, or PTX that ends with a NUL */
  size_t len;
} gs_pack_code;

typedef struct gs_pack_about {
  const char *path, *producer, *compiler, *licence, *licence_text;
  int nrecords, ntargets, ncodes;
  const gs_pack_record *records;
  const gs_pack_target *targets;
  const gs_pack_code *codes; /* by entry */
  size_t bytes;
} gs_pack_about;

/* Reads the whole file and holds it against its hash. GS_ERR_INPUT: no pack, or cut, or altered. */
gs_status gs_pack_file_open(const char *path, gs_pack_file **out, gs_error *err);
void gs_pack_file_close(gs_pack_file *f); /* harmless on NULL */
const gs_pack_about *gs_pack_file_about(const gs_pack_file *f);

/* The target that a GPU of that compute capability runs: its own "a" target, else of its family,
 * else plain code of its major version up to its minor, else PTX. GS_ERR_DEVICE names what there
 * is. */
gs_status gs_pack_file_choose(const gs_pack_file *f, int major, int minor,
                              const gs_pack_target **out, gs_error *err);

const gs_pack_record *gs_pack_file_record(const gs_pack_file *f, const char *key,
                                          const char *schedule); /* NULL: none */
const gs_pack_code *gs_pack_file_code(const gs_pack_file *f, const char *entry, const char *text,
                                      const char *target); /* NULL: none */
/* The key of that schedule which differs least; NULL when the pack has none at all. */
const char *gs_pack_file_nearest(const gs_pack_file *f, const char *key, const char *schedule);

#endif
