#!/usr/bin/env python3
"""Goldens of activations and gated activations. The gated ones follow transformers' MLPs, whose
activation is rounded before it is multiplied."""
import torch
from transformers.activations import ACT2FN
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssExperts

import golden
from golden import normal

f = golden.Family("activations")
SINGLE = {"silu": "silu", "gelu": "gelu", "gelu_tanh": "gelu_pytorch_tanh",
          "quick_gelu": "quick_gelu", "relu": "relu", "relu2": "relu2", "sigmoid": "sigmoid"}
GATED = {"swiglu": "silu", "geglu": "gelu", "geglu_tanh": "gelu_pytorch_tanh", "reglu": "relu",
         "reglu2": "relu2"}
EXACT = {"swiglu", "silu", "reglu", "relu", "relu2", "reglu2"}  # equal to the bit in bf16


def values(T, F):
    """Ordinary, and some where exponentials overflow or vanish."""
    x = normal(T, F, scale=3)
    x[0, :6] = torch.tensor([0.0, 30.0, -30.0, 100.0, -100.0, 1e-4])
    return x


def oai(interleaved):
    def reference(x):
        if not interleaved:
            x = torch.stack(x.chunk(2, -1), -1).flatten(-2)
        m = GptOssExperts.__new__(GptOssExperts)
        torch.nn.Module.__init__(m)
        m.alpha, m.limit = 1.702, 7.0
        return m._apply_gate(x)
    return reference


def scaled(gate, up):
    return up * ACT2FN["silu"](gate * 0.7) * 1.3


for dtype in ("f32", "bf16"):
    for name, act in SINGLE.items():
        f.case(name, dtype, lambda x: ACT2FN[act](x), {"x": values(3, 17)}, {"x": "T F"},
               bits=["y"] if dtype == "bf16" and name in EXACT else [])
    f.case("softplus", dtype, torch.nn.functional.softplus, {"x": values(3, 17)}, {"x": "T F"})
    for name, act in GATED.items():
        f.case(name, dtype, lambda gate, up: ACT2FN[act](gate) * up,
               {"gate": values(3, 17), "up": normal(3, 17)}, {"gate": "T F", "up": "T F"},
               bits=["y"] if dtype == "bf16" and name in EXACT else [])
    for interleaved in (0, 1):
        f.case("swiglu_oai", dtype, oai(interleaved), {"x": normal(3, 34, scale=5)},
               {"x": "T G", "sizes": {"F": 17}}, f"interleaved={interleaved}",
               {"interleaved": interleaved}, {"alpha": 1.702, "limit": 7})
    f.case("swiglu_scaled", dtype, scaled, {"gate": values(3, 17), "up": normal(3, 17)},
           {"gate": "T F", "up": "T F"}, scalars={"gate_scale": 0.7, "up_scale": 1.3})
f.write()
