#!/usr/bin/env python3
"""Goldens of the normalisation layers. Followed to the bit: transformers' LlamaRMSNorm (the
product x·rstd is rounded, then times w), Gemma3RMSNorm (times 1 + w in f32, one rounding), the
gated norms of Mamba2 and Qwen3-Next, torch.nn.LayerNorm and GroupNorm."""
import torch
from transformers.models.gemma3.modeling_gemma3 import Gemma3RMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.mamba2.modeling_mamba2 import MambaRMSNormGated
from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextRMSNormGated

import golden
from golden import normal

f = golden.Family("norms")
call = torch.func.functional_call
F = torch.nn.functional


def rms(kind, x, w):
    return call(kind(w.shape[0], 1e-6).to(x.dtype), {"weight": w}, (x,))


def rmsnorms(dtype):
    bits = ["y"] if dtype != "f32" else []
    for gemma, kind in ((0, LlamaRMSNorm), (1, Gemma3RMSNorm)):
        for T, H in ((5, 17), (7, 40)):
            f.case("rmsnorm", dtype, lambda x, w: rms(kind, x, w),
                   {"x": normal(T, H), "w": normal(H, scale=0.5, shift=1 - gemma)},
                   {"x": "T H", "w": "H"}, f"{kind.__name__} H={H}", {"gemma": gemma},
                   {"eps": 1e-6}, bits=bits)
        f.case("head_rmsnorm", dtype, lambda x, w: rms(kind, x, w),
               {"x": normal(3, 4, 16), "w": normal(16, scale=0.5, shift=1 - gemma)},
               {"x": "T N D", "w": "D"}, kind.__name__, {"gemma": gemma}, {"eps": 1e-6}, bits=bits)
    f.case("qk_norm", dtype, lambda q, k, q_w, k_w: {"q_y": rms(LlamaRMSNorm, q, q_w),
                                                     "k_y": rms(LlamaRMSNorm, k, k_w)},
           {"q": normal(3, 4, 6), "k": normal(3, 2, 6), "q_w": normal(6), "k_w": normal(6)},
           {"q": "T N D", "k": "T K D", "q_w": "D", "k_w": "D"}, scalars={"eps": 1e-6},
           bits=["q_y", "k_y"] if dtype != "f32" else [])
    f.case("residual_rmsnorm", dtype,
           lambda x, r, w: {"h": x + r, "y": rms(LlamaRMSNorm, x + r, w)},
           {"x": normal(5, 17), "r": normal(5, 17), "w": normal(17, shift=1)},
           {"x": "T H", "r": "T H", "w": "H"}, scalars={"eps": 1e-6},
           bits=["h", "y"] if dtype != "f32" else ["h"])


def overflow():
    """Values whose squares, and sums of squares, f16 does not hold."""
    for gemma, kind in ((0, LlamaRMSNorm), (1, Gemma3RMSNorm)):
        x = normal(4, 36, scale=2300)
        x[2] = 60000
        f.case("rmsnorm", "f16", lambda x, w: rms(kind, x, w),
               {"x": x, "w": normal(36, scale=0.5, shift=1 - gemma)}, {"x": "T H", "w": "H"},
               f"{kind.__name__} large", {"gemma": gemma}, {"eps": 1e-6}, bits=["y"])


def sandwich(x, r, w, rmsnorm_w):
    y = rms(Gemma3RMSNorm, x, w)
    return {"y": y, "h": y + r, "rmsnorm_y": rms(Gemma3RMSNorm, y + r, rmsnorm_w)}


def layernorms(dtype):
    bits = ["y"] if dtype != "f32" else []
    for T, H, shift in ((5, 17, 0), (6, 32, 0), (1, 1536, 0), (3, 17, 40)):
        if H > 99 and dtype != "f32":
            continue
        w, b = normal(H, shift=1), normal(H)
        f.case("layernorm", dtype, lambda x, w, b: F.layer_norm(x, (H,), w, b),
               {"x": normal(T, H, shift=shift), "w": w, "b": b}, {"x": "T H", "w": "H", "b": "H"},
               f"H={H} about {shift}", scalars={"eps": 1e-5}, bits=[] if shift else bits,
               grads=["x"] if H > 99 else None)
    f.case("layernorm", dtype, lambda x, w: F.layer_norm(x, (17,), w),
           {"x": normal(5, 17), "w": normal(17, shift=1)}, {"x": "T H", "w": "H"}, "no bias",
           {"bias": 0}, bits=bits)
    f.case("residual_layernorm", dtype,
           lambda x, r, w, b: {"h": x + r, "y": F.layer_norm(x + r, (17,), w, b)},
           {"x": normal(5, 17), "r": normal(5, 17), "w": normal(17, shift=1), "b": normal(17)},
           {"x": "T H", "r": "T H", "w": "H", "b": "H"}, bits=["h"] + bits)
    for N, G, c, S in ((2, 3, 2, 7), (3, 1, 5, 4)):
        f.case("groupnorm", dtype,
               lambda x, w, b: F.group_norm(x.reshape(N, G * c, S), G, w.reshape(-1),
                                            b.reshape(-1)).reshape(N, G, c, S),
               {"x": normal(N, G, c, S), "w": normal(G, c, shift=1), "b": normal(G, c)},
               {"x": "N G c S", "w": "G c", "b": "G c"}, f"G={G}", bits=bits)


def gated(dtype):
    bits = ["y"] if dtype != "f32" else []

    def mamba(x, z, w):
        G, H = w.shape
        m = MambaRMSNormGated(G * H, H, 1e-6).to(x.dtype)
        return call(m, {"weight": w.reshape(-1)},
                    (x.reshape(-1, G * H), z.reshape(-1, G * H))).reshape(x.shape)

    def qwen(x, z, w):
        m = Qwen3NextRMSNormGated(w.shape[-1], 1e-6).to(x.dtype)
        return call(m, {"weight": w[0]}, (x, z))

    for T, G, H in ((4, 1, 17), (3, 2, 24)):
        f.case("gated_rmsnorm", dtype, mamba,
               {"x": normal(T, G, H), "z": normal(T, G, H, scale=2), "w": normal(G, H, shift=1)},
               {"x": "T G H", "z": "T G H", "w": "G H"}, f"Mamba2 G={G}", {"gate_first": 1},
               {"eps": 1e-6}, bits=bits)
    f.case("gated_rmsnorm", dtype, qwen,
           {"x": normal(5, 1, 17), "z": normal(5, 1, 17, scale=2), "w": normal(1, 17, shift=1)},
           {"x": "T G H", "z": "T G H", "w": "G H"}, "Qwen3Next", {"gate_first": 0},
           {"eps": 1e-6}, bits=bits)


for dtype in ("f32", "bf16", "f16"):
    rmsnorms(dtype)
for dtype in ("f32", "bf16"):
    layernorms(dtype)
    gated(dtype)
    f.case("sandwich_norm", dtype, sandwich,
           {"x": normal(5, 17), "r": normal(5, 17), "w": normal(17), "rmsnorm_w": normal(17)},
           {"x": "T H", "r": "T H", "w": "H", "rmsnorm_w": "H"}, options={
               "gemma": 1, "rmsnorm_gemma": 1}, scalars={"eps": 1e-6, "rmsnorm_eps": 1e-6},
           bits=["h", "y", "rmsnorm_y"] if dtype != "f32" else [])
    f.case("dyt", dtype, lambda x, alpha, w, b: w * torch.tanh(alpha * x) + b,
           {"x": normal(5, 17), "alpha": torch.tensor(0.6, dtype=torch.float64),
            "w": normal(17, shift=1), "b": normal(17)}, {"x": "T H", "w": "H", "b": "H"},
           types={"alpha": dtype})
overflow()
f.write()
