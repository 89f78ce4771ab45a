-- values: functions composed of others, in the form that is stable in f32. Their derivative is that
-- of what they are made of; where the function has a kink it is what PyTorch takes.
local core = ...
local f = core.functions
local names = core.part "names"
local values = {}
local format = string.format

-- values.NAME = function(e): e is checked first, so that a message names the function.
local function unary(name, body)
  values[name] = function(e, ...)
    local x, ok = core.value(e, format("argument 1 of gs.%s", name))
    if not ok then return core.nothing end
    return body(x, ...)
  end
end

-- ---- activations ----

unary("silu", function(x) return x * f.sigmoid(x) end)
unary("gelu", function(x) return 0.5 * x * (1 + f.erf(x * math.sqrt(0.5))) end)
unary("gelu_tanh", function(x)
  return 0.5 * x * (1 + f.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ^ 3)))
end)
unary("relu", function(x) return f.where(f.le(x, 0), 0, x) end)

unary("log_sigmoid", function(x) return -f.softplus(-x) end)

unary("sign", function(x) return f.where(f.gt(x, 0), 1, f.where(f.lt(x, 0), -1, 0)) end)

unary("clamp", function(x, low, high)
  return f.where(f.lt(x, low), low, f.where(f.gt(x, high), high, x))
end)

-- ---- along a dim ----

-- The maximum is subtracted, and has no gradient: the result does not depend on it.
local function shifted(x, dims) return x - f.stop(f.max(x, dims)) end

unary("softmax", function(x, dims)
  local e = f.exp(shifted(x, dims))
  return e / f.sum(e, dims)
end)

unary("log_softmax", function(x, dims)
  local z = shifted(x, dims)
  return z - f.log(f.sum(f.exp(z), dims))
end)

-- Mean and (biased) variance, in two passes over the row: exact also where the mean is large.
unary("moments", function(x, dims)
  local mean = f.mean(x, dims)
  return mean, f.mean((x - mean) ^ 2, dims)
end)

-- ---- 4-bit codes in bytes ----

-- Which of two codes of a byte is meant first must be said.
local function high_first(what, order)
  if order == "high-first" or order == "low-first" then return order == "high-first", true end
  core.report(nil, format("%s: the order of the codes in a byte is 'high-first' or 'low-first', "
    .. "not %s", what, order == nil and "missing" or "'" .. tostring(order) .. "'"))
  return false, false
end

local function integer_argument(e, what)
  local x, ok = core.value(e, "argument 1 of " .. what)
  if not ok or core.is_integer(x) then return x, ok end
  core.report(nil, format("argument 1 of %s is real, but codes are integers: see gs.integer", what))
  return core.nothing, false
end

-- pack(codes, "k", "k2", "high-first"): codes 0 to 15 along k, two to a byte along k2 = k/2.
function values.pack(e, dim, half, order)
  local high, known = high_first("gs.pack", order)
  local x, ok = integer_argument(e, "gs.pack")
  if not (known and ok) then return core.nothing end
  local tail = core.outer(dim) and { tail = "mask" } or nil
  local pair = f.split(x, dim, half, "two=2", tail)
  local a, b = f.pick(pair, "two", 0), f.pick(pair, "two", 1)
  if high then return a * 16 + b end
  return b * 16 + a
end

-- unpack(bytes, "k2", "k", "high-first"): the inverse.
function values.unpack(q, half, dim, order)
  local high, known = high_first("gs.unpack", order)
  local x, ok = integer_argument(q, "gs.unpack")
  if not (known and ok) then return core.nothing end
  local a, b = f.quotient(x, 16), f.remainder(x, 16)
  if not high then a, b = b, a end
  return f.merge(f.join({ a, b }, "two=2"), half, "two", dim)
end

-- Every function, for the table gs. `names` holds the keys in order.
function values.export(gs)
  for _, name in ipairs(names.keys(values)) do
    if name ~= "export" then gs[name] = core.keep(values[name]) end
  end
end

return values
