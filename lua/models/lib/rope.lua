-- rope: rotary positions from config.json: the frequencies, the factor of cos and sin, and how many
-- elements of a head are turned. Reference: transformers modeling_rope_utils.py, every type that it
-- knows; an unknown type or field is an error.
--
-- The mathematics of each type is written once and runs twice: rounding to f32 where transformers
-- does (inv_freq), and in float64 (turns, for rope_table's exact = 1).
local step = require "gradsmith.step"
local config = require "models.lib.config"
local M = {}

local function f32(x) return (string.unpack("f", string.pack("f", x))) end
local function unrounded(x) return x end

-- base^(2i/D) for the first n pairs
local function wavelengths(p, r, n)
  local w = {}
  for i = 0, (n or p.R // 2) - 1 do w[i + 1] = r(r(p.base) ^ r(2 * i / p.R)) end
  return w
end

local function inverse(w, r, factor)
  local f = {}
  for i = 1, #w do f[i] = r(1 / (factor and r(r(factor) * w[i]) or w[i])) end
  return f
end

local function optional(s, name) return s[name] ~= nil and config.number(s, name) or nil end

-- The context that the model was trained for before it was stretched.
local function old_context(p, s)
  local old = optional(s, "original_max_position_embeddings") or p.old_context or p.context
  if not old then step.refuse('"original_max_position_embeddings" is missing') end
  return old
end

-- The longest sequence, where the frequencies depend on it.
local function longest_of(p, name)
  if p.longest then return p.longest end
  step.refuse('rope type "%s" depends on the longest sequence, which is not known here', name)
end

-- Each type: its fields beside rope_theta; apply(p, s, r) -> frequencies, factor of cos and sin.
local kinds = {}

kinds.default = { fields = {}, apply = function(p, _, r) return inverse(wavelengths(p, r), r) end }

kinds.linear = {
  fields = { "factor" },
  apply = function(p, s, r)
    local f, factor = inverse(wavelengths(p, r), r), r(config.number(s, "factor"))
    for i = 1, #f do f[i] = r(f[i] / factor) end
    return f
  end,
}

-- The first part of the head is turned; the rest has frequency 0.
kinds.proportional = {
  fields = { "factor" },
  apply = function(p, s, r)
    local factor = r(config.number(s, "factor", 1.0))
    local f = inverse(wavelengths(p, r, math.floor(p.part * p.R // 2)), r)
    for i = 1, p.R // 2 do f[i] = r((f[i] or 0) / factor) end
    return f
  end,
}

-- The base grows with the sequence, once it is longer than max_position_embeddings.
kinds.dynamic = {
  fields = { "factor" },
  apply = function(p, s, r)
    local factor, context = config.number(s, "factor"), p.context
    if not context then step.refuse('"max_position_embeddings" is missing') end
    local length = math.max(longest_of(p, "dynamic"), context)
    local stretch = r(r(r(factor * length) / context) - (factor - 1))
    local q = { base = r(p.base * r(stretch ^ (p.R / (p.R - 2)))), R = p.R }
    return inverse(wavelengths(q, r), r)
  end,
}

-- Wavelengths beyond the old context are stretched by factor, short ones kept, others blended.
kinds.llama3 = {
  fields = { "factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings" },
  apply = function(p, s, r)
    local factor, old = config.number(s, "factor"), old_context(p, s)
    local low, high = config.number(s, "low_freq_factor"), config.number(s, "high_freq_factor")
    if low >= high then step.refuse("low_freq_factor must be less than high_freq_factor") end
    local f = inverse(wavelengths(p, r), r)
    for i = 1, #f do
      local wave = r(2 * math.pi / f[i])
      if wave > old / low then
        f[i] = r(f[i] / factor)
      elseif wave >= old / high then
        local smooth = r(r(r(old / wave) - low) / (high - low))
        f[i] = r(r(r(r(1 - smooth) * f[i]) / factor) + r(smooth * f[i]))
      end
    end
    return f
  end,
}

-- YaRN: the pair that turns `turns` times in the old context.
local function pair_of(p, turns, old)
  return p.R * math.log(old / (turns * 2 * math.pi)) / (2 * math.log(p.base))
end

local function growth(scale, m) return scale <= 1 and 1.0 or 0.1 * m * math.log(scale) + 1 end

local function yarn_factor(s, factor)
  local given = optional(s, "attention_factor")
  if given then return given end
  local m, all = optional(s, "mscale"), optional(s, "mscale_all_dim")
  return m and all and growth(factor, m) / growth(factor, all) or growth(factor, 1)
end

-- Fast pairs are kept, slow ones stretched by factor, with a ramp between.
kinds.yarn = {
  fields = { "factor", "original_max_position_embeddings", "attention_factor", "beta_fast",
    "beta_slow", "mscale", "mscale_all_dim", "truncate" },
  apply = function(p, s, r)
    local old = old_context(p, s)
    local factor = optional(s, "factor") or p.context / old
    local low = pair_of(p, config.number(s, "beta_fast", 32), old)
    local high = pair_of(p, config.number(s, "beta_slow", 1), old)
    if s.truncate ~= false then low, high = math.floor(low), math.ceil(high) end
    low, high = math.max(low, 0), math.min(high, p.R - 1)
    if low == high then high = high + 0.001 end
    local w = wavelengths(p, r)
    local kept, slow = inverse(w, r), inverse(w, r, factor)
    for i = 1, #kept do
      local ramp = math.max(0, math.min(1, r(r(i - 1 - low) / r(high - low))))
      local keep = r(1 - ramp)
      kept[i] = r(r(slow[i] * r(1 - keep)) + r(kept[i] * keep))
    end
    return kept, yarn_factor(s, factor)
  end,
}

-- A list of positive numbers, one a pair.
local function list(p, s, name)
  local t = s[name]
  if type(t) ~= "table" or #t ~= p.R // 2 then
    step.refuse('"%s" is not a list of %d numbers', name, p.R // 2)
  end
  for i = 1, #t do
    if type(t[i]) ~= "number" or not (t[i] > 0) then
      step.refuse('"%s" has an entry that is not a positive number', name)
    end
  end
  return t
end

-- A divisor for each pair: one set within the old context, another beyond.
kinds.longrope = {
  fields = { "factor", "short_factor", "long_factor", "original_max_position_embeddings",
    "attention_factor" },
  apply = function(p, s, r)
    local old = old_context(p, s)
    local factor = optional(s, "factor") or p.context / old
    local short, long = list(p, s, "short_factor"), list(p, s, "long_factor")
    local divide = longest_of(p, "longrope") > old and long or short
    local w, f = wavelengths(p, r), {}
    for i = 1, #w do f[i] = r(1 / r(r(divide[i]) * w[i])) end
    local grown = factor <= 1 and 1.0 or math.sqrt(1 + math.log(factor) / math.log(old))
    return f, optional(s, "attention_factor") or grown
  end,
}

-- The type's own fields, and no others.
local function check_fields(where, s, kind)
  local known = { rope_type = true, type = true, rope_theta = true, partial_rotary_factor = true }
  for _, name in ipairs(kind.fields) do known[name] = true end
  for name in pairs(s) do
    if not known[name] then step.refuse('%s has the field "%s", which is unknown', where, name) end
  end
end

local function kind_of(where, s)
  local name = s.rope_type or s.type or "default"
  if kinds[name] then return kinds[name], name end
  local names = {}
  for k in pairs(kinds) do names[#names + 1] = k end
  table.sort(names)
  step.refuse('%s of type "%s" is not supported; %s are', where, tostring(name),
    table.concat(names, ", "))
end

-- Frequencies in turns a position, as two whole numbers below 2^24: (high + low/2^24)/2^24. All the
-- highs come first, as rope_table takes them.
local function turns_of(f)
  local t, unit = {}, 2.0 ^ 24
  for i = 1, #f do
    local u = f[i] / (2 * math.pi) * unit
    local high = math.floor(u)
    local low = math.floor((u - high) * unit + 0.5)
    if low == unit then high, low = high + 1, 0 end
    t[i], t[#f + i] = high, low
  end
  return t
end

-- For a config with rope_theta and rope_scaling, or rope_parameters, and heads of D elements:
--   { inv_freq = R/2 numbers, turns = R numbers, scale = factor of cos and sin,
--     R = elements turned }
-- longest: the length of the longest sequence, or nil where it is unknown; a type that depends on
-- it is then refused.
function M.read(c, D, longest)
  local where = c.rope_parameters and "rope_parameters" or "rope_scaling"
  if c.rope_parameters and c.rope_scaling then
    step.refuse("both rope_parameters and rope_scaling are given; keep one")
  end
  local s = c[where] or {}
  if type(s) ~= "table" then step.refuse('"%s" is not an object', where) end
  local kind, name = kind_of(where, s)
  check_fields(where, s, kind)
  local part = optional(s, "partial_rotary_factor") or optional(c, "partial_rotary_factor") or 1
  if part > 1 then step.refuse('"partial_rotary_factor" is above 1') end
  local p = {
    base = config.number(s, "rope_theta", config.number(c, "rope_theta", 10000.0)),
    R = name == "proportional" and D or math.floor(D * part), part = part,
    context = optional(c, "max_position_embeddings"),
    old_context = optional(c, "original_max_position_embeddings"), longest = longest,
  }
  if p.R < 2 or p.R % 2 ~= 0 then
    step.refuse("%d elements of a head are turned, which have no halves", p.R)
  end
  local inv_freq, scale = kind.apply(p, s, f32)
  return { inv_freq = inv_freq, turns = turns_of((kind.apply(p, s, unrounded))), scale = scale or 1,
    R = p.R }
end

return M
