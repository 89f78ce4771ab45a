-- kl_distillation: forward divergence KL(teacher || student) of each token, at a temperature and
-- times its square, so that gradients keep their size. No gradient reaches the teacher; tokens with
-- the ignored label count nowhere.
-- Reference: torch.nn.functional.kl_div(log_softmax(s/τ), log_softmax(t/τ), log_target=True)·τ².
local gs = require "gradsmith"

return gs.layer "kl_distillation" {
  doc     = "loss = τ²·Σ p·(log p - log q), p = softmax(teacher/τ), q = softmax(student/τ)",
  dims    = { "T", "V" },
  student = gs.input { "T", "V" },
  teacher = gs.input { "T", "V", grad = false },
  label   = gs.input { "T", type = "i32", range = { 0, 9 }, also = { -100 } },
  temperature = gs.scalar(1),
  ignore  = gs.option(-100),
  outputs = { loss = "f32" },
  inplace = { dstudent = "student" },

  forward = function(p)
    local s, t = p.student / p.temperature, p.teacher / p.temperature
    local lse_s, lse_t = gs.logsumexp(s, "V"), gs.logsumexp(t, "V")
    local log_p, log_q = t - lse_t, s - lse_s
    local loss = p.temperature^2 * gs.sum(gs.exp(log_p) * (log_p - log_q), "V")
    return {
      loss = gs.where(gs.ne(p.label, p.ignore), loss, 0),
      save = { lse_s = lse_s, lse_t = lse_t },
    }
  end,

  backward = function(p, d, s)
    local q = gs.exp(p.student / p.temperature - s.lse_s)
    local target = gs.exp(p.teacher / p.temperature - s.lse_t)
    local ok = gs.ne(p.label, p.ignore)
    return { student = gs.where(ok, d.loss * p.temperature * (q - target), 0) }
  end,
}
