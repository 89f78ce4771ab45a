-- scales: the parts of a matrix [T, H] that share a scale: 0 the whole, 1 a row, 2 a block of
-- 1x128, 3 a tile of 128x128. Rests at the edges are parts of their own.
local gs = require "gradsmith"

local M = {}
M.dims = { "T", "H", Tb = "ceil(T/128)", Hb = "ceil(H/128)", t = "128", h = "128" }

local function same(e) return e end

local function columns(e) return gs.split(e, "H", "Hb", "h", { tail = "mask" }) end
local function rows(e) return gs.split(e, "T", "Tb", "t", { tail = "mask" }) end

-- x with its parts as dims of their own, the dims that a part's reduction removes, the way back.
function M.split(x, part)
  if part == 0 then return x, "all", same end
  if part == 1 then return x, "H", same end
  local function merge(e) return gs.merge(e, "Hb", "h", "H") end
  if part == 2 then return columns(x), "h", merge end
  return rows(columns(x)), { "t", "h" },
    function(e) return gs.merge(merge(e), "Tb", "t", "T") end
end

local scale_dims = { [0] = {}, { "T" }, { "T", "Hb" }, { "Tb", "Hb" } }

-- The kernel that multiplies codes of the given type by their parts' scales.
function M.dequantizer(name, part, type)
  local dims = scale_dims[part]
  return gs.kernel(name) {
    doc   = "x = q·scale",
    dims  = M.dims,
    q     = gs.input { "T", "H", type = type },
    scale = gs.input { dims[1], dims[2], type = "f32", range = { 0 } },

    forward = function(p)
      local q, _, back = M.split(p.q, part)
      return { x = back(q * p.scale) }
    end,
  }
end

return M
