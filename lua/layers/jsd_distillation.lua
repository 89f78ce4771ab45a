-- jsd_distillation: generalised Jensen-Shannon divergence of each token between teacher and student
-- at a temperature; beta = 0 is KL(teacher || student), beta = 1 is KL(student || teacher), without
-- the factor of the temperature squared. No gradient reaches the teacher; tokens with the ignored
-- label count nowhere. Reference: TRL GKDTrainer.generalized_jsd_loss.
local gs = require "gradsmith"

local function log_softmax(x, lse, p) return x / p.temperature - lse end

-- log(q/m) and log(p/m) for m = beta·p + (1-beta)·q, stable for any difference of the logarithms.
local function to_mixture(beta, log_p, log_q)
  local x = log_p - log_q + math.log(beta / (1 - beta))
  return -math.log(1 - beta) - gs.softplus(x), -math.log(beta) - gs.softplus(-x)
end

return gs.layer "jsd_distillation" {
  doc     = "loss = beta·KL(p || m) + (1-beta)·KL(q || m), m = beta·p + (1-beta)·q",
  dims    = { "T", "V" },
  student = gs.input { "T", "V" },
  teacher = gs.input { "T", "V", grad = false },
  label   = gs.input { "T", type = "i32", range = { 0, 9 }, also = { -100 } },
  temperature = gs.scalar(1),
  beta    = gs.option { 0.5, also = { 0, 0.25, 1 } },
  ignore  = gs.option(-100),
  outputs = { loss = "f32" },
  inplace = { dstudent = "student" },

  forward = function(p)
    local lse_s = gs.logsumexp(p.student / p.temperature, "V")
    local lse_t = gs.logsumexp(p.teacher / p.temperature, "V")
    local log_q, log_p = log_softmax(p.student, lse_s, p), log_softmax(p.teacher, lse_t, p)
    local loss, save = nil, { lse_s = lse_s, lse_t = lse_t }
    if p.beta == 0 then
      loss = gs.sum(gs.exp(log_p) * (log_p - log_q), "V")
    elseif p.beta == 1 then
      save.kl = gs.sum(gs.exp(log_q) * (log_q - log_p), "V")
      loss = save.kl
    else
      local from_q, from_p = to_mixture(p.beta, log_p, log_q)
      save.kl = gs.sum(gs.exp(log_q) * from_q, "V")
      loss = p.beta * gs.sum(gs.exp(log_p) * from_p, "V") + (1 - p.beta) * save.kl
    end
    return { loss = gs.where(gs.ne(p.label, p.ignore), loss, 0), save = save }
  end,

  backward = function(p, d, s)
    local log_q, log_p = log_softmax(p.student, s.lse_s, p), log_softmax(p.teacher, s.lse_t, p)
    local q, dz = gs.exp(log_q), nil
    if p.beta == 0 then
      dz = q - gs.exp(log_p)
    elseif p.beta == 1 then
      dz = q * (log_q - log_p - s.kl)
    else
      local from_q = to_mixture(p.beta, log_p, log_q)
      dz = (1 - p.beta) * q * (from_q - s.kl)
    end
    return { student = gs.where(gs.ne(p.label, p.ignore), d.loss * dz / p.temperature, 0) }
  end,
}
