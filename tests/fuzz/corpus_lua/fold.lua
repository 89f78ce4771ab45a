local gs = require "gradsmith"
return gs.kernel "a" {
  dims = { "T", "E" }, x = gs.input { "T", "E" }, seed = gs.step_scalar(),
  outputs = { i = "i32", v = "f32" },
  forward = function(p)
    local v, i = gs.topk(p.x + gs.rand(p.seed, "a", { "T", "E" }), "E", "K=2")
    return { i = gs.pick(i, "K", 0) + gs.argmax(p.x, "E"), v = gs.sum(gs.softmax(v, "K"), "K") }
  end,
}
