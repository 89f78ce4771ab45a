-- rope: the frequencies of rotary positions from config.json, rounded to f32 where transformers
-- rounds (modeling_rope_utils.py: default, linear, llama3). An unknown scaling is an error.
local step = require "gradsmith.step"
local config = require "models.lib.config"
local M = {}

local function f32(x) return (string.unpack("f", string.pack("f", x))) end

-- 1 / base^(2i/D)
local function plain(base, D)
  local f = {}
  for i = 0, D // 2 - 1 do f[i + 1] = f32(1 / f32(base ^ f32(2 * i / D))) end
  return f
end

local scalings = {}

scalings.default = { fields = {}, apply = function(f) return f end }

scalings.linear = {
  fields = { "factor" },
  apply = function(f, s)
    local factor = config.number(s, "factor")
    for i = 1, #f do f[i] = f32(f[i] / factor) end
    return f
  end,
}

-- Wavelengths beyond the old context are stretched by factor, short ones kept, others blended.
scalings.llama3 = {
  fields = { "factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings" },
  apply = function(f, s)
    local factor = config.number(s, "factor")
    local old = config.number(s, "original_max_position_embeddings")
    local low, high = config.number(s, "low_freq_factor"), config.number(s, "high_freq_factor")
    if low >= high then step.refuse("low_freq_factor must be less than high_freq_factor") end
    for i = 1, #f do
      local wave = f32(2 * math.pi / f[i])
      if wave > old / low then
        f[i] = f32(f[i] / factor)
      elseif wave >= old / high then
        local smooth = f32(f32(f32(old / wave) - low) / (high - low))
        f[i] = f32(f32(f32(f32(1 - smooth) * f[i]) / factor) + f32(smooth * f[i]))
      end
    end
    return f
  end,
}

-- The scaling's own fields, and no others.
local function check_fields(where, s, kind)
  local known = { rope_type = true, type = true, rope_theta = true }
  for _, name in ipairs(kind.fields) do known[name] = true end
  for name, v in pairs(s) do
    if name == "partial_rotary_factor" and v == 1 then v = nil end
    if v ~= nil and not known[name] then
      step.refuse('%s has the field "%s", which is unknown', where, name)
    end
  end
end

-- The D/2 frequencies for a config with rope_theta and rope_scaling, or rope_parameters.
function M.inv_freq(c, D)
  local where = c.rope_parameters and "rope_parameters" or "rope_scaling"
  if c.rope_parameters and c.rope_scaling then
    step.refuse("both rope_parameters and rope_scaling are given; keep one")
  end
  local s = c[where] or {}
  if type(s) ~= "table" then step.refuse('"%s" is not an object', where) end
  local name = s.rope_type or s.type or "default"
  local kind = scalings[name]
  if not kind then
    step.refuse('%s of type "%s" is not supported; default, linear and llama3 are', where,
      tostring(name))
  end
  check_fields(where, s, kind)
  local base = config.number(s, "rope_theta", config.number(c, "rope_theta", 10000.0))
  return kind.apply(plain(base, D), s)
end

return M
