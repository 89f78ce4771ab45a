"""peers_kernels.py: other libraries' kernels and ours, timed in turns on one NVIDIA GPU.

    PEERS_PATH=DIR[:DIR] python3 tests/bench/peers_kernels.py [--ops rmsnorm,ce] [--ours FILE.py] [--out FILE.json]

Peers: torch, torch.compile, Liger (the package liger_kernel), the Triton kernels of Unsloth (the folder unsloth/kernels, loaded without
its package). PEERS_PATH lists folders that hold them; a peer that can't be imported is left out and named. FILE.py has
`cases(op, tensors) -> {name: callable}`: examples/torch/peers.py, whose kernels come out of a pack. `gradsmith bench --peers` runs all this.

Protocol 1 (runtime/tune/measure.h): warm-up by time, contenders in turns, a buffer larger than the L2 cache filled before each timed call,
the stream kept busy while the host submits, random normal inputs, medians of 30.
"""
import argparse
import contextlib
import importlib
import importlib.util
import json
import os
import statistics
import sys
import time
import types

import torch
import torch.nn.functional as F

SEARCH = [p for p in os.environ.get("PEERS_PATH", "").split(":") if p]
sys.path[:0] = SEARCH
BF16 = torch.bfloat16
missing = {}


# ---- peers ----

def optional(name, load):
    try:
        return load()
    except Exception as e:
        missing[name] = f"{type(e).__name__}: {e}"[:160]
        return None


def load_liger():
    ops = {n: importlib.import_module("liger_kernel.ops." + n)
           for n in ("cross_entropy", "fused_add_rms_norm", "layer_norm", "rms_norm", "rope", "swiglu")}
    return types.SimpleNamespace(
        rms=ops["rms_norm"].LigerRMSNormFunction, layer=ops["layer_norm"].LigerLayerNormFunction,
        add_rms=ops["fused_add_rms_norm"].LigerFusedAddRMSNormFunction, swiglu=ops["swiglu"].LigerSiLUMulFunction,
        rope=ops["rope"].LigerRopeFunction, ce=ops["cross_entropy"].LigerCrossEntropyFunction)


def load_unsloth():
    """The modules of unsloth/kernels over small stand-ins for what its package would set up."""
    import triton
    import triton.language as tl
    from triton.language.extra import libdevice
    folder = next(p for p in SEARCH if os.path.isdir(os.path.join(p, "unsloth", "kernels")))

    def stand_in(name, **what):
        module = types.ModuleType(name)
        vars(module).update(what)
        sys.modules[name] = module

    def settings(n):
        block = triton.next_power_of_2(n)
        return block, next(warps for least, warps in ((32768, 32), (8192, 16), (2048, 8), (0, 4)) if block >= least)

    class Newest(str):
        __lt__ = lambda self, other: False

    stand_in("unsloth", __path__=[os.path.join(folder, "unsloth")])
    stand_in("unsloth.kernels", __path__=[os.path.join(folder, "unsloth", "kernels")])
    stand_in("unsloth.device_type", DEVICE_COUNT=1, DEVICE_TYPE="cuda", DEVICE_TYPE_TORCH="cuda")
    stand_in("unsloth.kernels.utils", calculate_settings=settings, MAX_FUSED_SIZE=65536, triton_cast=tl.cast, triton_tanh=libdevice.tanh,
             torch_gpu_device=lambda d: contextlib.nullcontext(), torch_device_stream=lambda d: torch.cuda.current_stream(),
             is_cdna=lambda: False)
    stand_in("unsloth_zoo", __path__=[])
    stand_in("unsloth_zoo.utils", Version=Newest, _get_dtype=lambda t: t)
    stand_in("unsloth_zoo.loss_utils", patch_loss_functions=lambda *a, **k: None, post_patch_loss_function=lambda m: m)
    stand_in("unsloth_zoo.patching_utils", patch_layernorm=lambda *a, **k: None)
    get = lambda n: importlib.import_module("unsloth.kernels." + n)
    return types.SimpleNamespace(rms=get("rms_layernorm").Fast_RMS_Layernorm, swiglu_bwd=get("swiglu").swiglu_DWf_DW_dfg_kernel,
                                 rope=get("rope_embedding").fast_rope_embedding, ce=get("cross_entropy_loss").Fast_CrossEntropyLoss)


def exact(f):
    """torch.compile for these very shapes."""
    torch._dynamo.reset()
    return torch.compile(f, dynamic=False)


# ---- cases: each yields (op, shape, bytes, tensors by name, contenders by name) ----

def normal(*shape, grad=False):
    return torch.randn(*shape, device="cuda", dtype=BF16, requires_grad=grad)


def gradient_of(f, inputs):
    """Only the backward of f, by random upstreams."""
    out = f()
    out = [o for o in (out if isinstance(out, tuple) else (out,)) if torch.is_tensor(o) and o.requires_grad]
    up = [torch.randn_like(o) for o in out]
    return lambda: torch.autograd.grad(out, inputs, up, retain_graph=True)


def both(op, shape, contenders, inputs, tensors, forward, backward):
    yield op + ".fwd", shape, forward, tensors, dict(contenders)
    yield op + ".bwd", shape, backward, tensors, {n: gradient_of(f, inputs) for n, f in contenders.items()}


def plain_rms(x, w):
    return (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)).to(BF16) * w


def rmsnorm(liger, unsloth):
    for T, H in (16384, 4096), (16384, 2048), (16384, 5120), (8192, 8192), (4097, 2880):
        x, w, size, compiled = normal(T, H, grad=True), normal(H, grad=True), 2 * T * H, exact(plain_rms)
        who = {"torch": lambda: F.rms_norm(x, (H,), w, 1e-6), "torch.compile": lambda: compiled(x, w)}
        if liger: who["liger"] = lambda: liger.rms.apply(x, w, 1e-6, 0.0, "llama", False)
        yield from both("rmsnorm", f"{T}x{H}", who, [x, w], dict(x=x, w=w), 2 * size, 3 * size)
        if unsloth:
            alone = {"unsloth (dx only)": lambda: unsloth.rms.apply(x, w.detach(), 1e-6, False)}
            yield from both("rmsnorm_no_dw", f"{T}x{H}", alone, [x], dict(x=x, w=w), 2 * size, 3 * size)


def layernorm(liger, unsloth):
    T, H = 16384, 4096
    x, w, b, size = normal(T, H, grad=True), normal(H, grad=True), normal(H, grad=True), 2 * T * H
    who = {"torch": lambda: F.layer_norm(x, (H,), w, b, 1e-6)}
    if liger: who["liger"] = lambda: liger.layer.apply(x, w, b, 1e-6)
    yield from both("layernorm", f"{T}x{H}", who, [x, w, b], dict(x=x, w=w, b=b), 2 * size, 3 * size)


def add_rmsnorm(liger, unsloth):
    T, H = 16384, 4096
    x, r, w, size = normal(T, H, grad=True), normal(T, H, grad=True), normal(H, grad=True), 2 * T * H
    compiled = exact(lambda x, r, w: (x + r, plain_rms(x + r, w)))
    who = {"torch.compile": lambda: compiled(x, r, w)}
    if liger: who["liger"] = lambda: liger.add_rms.apply(x, r, w, 1e-6, 0.0, "llama", False)
    yield from both("add_rmsnorm", f"{T}x{H}", who, [x, w], dict(x=x, r=r, w=w), 4 * size, 4 * size)


def swiglu(liger, unsloth):
    for T, I in (16384, 14336), (8192, 2880):
        a, b, size, compiled = normal(T, I, grad=True), normal(T, I, grad=True), 2 * T * I, exact(lambda a, b: F.silu(a) * b)
        who = {"torch.compile": lambda: compiled(a, b)}
        if liger: who["liger"] = lambda: liger.swiglu.apply(a, b)
        yield from both("swiglu", f"{T}x{I}", who, [a, b], dict(a=a, b=b), 3 * size, 5 * size)
        d, e, g = normal(T, I), normal(T, I), normal(T, I)
        who = {"unsloth": lambda: unsloth.swiglu_bwd(d, e, g)} if unsloth else {}
        yield "swiglu.bwd_and_h", f"{T}x{I}", 6 * size, dict(d=d, a=e, b=g), who


def rope(liger, unsloth):
    B, S, Nq, Nk, D = 2, 8192, 32, 8, 128
    q, k, cos, sin = normal(B, S, Nq, D).transpose(1, 2), normal(B, S, Nk, D).transpose(1, 2), normal(1, S, D), normal(1, S, D)
    half = lambda x: torch.cat((-x[..., D // 2:], x[..., :D // 2]), -1)
    who = {"torch.compile": exact(lambda: (q * cos + half(q) * sin, k * cos + half(k) * sin))}
    if liger: who["liger"] = lambda: liger.rope.apply(q, k, cos, sin)
    if unsloth: who["unsloth"] = lambda: unsloth.rope(q, k, cos[0], sin[0])
    yield "rope.fwd", f"{B}x{S} q{Nq} k{Nk} d{D}", 4 * B * S * (Nq + Nk) * D, dict(q=q, k=k, cos=cos, sin=sin), who


def ce(liger, unsloth):
    for T, V in (8192, 32000), (8192, 128256), (8192, 151936):
        x, y = normal(T, V, grad=True), torch.randint(0, V, (T,), device="cuda")
        compiled = exact(lambda x: F.cross_entropy(x.float(), y))
        who = {"torch.compile": lambda: torch.autograd.grad(compiled(x), [x])}
        if liger: who["liger (in place)"] = lambda: liger.ce.apply(x, y, None, -100, 0.0, 0.0, "mean", None, False)
        if unsloth: who["unsloth (in place)"] = lambda: torch.autograd.grad(unsloth.ce.apply(x, y, 0, 0).sum(), [x])
        yield "ce.loss_and_grad", f"{T}x{V}", 4 * T * V, dict(x=x, y=y), who


def adamw(liger, unsloth):
    n = 1 << 28
    p, g = normal(n, grad=True), normal(n)
    p.grad = g
    step = torch.optim.AdamW([p], lr=1e-5, fused=True).step
    yield "adamw.step", str(n), 14 * n, dict(p=p, g=g), {"torch fused": lambda: step()}


OPS = {f.__name__: f for f in (rmsnorm, layernorm, add_rmsnorm, swiglu, rope, ce, adamw)}


# ---- measuring ----

class Meter:
    def __init__(self):
        l2 = getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 64 << 20)
        self.flush = torch.empty(4 * l2, dtype=torch.uint8, device="cuda")

    def warm(self, f, seconds=0.15):
        end = time.monotonic() + seconds
        while True:
            f()
            torch.cuda.synchronize()
            if time.monotonic() > end: return

    def once(self, f):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(2_000_000)  # about a millisecond, in which the host submits what follows
        self.flush.fill_(1)
        begin.record()
        f()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end)

    def compare(self, contenders, rounds=30):
        times = {}
        for name, f in contenders.items():
            try:
                self.warm(f)
                times[name] = []
            except Exception as e:
                missing[name] = f"{type(e).__name__}: {e}"[:160]
        for _ in range(rounds):
            for name in times: times[name].append(self.once(contenders[name]))
        return times


def rates(meter):
    x = normal(1 << 29)
    y, a, b = torch.empty_like(x), normal(8192, 8192), normal(8192, 8192)
    copy, gemm = (statistics.median(meter.compare({"": f})[""]) for f in (lambda: y.copy_(x), lambda: a @ b))
    return 4 * x.numel() / copy / 1e9, 2 * 8192 ** 3 / gemm / 1e9


def run_op(op, peers, ours, meter, copy, out):
    for name, shape, size, tensors, who in OPS[op](*peers):
        if ours:
            try:
                who.update(ours.cases(name, tensors) or {})
            except Exception as e:
                missing["gradsmith " + name + " " + shape] = f"{type(e).__name__}: {e}"[:160]
        for contender, t in meter.compare(who).items():
            ms = statistics.median(t)
            out.append(dict(op=name, shape=shape, who=contender, ms=ms, spread=(max(t) - min(t)) / ms, TBps=size / ms / 1e9,
                            of_copy=size / ms / 1e9 / copy))
            print("%-20s %-22s %-24s %8.1f us %5.2f TB/s %5.1f %% of copy, spread %.0f %%"
                  % (name, shape, contender, 1e3 * ms, size / ms / 1e9, 100 * size / ms / 1e9 / copy, 100 * out[-1]["spread"]), flush=True)
        torch.cuda.empty_cache()


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--ops", default=",".join(OPS))
    ap.add_argument("--ours")
    ap.add_argument("--out")
    a = ap.parse_args()
    import torch._functorch.config
    torch._functorch.config.donated_buffer = False  # a compiled backward is timed alone, again and again
    ours = None
    if a.ours:
        spec = importlib.util.spec_from_file_location("ours", a.ours)
        ours = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(ours)
    peers = optional("liger", load_liger), optional("unsloth", load_unsloth)
    torch.manual_seed(0)
    meter = Meter()
    copy, gemm = rates(meter)
    out = [dict(protocol=1, gpu=torch.cuda.get_device_name(), torch=torch.__version__, copy_TBps=copy, gemm_TFLOPs=gemm)]
    print("%s, torch %s: copy %.3f TB/s, bf16 8192^3 %.0f TFLOP/s" % (out[0]["gpu"], torch.__version__, copy, gemm), flush=True)
    for op in a.ops.split(","):
        try:
            run_op(op, peers, ours, meter, copy, out)
        except Exception as e:
            missing[op] = f"{type(e).__name__}: {e}"[:160]
    if missing: print("not there:", missing)
    out.append(dict(missing=missing))
    if a.out:
        with open(a.out, "w") as f: json.dump(out, f, indent=1)


if __name__ == "__main__":
    main()
