/* run.h: the actions of a record, sent to the device in order. Private to runtime/step. */
#ifndef GS_RUN_H
#define GS_RUN_H

#include "step/record.h"

/* Every variable has its address, every routine is compiled. Errors name the action. */
gs_status gs_run_acts(gs_device *d, const gs_record *r, gs_error *err);

#endif
