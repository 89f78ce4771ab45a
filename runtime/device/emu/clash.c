/* clash.c: accesses of kernels of tiles held against what their thread knows of the others'
 * (order.h), and the words for what it should have waited for. */
#include "device/emu/order.h"

#include <stdio.h>

/* The barrier whose phase the slot's work ends with; NULL: it is no barrier's. */
static const counting_bar *bar_of_slot(const fiber *f, uint32_t slot) {
  const worker *w = f->w;
  for (int r = 0; r < w->cluster; r++)
    for (int i = 0; i < w->blocks[r].nbars; i++)
      if (w->blocks[r].bars[i].slot == (int)slot) return &w->blocks[r].bars[i];
  return NULL;
}

/* What the thread should have waited for. */
static void say_missing(const fiber *f, uint32_t slot, uint32_t clock, uint32_t unit, char *out,
                        size_t cap) {
  const counting_bar *x = bar_of_slot(f, slot);
  if (unit != UNIT_HERE && unit != order_unit(f))
    snprintf(out, cap, "with no turn passed between");
  else if (slot < (uint32_t)f->w->order->nlores)
    snprintf(out, cap, "with no barrier between");
  else if (x != NULL)
    snprintf(out, cap,
             "by a copy that has not landed for this thread: it must wait for phase %u (parity %u) "
             "of barrier %s[%d]",
             clock - 1, (clock - 1) & 1, x->name, x->number);
  else if (slot == (uint32_t)order_slot_of_group(f->w, f))
    snprintf(out, cap, "by a product that is not waited for: gs_wg_wait comes first");
  else
    snprintf(out, cap, "by work of the hardware that is not waited for");
}

typedef struct past { /* what the thread does not know of */
  uint32_t slot, clock, unit;
  int tid, line;
} past;

static void race_by_clock(fiber *f, int line, target x, const char *now, const char *did, past p) {
  char missing[200], unit[32] = "";
  uint32_t clusters = (uint32_t)f->w->job->count;
  if (p.unit != UNIT_HERE && p.unit != order_unit(f))
    snprintf(unit, sizeof unit, "%s %u, ", p.unit >= clusters ? "item" : "block",
             p.unit >= clusters ? p.unit - clusters : p.unit * (uint32_t)f->w->cluster);
  say_missing(f, p.slot, p.clock, p.unit, missing, sizeof missing);
  emu_report(f, line, "data race: %s[%lld] is %s, and was %s by %sthread %d (line %d) %s", x.name,
             x.index, now, did, unit, p.tid, p.line, missing);
}

static past past_of(const who *a) {
  return (past){a->warp, a->sync, a->block, a->tid, a->line};
}

void emu_read_by_clock(fiber *f, cell *c, who now, target x, bool async) {
  const who *w = &c->writer;
  if (w->stamp == now.stamp && !order_knows(f, w) &&
      !(w->span & KIND_ATOMIC && now.span & KIND_ATOMIC))
    race_by_clock(f, now.line, x, "read", "written", past_of(w));
  else if (async && w->stamp == now.stamp && !(w->span & KIND_ASYNC) && !order_is_fenced(f, w))
    emu_report(f, now.line,
               "%s[%lld] is read by the hardware, and thread %u wrote it (line %u) with no "
               "gs_proxy_fence between",
               x.name, x.index, w->tid, w->line);
  if (!(now.span & KIND_ATOMIC)) order_note_read(f, c, now);
}

void emu_write_by_clock(fiber *f, cell *c, who now, target x) {
  const who *w = &c->writer;
  const read_note *r = order_unknown_read(f, c, now.stamp);
  if (w->stamp == now.stamp && !order_knows(f, w) &&
      !(w->span & KIND_ATOMIC && now.span & KIND_ATOMIC))
    race_by_clock(f, now.line, x, "written", "written", past_of(w));
  else if (r != NULL)
    race_by_clock(f, now.line, x, "written", "read",
                  (past){r->slot, r->clock, r->unit, r->tid, r->line});
  else if ((now.span & KIND_ASYNC) && w->stamp == now.stamp && !(w->span & KIND_ASYNC) &&
           !order_is_fenced(f, w))
    emu_report(f, now.line,
               "%s[%lld] is written by the hardware, and thread %u wrote it (line %u) with no "
               "gs_proxy_fence between",
               x.name, x.index, w->tid, w->line);
  order_forget_reads(f, c, now.stamp);
  c->writer = now;
}
