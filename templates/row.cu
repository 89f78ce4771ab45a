// row.cu: reductions over the inner dims of a row. A row belongs to a cluster of blocks, to a
// block, to a group of lanes of a warp, or to one thread.

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
//@ single
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, 1,
          @{PARAMS}) {
  const i64 @{ROW} = GS_BID * @{THREADS} + GS_TID;
  if (@{ROW} < @{COUNT}) {
    @{BODY}
  }
}
