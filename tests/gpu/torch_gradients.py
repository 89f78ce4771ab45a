"""torch_gradients.py: examples/torch on a GPU: values and gradients of a pack's kernels beside torch's own, both against torch in float64.

    gradsmith pack --file examples/torch/peers.layers --out peers.pack
    GRADSMITH_LIBRARY=.../libgradsmith.so.0 python3 tests/gpu/torch_gradients.py peers.pack

One line a tensor: our error and torch's in bf16, as ||out - exact|| / ||exact||; whether a second launch gives the same bits; the hash of the
bits, by which two runs are compared. Exit 1 when ours is far from exact, or more than half again as far as torch's, or differs in its bits.
"""
import hashlib
import os
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "torch"))
import gradsmith_torch as gt

BF16 = torch.bfloat16
worst = 4e-3  # of bf16 results whose arithmetic is f32: half a last place is 2^-9


def rms(x, w): return F.rms_norm(x, x.shape[-1:], w, 1e-6)


def add_rms(x, r, w): return x + r, rms(x + r, w)


def swiglu(a, b): return F.silu(a) * b


def loss(x, y): return F.cross_entropy(x if x.dtype == torch.float64 else x.float(), y)


def cases(pack):
    n = lambda *s: torch.randn(*s, device="cuda", dtype=BF16)
    for T, H in (1, 4096), (77, 2880), (4097, 5120), (16384, 4096):
        yield f"RMSNorm {T}x{H}", rms, lambda x, w: gt.RMSNorm.apply(x, w, 1e-6, pack), [n(T, H), n(H)], ()
    yield "AddRMSNorm 4097x4096", add_rms, lambda x, r, w: gt.AddRMSNorm.apply(x, r, w, 1e-6, pack), [n(4097, 4096), n(4097, 4096), n(4096)], ()
    for T, F_ in (77, 2880), (4097, 14336):
        yield f"SwiGLU {T}x{F_}", swiglu, lambda a, b: gt.SwiGLU.apply(a, b, pack), [n(T, F_), n(T, F_)], ()
    for T, V in (77, 32000), (1024, 128256), (512, 151936):
        y = torch.randint(0, V, (T,), device="cuda")
        y[::7] = -100
        yield f"CrossEntropy {T}x{V}", loss, lambda x, y: gt.CrossEntropy.apply(x, y, pack), [n(T, V)], (y,)


def evaluate(f, inputs, more, up):
    leaves = [t.detach().clone().requires_grad_() for t in inputs]
    out = f(*leaves, *more)
    out = out if isinstance(out, tuple) else (out,)
    grads = torch.autograd.grad(out, leaves, [u.to(o.dtype) for u, o in zip(up, out)])
    return [t.detach() for t in (*out, *grads)]


def off(a, exact):
    return ((a.double() - exact).norm() / exact.norm()).item()


def main():
    pack, wrong = gt.Pack(sys.argv[1]), 0
    torch.manual_seed(0)
    for name, plain, ours, inputs, more in cases(pack):
        shapes = plain(*[t.double() for t in inputs], *more)
        up = [torch.randn_like(o, dtype=torch.float32).to(BF16) if o.dim() else torch.ones_like(o, dtype=torch.float32)
              for o in (shapes if isinstance(shapes, tuple) else (shapes,))]
        exact = evaluate(plain, [t.double() for t in inputs], more, up)
        theirs, mine, again = evaluate(plain, inputs, more, up), evaluate(ours, inputs, more, up), evaluate(ours, inputs, more, up)
        for i, (e, t, m, a) in enumerate(zip(exact, theirs, mine, again)):
            what = f"{name} {'output' if i < len(up) else 'gradient'} {i if i < len(up) else i - len(up)}"
            o, p, same = off(m, e), off(t, e), torch.equal(m.view(torch.uint8) if m.dim() else m, a.view(torch.uint8) if a.dim() else a)
            good = same and o <= worst and o <= max(1.5 * p, 1e-6)
            wrong += not good
            bits = m.contiguous().view(torch.uint8) if m.dim() else m.reshape(1).view(torch.uint8)
            print("%s %-36s off by %.2e, torch %.2e, %s, %s" % ("ok  " if good else "FAIL", what, o, p, "bits repeat" if same else "BITS DIFFER",
                                                                 hashlib.sha256(bits.cpu().numpy().tobytes()).hexdigest()[:16]), flush=True)
    print("all agree" if not wrong else f"{wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
