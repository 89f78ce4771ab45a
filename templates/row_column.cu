// row_column.cu: as row.cu, and sums over the rows besides. Blocks persist: each takes every
// GS_NBLOCKS-th row and keeps its sums of the columns in registers; total.cu adds those of all
// blocks.

//@ block
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, @{BARRIER_FREE},
          @{PARAMS}) {
  @{SHARED}
  @{SUMS}
  for (i64 @{ROW} = GS_BID; @{ROW} < @{COUNT}; @{ROW} += GS_NBLOCKS) {
    @{BODY}
  }
  @{PARTS}
}
//@ group
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, @{BARRIER_FREE},
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
