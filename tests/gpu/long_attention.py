"""Attention of a pack over one long document: time, memory, and rows held against float32.

    PYTHONPATH=examples/torch GRADSMITH_LIBRARY=... python3 tests/gpu/long_attention.py attention.pack [TOKENS]

K = 8, G = 4, D = 128, causal, bf16; 131 072 tokens by default.
"""
import sys

import torch
from gradsmith_torch import Pack

K, G, D = 8, 4, 128


def main():
    pack, n = Pack(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 131072
    torch.manual_seed(1)
    rand = lambda *shape: torch.randn(*shape, D, device="cuda", dtype=torch.bfloat16)
    q, dy, k, v = rand(n, K, G), rand(n, K, G), rand(n, K), rand(n, K)
    cu = torch.tensor([0, n], device="cuda", dtype=torch.int32)
    empty = torch.empty_like
    o = dict(K=K, G=G, D=D, causal=1, window=0, cap=0, alibi=0, sink=0, prefix=0, fast_dq=0)
    given = dict(q=q, k=k, v=v, cu_q=cu, cu_k=cu, scale=D**-0.5, y=empty(q),
                 lse=torch.empty(n, K, G, device="cuda"))
    forward = pack.call("attention.forward", q.dtype, "y,lse", **o).bind(**given)
    before = torch.cuda.memory_allocated()
    backward = pack.call("attention.backward", q.dtype, "dq,dk,dv", **o).bind(
        **given, dy=dy, dq=empty(q), dk=empty(k), dv=empty(v))
    beyond = torch.cuda.memory_allocated() - before - 2 * (q.numel() + 2 * k.numel())
    for name, run, products in (("forward", forward, 2), ("backward", backward, 5)):
        out = run()
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(4)]
        for m in marks:
            m.record()
            run()
        torch.cuda.synchronize()
        ms = sorted(a.elapsed_time(b) for a, b in zip(marks, marks[1:]))[1]
        print(f"{name} {n} tokens: {ms:.3f} ms, {products * K * G * D * n * n / ms / 1e9:.0f} TFLOP/s")
        if name == "forward": y, lse = out["y"], out["lse"]
        else: g = out
    print(f"memory beyond inputs and outputs: {beyond / 2**20:.0f} MiB; a dq in f32 is {q.numel() * 4 / 2**20:.0f}")
    worst = 0.0
    for t in [0, 1, 127, 128, n // 2 + 1, n - 1]:
        h = t % (K * G)
        qf, kf, vf = q.flatten(1, 2)[t, h].float(), k[:t + 1, h // G].float(), v[:t + 1, h // G].float()
        z = kf @ qf * D**-0.5
        p = torch.softmax(z, 0)
        dyf, yf = dy.flatten(1, 2)[t, h].float(), p @ vf
        dp = vf @ dyf
        want = D**-0.5 * (p * (dp - (dyf * yf).sum())) @ kf
        size = D**-0.5 * (p * (dp.abs() + (dyf * yf).abs().sum())) @ kf.abs()
        off_y = ((y.flatten(1, 2)[t, h].float() - yf).abs() / (p @ vf.abs() * 2**-8 * 3)).max().item()
        off_q = ((g["dq"].flatten(1, 2)[t, h].float() - want).abs() / (size * 2**-8 * 3)).max().item()
        off_l = abs(lse.flatten(1)[t, h].item() - torch.logsumexp(z, 0).item()) / 1e-3
        worst = max(worst, off_y, off_q, off_l)
    finite = all(bool(t.isfinite().all()) for t in g.values())
    print(f"rows of y, lse, dq: the worst error is {worst:.2f} of what is allowed; all gradients finite: {finite}")
    sys.exit(not (worst <= 1 and finite))


if __name__ == "__main__":
    main()
