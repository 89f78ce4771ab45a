/* safetensors_types.h: the format's storage types, one row each, in the order of the reference's
 * own enumeration, which is also the order (from the last to the first) of tensors in a file it
 * writes. */
#ifndef GS_SAFETENSORS_TYPES_H
#define GS_SAFETENSORS_TYPES_H

#include "gradsmith.h"

typedef struct gs_st_type {
  const char *name;
  unsigned bits; /* of one element */
  gs_type type;  /* GS_TYPE_NONE: sizes are checked, values are not for us */
} gs_st_type;

static const gs_st_type gs_st_types[] = {
    {"BOOL", 8, GS_BOOL},
    {"F4", 4, GS_TYPE_NONE},
    {"F6_E2M3", 6, GS_TYPE_NONE},
    {"F6_E3M2", 6, GS_TYPE_NONE},
    {"U8", 8, GS_U8},
    {"I8", 8, GS_TYPE_NONE},
    {"F8_E5M2", 8, GS_TYPE_NONE},
    {"F8_E4M3", 8, GS_TYPE_NONE},
    {"F8_E8M0", 8, GS_TYPE_NONE},
    {"F8_E4M3FNUZ", 8, GS_TYPE_NONE},
    {"F8_E5M2FNUZ", 8, GS_TYPE_NONE},
    {"I16", 16, GS_TYPE_NONE},
    {"U16", 16, GS_TYPE_NONE},
    {"F16", 16, GS_F16},
    {"BF16", 16, GS_BF16},
    {"I32", 32, GS_I32},
    {"U32", 32, GS_TYPE_NONE},
    {"F32", 32, GS_F32},
    {"C64", 64, GS_TYPE_NONE},
    {"F64", 64, GS_TYPE_NONE},
    {"I64", 64, GS_I64},
    {"U64", 64, GS_TYPE_NONE},
};

#define GS_ST_NTYPES ((int)(sizeof gs_st_types / sizeof *gs_st_types))

#endif
