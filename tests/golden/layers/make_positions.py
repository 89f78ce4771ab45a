#!/usr/bin/env python3
"""Goldens of rotary positions: rotations, tables, sections, and the error of the angles."""
import math

import torch
from transformers.models.glm.modeling_glm import apply_rotary_pos_emb as glm_rotary
from transformers.models.gpt_neox.modeling_gpt_neox import apply_rotary_pos_emb as neox_rotary
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as llama_rotary
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextRotaryEmbedding

import golden
from golden import normal

f = golden.Family("positions")
TABLE = {"cos": "f32", "sin": "f32"}
DIMS = {"x": "T N D", "cos": "T h", "sin": "T h"}


def rotate(function, x, cos, sin):
    """x [T, N, D], cos and sin [T, h] as transformers wants them."""
    q = x.transpose(0, 1)[None]
    both = [torch.cat((t, t), -1)[None] for t in (cos, sin)]
    return function(q, q, *both)[0][0].transpose(0, 1).to(x.dtype)


def norm(x, w):
    m = LlamaRMSNorm(w.shape[0], 1e-6).to(x.dtype)
    return torch.func.functional_call(m, {"weight": w}, (x,))


def partial(x, cos, sin):
    R = 2 * cos.shape[-1]
    return torch.cat((rotate(neox_rotary, x[..., :R], cos, sin), x[..., R:]), -1)


def glm(x, cos, sin):
    return rotate(glm_rotary, x, cos, sin)


def frequencies(h, base=10000.0):
    return 1.0 / base ** (torch.arange(h, dtype=torch.float64) / h)


def table(pos, h):
    angle = pos[:, None].double() * frequencies(h)
    return {"cos": angle.cos(), "sin": angle.sin()}


def rotations(dtype):
    def case(layer, reference, T, N, D, h, name, pos=None, more=None, **options):
        pos = torch.arange(T) if pos is None else pos
        inputs = {"x": normal(T, N, D), **table(pos, h), **(more or {})}
        dims = {**DIMS, "w": "D"}
        f.case(layer, dtype, reference, inputs, dims, name, options, types=TABLE,
               grads=["x", "w"], upstream=upstream, bits=["y"] if dtype == "bf16" else [])

    upstream = None
    llama = lambda x, cos, sin: rotate(llama_rotary, x, cos, sin)  # noqa: E731
    case("rope", llama, 4, 3, 16, 8, "half-split")
    case("rope", llama, 2, 1, 128, 64, "one head")
    case("rope", llama, 7, 2, 6, 3, "restarts", torch.tensor([0, 1, 2, 0, 1, 5, 40000]))
    case("rope", glm, 5, 2, 16, 8, "pairs", interleaved=1)
    case("rope_partial", partial, 3, 2, 128, 16, "32 of 128")
    case("rope_partial", partial, 3, 2, 20, 3, "6 of 20")
    case("rope_partial", glm, 3, 2, 20, 4, "pairs", interleaved=1)
    case("head_rmsnorm_rope", lambda x, w, cos, sin: rotate(llama_rotary, norm(x, w), cos, sin),
         4, 3, 16, 8, "", more={"w": normal(16, shift=1)})
    f.case("qk_norm_rope", dtype, lambda q, k, q_w, k_w, cos, sin: {
        "q_y": rotate(llama_rotary, norm(q, q_w), cos, sin),
        "k_y": rotate(llama_rotary, norm(k, k_w), cos, sin)},
           {"q": normal(4, 3, 6), "k": normal(4, 1, 6), "q_w": normal(6), "k_w": normal(6),
            **table(torch.arange(4), 3)},
           {"q": "T N D", "k": "T K D", "q_w": "D", "k_w": "D", "cos": "T h", "sin": "T h"},
           scalars={"eps": 1e-6}, types=TABLE, grads=["q", "k", "q_w", "k_w"])
    upstream = {"y": normal(1, 3, 16).expand(5, 3, 16)}
    case("rope", llama, 5, 3, 16, 8, "upstream without a stride")


def turns(freq):
    """(high + low/2^24)/2^24 turns a position."""
    whole = [math.floor(x / (2 * math.pi) * 2.0 ** 48 + 0.5) for x in freq.tolist()]
    return torch.tensor([[n >> 24 for n in whole], [n & 0xffffff for n in whole]],
                        dtype=torch.float64)


def exact_table(pos, freq):
    angle = pos[..., None].double() * freq
    return {"cos": angle.cos(), "sin": angle.sin()}


def tables(name, pos, freq):
    def reference(pos, inv_freq):
        angle = (inv_freq[:, None] @ pos[None].to(inv_freq.dtype)).T
        return {"cos": angle.cos(), "sin": angle.sin()}

    f.case("rope_table", "f32", reference, {"pos": pos, "inv_freq": freq},
           {"pos": "T", "inv_freq": "h"}, f"{name} reference", grads=[],
           exact=lambda pos, inv_freq: exact_table(pos, freq))
    f.case("rope_table", "f32",
           lambda pos, turns: {k: v.float() for k, v in exact_table(pos, freq).items()},
           {"pos": pos, "turns": turns(freq)}, {"pos": "T", "turns": "two h"}, f"{name} exact",
           {"exact": 1}, grads=[], exact=lambda pos, turns: exact_table(pos, freq))


def sections(first, second, third, interleaved):
    h = first + second + third
    pos = golden.integers(0, 3000, 5, 3)
    freq = frequencies(h)

    def reference(pos, inv_freq):
        freqs = pos.T[:, None, :, None].to(inv_freq.dtype) * inv_freq  # axis, batch, T, h
        if interleaved:
            m = Qwen3VLTextRotaryEmbedding.__new__(Qwen3VLTextRotaryEmbedding)
            torch.nn.Module.__init__(m)
            m.mrope_section = [first, second, third]
            whole = [m.recomposition_frequencies(t.clone()) for t in (freqs.cos(), freqs.sin())]
            return {n: t[0, :, :h] for n, t in zip(("cos", "sin"), whole)}
        parts = [m[i][0] for i, m in enumerate(freqs.split([first, second, third], -1))]
        angle = torch.cat(parts, -1)
        return {"cos": angle.cos(), "sin": angle.sin()}

    f.case("mrope_table", "f32", reference, {"pos": pos, "inv_freq": freq},
           {"pos": "T A", "inv_freq": "h"}, f"{first}+{second}+{third} interleaved={interleaved}",
           {"first": first, "second": second, "interleaved": interleaved}, grads=[])


for dtype in ("f32", "bf16"):
    rotations(dtype)
sections(3, 5, 2, 0)
sections(4, 4, 0, 0)
sections(4, 3, 3, 1)
sections(5, 2, 2, 1)
tables("restarts", torch.tensor([0, 1, 2, 0, 1, 7], dtype=torch.int32), frequencies(5))
for top in (8192, 32768, 131072):
    near = torch.arange(top - 16, top, dtype=torch.int32)
    tables(f"{top}", near, frequencies(64, 500000.0))
tables("2^22", torch.arange(2 ** 22 - 4, 2 ** 22, dtype=torch.int32), frequencies(16))
for dtype in ("f32", "bf16"):
    f.case("rope_pair", dtype, lambda q, k, cos, sin: {
        "q_y": rotate(llama_rotary, q, cos, sin), "k_y": rotate(llama_rotary, k, cos, sin)},
           {"q": normal(5, 3, 6), "k": normal(5, 1, 6), **table(torch.arange(5), 3)},
           {"q": "T N D", "k": "T K D", "cos": "T h", "sin": "T h"},
           types=TABLE, grads=["q", "k"], bits=["q_y", "k_y"])
f.write()
