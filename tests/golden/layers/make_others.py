#!/usr/bin/env python3
"""Goldens of softmax, dropout, embedding, the router, residual scale and pooling. References: torch;
transformers' Mixtral and Qwen3-MoE routers (softmax), DeepseekV3TopkRouter (sigmoid, bias for the
choice) with one group, GraniteDecoderLayer (residual multiplier), Gemma's embedding scale;
sentence-transformers' mean pooling. The random numbers of dropout are those of
runtime/base/random.h, written out here again."""
import numpy
import torch
import torch.nn.functional as F

import golden

f = golden.Family("others")

for dtype in ("f32", "bf16", "f16"):
    for T, V, scale in ((5, 17, 1), (3, 130, 20)):
        x = {"x": golden.normal(T, V, scale=scale)}
        name = f"V={V}"
        f.case("softmax", dtype, lambda x: torch.softmax(x, -1), x, {"x": "T V"}, name)
        f.case("log_softmax", dtype, lambda x: torch.log_softmax(x, -1), x, {"x": "T V"}, name)


# ---- dropout ----

def mix(x, steps):
    mask = numpy.uint64(0xffffffff)
    for shift, factor in steps:
        x = x ^ (x >> numpy.uint64(shift))
        x = (x * numpy.uint64(factor)) & mask
    return x


def mix3(x):
    x = mix(x, ((17, 0xed5ad4bb), (11, 0xac4c1b51), (15, 0x31848bab)))
    return x ^ (x >> numpy.uint64(14))


def mix2(x):
    x = mix(x, ((16, 0x21f0aaad), (15, 0xd35a2d97)))
    return x ^ (x >> numpy.uint64(15))


def fnv1a32(text):
    h = 0x811c9dc5
    for c in text.encode():
        h = ((h ^ c) * 0x01000193) & 0xffffffff
    return h


def random_at(count, site, seed):
    """gs_random_at of 0 .. count-1 (count below 2^32)."""
    u, mask = numpy.uint64, numpy.uint64(0xffffffff)
    k0 = mix3(u(seed) ^ u(0x9e3779b9))
    k1 = mix3((u(fnv1a32(site)) + k0) & mask)
    low = numpy.arange(count, dtype=numpy.uint64)
    bits = mix2(mix3((low + k0) & mask) ^ k1)
    return torch.from_numpy((bits >> u(8)).astype(numpy.float64) * 2.0**-24)


def dropout(rate):
    def reference(x, seed):
        keep = random_at(x.numel(), "dropout", int(seed)).reshape(x.shape) >= rate
        return torch.where(keep, x * (1 / (1 - rate)) if rate < 1 else x, 0).to(x.dtype)
    return reference


for dtype in ("f32", "bf16"):
    for T, H, rate, seed in ((7, 17, 0.125, 1), (3, 64, 0.5, 90210), (2, 9, 0, 3), (2, 9, 1, 3)):
        f.case("dropout", dtype, dropout(rate),
               {"x": golden.normal(T, H), "seed": torch.tensor(float(seed))}, {"x": "T H"},
               f"rate {rate}", {}, {"rate": rate}, grads=["x"], bits=["y", "dx"])


# ---- embedding, residual scale, pooling ----

def embedding(gemma, padding):
    def reference(E, id):
        y = F.embedding(id.long(), E, padding_idx=padding if padding >= 0 else None)
        return y * torch.tensor(E.shape[1] ** 0.5, dtype=E.dtype) if gemma else y
    return reference


for dtype in ("f32", "bf16"):
    for gemma, padding in ((0, -1), (1, -1), (0, 3), (1, 0)):
        f.case("embedding", dtype, embedding(gemma, padding),
               {"E": golden.normal(11, 24), "id": golden.integers(0, 11, 40)},
               {"E": "V H", "id": "T"}, f"gemma {gemma} padding {padding}",
               {"gemma": gemma, "padding": padding}, bits=["y"])
    f.case("residual_scale", dtype, lambda x, r: x + r * 0.22,
           {"x": golden.normal(5, 17), "r": golden.normal(5, 17)}, {"x": "T H", "r": "T H"}, "",
           {}, {"scale": 0.22}, bits=["y"])
    segment = torch.tensor([-1, 0, 0, 0, 0, 1, 3, 3, 3, 3, 3, 3, 3, -1], dtype=torch.int32)
    f.case("mean_pool", dtype,
           lambda x, segment: torch.stack([x[segment == s].float().sum(0) / max(
               int((segment == s).sum()), 1) for s in range(4)]).to(x.dtype),
           {"x": golden.normal(14, 17), "segment": segment},
           {"x": "T H", "segment": "T", "sizes": {"S": 4}})


# ---- router ----

def router(sigmoid, renormalise, K, scale):
    def reference(logits, bias=None):
        z = logits.float()
        score = torch.sigmoid(z) if sigmoid else torch.softmax(z, -1)
        choice = score + bias if bias is not None else z
        index = torch.tensor([sorted(range(len(c)), key=lambda e: (-c[e], e))[:K]
                              for c in choice.detach().tolist()])
        w = score.gather(-1, index)
        if renormalise:
            w = w / (w.sum(-1, keepdim=True) + (1e-20 if sigmoid else 0))
        return {"w": w * scale, "index": index.int()}
    return reference


for dtype in ("f32", "bf16"):
    for name, sigmoid, renormalise, bias, T, E, K, scale in (
            ("mixtral", 0, 1, 0, 9, 8, 2, 1), ("qwen3-moe", 0, 1, 0, 5, 33, 8, 1),
            ("softmax of all", 0, 0, 0, 5, 16, 4, 1), ("deepseek-v3", 1, 1, 1, 7, 40, 8, 2.5),
            ("llama4", 1, 0, 0, 6, 16, 1, 1), ("biased softmax", 0, 1, 1, 6, 12, 3, 1)):
        one = {"logits": golden.normal(T, E, scale=1.5)}
        one["logits"][0, :] = 0.25  # ties go to the lowest index
        if bias:
            one["bias"] = golden.normal(E, scale=0.5)
        f.case("router", dtype, router(sigmoid, renormalise, K, scale), one,
               {"logits": "T E", "bias": "E"}, name,
               {"top_k": K, "sigmoid": sigmoid, "renormalise": renormalise, "biased": bias},
               {"scale": scale}, types={"bias": "f32"}, grads=["logits"])

f.write()
