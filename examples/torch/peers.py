"""peers.py: a pack's kernels in a benchmark beside other libraries: `cases(op, tensors)` gives
callables that launch on tensors bound beforehand. GRADSMITH_PACK names the pack (of peers.layers).
"""
import os
import sys

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gradsmith_torch as gt

NORMS = {"rmsnorm": ("rmsnorm", "y,rstd", "dx,dw"), "rmsnorm_no_dw": ("rmsnorm", "y,rstd", "dx"),
         "layernorm": ("layernorm", "y,mean,rstd", "dx,dw,db"),
         "add_rmsnorm": ("residual_rmsnorm", "h,y,rstd", "dx,dw")}


def norm(pack, op, which, given):
    layer, outputs, gradients = NORMS[op]
    t = dict({k: v.detach() for k, v in given.items()}, eps=1e-6)
    H, dtype = t["x"].shape[-1], t["x"].dtype
    forward = pack.call(layer + ".forward", dtype, outputs, H=H).bind(**t)
    if which == "fwd": return forward
    t.update((k, v) for k, v in forward().items() if k != "y")
    t.update(dy=torch.randn_like(t["x"]), dh=torch.randn_like(t["x"]))
    return pack.call(layer + ".backward", dtype, gradients, H=H).bind(**t)


def swiglu(pack, which, given):
    gate, up = given["a"].detach(), given["b"].detach()
    kind, results = {"fwd": ("forward", "y"), "bwd": ("backward", "dgate,dup"),
                     "bwd_and_h": ("backward", "dgate,dup,y")}[which]
    call = pack.call("swiglu." + kind, gate.dtype, results, F=gate.shape[-1])
    return call.bind(gate=gate, up=up, dy=torch.randn_like(gate))


def rope(pack, q, k, cos, sin):
    (B, N, S, D), K = q.shape, k.shape[1]
    flat = lambda x: x.transpose(1, 2).reshape(B * S, -1, D)  # packed rows, seen as [B, N, S, D]
    half = {n: t[0, :, :D // 2].float().repeat(B, 1) for n, t in (("cos", cos), ("sin", sin))}
    call = pack.call("rope_pair.forward", q.dtype, "q_y,k_y", N=N, K=K, D=D)
    return call.bind(q=flat(q), k=flat(k), **half)


def adamw(pack, p, g):
    number = lambda v: torch.full((), v, device=p.device)
    call = pack.call("adamw_storage.forward", p.dtype, "p_out,m_out,v_out")
    return call.bind(p=p.detach().clone(), g=g, m=torch.zeros_like(p), v=torch.zeros_like(p),
                     lr=number(1e-5), bc1=number(0.1), bc2=number(0.001), coef=number(1.0),
                     eps=1e-8, decay=0.01)


def attention(pack, which, q, k, v, lengths):
    """q [T, heads, D], k and v [T, K, D]: causal, the documents one after the other."""
    (T, N, D), K = q.shape, k.shape[1]
    cu = torch.tensor([0] + lengths, device=q.device).cumsum(0).int()
    t = dict(q=q.reshape(T, K, N // K, D), k=k, v=v, cu_q=cu, cu_k=cu, scale=D ** -0.5)
    sizes = dict(K=K, G=N // K, D=D)
    forward = pack.call("attention.forward", q.dtype, "y,lse", **sizes).bind(**t)
    if which == "fwd": return forward
    t.update(forward(), dy=torch.randn_like(t["q"]))
    return pack.call("attention.backward", q.dtype, "dq,dk,dv", **sizes).bind(**t)


def nf4(pack, which, q, absmax, nested, offset):
    """The codes and statistics that bitsandbytes made."""
    x = torch.empty(2 * q.numel(), dtype=torch.bfloat16, device=q.device)
    if which == "dequantize":
        return pack.call("nf4_dequantize.forward", x.dtype, "x").bind(q=q, absmax=absmax, x=x)
    call = pack.call("nf4_double_dequantize.forward", x.dtype, "x")
    return call.bind(q=q, q_absmax=absmax, absmax2=nested, offset=offset.float(), x=x)


def cross_entropy(pack, x, y):
    call = pack.call("cross_entropy.terminal", x.dtype, "loss,dlogits", V=x.shape[-1])
    up = torch.full((), 1 / x.shape[0], device=x.device)
    return call.bind(logits=x.detach().clone(), label=y.int(), dloss=up)


def cases(op, t, opened=[]):
    if not opened: opened.append(gt.Pack(os.environ["GRADSMITH_PACK"]))
    pack, (name, _, which) = opened[0], op.partition(".")
    if name in NORMS: return {"gradsmith": norm(pack, name, which, t)}
    if name == "swiglu": return {"gradsmith": swiglu(pack, which, t)}
    if name == "rope": return {"gradsmith": rope(pack, **t)}
    if name in ("attention", "packed"): return {"gradsmith": attention(pack, which, **t)}
    if name == "nf4": return {"gradsmith": nf4(pack, which, **t)}
    if name == "adamw": return {"gradsmith": adamw(pack, **t)}
    if name == "ce": return {"gradsmith (in place)": cross_entropy(pack, **t)}
    return {}
