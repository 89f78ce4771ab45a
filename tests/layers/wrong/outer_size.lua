-- expect: 5: dims: the size of 'B', "N/64", depends on the outer dim N, whose size varies: write "ceil(N/NUMBER)", which makes 'B' an outer dim || 5: dims: the size of 'C', "ceil(M/4)", names neither a dim nor an option that is known || 8: split of N, whose size is known only at launch, in blocks of 64: the dim B must be declared as "ceil(N/64)"
local gs = require "gradsmith"

return gs.kernel "outer_size" {
  dims = { "N", B = "N/64", k = "64", C = "ceil(M/4)" },
  x = gs.input { "N" },
  forward = function(p)
    return { y = gs.sum(gs.split(p.x, "N", "B", "k", { tail = "mask" }), "k") }
  end,
}
