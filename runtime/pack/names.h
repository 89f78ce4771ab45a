/* names.h: how the index spells kinds and roles: writer and reader have one table. */
#ifndef GS_PACK_NAMES_H
#define GS_PACK_NAMES_H

static const char *const gs_pack_arg_names[] = {"tensor", "temporary",   "stride", "dim",
                                                "scalar", "step_scalar", "map"};
static const char *const gs_pack_role_names[] = {"input",  "weight", "scalar",  "step_scalar",
                                                 "output", "saved",  "upstream"};
enum { GS_PACK_ARGS = 7, GS_PACK_ROLES = 7 };

#endif
