// row.cu: reductions over the inner dims of a row. A row belongs to a cluster of blocks, to a
// block, to a group of lanes of a warp, or to one thread. ring: blocks persist, and pieces of rows
// come to a ring of places in shared memory; a row's first piece is at place `from`, in its lap of
// the ring `lap_from`; thread 0 begins the copy of piece `need` of row `next` into place `into`,
// which all left a piece ago, so that it need not wait for them.
// beside: rows of two kinds, the blocks of the one before those of the other.

//@ block
@{BANNER}
GS_KERNEL_MANY(@{ENTRY}, @{THREADS}, @{BLOCKS}, @{BARRIER_FREE},
               @{PARAMS}) {
  @{SHARED}
  const i64 @{ROW} = GS_BID;
  @{BODY}
}
//@ cluster
@{BANNER}
GS_KERNEL_CLUSTER(@{ENTRY}, @{THREADS}, @{BLOCKS}, @{CLUSTER},
                  @{PARAMS}) {
  @{SHARED}
  const i64 @{ROW} = GS_BID / @{CLUSTER};
  const int lane = GS_CLUSTER_RANK * @{THREADS} + GS_TID;
  @{BODY}
}
//@ ring
@{BANNER}
GS_KERNEL_MANY(@{ENTRY}, @{THREADS}, 1, 0,
               @{PARAMS}) {
  @{SHARED}
  const int part_at = 0;
  if (GS_TID == 0) {
    for (int b = 0; b < @{RING}; b++) {
      gs_mbar_init(come, b, 1);
      gs_mbar_init(gone, b, @{WARPS});
    }
    gs_mbar_ready();
  }
  GS_SYNC();
  i64 next = GS_BID;
  int need = 0, into = 0, lap = 1;
  for (int b = 0; b < @{RING} - 1; b++) {
    @{COPIES}
  }
  int from = 0, lap_from = 0, turn = 0;
  @{FIRST}
  for (i64 first = GS_BID; first < @{COUNT}; first += GS_NBLOCKS) {
    const i64 @{ROW} = first;
    @{BODY}
    from += @{PIECES};
    lap_from ^= from >= @{RING};
    from -= from >= @{RING} ? @{RING} : 0;
    turn ^= 1;
  }
}
//@ ring_cluster
@{BANNER}
GS_KERNEL_CLUSTER(@{ENTRY}, @{THREADS}, 1, @{CLUSTER},
                  @{PARAMS}) {
  @{SHARED}
  const int lane = GS_CLUSTER_RANK * @{THREADS} + GS_TID;
  const int part_at = GS_CLUSTER_RANK * @{PART};
  if (GS_TID == 0) {
    for (int b = 0; b < @{RING}; b++) {
      gs_mbar_init(come, b, 1);
      gs_mbar_init(gone, b, @{WARPS});
    }
    gs_mbar_ready();
  }
  GS_CLUSTER_SYNC();
  i64 next = GS_BID / @{CLUSTER};
  int need = 0, into = 0, lap = 1;
  for (int b = 0; b < @{RING} - 1; b++) {
    @{COPIES}
  }
  int from = 0, lap_from = 0, turn = 0;
  @{FIRST}
  for (i64 first = GS_BID / @{CLUSTER}; first < @{COUNT}; first += GS_NBLOCKS / @{CLUSTER}) {
    const i64 @{ROW} = first;
    @{BODY}
    from += @{PIECES};
    lap_from ^= from >= @{RING};
    from -= from >= @{RING} ? @{RING} : 0;
    turn ^= 1;
  }
  GS_CLUSTER_SYNC();
}
//@ group
@{BANNER}
GS_KERNEL_MANY(@{ENTRY}, @{THREADS}, @{BLOCKS}, @{BARRIER_FREE},
               @{PARAMS}) {
  @{SHARED}
  const i64 @{ROW} = GS_BID * @{ROWS} + GS_TID / @{LANES};
  const int lane = GS_TID % @{LANES};
  const bool live = @{ROW} < @{COUNT};
  @{BODY}
}
//@ beside
@{BANNER}
GS_KERNEL_MANY(@{ENTRY}, @{THREADS}, @{BLOCKS}, 0,
               @{PARAMS}) {
  const int lane = GS_TID % @{LANES};
  const i64 first = (@{COUNT} + @{ROWS} - 1) / @{ROWS};
  if (GS_BID < first) {
    const i64 @{ROW} = GS_BID * @{ROWS} + GS_TID / @{LANES};
    const bool live = @{ROW} < @{COUNT};
    @{BODY}
  } else {
    const i64 @{OTHER_ROW} = (GS_BID - first) * @{ROWS} + GS_TID / @{LANES};
    const bool live = @{OTHER_ROW} < @{OTHER_COUNT};
    @{OTHER_BODY}
  }
}
//@ single
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, 1,
          @{PARAMS}) {
  const i64 @{ROW} = GS_BID * @{THREADS} + GS_TID;
  if (@{ROW} < @{COUNT}) {
    @{BODY}
  }
}
