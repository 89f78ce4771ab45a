// sum_by.cu: rows summed by an integer key, in the order of the rows. The rows of a key form a
// chain: FIRST[key] and NEXT[row] hold a row's number plus one, 0 for none.

//@ clear
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, 1,
          @{PARAMS}) {
  const i64 key = GS_BID * @{THREADS} + GS_TID;
  if (key < @{KEYS}) gs_puti(@{FIRST}, key, 0);
}
//@ chain
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, 1,
          @{PARAMS}) {
  const i64 row = GS_BID * @{THREADS} + GS_TID;
  if (row < @{COUNT}) {
    const i64 key = @{KEY};
    i64 j = row + 1;
    while (j < @{COUNT} && @{OTHER} != key) j++;
    gs_puti(@{NEXT}, row, j < @{COUNT} ? j + 1 : 0);
    for (j = row - 1; j >= 0 && @{OTHER} != key;) j--;
    if (j < 0 && key >= 0 && key < @{KEYS}) gs_puti(@{FIRST}, key, row + 1);
  }
}
//@ gather
@{BANNER}
GS_KERNEL(@{ENTRY}, @{THREADS}, 1,
          @{PARAMS}) {
  const i64 @{KEY} = @{KEY_INDEX};
  const int i = @{INDEX};
  if (i < @{WIDTH}) {
    @{SUMS}
    for (i64 next = gs_geti(@{FIRST}, @{KEY}); next != 0; next = gs_geti(@{NEXT}, next - 1)) {
      const i64 @{ROW} = next - 1;
      @{BODY}
    }
    @{STORE}
  }
}
