// all.cu: a full sum, first stage: a number a block, in a fixed order; total.cu adds them.

//@ flat
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, 0,
          @{PARAMS}) {
  GS_SHARED(f32, scratch, 32);
  @{VALUES}
  @{SUMS}
  for (i64 i = (GS_BID * @{THREADS} + GS_TID) * @{VEC}; i < @{COUNT};
       i += GS_NBLOCKS * @{THREADS} * @{VEC}) {
    if (i + @{VEC} <= @{COUNT}) {
      @{STEP}
    } else {
      for (i64 j = i; j < @{COUNT}; j++) {
        @{STEP_ONE}
      }
    }
  }
  GS_LET_NEXT();
  @{PARTS}
}
//@ flat_single
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, 1,
          @{PARAMS}) {
  if (GS_TID == 0) {
    @{VALUES}
    @{SUMS}
    const i64 each = ((@{COUNT} + @{VEC} - 1) / @{VEC} + GS_NBLOCKS - 1) / GS_NBLOCKS * @{VEC};
    const i64 first = GS_BID * each;
    const i64 last = first + each < @{COUNT} ? first + each : @{COUNT};
    for (i64 i = first; i < last; i += @{VEC}) {
      if (i + @{VEC} <= last) {
        @{STEP}
      } else {
        for (i64 j = i; j < last; j++) {
          @{STEP_ONE}
        }
      }
    }
    @{PARTS}
  }
}
//@ rows
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, 0,
          @{PARAMS}) {
  GS_SHARED(f32, scratch, 32);
  @{SUMS}
  for (i64 @{ROW} = GS_BID; @{ROW} < @{COUNT}; @{ROW} += GS_NBLOCKS) {
    @{VALUES}
    for (int i = @{FIRST}; i < @{WIDTH}; i += @{BY}) {
      @{STEP}
    }
  }
  GS_LET_NEXT();
  @{PARTS}
}
//@ rows_single
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, 1,
          @{PARAMS}) {
  if (GS_TID == 0) {
    @{SUMS}
    for (i64 @{ROW} = GS_BID; @{ROW} < @{COUNT}; @{ROW} += GS_NBLOCKS) {
      @{VALUES}
      for (int i = @{FIRST}; i < @{WIDTH}; i += @{BY}) {
        @{STEP}
      }
    }
    @{PARTS}
  }
}
