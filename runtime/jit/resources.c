/* resources.c: what a compiled kernel takes, read from the ELF file that a cubin is.
 *
 * A cubin's section .nv.info holds attribute records: format byte, attribute byte, 16-bit size (or
 * value), then the value. Three attributes of format 4 hold a pair (symbol number, value):
 * registers, stack frame, and the least stack that the entry with all it calls takes. CUDA 12 and
 * 13 write the same. How much of the frame is spilled registers is said only by the assembler's
 * log. */
#include "jit/jit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FORMAT_SIZED = 4, ATTR_FRAME_SIZE = 0x11, ATTR_MIN_STACK = 0x12, ATTR_REGISTERS = 0x2f };
enum { SHT_SYMBOLS = 2, SECTION_SIZE = 64, SYMBOL_SIZE = 24 };

typedef struct elf {
  const unsigned char *data;
  size_t len;
  uint64_t sections;         /* offset of the section table */
  unsigned nsections, names; /* names: the section that holds section names */
} elf;

typedef struct section {
  uint32_t name, type, link;
  uint64_t offset, size;
} section;

static uint64_t number(const elf *e, uint64_t at, int bytes) {
  uint64_t v = 0;
  for (int i = bytes - 1; i >= 0; i--) v = v << 8 | e->data[at + (uint64_t)i];
  return v;
}

static bool within(const elf *e, uint64_t at, uint64_t bytes) {
  return at <= e->len && bytes <= e->len - at;
}

static bool open_elf(elf *e, const gs_jit_code *c) {
  *e = (elf){.data = c->data, .len = c->len};
  if (!c->data || c->len < 64 || memcmp(c->data, "\177ELF\2\1", 6) != 0) return false;
  e->sections = number(e, 40, 8);
  e->nsections = (unsigned)number(e, 60, 2);
  e->names = (unsigned)number(e, 62, 2);
  return e->names < e->nsections && within(e, e->sections, (uint64_t)e->nsections * SECTION_SIZE);
}

/* Section number i; false when it lies outside the file. A section without bytes has size 0, but
 * for one that only takes room (type 8, shared memory), whose size is that room. */
static bool get_section(const elf *e, unsigned i, section *s) {
  if (i >= e->nsections) return false;
  uint64_t at = e->sections + (uint64_t)i * SECTION_SIZE;
  s->name = (uint32_t)number(e, at, 4);
  s->type = (uint32_t)number(e, at + 4, 4);
  s->offset = number(e, at + 24, 8);
  s->size = number(e, at + 32, 8);
  s->link = (uint32_t)number(e, at + 40, 4);
  return s->type == 8 || within(e, s->offset, s->size);
}

/* True when string number `at` of string section `strings` equals prefix + name. */
static bool string_is(const elf *e, const section *strings, uint64_t at, const char *prefix,
                      const char *name) {
  size_t np = strlen(prefix), nn = strlen(name);
  if (at > strings->size || np + nn + 1 > strings->size - at) return false;
  const char *s = (const char *)e->data + strings->offset + at;
  return memcmp(s, prefix, np) == 0 && memcmp(s + np, name, nn + 1) == 0;
}

static bool find_section(const elf *e, const char *prefix, const char *name, section *out) {
  section strings;
  if (!get_section(e, e->names, &strings)) return false;
  for (unsigned i = 0; i < e->nsections; i++)
    if (get_section(e, i, out) && string_is(e, &strings, out->name, prefix, name)) return true;
  return false;
}

/* The symbol's number, or -1. */
static int64_t find_symbol(const elf *e, const char *name) {
  section table, strings;
  if (!find_section(e, ".symtab", "", &table) || table.type != SHT_SYMBOLS ||
      !get_section(e, table.link, &strings))
    return -1;
  for (uint64_t i = 0; i < table.size / SYMBOL_SIZE; i++)
    if (string_is(e, &strings, number(e, table.offset + i * SYMBOL_SIZE, 4), "", name))
      return (int64_t)i;
  return -1;
}

static void read_attributes(const elf *e, const section *info, int64_t symbol, gs_jit_use *use) {
  uint64_t at = info->offset, end = info->offset + info->size;
  while (at + 4 <= end) {
    int format = e->data[at], attribute = e->data[at + 1];
    uint64_t bytes = format == FORMAT_SIZED ? number(e, at + 2, 2) : 0, value = at + 4;
    at = value + bytes;
    if (bytes < 8 || at > end || (int64_t)number(e, value, 4) != symbol) continue;
    int v = (int)number(e, value + 4, 4);
    if (attribute == ATTR_REGISTERS) use->registers = v;
    if (attribute == ATTR_FRAME_SIZE || attribute == ATTR_MIN_STACK)
      if (v > use->local_bytes) use->local_bytes = v;
  }
}

/* Instructions are 16 bytes, the operation in the low 9 bits of the first: those of f64 are a
 * product (0x28), a sum (0x29), a comparison (0x2a) and a fused product and sum (0x2b). */
static int count_doubles(const elf *e, const section *text) {
  int n = 0;
  for (uint64_t at = text->offset; at + 16 <= text->offset + text->size; at += 16) {
    unsigned operation = (unsigned)number(e, at, 2) & 0x1ffu;
    n += operation >= 0x28 && operation <= 0x2b;
  }
  return n;
}

/* The line "N bytes stack frame, N bytes spill stores, N bytes spill loads" of function `entry`,
 * and nothing of any other. -1 when the log has none. */
static int read_spills(const char *log, const char *entry) {
  char head[512];
  int n = snprintf(head, sizeof head, "Function properties for %s\n", entry);
  if (!log || n < 0 || n >= (int)sizeof head) return -1;
  const char *at = strstr(log, head);
  if (!at) return -1;
  int frame, stores, loads;
  at += n + strcspn(at + n, "0123456789\n");
  if (sscanf(at, "%d bytes stack frame, %d bytes spill stores, %d bytes spill loads", &frame,
             &stores, &loads) != 3)
    return -1;
  return stores + loads;
}

gs_status gs_jit_resources(const gs_jit_code *c, const char *entry, gs_jit_use *use,
                           gs_error *err) {
  elf e;
  section info, shared, text;
  *use = (gs_jit_use){.registers = -1, .spill_bytes = -1};
  if (!open_elf(&e, c))
    return gs_fail(err, GS_ERR_INPUT, "kernel %s: these %zu bytes are no cubin", entry, c->len);
  int64_t symbol = find_symbol(&e, entry);
  if (symbol < 0) return gs_fail(err, GS_ERR_INPUT, "the cubin has no kernel %s", entry);
  if (find_section(&e, ".nv.info", "", &info) && info.type != 8)
    read_attributes(&e, &info, symbol, use);
  if (use->registers < 0)
    return gs_fail(err, GS_ERR_INPUT, "the cubin of %s does not say what the kernel takes", entry);
  if (find_section(&e, ".nv.shared.", entry, &shared)) use->shared_bytes = (int)shared.size;
  if (find_section(&e, ".text.", entry, &text)) use->doubles = count_doubles(&e, &text);
  use->spill_bytes = read_spills(c->log, entry);
  return GS_OK;
}

gs_status gs_jit_require_no_spills(const gs_jit *j, const gs_jit_source *s, int n, int threads,
                                   gs_jit_use *uses, gs_error *err) {
  if (n <= 0) return GS_OK;
  gs_jit_code *code = calloc((size_t)n, sizeof *code);
  if (!code) return gs_fail(err, GS_ERR_MEMORY, "no memory for %d kernels", n);
  gs_status st = gs_jit_compile_many(j, s, n, threads, code, err);
  for (int i = 0; i < n && st == GS_OK; i++) {
    gs_jit_use use;
    st = gs_jit_resources(&code[i], s[i].entry, &use, err);
    if (uses) uses[i] = use;
    if (st == GS_OK && (use.local_bytes > 0 || use.spill_bytes > 0))
      st = gs_fail(err, GS_ERR_COMPILE,
                   "kernel %s, %s: %d bytes of local memory a thread (%d bytes of spill code, %d "
                   "registers); use fewer values at once, or index arrays by constants only",
                   s[i].entry, s[i].arch, use.local_bytes, use.spill_bytes, use.registers);
  }
  for (int i = 0; i < n; i++) gs_jit_code_free(&code[i]);
  free(code);
  return st;
}
