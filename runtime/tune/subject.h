/* subject.h: a pass with memory and random inputs, ready to be launched again and again, in several
 * variants: the same pass compiled with other tunables, over the same tensors. */
#ifndef GS_TUNE_SUBJECT_H
#define GS_TUNE_SUBJECT_H

#include "device/launch.h"

typedef struct gs_subject gs_subject;
typedef struct gs_variant gs_variant;

/* sizes: of every dim of the pass's graph. Allocates and fills what `l`, a launch list of the pass,
 * is bound to. The instance must outlive the subject. */
gs_status gs_subject_new(gs_device *d, gs_instance *i, const gs_launch_list *l,
                         const int64_t *sizes, uint64_t seed, gs_subject **out, gs_error *err);
void gs_subject_free(gs_subject *s); /* with its variants */
/* Values of an input in place of drawn ones, where not any values will do. An input that this pass
 * does not take is passed over. */
gs_status gs_subject_write(gs_subject *s, const char *name, const void *values, size_t bytes,
                           gs_error *err);

/* Compiles a launch list of that pass and allocates its temporaries. */
gs_status gs_variant_new(gs_subject *s, const gs_launch_list *l, gs_variant **out, gs_error *err);
void gs_variant_free(gs_variant *v); /* its temporaries; the code stays with the device */

/* For measuring (tune/measure.h): context is a gs_variant. Prepare brings back inputs that results
 * lie over, where there are any; submit launches: kernels that a batch needs once (gs_kernel.once)
 * the first time alone, so that warming up runs them. */
gs_status gs_variant_prepare(void *variant, gs_error *err);
gs_status gs_variant_submit(void *variant, gs_error *err);

/* The first `bytes` bytes of a tensor by its name in the launch list. */
gs_status gs_variant_read(gs_variant *v, const char *name, void *out, size_t bytes, gs_error *err);

#endif
