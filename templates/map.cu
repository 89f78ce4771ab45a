// map.cu: no reduction. Every thread makes one vector of the results, and writes each of them once.

//@ wide
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, 1,
          @{PARAMS}) {
  @{PLACE}
  const int i = @{INDEX};
  if (i < @{COUNT}) {
    @{BODY}
  }
}
//@ narrow
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, 1,
          @{PARAMS}) {
  const i64 @{ROW} = GS_BID * @{ROWS} + GS_TID / @{LANES};
  const int i = GS_TID % @{LANES}@{INDEX};
  if (@{USED}@{ROW} < @{COUNT}) {
    @{BODY}
  }
}
//@ flat
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, 1,
          @{PARAMS}) {
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
GS_KERNEL(@{ENTRY}, @{THREADS}, 1,
          @{PARAMS}) {
  @{VALUES}
  const i64 i = GS_BID * @{THREADS} + GS_TID;
  if (i < @{COUNT}) {
    @{STEP}
  }
}
