# For racecheck alone, over templates/prelude_cuda_hopper.cuh: every lane of a warp arrives at an mbarrier where one did for all, and
# counts are 32 times as large. README.md beside this says why.
s|"r"(count)$|"r"(count * 32)|
s|\(mbarrier\.arrive[a-z.:]*b64 _, \[%0\]\);|\1, 32;|
s|"mbarrier\.arrive\.expect_tx\.shared::cta\.b64 _, \[%0\], %1;"|"mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;"\n               " mbarrier.arrive.shared::cta.b64 _, [%0], 32;"|
s|  if (GS_LANE == 0) gs_mbar_arrive(bars, i);|  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(gs_shared_at(bars + i)) : "memory");|
