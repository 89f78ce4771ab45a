-- Every function of values, each an output: test_values.c knows what they must give.
local gs = require "gradsmith"

local cuts = gs.table { -1, -0.25, 0.5, 1.25 }
local codes = gs.table { 3, 1, -4, 1.5, -9 }

return gs.kernel "functions" {
  doc  = "all functions on x",
  dims = { "T", "E", K = "12", J = "3" },
  x    = gs.input { "T", "E" },

  forward = function(p)
    local x = p.x
    local mean, var = gs.moments(x, "E")
    local v, i = gs.topk(x, "E", "J=3")
    local v12, i12 = gs.topk(x, "E", "K=12")
    local below = gs.bucket(x, cuts)
    local third = codes[2]
    local extent = gs.reduce({ x = x, i = gs.index "E" }, "E", {
      init = { high = -math.huge, low = math.huge, n = 0, last = -1 },
      step = function(s, e)
        return { high = gs.max(s.high, e.x), low = gs.min(s.low, e.x), n = s.n + 1,
          last = gs.max(s.last, e.i) }
      end,
      merge = function(a, b)
        return { high = gs.max(a.high, b.high), low = gs.min(a.low, b.low), n = a.n + b.n,
          last = gs.max(a.last, b.last) }
      end,
    })
    return {
      silu = gs.silu(x), gelu = gs.gelu(x), gelu_tanh = gs.gelu_tanh(x), relu = gs.relu(x),
      softplus = gs.softplus(x), log_sigmoid = gs.log_sigmoid(x), sign = gs.sign(x),
      clamp = gs.clamp(x, -0.5, 0.75), log1p = gs.log1p(gs.abs(x)), expm1 = gs.expm1(x),
      softmax = gs.softmax(x, "E"), log_softmax = gs.log_softmax(x, "E"),
      mean = mean, var = var, argmax = gs.argmax(x, "E"), argmin = gs.argmin(x, "E"),
      best = v, best_at = i, many = v12, many_at = i12,
      bucket = below, lookup = codes[below] + third,
      floor = gs.integer(3 * x), quotient = gs.quotient(gs.integer(9 * x), 4),
      remainder = gs.remainder(gs.integer(9 * x), 4),
      extent = extent.high - extent.low, count = extent.n, last = extent.last,
      table_size = gs.real(gs.integer(#codes)) + 0 * x,
    }
  end,
}
