#!/usr/bin/env python3
"""Goldens of the optimizers: torch.optim on the same state; bitsandbytes for 8-bit states (bnb.py,
compared with its CPU operator); Lion by its paper."""
import bitsandbytes  # noqa: F401 (its operators)
import numpy as np
import torch

import bnb
import golden

f = golden.Family("optimizers")
T = torch.from_numpy
STEP = 3  # the step that the cases are at
B1, B2 = 0.9, 0.999
LR = 1e-2


def scalar(x):
    return torch.tensor(x, dtype=torch.float64)


def moments(n):
    return {"p": golden.normal(n), "m": golden.normal(n, scale=0.1),
            "v": golden.normal(n, scale=0.1) ** 2, "g": golden.normal(n)}


ADAM = {"lr": scalar(LR), "bc1": scalar(1 - B1**STEP), "bc2": scalar(1 - B2**STEP)}


def step_of(kind, p, g, state, **options):
    """One step of a torch.optim class from the given state: the new parameter and state."""
    p = torch.nn.Parameter(p.detach().clone())
    o = kind([p], **options)
    p.grad = g.detach().clone()
    o.state[p] = {k: v.detach().clone() if torch.is_tensor(v) else v for k, v in state.items()}
    o.step()
    return p.detach(), o.state[p]


def adamw(p, m, v, g, lr, bc1, bc2, coef, decay):
    new, s = step_of(torch.optim.AdamW, p, g * coef,
                     {"step": torch.tensor(float(STEP - 1)), "exp_avg": m, "exp_avg_sq": v},
                     lr=LR, betas=(B1, B2), eps=1e-8, weight_decay=decay, foreach=False)
    return {"p_out": new, "m_out": s["exp_avg"], "v_out": s["exp_avg_sq"]}


FLAT = {k: "N" for k in ("p", "m", "v", "g")}
F32 = {k: "f32" for k in ("p", "m", "v", "g", "row", "col", "lr_scale", "decay")}
for n in (17, 200):
    for decay in (0.0, 0.1):
        for coef in (1.0, 0.25):
            f.case("adamw", "f32", lambda decay=decay, **x: adamw(decay=decay, **x),
                   {**moments(n), **ADAM, "coef": scalar(coef)}, FLAT,
                   f"N={n} decay={decay} coef={coef}", scalars={"decay": decay}, types=F32, grads=[])


def with_copy(p, m, v, g, lr, bc1, bc2, coef):
    out = adamw(p, m, v, g, lr, bc1, bc2, coef, 0.1)
    copy = out["p_out"]
    return {**out, "copy": copy if copy.dtype == torch.float64 else copy.to(torch.bfloat16)}


f.case("adamw", "bf16", with_copy, {**moments(300), **ADAM, "coef": scalar(1)}, FLAT, "copy",
       {"with_copy": 1}, {"decay": 0.1}, types=F32, grads=[])

# ---- bf16 parameters, rounded at random ----


def mix(x, shifts, factors):
    x = x.astype(np.uint64)
    for s, k in zip(shifts, factors):
        x = (x ^ x >> s) * k & 0xffffffff
    return x ^ x >> shifts[-1]


def random_at(index, site, seed):
    """gs_random_at: in [0, 1), a multiple of 2^-24."""
    mix3 = lambda x: mix(x, (17, 11, 15, 14), (0xed5ad4bb, 0xac4c1b51, 0x31848bab))
    mix2 = lambda x: mix(x, (16, 15, 15), (0x21f0aaad, 0xd35a2d97))
    word = lambda x: np.array(x & 0xffffffff, np.uint64)
    k0 = mix3(word(seed ^ 0x9e3779b9))
    k1 = mix3(word(site + int(k0)))
    bits = mix2(mix3(word(index + int(k0))) ^ k1)
    return (bits >> np.uint64(8)).astype(np.float64) * 2.0**-24


def fnv1a(text):
    h = 0x811c9dc5
    for c in text.encode():
        h = (h ^ c) * 0x01000193 & 0xffffffff
    return h


def round_at_random(x, r):
    """To one of the neighbours in bf16: away from zero where r + nearness to it is 1 or more."""
    size = np.abs(x.astype(np.float32))
    low = (size.view(np.uint32) & 0xffff0000).view(np.float32)
    high = ((size.view(np.uint32) & 0xffff0000) + 0x10000).view(np.float32)
    part = (size.astype(np.float64) - low) / (high.astype(np.float64) - low)
    return np.copysign(np.where(r + part >= 1, high, low), x)


def adamw_bf16(p, m, v, g, lr, bc1, bc2, coef, seed):
    out = adamw(p.to(m.dtype), m, v, g, lr, bc1, bc2, coef, 0.1)
    if m.dtype == torch.float32:
        r = random_at(np.arange(p.numel()), fnv1a("adamw_bf16"), int(seed))
        out["p_out"] = T(round_at_random(out["p_out"].numpy(), r)).to(torch.bfloat16)
    return out


for n, seed in ((17, 5), (400, 12345)):
    f.case("adamw_bf16", "bf16", adamw_bf16,
           {**moments(n), **ADAM, "coef": scalar(0.5), "seed": scalar(float(seed))}, FLAT, f"N={n}",
           scalars={"decay": 0.1}, types={**F32, "p": "bf16"},
           bits=["p_out"], grads=[])

# ---- segments ----

SEGMENT = torch.tensor([0, 2, 2, 1], dtype=torch.int32)


def groups(n):
    return {"segment": SEGMENT[:-(-n // 256)], "lr_scale": torch.tensor([1.0, 0.5, 2.0]).double(),
            "decay": torch.tensor([0.1, 0.0, 0.01]).double()}


def segments(p, m, v, g, segment, lr_scale, decay, lr, bc1, bc2, coef):
    out = {"p_out": p.clone(), "m_out": m.clone(), "v_out": v.clone()}
    for b, s in enumerate(segment.tolist()):
        at = slice(256 * b, 256 * b + 256)
        new, state = step_of(torch.optim.AdamW, p[at], g[at] * coef,
                             {"step": torch.tensor(float(STEP - 1)), "exp_avg": m[at],
                              "exp_avg_sq": v[at]}, lr=LR * float(lr_scale[s]), betas=(B1, B2),
                             eps=1e-8, weight_decay=float(decay[s]), foreach=False)
        out["p_out"][at], out["m_out"][at], out["v_out"][at] = \
            new, state["exp_avg"], state["exp_avg_sq"]
    return out


SEGMENTED = {**FLAT, "segment": "B", "lr_scale": "S", "decay": "S"}
for n in (512, 1000, 300):
    f.case("adamw_segments", "f32", segments,
           {**moments(n), **groups(n), **ADAM, "coef": scalar(0.5)}, SEGMENTED, f"N={n}",
           types=F32, grads=[])

# ---- 8-bit states ----


def adamw_8bit(dtype):
    def reference(p, g, state1, state2, absmax1, absmax2, segment, lr_scale, decay, lr, bc1, bc2,
                  coef):
        double = absmax1.dtype == torch.float64
        number = np.float64 if double else np.float32
        n = p.numel()
        each = lambda t: t.numpy()[segment.numpy()].repeat(256)[:n]

        def round_p(x):
            return x if double else T(x).to(golden.TYPES[dtype]).float().numpy()
        new, q1, q2, a1, a2 = bnb.adam_8bit(
            p.to(absmax1.dtype).numpy(), g.numpy(), state1.numpy(), state2.numpy(),
            absmax1.numpy(), absmax2.numpy(), number(lr.item()) * number(each(lr_scale)), bc1.item(),
            bc2.item(), 1e-8, each(decay), coef.item(), B1, B2, round_p, number)
        return {"p_out": T(new) if double else T(new).to(golden.TYPES[dtype]),
                "state1_out": T(q1), "state2_out": T(q2), "absmax1_out": T(a1), "absmax2_out": T(a2)}
    return reference


def compare_with_bitsandbytes(x, n):
    """Its CPU operator, whose search of codes is approximate: states that are nearly the same, and
    a parameter that differs by lr²·decay."""
    p, g = x["p"].float(), x["g"].float()
    s = {k: x[k].clone() for k in ("state1", "state2")}
    a = {k: x[k].float() for k in ("absmax1", "absmax2")}
    want = adamw_8bit("f32")(p, g, **s, **a, segment=torch.zeros(4, dtype=torch.int32)[:-(-n // 256)],
                             lr_scale=torch.ones(1), decay=torch.tensor([0.1]),
                             lr=ADAM["lr"].float(), bc1=ADAM["bc1"].float(), bc2=ADAM["bc2"].float(),
                             coef=torch.tensor(1.0))
    new = p.clone()
    torch.ops.bitsandbytes.optimizer_update_8bit_blockwise(
        "adam", g, new, s["state1"], s["state2"], B1, B2, 0.0, 0.0, 1e-8, STEP, LR, T(bnb.SIGNED.copy()),
        T(bnb.UNSIGNED.copy()), a["absmax1"], a["absmax2"], 0.1, 1.0, False)
    for k, table in ((1, T(bnb.SIGNED)), (2, T(bnb.UNSIGNED))):
        apart = (table[s[f"state{k}"].int()] - table[want[f"state{k}_out"].int()]).abs()
        assert apart.max() < 0.02 and (apart > 0).float().mean() < 0.05, apart.max()
        assert torch.allclose(a[f"absmax{k}"], want[f"absmax{k}_out"], rtol=1e-4)
    assert torch.allclose(new, want["p_out"], atol=1e-3), (new - want["p_out"]).abs().max()


for n, dtype in ((512, "f32"), (1000, "f32"), (300, "bf16"), (7, "f32")):
    b = -(-n // 256)
    x = {"p": golden.normal(n), "g": golden.normal(n),
         "state1": golden.integers(0, 256, n, dtype=torch.uint8),
         "state2": golden.integers(0, 256, n, dtype=torch.uint8),
         "absmax1": golden.uniform(0, 0.5, b), "absmax2": golden.uniform(0, 0.5, b)}
    compare_with_bitsandbytes(x, n)
    if n == 1000:  # a block of zeros; gradients that are not finite
        x["g"][256:512] = 0
        x["absmax1"][1] = x["absmax2"][1] = 0
        x["g"][3], x["g"][600] = float("inf"), float("nan")
    dims = {"p": "N", "g": "N", "state1": "N", "state2": "N", "absmax1": "B", "absmax2": "B",
            "segment": "B", "lr_scale": "S", "decay": "S"}
    f.case("adamw_8bit", dtype, adamw_8bit(dtype), {**x, **groups(n), **ADAM, "coef": scalar(0.5)},
           dims, f"N={n}", types={**F32, "p": dtype, "absmax1": "f32", "absmax2": "f32"},
           bits=["absmax1_out", "absmax2_out"], grads=[])

# ---- Lion, SGD ----


def lion(p, m, g, lr, coef):
    b1, b2, decay = 0.9, 0.99, 0.1
    g = g * coef
    new = p * (1 - lr * decay) - lr * torch.sign(b1 * m + (1 - b1) * g)
    return {"p_out": new, "m_out": b2 * m + (1 - b2) * g}


x = moments(200)
del x["v"]
x["m"][:5], x["g"][:5] = 0, 0
f.case("lion", "f32", lion, {**x, "lr": scalar(LR), "coef": scalar(0.5)}, {k: "N" for k in "pmg"},
       scalars={"decay": 0.1}, types=F32, grads=[])

for first in (True, False):
    for nesterov in (0, 1):
        for dampening in (0.0, 0.3):
            if nesterov and dampening:
                continue

            def sgd(p, m, g, lr, take, coef, first=first, nesterov=nesterov, dampening=dampening):
                new, s = step_of(torch.optim.SGD, p, g * coef,
                                 {} if first else {"momentum_buffer": m}, lr=LR, momentum=0.9,
                                 dampening=dampening, weight_decay=0.1, nesterov=bool(nesterov),
                                 foreach=False)
                return {"p_out": new, "m_out": s["momentum_buffer"]}
            x = moments(100)
            del x["v"]
            if first:
                x["m"] *= 0
            f.case("sgd", "f32", sgd,
                   {**x, "lr": scalar(LR), "take": scalar(1 if first else 1 - dampening),
                    "coef": scalar(0.5)}, {k: "N" for k in "pmg"},
                   f"first={first} nesterov={nesterov} dampening={dampening}",
                   {"nesterov": nesterov}, {"decay": 0.1, "momentum": 0.9}, types=F32, grads=[])

# ---- Adafactor ----


def adafactor(lr):
    def reference(p, g, coef, row=None, col=None, v=None, **scalars):
        state = {"step": torch.tensor(float(STEP - 1))}
        if v is None:
            state |= {"row_var": row.view(-1, 1), "col_var": col.view(1, -1)}
        else:
            state |= {"variance": v}
        new, s = step_of(torch.optim.Adafactor, p, g * coef, state, lr=lr, weight_decay=0.1,
                         eps=(2.0**-23, 1e-3), foreach=False)
        if v is None:
            return {"p_out": new, "row_out": s["row_var"].view(-1), "col_out": s["col_var"].view(-1)}
        return {"p_out": new, "v_out": s["variance"]}
    return reference


for lr in (0.01, 2.0):
    RATE = {"lr": scalar(lr), "rate": scalar(min(lr, STEP**-0.5)), "mix": scalar(STEP**-0.8),
            "coef": scalar(0.5)}
    for r, c in ((5, 17), (21, 33), (1, 7)):
        f.case("adafactor", "f32", adafactor(lr),
               {"p": golden.normal(r, c), "g": golden.normal(r, c, scale=3),
                "row": golden.normal(r) ** 2, "col": golden.normal(c) ** 2, **RATE},
               {"p": "R C", "g": "R C", "row": "R", "col": "C"}, f"{r}x{c} lr={lr}",
               scalars={"decay": 0.1}, types=F32, grads=[])
    f.case("adafactor_vector", "f32", adafactor(lr),
           {"p": golden.normal(100), "g": golden.normal(100, scale=3), "v": golden.normal(100) ** 2,
            **RATE}, {k: "N" for k in "pgv"}, f"lr={lr}", scalars={"decay": 0.1}, types=F32, grads=[])

# ---- Muon's elementwise parts ----

for nesterov in (0, 1):
    def muon_momentum(m, g, coef, nesterov=nesterov):
        g = g * coef
        m = m.lerp(g, 1 - 0.95)
        u = g.lerp(m, 0.95) if nesterov else m
        return {"m_out": m, "u": u if u.dtype == torch.float64 else u.to(torch.bfloat16)}
    f.case("muon_momentum", "bf16", muon_momentum,
           {"m": golden.normal(300), "g": golden.normal(300), "coef": scalar(0.5)},
           {k: "N" for k in "mg"}, f"nesterov={nesterov}", {"nesterov": nesterov}, types=F32, grads=[])


def muon_update(p, o, lr):
    adjust = max(1, 3 / 2) ** 0.5
    return {"p_out": (p * (1 - LR * 0.1)).add(o.to(p.dtype), alpha=-LR * adjust)}


f.case("muon_update", "bf16", muon_update,
       {"p": golden.normal(300), "o": golden.normal(300, scale=0.1), "lr": scalar(LR)},
       {"p": "N", "o": "N"}, scalars={"adjust": 1.5**0.5, "decay": 0.1}, types=F32, grads=[])

# ---- the norm of all gradients ----

for name, scale in (("ordinary", 1.0), ("small", 1e-3), ("huge", 1e25), ("tiny", 1e-15)):
    def grad_norm(g):
        total = torch.linalg.vector_norm(g)
        if g.dtype == torch.float32 and not torch.isfinite(total):  # torch's own overflows
            total = torch.linalg.vector_norm(g.double())
        return {"norm": total.to(g.dtype), "coef": (1.0 / (total + 1e-6)).clamp(max=1.0).to(g.dtype)}
    f.case("grad_norm", "f32", grad_norm, {"g": golden.normal(1000, scale=scale)}, {"g": "N"}, name,
           scalars={"max_norm": 1.0}, types=F32, grads=[])

# ---- everything in the storage type ----

for dtype in ("f32", "bf16"):
    f.case("adamw_storage", dtype, lambda **x: adamw(decay=0.1, **x),
           {**moments(301), **ADAM, "coef": scalar(1)}, FLAT, scalars={"decay": 0.1},
           types={k: "f32" for k in ADAM} | {"coef": "f32"}, grads=[])

f.write()
