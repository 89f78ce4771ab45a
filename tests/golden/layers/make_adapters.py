#!/usr/bin/env python3
"""Goldens of the adapter layers. The references are peft's formulas (LoraLayer, DoraLinearLayer);
before anything is written they are held against peft's own modules."""
import torch
from peft.tuners.lora.dora import DoraLinearLayer

import golden

f = golden.Family("adapters")


def lora(base, delta, scale):
    return base + delta * scale.to(base.dtype)


def lora_bias(base, delta, bias, scale):
    return base + (delta + bias) * scale.to(base.dtype)


def dora(base, delta, m, norm, scale):
    c = (m / norm).to(base.dtype).view(1, -1)
    return base + (c - 1) * base + c * delta * scale.to(base.dtype)


def dora_norm(w, ba, scale):
    return {"norm": torch.linalg.norm((w + scale.to(w.dtype) * ba).float(), dim=1)}


def dora_weight(w, ba, m, scale):
    v = w.detach() + scale.to(w.dtype) * ba
    return (m / torch.linalg.norm(v, dim=1).detach()).view(-1, 1) * v


def hold_against_peft():
    torch.manual_seed(1)
    base, A, B = (torch.nn.Linear(i, o, bias=b)
                  for i, o, b in ((7, 5, True), (7, 2, False), (2, 5, False)))
    layer = DoraLinearLayer(False)
    layer.update_layer(base_layer=base, lora_A=A.weight, lora_B=B.weight, scaling=0.7)
    layer.weight.data *= 1.3
    x = torch.randn(3, 7)
    want = base(x) + layer(x, lora_A=A, lora_B=B, scaling=0.7, base_layer=base, base_result=base(x))
    ba = B.weight @ A.weight
    s = torch.tensor(0.7)
    norm = dora_norm(base.weight, ba, s)["norm"]
    got = dora(base(x) - base.bias, B(A(x)), layer.weight, norm, s) + base.bias
    assert torch.allclose(want, got, atol=1e-6)
    merged = x @ dora_weight(base.weight, ba, layer.weight, s).T + base.bias
    assert torch.allclose(want, merged, atol=1e-6)


hold_against_peft()
for dtype in ("f32", "bf16", "f16"):
    for T, H in ((5, 17), (7, 40)):
        base, delta = golden.normal(T, H), golden.normal(T, H, scale=0.3)
        m, norm = golden.uniform(0.5, 2, H), golden.uniform(0.5, 2, H)
        for name, scale in ((f"H={H}", 2.0), (f"rslora H={H}", 16 / 8**0.5)):
            scalars = {"scale": scale}
            s = torch.tensor(scale, dtype=torch.float64)
            f.case("lora", dtype, lambda base, delta: lora(base, delta, s),
                   {"base": base, "delta": delta}, {"base": "T H", "delta": "T H"}, name,
                   scalars=scalars)
        f.case("lora_bias", dtype, lambda base, delta, bias: lora_bias(base, delta, bias, s),
               {"base": base, "delta": delta, "bias": golden.normal(H)},
               {"base": "T H", "delta": "T H", "bias": "H"}, name, scalars=scalars)
        f.case("dora", dtype, lambda base, delta, m, norm: dora(base, delta, m, norm, s),
               {"base": base, "delta": delta, "m": m, "norm": norm},
               {"base": "T O", "delta": "T O", "m": "O", "norm": "O"}, name, scalars=scalars,
               types={"norm": "f32"}, grads=["base", "delta", "m"])
        w, ba = golden.normal(T, H, scale=0.2), golden.normal(T, H, scale=0.02)
        f.case("dora_norm", dtype, lambda w, ba: dora_norm(w, ba, s), {"w": w, "ba": ba},
               {"w": "O I", "ba": "O I"}, name, scalars=scalars, grads=[])
        f.case("dora_weight", dtype, lambda w, ba, m: dora_weight(w, ba, m, s),
               {"w": w, "ba": ba, "m": golden.uniform(0.5, 2, T)},
               {"w": "O I", "ba": "O I", "m": "O"}, name, scalars=scalars, grads=["ba", "m"])

f.write()
