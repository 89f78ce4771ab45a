#!/usr/bin/env python3
"""Goldens of the losses. References: torch.nn.functional.cross_entropy and kl_div; the formulas of
TRL's trainers (DPO, ORPO, CPO for SimPO, KTO, GRPO, GKD, PPO, Reward), written out here on padded
batches as TRL has them; Gemma 2's softcap; Liger's z-loss."""
import math

import torch
import torch.nn.functional as F

import golden

f = golden.Family("losses")
IGNORE = -100


def labels(T, V, ignore=IGNORE):
    label = golden.integers(0, V, T)
    label[::4] = ignore
    return label


def scores(logits, o):
    z = logits.float() * o.get("scale", 1)
    cap = o.get("softcap", 0)
    return cap * torch.tanh(z / cap) if cap else z


def cross_entropy(o):
    def reference(logits, label, weight=None, count=None):
        z, ignore = scores(logits, o), o.get("ignore", IGNORE)
        label, ok = label.long(), label != ignore
        loss = F.cross_entropy(z, label, weight=weight, ignore_index=ignore, reduction="none",
                               label_smoothing=o.get("smoothing", 0))
        lse = torch.logsumexp(z, -1)
        if o.get("z_loss"):
            loss = loss + torch.where(ok, o["z_loss"] * lse**2, 0)
        entropy = torch.where(ok, torch.distributions.Categorical(logits=z).entropy(), 0).detach()
        right = ((z.argmax(-1) == label) & ok).to(z.dtype)
        kind = o.get("reduction", 0)
        if kind == 2 and not o.get("z_loss"):
            mean = F.cross_entropy(z, label, weight=weight, ignore_index=ignore,
                                   label_smoothing=o.get("smoothing", 0))
            assert abs(mean - loss.sum() / count) < 1e-5 * abs(mean)
            out = {"loss": mean}
        else:
            out = {"loss": loss if kind == 0 else loss.sum() / (count if kind == 2 else 1)}
        for name, e in (("accuracy", right), ("entropy", entropy)):
            if o.get("with_" + name):
                out[name] = e if kind == 0 else e.sum() / (count if kind == 2 else 1)
        return out
    return reference


def nothing_counted(logits, label, count):
    """PyTorch's mean over no labels is NaN; a step without labels must change nothing."""
    zero = (logits.float() * 0).sum()
    return {"loss": zero, "accuracy": zero.detach(), "entropy": zero.detach()}


CROSS_ENTROPY = [
    ("plain", {}), ("ignore 0", {"ignore": 0}), ("ignore -1", {"ignore": -1}),
    ("smoothing", {"smoothing": 0.1}), ("z-loss", {"z_loss": 1e-2}),
    ("softcap", {"softcap": 2.5}), ("scale", {"scale": 0.0625}),
    ("sum", {"reduction": 1}), ("mean", {"reduction": 2}),
    ("weights", {"weighted": 1}), ("weights mean", {"weighted": 1, "reduction": 2}),
    ("metrics", {"with_accuracy": 1, "with_entropy": 1}),
    ("all", {"weighted": 1, "reduction": 2, "smoothing": 0.2, "z_loss": 1e-3, "softcap": 30,
             "scale": 1.5, "with_accuracy": 1, "with_entropy": 1})]
for dtype in ("f32", "bf16"):
    for k, (name, o) in enumerate(CROSS_ENTROPY):
        T, V = ((6, 33), (3, 129), (9, 17))[k % 3]
        label = labels(T, V, o.get("ignore", IGNORE))
        inputs = {"logits": golden.normal(T, V, scale=3), "label": label}
        if "ignore" in o and o["ignore"] >= 0:
            inputs["label"] = torch.where(golden.integers(0, 3, T) == 0, o["ignore"], label)
        ok = inputs["label"] != o.get("ignore", IGNORE)
        if o.get("with_accuracy"):  # some are right
            inputs["logits"][1, inputs["label"][1].long()] += 20
        if o.get("weighted"):
            inputs["weight"] = golden.integers(1, 32, V).double() / 16
        if o.get("reduction") == 2:
            inputs["count"] = (inputs["weight"][inputs["label"][ok].long()].sum()
                               if o.get("weighted") else ok.sum()).double()
        f.case("cross_entropy", dtype, cross_entropy(o), inputs,
               {"logits": "T V", "label": "T", "weight": "V"}, name, o, grads=["logits"],
               types={"weight": "f32"})
    confident = golden.normal(4, 31)  # p(label) near 1: the gradient is p - 1
    sure = golden.integers(0, 31, 4)
    confident[torch.arange(4), sure.long()] += 11
    LABELLED = {"logits": "T V", "label": "T"}
    f.case("cross_entropy", dtype, cross_entropy({}), {"logits": confident, "label": sure},
           LABELLED, "confident")
    capped = {"logits": golden.normal(5, 9, scale=124), "label": labels(5, 9)}
    f.case("cross_entropy", dtype, cross_entropy({"softcap": 30}), capped, LABELLED,
           "far above the cap", {"softcap": 30})
    plain = {"logits": golden.normal(5, 9, scale=3), "label": labels(5, 9)}
    plain["label"][0] = IGNORE
    for up in (0, 1024):  # as loss scaling has it
        f.case("cross_entropy", dtype, cross_entropy({}), plain, LABELLED, f"upstream {up}",
               upstream={"loss": up * torch.ones(5, dtype=torch.float64)},
               bits=["dlogits"] if up == 0 else [])
    none = {"logits": golden.normal(3, 9), "label": torch.full((3,), IGNORE, dtype=torch.int32),
            "count": torch.zeros((), dtype=torch.float64)}
    f.case("cross_entropy", dtype, nothing_counted, none, LABELLED, "every label ignored, mean",
           {"reduction": 2, "with_accuracy": 1, "with_entropy": 1}, grads=["logits"],
           bits=["loss", "accuracy", "entropy", "dlogits"])
    f.case("cross_entropy", dtype, cross_entropy({"reduction": 1}),
           {p: none[p] for p in LABELLED}, LABELLED, "every label ignored, sum",
           {"reduction": 1}, bits=["loss", "dlogits"])


def token_logprob(o):
    def reference(logits, label):
        logp, ok = torch.log_softmax(scores(logits, o), -1), label != IGNORE
        at = logp.gather(-1, label.long().clamp(min=0)[:, None])[:, 0]
        out = {"logp": torch.where(ok, at, 0)}
        if o.get("with_entropy"):
            out["entropy"] = torch.where(ok, -(logp.exp() * logp).sum(-1), 0)
        return out
    return reference


for dtype in ("f32", "bf16"):
    for name, o in (("plain", {}), ("softcap", {"softcap": 4, "scale": 1.25}),
                    ("entropy", {"with_entropy": 1})):
        f.case("token_logprob", dtype, token_logprob(o),
               {"logits": golden.normal(7, 45, scale=3), "label": labels(7, 45)},
               {"logits": "T V", "label": "T"}, name, o)


def kl_distillation(temperature):
    def reference(student, teacher, label):
        s = torch.log_softmax(student.float() / temperature, -1)
        t = torch.log_softmax(teacher.float() / temperature, -1)
        loss = F.kl_div(s, t, reduction="none", log_target=True).sum(-1) * temperature**2
        return {"loss": torch.where(label != IGNORE, loss, 0)}
    return reference


def jsd(beta, temperature):  # TRL GKDTrainer.generalized_jsd_loss
    def reference(student, teacher, label):
        s = torch.log_softmax(student.float() / temperature, -1)
        t = torch.log_softmax(teacher.float() / temperature, -1)
        if beta == 0:
            d = F.kl_div(s, t, reduction="none", log_target=True)
        elif beta == 1:
            d = F.kl_div(t, s, reduction="none", log_target=True)
        else:
            m = torch.logsumexp(torch.stack([s + math.log(1 - beta), t + math.log(beta)]), 0)
            d = (beta * F.kl_div(m, t, reduction="none", log_target=True)
                 + (1 - beta) * F.kl_div(m, s, reduction="none", log_target=True))
        return {"loss": torch.where(label != IGNORE, d.sum(-1), 0)}
    return reference


for dtype in ("f32", "bf16"):
    for T, V, temperature in ((5, 33, 1.0), (3, 67, 2.0)):
        pair = {"student": golden.normal(T, V, scale=2), "teacher": golden.normal(T, V, scale=3),
                "label": labels(T, V)}
        dims = {"student": "T V", "teacher": "T V", "label": "T"}
        f.case("kl_distillation", dtype, kl_distillation(temperature), pair, dims,
               f"temperature {temperature}", {}, {"temperature": temperature}, grads=["student"])
        for beta in (0, 0.5, 0.25, 1):
            f.case("jsd_distillation", dtype, jsd(beta, temperature), pair, dims,
                   f"beta {beta} temperature {temperature}", {"beta": beta},
                   {"temperature": temperature}, grads=["student"])


# ---- losses of whole sequences: f32 throughout ----

def log_probs(n, low=-20.0):
    return golden.uniform(low, -1e-3, n)


def sum_logprob(mean, S):
    def reference(logp, segment):
        rows = [logp[segment == s] for s in range(S)]
        return torch.stack([(r.sum() / max(len(r), 1) if mean else r.sum()) for r in rows])
    return reference


segment = torch.tensor([-1, -1, 0, 0, 0, 1, -1, 3, 3, 3, 3, 3, -1, 4], dtype=torch.int32)
for mean in (0, 1):
    f.case("sum_logprob", "f32", sum_logprob(mean, 5),
           {"logp": log_probs(len(segment)), "segment": segment},
           {"logp": "T", "segment": "T", "sizes": {"S": 5}}, f"mean {mean}", {"mean": mean})


def dpo(beta, kind, smoothing):  # TRL DPOTrainer.dpo_loss
    def reference(chosen, rejected, ref_chosen, ref_rejected):
        h = (chosen - rejected) - (ref_chosen - ref_rejected)
        if kind == 0:
            loss = (-F.logsigmoid(beta * h) * (1 - smoothing)
                    - F.logsigmoid(-beta * h) * smoothing)
        elif kind == 1:
            loss = torch.relu(1 - beta * h)
        else:
            loss = (h - 1 / (2 * beta)) ** 2
        return {"loss": loss, "reward_chosen": beta * (chosen - ref_chosen).detach(),
                "reward_rejected": beta * (rejected - ref_rejected).detach()}
    return reference


PAIRS = {"chosen": "P", "rejected": "P", "ref_chosen": "P", "ref_rejected": "P"}
for name, beta, kind, smoothing in (("sigmoid", 0.125, 0, 0), ("sigmoid beta 2", 2, 0, 0),
                                    ("smoothing", 0.5, 0, 0.1), ("hinge", 0.125, 1, 0),
                                    ("ipo", 0.125, 2, 0)):
    f.case("dpo", "f32", dpo(beta, kind, smoothing), {p: log_probs(19) for p in PAIRS}, PAIRS, name,
           {"loss_type": kind, "smoothing": smoothing}, {"beta": beta},
           grads=["chosen", "rejected"])


def orpo(beta, alpha):  # TRL ORPOTrainer.odds_ratio_loss
    def reference(chosen, rejected):
        odds = (chosen - rejected) - (torch.log1p(-torch.exp(chosen))
                                      - torch.log1p(-torch.exp(rejected)))
        return {"loss": -alpha * chosen - beta * F.logsigmoid(odds),
                "reward_chosen": beta * chosen.detach(),
                "reward_rejected": beta * rejected.detach()}
    return reference


def simpo(beta, gamma, smoothing):  # TRL CPOTrainer, loss_type simpo
    def reference(chosen, rejected):
        h = chosen - rejected - gamma / beta
        loss = -F.logsigmoid(beta * h) * (1 - smoothing) - F.logsigmoid(-beta * h) * smoothing
        return {"loss": loss, "reward_chosen": beta * chosen.detach(),
                "reward_rejected": beta * rejected.detach()}
    return reference


two = {"chosen": log_probs(17, -4), "rejected": log_probs(17, -4)}
DIMS = {"chosen": "P", "rejected": "P"}
f.case("orpo", "f32", orpo(0.125, 1), two, DIMS, "alpha 1", {}, {"beta": 0.125, "alpha": 1})
f.case("orpo", "f32", orpo(0.5, 0), two, DIMS, "alpha 0", {}, {"beta": 0.5, "alpha": 0})
for smoothing in (0, 0.25):
    f.case("simpo", "f32", simpo(2, 1, smoothing), two, DIMS, f"smoothing {smoothing}",
           {"smoothing": smoothing}, {"beta": 2, "gamma": 1})


def kto(beta, wd, wu):  # TRL KTOTrainer.kto_loss
    def reference(policy, reference, kl_policy, kl_reference, desirable):
        kl = (kl_policy - kl_reference).mean().clamp(min=0).detach()
        ratio = policy - reference
        loss = torch.where(desirable != 0, wd * (1 - torch.sigmoid(beta * (ratio - kl))),
                           wu * (1 - torch.sigmoid(beta * (kl - ratio))))
        return {"loss": loss, "reward": beta * ratio.detach(), "kl": kl}
    return reference


KTO = {p: "P" for p in ("policy", "reference", "kl_policy", "kl_reference", "desirable")}
for name, shift in (("", 3), ("negative baseline", -3)):
    one = {p: log_probs(21) for p in list(KTO)[:4]}
    one["kl_policy"] = one["kl_reference"] + shift + golden.normal(21)
    one["desirable"] = golden.integers(0, 2, 21, dtype=torch.uint8)
    f.case("kto", "f32", kto(0.125, 1.5, 0.75), one, KTO, name, {},
           {"beta": 0.125, "weight_desirable": 1.5, "weight_undesirable": 0.75}, grads=["policy"])


def reward(margin_read, center):  # TRL RewardTrainer.compute_loss
    def reference(chosen, rejected, margin=None):
        h = chosen - rejected - (margin if margin_read else 0)
        return {"loss": -F.logsigmoid(h) + center * (chosen + rejected) ** 2}
    return reference


for with_margin, center in ((0, 0), (1, 0.01)):
    pair = {"chosen": golden.normal(13, scale=6), "rejected": golden.normal(13, scale=6)}
    if with_margin:
        pair["margin"] = golden.uniform(0, 3, 13)
    f.case("reward_loss", "f32", reward(with_margin, center), pair,
           {p: "P" for p in pair}, f"margin {with_margin}",
           {"with_margin": with_margin, "center": center}, grads=["chosen", "rejected"])


def value_loss(clip):  # TRL PPOTrainer
    def reference(value, old, target, mask):
        near = torch.clamp(value, old - clip, old + clip)
        loss = 0.5 * torch.max((value - target) ** 2, (near - target) ** 2)
        return {"loss": torch.where(mask != 0, loss, 0)}
    return reference


f.case("value_loss", "f32", value_loss(0.25),
       {"value": golden.normal(29), "old": golden.normal(29), "target": golden.normal(29),
        "mask": golden.integers(0, 2, 29, dtype=torch.uint8)},
       {p: "T" for p in ("value", "old", "target", "mask")}, "", {}, {"clip": 0.25},
       grads=["value"])


def grpo(o, low, high, S):  # TRL GRPOTrainer._compute_loss, on its padded [S, L]
    def reference(logp, old, advantage, segment, count, ref=None):
        rows = [torch.nonzero(segment == s)[:, 0] for s in range(S)]
        L = max(len(r) for r in rows)
        mask = torch.zeros(S, L, dtype=logp.dtype)
        at = torch.full((S, L), int(rows[0][0]))  # where the mask is 0, any token that counts
        for s, r in enumerate(rows):
            mask[s, :len(r)], at[s, :len(r)] = 1, r
        log_ratio = logp[at] - old[at]
        if o.get("sequence"):
            log_ratio = ((log_ratio * mask).sum(-1) / mask.sum(-1).clamp(min=1))[:, None]
        coef_1 = torch.exp(log_ratio)
        coef_2 = torch.clamp(coef_1, 1 - low, 1 + high)
        loss_1, loss_2 = coef_1 * advantage[:, None], coef_2 * advantage[:, None]
        loss = -torch.min(loss_1, loss_2).expand(S, L)
        clipped = (loss_2 < loss_1).expand(S, L)
        if o.get("beta"):
            x = ref[at] - logp[at]
            kl = torch.exp(x) - x - 1
            loss = loss + o["beta"] * kl
        if o.get("by_token"):
            total = (loss * mask).sum() / count
        else:
            total = ((loss * mask).sum(-1) / mask.sum(-1).clamp(min=1)).sum() / count
        out = {"loss": total}
        if o.get("with_metrics"):
            out["clipped"] = (clipped * mask).sum()
            if o.get("beta"):
                out["kl"] = (kl * mask).sum().detach()
        return out
    return reference


def packed(S, T):
    """S sequences one after another, each a prompt (-1) and a completion; number 2 has none."""
    parts = []
    for s in range(S):
        n = 0 if s == 2 else int(golden.integers(1, 2 * T // S, 1))
        parts += [-1] * int(golden.integers(0, 4, 1)) + [s] * n
    return torch.tensor(parts + [-1], dtype=torch.int32)


for name, o in (("grpo", {}), ("grpo beta", {"beta": 0.04, "with_metrics": 1}),
                ("dapo", {"by_token": 1, "beta": 0.04}),
                ("dr_grpo", {"by_token": 1, "with_metrics": 1}),
                ("gspo", {"sequence": 1}), ("gspo tokens", {"sequence": 1, "by_token": 1,
                                                            "beta": 0.25, "with_metrics": 1})):
    S = 7
    segment = packed(S, 60)
    T = len(segment)
    logp = golden.uniform(-6, 0, T)
    one = {"logp": logp, "old": logp + golden.normal(T, scale=0.4), "segment": segment,
           "advantage": golden.normal(S),
           "count": torch.tensor({"dapo": float((segment >= 0).sum()), "dr_grpo": S * 32.0}
                                 .get(name, float(S)), dtype=torch.float64)}
    one["advantage"][0] = 0
    if o.get("beta"):
        one["ref"] = logp + golden.normal(T, scale=0.5)
        one["ref"][segment < 0] = 3e4
    one["old"][segment < 0] = -3e4  # exp() of what counts nowhere would be infinite
    f.case("grpo", "f32", grpo(o, 0.1875, 0.28125, S), one,
           {"logp": "T", "old": "T", "ref": "T", "segment": "T", "advantage": "S"}, name, o,
           {"clip_low": 0.1875, "clip_high": 0.28125}, grads=["logp"])

f.write()
