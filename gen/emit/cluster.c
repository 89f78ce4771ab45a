/* cluster.c: rows too long for the registers of one block: the blocks of a cluster keep a part
 * each, so that the row is read once. Small blocks, of which a processor has several: one loads
 * while another computes. */
#include "emit/emit.h"

enum {
  PART_REGISTERS = 32, /* of a thread, for its part of the row */
  PROCESSOR_REGISTERS = 65536,
  PART_THREADS_MOST = 1024,
  SHORTEST = 3072, /* vectors; below, a row is not long */
};

static int64_t threads_for(int64_t vectors, int64_t cluster, int64_t chunks) {
  return up(up(vectors, cluster * chunks), 32) * 32;
}

static int64_t threads_together(const emit *e) {
  return PROCESSOR_REGISTERS / (PART_REGISTERS + e->caps->row_registers);
}

bool two_rows_exceed(const emit *e, int64_t vectors, int64_t registers) {
  if (e->caps->max_cluster < 2 || registers == 0 || registers > PART_REGISTERS) return false;
  return 2 * threads_for(vectors, 1, PART_REGISTERS / registers) > threads_together(e);
}

bool long_row(const emit *e, int64_t vectors, int64_t registers, geometry *g) {
  static const int64_t sizes[] = {1, 2, 4, 8};
  int64_t most = e->caps->max_cluster;
  if (most < 2 || registers == 0 || registers > PART_REGISTERS) return false;
  int64_t chunks = PART_REGISTERS / registers, by_default = 1, legal[4], n = 0;
  int64_t together = threads_together(e);
  if (two_rows_exceed(e, vectors, registers)) /* two rows are to fit; of parts, four */
    for (by_default = 2; by_default < most;) {
      if (4 * threads_for(vectors, by_default, chunks) <= together) break;
      by_default *= 2;
    }
  for (int i = 0; i < 4; i++)
    if (sizes[i] <= most && vectors >= sizes[i] * 32) legal[n++] = sizes[i];
  int64_t cluster = tunable(e, "row", "cluster", by_default, legal, (int)n);
  int64_t threads = threads_for(vectors, cluster, chunks);
  if (threads > together || threads > PART_THREADS_MOST || (cluster == 1 && vectors < SHORTEST))
    return false;
  *g = (geometry){.threads = (int)threads,
                  .lanes = (int)(threads * cluster),
                  .per_block = 1,
                  .blocks = threads < together ? (int)(together / threads) : 1,
                  .cap = g->cap,
                  .chunks = (int)up(vectors, threads * cluster),
                  .cluster = (int)cluster,
                  .apart = true,
                  .resident = true};
  return true;
}
