-- activations: value and slope of each activation, in f32, and layers made of them.
--   curve(name)(x)           -> f(x), f'(x)
--   layer(name, what)        the layer y = f(x)
--   gated(name, f, what)     the layer y = f(gate)·up
-- A gated layer rounds f(gate) to the storage type before it multiplies, as transformers does,
-- whose activation is a module of its own. Its backward also gives y again: the projection that
-- follows wants its input for the gradient of its weight.
local gs = require "gradsmith"
local M = {}
local curves = {}

local ROOT_2_OVER_PI = 0.7978845608028654
local ROOT_HALF = 0.7071067811865476
local DENSITY_AT_0 = 0.3989422804014327

function curves.silu(x)
  local s = gs.sigmoid(x)
  return x * s, s * (1 + x * (1 - s))
end

function curves.quick_gelu(x)
  local s = gs.sigmoid(1.702 * x)
  return x * s, s * (1 + 1.702 * x * (1 - s))
end

function curves.gelu(x)
  local below = 0.5 * (1 + gs.erf(ROOT_HALF * x))
  return x * below, below + DENSITY_AT_0 * x * gs.exp(-0.5 * x^2)
end

function curves.gelu_tanh(x)
  local t = gs.tanh(ROOT_2_OVER_PI * (x + 0.044715 * x^3))
  local slope = 0.5 * x * (1 - t^2) * ROOT_2_OVER_PI * (1 + 0.134145 * x^2)
  return 0.5 * x * (1 + t), 0.5 * (1 + t) + slope
end

function curves.relu(x)
  local on = gs.gt(x, 0)
  return gs.where(on, x, 0), gs.real(on)
end

function curves.relu2(x) -- ReLU squared
  local r = gs.max(x, 0)
  return r^2, 2 * r
end

function curves.sigmoid(x)
  local s = gs.sigmoid(x)
  return s, s * (1 - s)
end

function curves.softplus(x)
  return gs.softplus(x), gs.sigmoid(x)
end

function M.curve(name) return curves[name] end

function M.layer(name, what)
  local curve = curves[name]
  return gs.layer(name) {
    doc  = what,
    dims = { "T", "F" },
    x    = gs.input { "T", "F" },
    inplace = { dx = "x" },

    forward = function(p) return { y = (curve(p.x)) } end,
    backward = function(p, d)
      local _, slope = curve(p.x)
      return { x = d.y * slope }
    end,
  }
end

function M.gated(name, f, what)
  local curve = curves[f]
  local function product(p, value) return gs.round(value, p.gate.type) * p.up end
  return gs.layer(name) {
    doc  = what,
    dims = { "T", "F" },
    gate = gs.input { "T", "F" },
    up   = gs.input { "T", "F" },
    inplace = { dgate = "gate", dup = "up" },

    forward = function(p) return { y = product(p, (curve(p.gate))) } end,
    backward = function(p, d)
      local value, slope = curve(p.gate)
      return {
        gate = d.y * p.up * slope,
        up   = d.y * value,
        recomputed = { y = product(p, value) },
      }
    end,
  }
end

return M
