// columns.cu: sums over rows and nothing else. A thread owns a vector of columns and takes every
// groups-th row; total.cu adds the groups.

//@ tiles
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, 1,
          @{PARAMS}) {
  const i64 group = GS_BID / @{TILES};
  const i64 groups = GS_NBLOCKS / @{TILES};
  const int i = ((int)(GS_BID % @{TILES}) * @{THREADS} + GS_TID)@{VEC};
  if (i < @{WIDTH}) {
    @{SUMS}
    for (i64 @{ROW} = group; @{ROW} < @{COUNT}; @{ROW} += groups) {
      @{BODY}
    }
    GS_LET_NEXT();
    @{PARTS}
  }
}
