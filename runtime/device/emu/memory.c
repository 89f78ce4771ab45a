/* memory.c: the emulator's device memory: host memory that is poisoned when new and, in checked
 * mode, has a shadow that tells for each byte whether something wrote it. */
#include "device/emu/internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGN = 256 };

void *emu_pages(size_t bytes) {
  void *p = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}
void emu_unpages(void *p, size_t bytes) {
  if (p != NULL) munmap(p, bytes ? bytes : 1);
}

/* The number of allocations that begin at or below p. */
static size_t rank_of(const emu *e, gs_ptr p) {
  size_t lo = 0, hi = e->nallocs;
  while (lo < hi) {
    size_t mid = (lo + hi) / 2;
    if (e->allocs[mid].ptr <= p)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

allocation *emu_find(emu *e, gs_ptr p, size_t bytes) {
  size_t i = rank_of(e, p);
  if (i == 0) return NULL;
  allocation *a = &e->allocs[i - 1];
  size_t at = (size_t)(p - a->ptr);
  return at <= a->bytes && bytes <= a->bytes - at ? a : NULL;
}

gs_status emu_need(emu *e, gs_ptr p, size_t bytes, const char *what, gs_error *err) {
  if (bytes == 0 || emu_find(e, p, bytes) != NULL) return GS_OK;
  return gs_fail(err, GS_ERR_CHECK, "%s: %zu bytes at 0x%llx do not lie in one device allocation",
                 what, bytes, (unsigned long long)p);
}

static gs_status insert(emu *e, allocation a, gs_error *err) {
  if (e->nallocs == e->cap_allocs) {
    size_t cap = e->cap_allocs ? 2 * e->cap_allocs : 64;
    allocation *grown = realloc(e->allocs, cap * sizeof *grown);
    if (grown == NULL) return gs_fail(err, GS_ERR_MEMORY, "no memory for the list of allocations");
    e->allocs = grown;
    e->cap_allocs = cap;
  }
  size_t i = rank_of(e, a.ptr);
  memmove(e->allocs + i + 1, e->allocs + i, (e->nallocs - i) * sizeof a);
  e->allocs[i] = a;
  e->nallocs++;
  return GS_OK;
}

static void release(allocation *a) {
  free((void *)(uintptr_t)a->ptr);
  emu_unpages(a->init, a->bytes);
  emu_unpages(a->cells, a->bytes * sizeof(cell));
}

gs_status emu_alloc(gs_device *d, size_t bytes, gs_ptr *out, gs_error *err) {
  emu *e = (emu *)d;
  void *p = NULL;
  if (posix_memalign(&p, ALIGN, bytes ? bytes : 1) != 0)
    return gs_fail(err, GS_ERR_MEMORY, "the host has no memory for %zu bytes", bytes);
  allocation a = {.ptr = (gs_ptr)(uintptr_t)p, .bytes = bytes};
  if (e->o.checked) {
    a.init = emu_pages(bytes);
    a.cells = emu_pages(bytes * sizeof(cell));
    if (!a.init || !a.cells) {
      release(&a);
      return gs_fail(err, GS_ERR_MEMORY, "no address space for the shadow of %zu bytes", bytes);
    }
  }
  gs_status s = insert(e, a, err);
  if (s != GS_OK) {
    release(&a);
    return s;
  }
  memset(p, 0xff, bytes);
  *out = a.ptr;
  return GS_OK;
}

void emu_free(gs_device *d, gs_ptr p) {
  emu *e = (emu *)d;
  size_t i = rank_of(e, p);
  if (i == 0 || e->allocs[i - 1].ptr != p) return;
  release(&e->allocs[i - 1]);
  memmove(e->allocs + i - 1, e->allocs + i, (e->nallocs - i) * sizeof *e->allocs);
  e->nallocs--;
}

void emu_free_all(emu *e) {
  for (size_t i = 0; i < e->nallocs; i++) release(&e->allocs[i]);
  free(e->allocs);
}

void emu_mark(emu *e, gs_ptr p, size_t bytes) {
  allocation *a = e->o.checked ? emu_find(e, p, bytes) : NULL;
  if (a != NULL) memset(a->init + (p - a->ptr), 1, bytes);
}

void emu_copy_bytes(emu *e, gs_ptr to, gs_ptr from, size_t bytes) {
  memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
  allocation *a = e->o.checked ? emu_find(e, to, bytes) : NULL;
  allocation *b = a ? emu_find(e, from, bytes) : NULL;
  if (b != NULL) memmove(a->init + (to - a->ptr), b->init + (from - b->ptr), bytes);
}

bool gs_emu_unwritten(gs_device *d, gs_ptr p, size_t bytes, size_t *first) {
  if (!gs_device_is_emulator(d) || bytes == 0) return false;
  emu *e = (emu *)d;
  allocation *a = e->o.checked ? emu_find(e, p, bytes) : NULL;
  if (a == NULL) return false;
  const unsigned char *init = a->init + (p - a->ptr);
  const unsigned char *hole = memchr(init, 0, bytes);
  if (hole == NULL) return false;
  *first = (size_t)(hole - init);
  return true;
}

gs_status gs_emu_poison(gs_device *d, gs_ptr p, size_t bytes, gs_error *err) {
  if (!gs_device_is_emulator(d) || bytes == 0) return GS_OK;
  emu *e = (emu *)d;
  allocation *a = emu_find(e, p, bytes);
  if (a == NULL) return emu_need(e, p, bytes, "poison", err);
  memset((void *)(uintptr_t)p, 0xff, bytes);
  if (e->o.checked) memset(a->init + (p - a->ptr), 0, bytes);
  return GS_OK;
}
