/* write.h: a pack made: launch lists and the code of their kernels, put into one file (file.h). */
#ifndef GS_PACK_WRITE_H
#define GS_PACK_WRITE_H

#include "pack/file.h"

typedef struct gs_pack_writer gs_pack_writer;

/* producer: "gradsmith 0.1.0"; compiler: the build of NVRTC. */
gs_status gs_pack_writer_new(const char *producer, const char *compiler, gs_pack_writer **out,
                             gs_error *err);
void gs_pack_writer_free(gs_pack_writer *w);

gs_status gs_pack_writer_target(gs_pack_writer *w, const char *name, const char *schedule,
                                gs_error *err);
/* A pass of that schedule; one that is already there is not added again. */
gs_status gs_pack_writer_pass(gs_pack_writer *w, const gs_launch_list *l, const char *schedule,
                              gs_error *err);
/* The code of a kernel for a target; code that is already there is not added again. Of PTX the
 * final NUL is not counted in len. */
gs_status gs_pack_writer_code(gs_pack_writer *w, const gs_kernel *k, const char *target,
                              const void *data, size_t len, gs_error *err);
gs_status gs_pack_writer_save(const gs_pack_writer *w, const char *path, gs_error *err);

/* What names a kernel's text in a pack: the SHA-256 of prelude and text, in hex. */
void gs_pack_text_hash(const gs_kernel *k, char hex[65]);

#endif
