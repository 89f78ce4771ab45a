// cuda.cu: a kernel whose body is the layer author's own (gs.cuda). The compiler writes the
// parameters, the sizes of inner dims, options, and which results the pass wants.

//@ body
@{BANNER}
@{WANTED}
@{HELPERS}
GS_KERNEL(@{ENTRY}, @{THREADS}, @{BARRIER_FREE},
          @{PARAMS}) {
  @{CONSTANTS}
@{BODY}
}
@{UNDO}
