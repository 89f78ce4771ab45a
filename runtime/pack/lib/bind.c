/* bind.c: a caller's operands held against a record: one clear message for each mistake. */
#include "pack/lib/call.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MOST_ROWS ((int64_t)1 << 40)

GS_PRINTF(3, 4)
static gs_status refuse(const gs_pack_call *c, gs_error *err, const char *fmt, ...) {
  char what[1024];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(what, sizeof what, fmt, ap);
  va_end(ap);
  return gs_fail(err, GS_ERR_USE, "%s: %s", c->record->key, what);
}

/* "[T, H=4096]" */
static const char *wanted_text(const gs_operand_info *i, char *out, size_t cap) {
  size_t n = (size_t)snprintf(out, cap, "[");
  for (int k = 0; k < i->rank && n < cap; k++) {
    n += (size_t)snprintf(out + n, cap - n, "%s%s", k ? ", " : "", i->dim[k]);
    if (i->shape[k] >= 0 && n < cap)
      n += (size_t)snprintf(out + n, cap - n, "=%" PRId64, i->shape[k]);
  }
  if (n < cap) snprintf(out + n, cap - n, "]");
  return out;
}

static const char *given_text(const gs_operand *o, char *out, size_t cap) {
  size_t n = (size_t)snprintf(out, cap, "[");
  for (int k = 0; k < o->rank && k < GS_MAX_RANK && n < cap; k++)
    n += (size_t)snprintf(out + n, cap - n, "%s%" PRId64, k ? ", " : "", o->shape[k]);
  if (n < cap) snprintf(out + n, cap - n, "]");
  return out;
}

/* ---- names ---- */

static gs_status unknown(const gs_pack_call *c, const char *name, gs_error *err) {
  char known[768] = "";
  for (int i = 0; i < c->record->list.nbindings; i++) {
    size_t n = strlen(known);
    snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", c->info[i].name);
  }
  return refuse(c, err, "there is no operand \"%s\"; it takes %s", name ? name : "(null)", known);
}

static gs_status match_names(const gs_pack_call *c, const gs_operand *operands, int n,
                             gs_pack_bound *out, gs_error *err) {
  int count = c->record->list.nbindings;
  for (int k = 0; k < n; k++) {
    int i = 0;
    while (i < count && (!operands[k].name || strcmp(c->info[i].name, operands[k].name) != 0)) i++;
    if (i == count) return unknown(c, operands[k].name, err);
    if (out->operand[i]) return refuse(c, err, "operand \"%s\" is given twice", operands[k].name);
    out->operand[i] = &operands[k];
  }
  for (int i = 0; i < count; i++)
    if (!out->operand[i] && !c->info[i].shares)
      return refuse(c, err, "operand \"%s\" is missing", c->info[i].name);
  return GS_OK;
}

/* ---- shapes ---- */

static gs_status match_shape(const gs_pack_call *c, int i, gs_pack_bound *out, gs_error *err) {
  const gs_operand *o = out->operand[i];
  const gs_operand_info *info = &c->info[i];
  const gs_binding *b = &c->record->list.bindings[i];
  char wanted[256], given[256];
  if (o->type != info->type)
    return refuse(c, err, "operand \"%s\" is %s, but %s was given", info->name,
                  gs_type_name(info->type), gs_type_name(o->type));
  bool fits = o->rank == info->rank;
  for (int k = 0; k < info->rank && fits; k++) {
    int64_t *size = &out->sizes[b->dim[k]];
    if (info->shape[k] >= 0 || o->shape[k] < 0 || o->shape[k] > MOST_ROWS)
      fits = o->shape[k] == info->shape[k] && info->shape[k] >= 0;
    else if (*size < 0)
      *size = o->shape[k];
    else if (*size != o->shape[k])
      return refuse(c, err, "operand \"%s\" is %s, but %s is %" PRId64 " by an earlier operand",
                    info->name, given_text(o, given, sizeof given), info->dim[k], *size);
  }
  if (fits) return GS_OK;
  return refuse(c, err, "operand \"%s\" is %s, but %s was given", info->name,
                wanted_text(info, wanted, sizeof wanted), given_text(o, given, sizeof given));
}

/* The size of a dim that follows from another; -1 while that one is unknown. */
static int64_t derived_size(const gs_pack_record *r, int d, const int64_t *sizes, int depth) {
  const gs_dim *dim = &r->dims[d];
  if (dim->size >= 0) return dim->size;
  if (dim->same_as < 0 || depth == r->ndims) return sizes[d];
  int64_t of = derived_size(r, dim->same_as, sizes, depth + 1), div = dim->div > 0 ? dim->div : 1;
  return of < 0 ? sizes[d] : of / div + (of % div > 0);
}

/* Every dim has a size, and dims that follow from others have theirs. */
static gs_status finish_sizes(const gs_pack_call *c, gs_pack_bound *out, gs_error *err) {
  const gs_pack_record *r = c->record;
  for (int d = 0; d < r->ndims; d++) {
    int64_t size = derived_size(r, d, out->sizes, 0);
    if (out->sizes[d] >= 0 && size != out->sizes[d])
      return refuse(
          c, err, "dim %s must be %" PRId64 ", since %s is %" PRId64 ", but %" PRId64 " was given",
          r->dims[d].name, size, r->dims[r->dims[d].same_as].name, out->sizes[r->dims[d].same_as],
          out->sizes[d]);
    out->sizes[d] = size < 0 ? 1 : size; /* of no operand, so of no kernel */
  }
  return GS_OK;
}

/* ---- addresses ---- */

static gs_status match_stride(const gs_pack_call *c, int i, gs_pack_bound *out, gs_error *err) {
  const gs_operand *o = out->operand[i];
  int64_t packed = 1;
  for (int k = 1; k < o->rank; k++) packed *= o->shape[k];
  out->stride[i] = o->stride ? o->stride : packed;
  if (out->stride[i] == packed) return GS_OK;
  if (o->rank == 0 || !c->strided[i])
    return refuse(c, err, "operand \"%s\" must be packed: a stride of %" PRId64 ", not %" PRId64,
                  c->info[i].name, packed, o->stride);
  int64_t vector = packed % 8 == 0 ? 8 : packed % 4 == 0 ? 4 : packed % 2 == 0 ? 2 : 1;
  if (o->stride < packed || o->stride % vector != 0)
    return refuse(c, err,
                  "operand \"%s\": a stride of %" PRId64 " elements; it must be at least %" PRId64
                  " and a multiple of %" PRId64,
                  c->info[i].name, o->stride, packed, vector);
  return GS_OK;
}

static gs_status match_address(const gs_pack_call *c, int i, const gs_pack_bound *b,
                               gs_error *err) {
  const gs_operand *o = b->operand[i];
  uint64_t align = c->info[i].kind == GS_OPERAND_DEVICE_NUMBER ? 4 : 16;
  bool is_empty = o->rank > 0 && o->shape[0] == 0;
  if ((o->ptr == 0 && !is_empty) || o->ptr % align)
    return refuse(c, err,
                  "operand \"%s\": its address 0x%" PRIx64 " is not a multiple of %" PRIu64 "%s",
                  c->info[i].name, o->ptr, align, o->ptr ? "" : " other than 0");
  int with = c->record->list.bindings[i].inplace;
  if (!c->info[i].shares) return GS_OK;
  if (b->operand[with]->ptr != o->ptr || b->stride[with] != b->stride[i])
    return refuse(c, err,
                  "operand \"%s\" lies in the memory of \"%s\": leave it out, or give that "
                  "address and stride",
                  c->info[i].name, c->info[i].shares);
  return GS_OK;
}

gs_status gs_pack_bind(const gs_pack_call *c, const gs_operand *operands, int n, bool addresses,
                       gs_pack_bound *out, gs_error *err) {
  memset(out, 0, sizeof *out);
  for (int d = 0; d < c->record->ndims; d++) out->sizes[d] = c->record->dims[d].size;
  gs_status st = match_names(c, operands, n, out, err);
  int count = c->record->list.nbindings;
  for (int i = 0; i < count && st == GS_OK; i++) {
    if (!out->operand[i] || c->info[i].kind == GS_OPERAND_NUMBER) continue;
    st = match_shape(c, i, out, err);
    if (st == GS_OK) st = match_stride(c, i, out, err);
  }
  if (st == GS_OK) st = finish_sizes(c, out, err);
  for (int i = 0; i < count && st == GS_OK && addresses; i++)
    if (out->operand[i] && c->info[i].kind != GS_OPERAND_NUMBER) st = match_address(c, i, out, err);
  return st;
}

size_t gs_pack_temp_at(const gs_pack_record *r, int t, const int64_t *sizes) {
  size_t at = 0;
  for (int i = 0; i < t; i++) {
    size_t bytes = (size_t)gs_count_value(&r->list.temps[i].count, sizes) *
                   gs_type_size(r->list.temps[i].type);
    at += (bytes + GS_CALL_TEMP_ALIGN - 1) / GS_CALL_TEMP_ALIGN * GS_CALL_TEMP_ALIGN;
  }
  return at;
}
