"""Attention of a pack on random batches against float32 in torch: 1 000 configurations by default.

    gradsmith pack --file tests/gpu/random_attention.layers --arch sm_90a --out attention.pack
    PYTHONPATH=examples/torch GRADSMITH_LIBRARY=... python3 tests/gpu/random_attention.py attention.pack [N]

A configuration is a pass of the pack (type, heads, head size, masks), and drawn for it: the lengths of the
documents (none, one, odd ones, keys more or fewer than queries), rows past the last document, which hold NaN,
strides, a scale of the values, and the values. Without cap, sink and prefix the reference is torch's math
backend; with them the formulas of lua/layers/attention.lua. An element may be off by a few roundings of the
sum of its terms' sizes, and by the steps of the type's smallest numbers.
"""
import math
import random
import sys

import torch
import torch.nn.functional as F
from gradsmith_torch import Call, Pack
from torch.nn.attention import SDPBackend, sdpa_kernel

DEV = "cuda"
NAMES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
UNIT = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-18}
# Below 2^-14 numbers of f16 are 2^-24 apart, so that weights p (forward: at most 1 before they are divided by
# their sum, which is at least 1) and ds are rounded by up to half of that however small they are, for each pair.
# bf16 and f32 reach down to 2^-126.
STEP = {"bf16": 1e-30, "f16": 2.0**-25, "f32": 1e-30}


def read(key):
    what, dtype, *rest = key.split("->")[0].split()
    return what, dtype, {n: float(v) for n, v in (w.split("=") for w in rest)}


def seen(o, n_q, n_k, prefix):
    i = torch.arange(n_q, device=DEV)[:, None] + (n_k - n_q)
    j = torch.arange(n_k, device=DEV)[None, :]
    w = o["window"]
    first, last = torch.zeros_like(i), torch.full_like(i, n_k - 1)
    if w > 0: first = i - (int(w) - 1)
    if o["causal"]: last = i
    elif w > 0: last = i + (int(w) - 1)
    if o["prefix"]:
        if w > 0 and prefix > 0: first = torch.zeros_like(i)
        last = last.clamp(min=prefix - 1)
    return (j >= first) & (j <= last), (j - i).float()


def document(o, q, k, v, dy, scale, slopes, sinks, prefix):
    """y, lse and gradients of one document [heads, n, D] in f32, with the sum of their terms' sizes, and of what
    the terms' weights are multiplied with."""
    mask, apart = seen(o, q.shape[1], k.shape[1], prefix)
    s = scale * q @ k.transpose(1, 2)
    z, slope = s, torch.ones_like(s)
    if o["cap"]:
        t = torch.tanh(s / o["cap"])
        z, slope = o["cap"] * t, 1 - t * t
    if o["alibi"]: z = z + slopes[:, None, None] * apart
    z = z.masked_fill(~mask, -math.inf)
    lse = torch.logsumexp(z, 2)
    if o["sink"]: lse = torch.logaddexp(lse, sinks[:, None].expand_as(lse))
    p = torch.where(mask, torch.exp(z - lse[:, :, None]), 0.0)
    y, dp = p @ v, dy @ v.transpose(1, 2)
    delta, size = (dy * y).sum(2, True), (dy.abs() * y.abs()).sum(2, True)
    ds = p * (dp - delta) * slope
    # roundings of scores move p, too
    rough = p * (dy.abs() @ v.abs().transpose(1, 2) + size) * slope.abs()
    turned = lambda m: m.transpose(1, 2)
    out = dict(y=y, dq=scale * ds @ k, dk=scale * turned(ds) @ q, dv=turned(p) @ dy)
    most = dict(y=p @ v.abs(), dq=abs(scale) * rough @ k.abs(), dk=abs(scale) * turned(rough) @ q.abs(),
                dv=turned(p) @ dy.abs())
    every = mask.float().expand_as(p)
    met = dict(y=every @ v.abs(), dq=abs(scale) * every @ k.abs(), dk=abs(scale) * turned(every) @ q.abs(),
               dv=turned(every) @ dy.abs())
    if o["sink"]:
        weight = torch.exp(sinks[:, None] - lse)
        out["dsinks"], most["dsinks"] = -(weight * delta[:, :, 0]).sum(1), (weight * size[:, :, 0]).sum(1)
    return out, most, met, lse


def backend(o, q, k, v, dy, scale, slopes):
    mask, apart = seen(o, q.shape[1], k.shape[1], 0)
    bias = torch.zeros_like(apart).masked_fill(~mask, -math.inf)
    if o["alibi"]: bias = slopes[:, None, None] * apart + bias
    q, k, v = (t.clone().requires_grad_() for t in (q, k, v))
    with sdpa_kernel(SDPBackend.MATH):
        y = F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=bias, scale=scale)[0]
    y.backward(dy)
    return dict(y=y.detach(), dq=q.grad, dk=k.grad, dv=v.grad)


def lengths(r, n):
    pick = lambda: r.choice([0, 1, 2, 63, 64, 65, 127, 128, 129, r.randrange(1, 400)])
    return [pick() for _ in range(n)]


def rows(n, heads, d, dtype, slack, size):
    """[n, heads, d] of a wider buffer, as a slice of a fused projection is."""
    wide = (torch.randn(n, heads * d + slack, device=DEV) * size).to(dtype)
    return wide[:, :heads * d].view(n, heads, d)


def one(r, forward, backward, o, name):
    dtype, unit = NAMES[name], UNIT[name]
    K, G, D = int(o["K"]), int(o["G"]), int(o["D"])
    H = K * G
    n_q = lengths(r, r.randrange(1, 6))
    n_k = [n if r.random() < 0.6 else m for n, m in zip(n_q, lengths(r, len(n_q)))]
    T, S = sum(n_q) + r.choice([0, 0, 1, 77, 130]), sum(n_k) + r.choice([0, 0, 1, 77, 130])
    T, S = max(T, 1), max(S, 1)
    ends = lambda n: torch.tensor([0] + n, device=DEV).cumsum(0).int()
    cu_q, cu_k, size = ends(n_q), ends(n_k), r.choice([1.0, 1.0, 1.0, 0.01, 3.0])
    scale = D**-0.5
    q, k, v, dy = (rows(n, h, D, dtype, r.choice([0, 64]), size)
                   for n, h in ((T, H), (S, K), (S, K), (T, H)))
    for t, n in ((q, n_q), (k, n_k), (v, n_k), (dy, n_q)): t[sum(n):] = math.nan
    slopes, sinks = torch.rand(K, G, device=DEV), torch.randn(K, G, device=DEV).to(dtype)
    prefixes = torch.tensor([r.randrange(0, 80) for _ in cu_q], device=DEV).int()
    four = lambda t: t.unflatten(1, (K, G))
    given = dict(q=four(q), k=k, v=v, cu_q=cu_q, cu_k=cu_k, scale=scale, slopes=slopes, sinks=sinks,
                 prefixes=prefixes)
    poison = lambda n, *more: torch.full((n, *more, D), math.nan, device=DEV, dtype=dtype)
    f = forward(**given, y=poison(T, K, G))
    back = dict(given, y=f["y"], lse=f["lse"], dy=four(dy), dq=poison(T, K, G), dk=poison(S, K), dv=poison(S, K))
    g = backward(**back)
    again = {n: t.clone() for n, t in g.items()}
    g = backward(**back)
    bad = [f"{n} differs from run to run" for n in again if not torch.equal(again[n], g[n])]
    worst, sink_sum, sink_most = 0.0, 0.0, 0.0

    def hold(what, have, want, allowed):
        nonlocal worst
        ratio = ((have.float() - want).abs() / allowed).max().item() if want.numel() else 0.0
        worst = max(worst, ratio)
        if not ratio <= 1: bad.append(f"{what}: {ratio:.3g} of what is allowed")

    a = b = 0
    for i, (x, w) in enumerate(zip(n_q, n_k)):
        heads = lambda t, lo, n: t[lo:lo + n].float().transpose(0, 1)
        spread = lambda t, lo, n: heads(t, lo, n).repeat_interleave(G, 0)
        qf, df, kf, vf = heads(q, a, x), heads(dy, a, x), spread(k, b, w), spread(v, b, w)
        want, most, met, lse = document(o, qf, kf, vf, df, scale, slopes.flatten(), sinks.flatten().float(),
                                        int(prefixes[i]))
        if not (o["cap"] or o["sink"] or o["prefix"]) and x and w and bool(seen(o, x, w, 0)[0].any(1).all()):
            want.update(backend(o, qf, kf, vf, df, scale, slopes.flatten()))
        grown = 1 + 0.1 * size * size * math.sqrt(D)  # scores' own rounding, where they are large
        c, step = 3 * unit * grown, STEP[name]
        for n in ("y", "dq"):
            have = (f if n == "y" else g)[n].flatten(1, 2)[a:a + x].transpose(0, 1)
            hold(n, have, want[n], c * most[n] + step * (met[n] + 2))
        for n in ("dk", "dv"):
            total = lambda t: t.unflatten(0, (K, G)).sum(1)
            have = g[n][b:b + w].transpose(0, 1)
            hold(n, have, total(want[n]), c * total(most[n]) + step * (total(met[n]) + 2))
        have = f["lse"].flatten(1)[a:a + x].t()
        both = torch.isfinite(lse)
        if not torch.equal(both, torch.isfinite(have)): bad.append("lse: infinities elsewhere")
        hold("lse", have[both], lse[both], 1e-4 * (1 + lse[both].abs()))
        if o["sink"]: sink_sum, sink_most = sink_sum + want["dsinks"], sink_most + most["dsinks"]
        a, b = a + x, b + w
    if o["sink"]: hold("dsinks", g["dsinks"].flatten(), sink_sum, 3 * unit * sink_most + 1e-6)
    for n, t, end in (("y", f["y"], a), ("dq", g["dq"], a), ("dk", g["dk"], b), ("dv", g["dv"], b)):
        if t[end:].count_nonzero(): bad.append(f"{n} is not 0 past the last document")
    return bad, worst, (n_q, n_k)


def main():
    pack, count = Pack(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 30)
    r = random.Random(seed)
    torch.manual_seed(seed)
    forward, backward = {}, {}
    for key in pack.keys:
        what, dtype, o = read(key)
        passes = {"attention.forward": forward, "attention.backward": backward}.get(what, {})
        if "dsinks" in key or (dtype, tuple(o.items())) not in passes: passes[dtype, tuple(o.items())] = key
    failed, worst = 0, 0.0
    for i in range(count):
        choice = r.choice(list(forward))
        name, o = choice[0], dict(choice[1])
        bad, ratio, n = one(r, made(pack, forward[choice]), made(pack, backward[choice]), o, name)
        worst = max(worst, ratio)
        if bad:
            failed += 1
            print(f"FAIL {i} {name} {o} lengths {n}: {'; '.join(bad[:4])}")
    print(f"{count} configurations of {len(forward)} passes, seed {seed}: {failed} failed; the worst error is "
          f"{worst:.2f} of what is allowed")
    sys.exit(failed > 0)


def made(pack, key):
    if key not in pack.found: pack.found[key] = Call(pack, key)
    return pack.found[key]


if __name__ == "__main__":
    main()
