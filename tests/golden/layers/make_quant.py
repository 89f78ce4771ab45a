#!/usr/bin/env python3
"""Goldens of quantisation. 4 and 8 bits: bitsandbytes (bnb.py); 4 bits are also compared with what
its own operators give. FP8: torch's float8 types. MXFP4: transformers' reading of gpt-oss files."""
import bitsandbytes.functional as F
import numpy as np
import torch
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

import bnb
import golden

f = golden.Family("quant")
T = torch.from_numpy


def sample(n):
    """Ordinary numbers of different sizes, with blocks of zeros and of one number among them."""
    x = golden.normal(n) * torch.exp(golden.normal(n // 64 + 1)).repeat_interleave(64)[:n]
    if n > 300:
        x[64:128] = 0
        x[128:192] = 0
        x[140] = -3.25
    return x


def array(x):
    return x.detach().float().numpy()


def compare_with_bitsandbytes(x, block, kind, q):
    n = x.numel() // block * block  # its CPU backend divides in the last, short block
    theirs = F.quantize_4bit(x[:n], blocksize=block, quant_type=kind)[0].numpy().reshape(-1)
    ours = q[:n // 2]
    if kind == "nf4":
        assert np.array_equal(theirs, ours)
    else:  # it has two zeros, and ties (of bf16 numbers) go down in its Python form
        low, high = (bnb.FP4[theirs & 15] == bnb.FP4[ours & 15],
                     bnb.FP4[theirs >> 4] == bnb.FP4[ours >> 4])
        assert (~(low & high)).sum() <= 3


def four_bits(kind, block):
    def reference(x):
        q, absmax = bnb.quantize_4bit(array(x), block, kind)
        return {"q": T(q), "absmax": T(absmax)}
    return reference


for kind in ("nf4", "fp4"):
    for n, block in ((1000, 64), (16, 1024), (199, 64), (1, 64), (1030, 1024)):
        for dtype in ("f32", "bf16", "f16") if n == 1000 else ("f32",):
            x = sample(n)
            stored = x.to(golden.TYPES[dtype])
            q, absmax = bnb.quantize_4bit(array(stored), block, kind)
            compare_with_bitsandbytes(stored.float(), block, kind, q)
            name = f"N={n} block={block}"
            f.case(f"{kind}_quantize", dtype, four_bits(kind, block), {"x": x}, {"x": "N"}, name,
                   {"block": block}, bits=["absmax"], grads=[])

            def back(q, absmax, n=n, block=block, kind=kind, dtype=dtype):
                table = torch.from_numpy(bnb.NF4 if kind == "nf4" else bnb.FP4)
                c = torch.stack([q >> 4, q & 15], 1).reshape(-1)[:n].long()
                y = table.to(absmax.dtype)[c] * absmax.repeat_interleave(block)[:n]
                return {"x": y if absmax.dtype == torch.float64 else y.to(golden.TYPES[dtype])}
            state = F.QuantState(T(absmax), (n,), T(bnb.NF4 if kind == "nf4" else bnb.FP4), block,
                                 kind, golden.TYPES[dtype])
            if n % 2 == 0:
                want = F.dequantize_4bit(T(q).view(-1, 1), state)
                assert torch.equal(want.reshape(-1), back(T(q), T(absmax))["x"])
            f.case(f"{kind}_dequantize", dtype, back, {"q": T(q), "absmax": T(absmax).double()},
                   {"q": "P", "absmax": "B", "sizes": {"N": n}}, name, {"block": block},
                   types={"absmax": "f32"}, bits=["x"], grads=[])

for n in (5, 256, 700):
    x = golden.normal(n).abs()

    def nested(x):
        offset = x.mean()
        q, absmax = bnb.quantize_8bit(array(x - offset), 256)
        return {"q": T(q), "absmax": T(absmax).to(x.dtype), "offset": offset}
    f.case("absmax_quantize", "f32", nested, {"x": x}, {"x": "N"}, f"N={n}", grads=[])

for n, block in ((1000, 64), (32 * 258 - 1, 32)):
    x = array(sample(n))
    q, absmax = bnb.quantize_4bit(x, block, "nf4")
    offset = absmax.mean()
    qa, absmax2 = bnb.quantize_8bit(absmax - offset, 256)

    def back(q, q_absmax, absmax2, offset, n=n, block=block):
        real = absmax2.dtype
        a = T(bnb.SIGNED).to(real)[q_absmax.long()]
        a = a * absmax2.repeat_interleave(256)[:q_absmax.numel()]
        c = torch.stack([q >> 4, q & 15], 1).reshape(-1)[:n].long()
        y = T(bnb.NF4).to(real)[c] * (a + offset).repeat_interleave(block)[:n]
        return {"x": y if real == torch.float64 else y.to(torch.bfloat16)}
    f.case("nf4_double_dequantize", "bf16", back,
           {"q": T(q), "q_absmax": T(qa), "absmax2": T(absmax2).double(),
            "offset": torch.tensor(float(offset), dtype=torch.float64)},
           {"q": "P", "q_absmax": "B", "absmax2": "C", "sizes": {"N": n}}, f"N={n}",
           {"block": block}, types={"absmax2": "f32"}, bits=["x"], grads=[])

for n, block in ((700, 256), (300, 4096), (1, 256), (4097, 4096)):
    for dtype in ("f32", "bf16") if n == 700 else ("f32",):
        x = sample(n)

        def eight_bits(x, block=block):
            q, absmax = bnb.quantize_8bit(array(x), block)
            return {"q": T(q), "absmax": T(absmax)}
        f.case("int8_quantize", dtype, eight_bits, {"x": x}, {"x": "N"}, f"N={n} block={block}",
               {"block": block}, bits=["absmax"], grads=[])
        if n > 4096:
            continue
        q, absmax = bnb.quantize_8bit(array(x), block)

        def back(q, absmax, n=n, block=block, dtype=dtype):
            y = T(bnb.SIGNED).to(absmax.dtype)[q.long()] * absmax.repeat_interleave(block)[:n]
            return {"x": y if absmax.dtype == torch.float64 else y.to(golden.TYPES[dtype])}
        f.case("int8_dequantize", dtype, back, {"q": T(q), "absmax": T(absmax).double()},
               {"q": "N", "absmax": "B"}, f"N={n} block={block}", {"block": block},
               types={"absmax": "f32"}, bits=["x"], grads=[])


def fp8(part, wide, power):
    largest, kind = (57344.0, torch.float8_e5m2) if wide else (448.0, torch.float8_e4m3fn)

    def reference(x):
        x = T(array(x))  # codes are those of the f32 arithmetic
        a = torch.nn.functional.pad(x.abs(), (0, -x.shape[1] % 128, 0, -x.shape[0] % 128))
        t, h = a.shape[0] // 128, a.shape[1] // 128
        amax = [lambda: a.amax(), lambda: x.abs().amax(1),
                lambda: a[:x.shape[0]].view(-1, h, 128).amax(2),
                lambda: a.view(t, 128, h, 128).amax((1, 3))][part]()
        scale = amax.clamp(min=2.0**-100) / torch.tensor(largest)
        if power:
            m, e = torch.frexp(scale)
            e = torch.where(m == 0.5, e - 1, e)
            scale = torch.ldexp(torch.ones_like(scale), e)
        wide_scale = [lambda: scale, lambda: scale[:, None],
                      lambda: scale.repeat_interleave(128, 1)[:, :x.shape[1]],
                      lambda: scale.repeat_interleave(128, 0)[:x.shape[0]]
                      .repeat_interleave(128, 1)[:, :x.shape[1]]][part]()
        q = (x / wide_scale).to(kind)
        out = {"q_e5m2" if wide else "q": q}
        out["scale_e8m0" if power else "scale"] = scale.to(torch.float8_e8m0fnu) if power else scale
        return out
    return reference


for part in range(4):
    x = golden.normal(*((5, 60), (3, 129), (3, 200), (129, 30))[part], scale=3)
    x[1] = 0
    for wide in (0, 1):
        for power in (0, 1):
            dtype = "bf16" if power or part else "f32"
            names = ["q_e5m2" if wide else "q", "scale_e8m0" if power else "scale"]
            f.case("fp8_quantize", dtype, fp8(part, wide, power), {"x": x}, {"x": "T H"},
                   f"part={part} wide={wide} power={power}",
                   {"part": part, "wide": wide, "power": power}, bits=names, grads=[])

for part, layer in enumerate(("tensor", "row", "block", "tile")):
    for wide in (0, 1):
        t, h = ((5, 60), (3, 129), (3, 200), (129, 30))[part]
        if wide and part >= 2:
            continue
        out = fp8(part, wide, 0)(golden.normal(t, h, scale=3))
        q = out["q_e5m2" if wide else "q"]

        def back(q, scale, part=part, t=t, h=h):
            if part == 1:
                scale = scale[:, None]
            if part >= 2:
                scale = scale.repeat_interleave(128, 1)[:, :h]
            if part == 3:
                scale = scale.repeat_interleave(128, 0)[:t]
            y = q.to(scale.dtype) * scale
            return {"x": y if scale.dtype == torch.float64 else y.to(torch.bfloat16)}
        f.case(f"fp8_dequantize_{layer}" + ("_e5m2" if wide else ""), "bf16", back,
               {"q": q, "scale": out["scale"].double()},
               {"q": "T H", "scale": ["", "T", "T Hb", "Tb Hb"][part]}, "",
               types={"scale": "f32"}, bits=["x"], grads=[])

for rows, groups in ((3, 5), (7, 1)):
    q = golden.integers(0, 256, rows, groups, 16, dtype=torch.uint8)
    scale = golden.integers(100, 140, rows, groups, dtype=torch.uint8)

    def mxfp4(q, scale):
        y = convert_moe_packed_tensors(q[None], scale.view(torch.uint8)[None], dtype=torch.float32)
        y = y[0].T.contiguous()  # it turns the matrix round
        return {"x": y if torch.get_default_dtype() == torch.float64 else y.to(torch.bfloat16)}
    f.case("mxfp4_dequantize", "bf16", mxfp4, {"q": q, "scale": scale.view(torch.float8_e8m0fnu)},
           {"q": "R G k2", "scale": "R G"}, f"R={rows} G={groups}", bits=["x"], grads=[])

f.write()
