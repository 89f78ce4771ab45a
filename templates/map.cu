// map.cu: no reduction. Every thread makes a vector of the results, or a few of other rows, and
// writes each of them once.

//@ wide
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, @{BARRIER_FREE},
          @{PARAMS}) {
  @{TABLES}
  @{PLACE}
  const int @{FLAT} = @{INDEX};
  if (@{FLAT} < @{COUNT}) {
    @{BODY}
  }
}
//@ narrow
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, @{BARRIER_FREE},
          @{PARAMS}) {
  @{TABLES}
  const i64 @{ROW} = GS_BID * @{ROWS} + GS_TID / @{LANES};
  const int @{FLAT} = @{INDEX};
  if (@{USED}@{ROW} < @{COUNT}) {
    @{BODY}
  }
}
//@ narrow_tail
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, @{BARRIER_FREE},
          @{PARAMS}) {
  @{TABLES}
  const i64 i_last = (GS_BID + 1) * (@{ROWS} * @{CHUNKS}) - 1;
  const int @{FLAT} = @{INDEX};
  if (@{USED}i_last < @{COUNT}@{WHOLE}) {
    GS_UNROLL
    for (int c = 0; c < @{CHUNKS}; c++) {
      const i64 @{ROW} = (GS_BID * @{CHUNKS} + c) * @{ROWS} + GS_TID / @{LANES};
      @{BODY_WHOLE}
    }
  } else {
    for (int c = 0; c < @{CHUNKS}; c++) {
      const i64 @{ROW} = (GS_BID * @{CHUNKS} + c) * @{ROWS} + GS_TID / @{LANES};
      if (@{USED}@{ROW} < @{COUNT}) {
        @{BODY}
      }
    }
  }
}
//@ flat
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, @{BARRIER_FREE},
          @{PARAMS}) {
  @{TABLES}
  @{VALUES}
  const i64 i = (GS_BID * @{THREADS} + GS_TID) * @{VEC};
  if (i + @{VEC} <= @{COUNT}) {
    @{STEP}
  } else {
    for (i64 j = i; j < @{COUNT}; j++) {
      @{STEP_ONE}
    }
  }
}
//@ flat_one
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, @{BARRIER_FREE},
          @{PARAMS}) {
  @{TABLES}
  @{VALUES}
  const i64 i = GS_BID * @{THREADS} + GS_TID;
  if (i < @{COUNT}) {
    @{STEP}
  }
}
