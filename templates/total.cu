// total.cu: second stage of a sum over rows: adds the parts in order, then computes what follows
// from the sums alone.

//@ columns
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, 1,
          @{PARAMS}) {
  const i64 @{ROW} = GS_BID * @{THREADS} + GS_TID;
  @{COUNT_PARTS}
  GS_WAIT_LAST();
  if (@{ROW} < @{WIDTH}) {
    @{SUMS}
    for (i64 b = 0; b < parts; b++) {
      @{ADD}
    }
    @{SUMMED}
    @{BODY}
  }
}
//@ sliced
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, 0,
          @{PARAMS}) {
  @{SHARED}
  const i64 @{AT} = GS_BID * @{COLUMNS} + @{PLACE};
  @{COUNT_PARTS}
  GS_WAIT_LAST();
  @{SUMS}
  if (@{AT} < @{WIDTH}) {
    for (i64 first = GS_TID / @{LANES}; first < parts; first += @{SLICES} * @{AT_ONCE}) {
      @{LOADED}
      GS_UNROLL
      for (int l = 0; l < @{AT_ONCE}; l++) {
        const i64 b = first + l * @{SLICES};
        @{LOAD}
      }
      GS_UNROLL
      for (int l = 0; l < @{AT_ONCE}; l++) {
        const i64 b = first + l * @{SLICES};
        if (b < parts) {
          @{ADD}
        }
      }
    }
  }
  @{MEET}
  GS_SYNC();
  @{OWN}
  if (GS_TID < @{COLUMNS} && @{ROW} < @{WIDTH}) {
    @{SUMMED}
    @{BODY}
  }
}
//@ warp
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, 0,
          @{PARAMS}) {
  @{COUNT_PARTS}
  GS_WAIT_LAST();
  @{SUMS}
  for (i64 b = GS_TID; b < parts; b += 32) {
    @{ADD}
  }
  @{SUMMED}
  if (GS_TID == 0) {
    @{BODY}
  }
}
//@ single
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, 1,
          @{PARAMS}) {
  if (GS_TID == 0) {
    @{COUNT_PARTS}
    @{SUMS}
    for (i64 b = 0; b < parts; b++) {
      @{ADD}
    }
    @{SUMMED}
    @{BODY}
  }
}
