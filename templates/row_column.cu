// row_column.cu: as row.cu, and sums over the rows besides. Blocks persist: each takes every
// GS_NBLOCKS-th row and keeps its sums of the columns on the chip; total.cu adds those of all
// blocks. Where rows are copied ahead, a turn begins the copies of a row that comes later, in a
// ring of places in shared memory, and then takes the row that has come. WAIT: where the kernel
// before may be running yet, this one ends after it.

//@ block
@{BANNER}
GS_KERNEL_MANY(@{ENTRY}, @{THREADS}, @{BLOCKS}, @{BARRIER_FREE},
               @{PARAMS}) {
  @{SHARED}
  @{SUMS}
  for (i64 @{ROW} = GS_BID; @{ROW} < @{COUNT}; @{ROW} += GS_NBLOCKS) {
    @{BODY}
  }
  GS_LET_NEXT();
  @{WAIT}
  @{PARTS}
}
//@ group
@{BANNER}
GS_KERNEL_MANY(@{ENTRY}, @{THREADS}, @{BLOCKS}, @{BARRIER_FREE},
               @{PARAMS}) {
  @{SHARED}
  const int group = GS_TID / @{LANES};
  const int lane = GS_TID % @{LANES};
  @{SUMS}
  for (i64 first = GS_BID * @{ROWS}; first < @{COUNT}; first += GS_NBLOCKS * @{ROWS}) {
    const i64 @{ROW} = first + group;
    const bool live = @{ROW} < @{COUNT};
    @{BODY}
  }
  GS_LET_NEXT();
  @{WAIT}
  @{PARTS}
}
//@ ahead
@{BANNER}
GS_KERNEL_MANY(@{ENTRY}, @{THREADS}, @{BLOCKS}, 0,
               @{PARAMS}) {
  @{SHARED}
  @{SUMS}
  int to = 0;
  for (i64 first = GS_BID - @{AHEAD} * GS_NBLOCKS; first < @{COUNT}; first += GS_NBLOCKS) {
    {
      const i64 @{ROW} = first + @{AHEAD} * GS_NBLOCKS;
      if (@{ROW} < @{COUNT}) {
        const int into = to * @{WIDTH};
        @{FETCH}
      }
    }
    GS_COPY_CLOSE();
    to = to == @{AHEAD} ? 0 : to + 1;
    if (first >= 0) {
      const i64 @{ROW} = first;
      const int from = to * @{WIDTH};
      @{BODY}
    }
  }
  GS_LET_NEXT();
  @{WAIT}
  @{PARTS}
}
//@ bulk
@{BANNER}
GS_KERNEL_MANY(@{ENTRY}, @{THREADS}, @{BLOCKS}, 0,
               @{PARAMS}) {
  @{SHARED}
  if (GS_TID == 0) {
    for (int place = 0; place < @{RING}; place++) gs_mbar_init(come, place, 1);
    gs_mbar_ready();
    for (int place = 0; place < @{RING}; place++) {
      const i64 @{ROW} = GS_BID + place * GS_NBLOCKS;
      const int into = place * @{WIDTH};
      if (@{ROW} < @{COUNT}) {
        @{FETCH}
      }
    }
  }
  @{SUMS}
  GS_SYNC();
  int to = 0, phase = 0;
  for (i64 first = GS_BID; first < @{COUNT}; first += GS_NBLOCKS) {
    const i64 @{ROW} = first;
    const int from = to * @{WIDTH};
    @{BODY}
    to = to + 1 < @{RING} ? to + 1 : 0;
    phase ^= to == 0;
  }
  GS_LET_NEXT();
  @{WAIT}
  @{PARTS}
}
//@ ahead_group
@{BANNER}
GS_KERNEL_MANY(@{ENTRY}, @{THREADS}, @{BLOCKS}, 0,
               @{PARAMS}) {
  @{SHARED}
  const int group = GS_TID / @{LANES};
  const int lane = GS_TID % @{LANES};
  @{SUMS}
  int to = 0;
  const i64 turn = GS_NBLOCKS * @{ROWS};
  for (i64 first = GS_BID * @{ROWS} - @{AHEAD} * turn; first < @{COUNT}; first += turn) {
    {
      const i64 @{ROW} = first + @{AHEAD} * turn + group;
      if (@{ROW} < @{COUNT}) {
        const int into = (to * @{ROWS} + group) * @{WIDTH};
        @{FETCH}
      }
    }
    GS_COPY_CLOSE();
    to = to == @{AHEAD} ? 0 : to + 1;
    if (first >= 0) {
      const i64 @{ROW} = first + group;
      const bool live = @{ROW} < @{COUNT};
      const int from = (to * @{ROWS} + group) * @{WIDTH};
      @{BODY}
    }
  }
  GS_LET_NEXT();
  @{WAIT}
  @{PARTS}
}
//@ single
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, 1,
          @{PARAMS}) {
  if (GS_TID == 0) {
    @{SUMS}
    for (i64 @{ROW} = GS_BID; @{ROW} < @{COUNT}; @{ROW} += GS_NBLOCKS) {
      @{BODY}
    }
    @{PARTS}
  }
}
