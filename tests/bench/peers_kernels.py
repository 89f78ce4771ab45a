"""peers_kernels.py: other libraries' kernels and ours, timed in turns on one NVIDIA GPU.

    PEERS_PATH=DIR[:DIR] python3 tests/bench/peers_kernels.py [--ops rmsnorm,ce] [--without quack] [--ours FILE.py] [--out FILE.json]

Peers: torch, torch.compile, FlashAttention-2 and cuDNN's attention through torch, and what peers_load.py finds in PEERS_PATH: Liger, the
Triton kernels of Unsloth, cuDNN's norms, bitsandbytes, quack. One that can't be imported is left out and named. FILE.py has
`cases(op, tensors) -> {name: callable}`: examples/torch/peers.py, whose kernels come out of a pack. `gradsmith bench --peers` runs all this.

Protocol 1 (runtime/tune/measure.h): warm-up by time, contenders in turns (forwards, then backwards), a buffer larger than the L2 cache filled before each timed call,
the stream kept busy while the host submits, random normal inputs, medians of 30. Compilers run before anything is timed: each op once, in
processes of their own beside each other, which leave what they made in the compilers' caches.
"""
import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

from peers_load import load_all

BF16 = torch.bfloat16
missing = {}
part = 0, 1  # shapes from the first on, by steps of the second


def exact(f):
    """torch.compile for these very shapes."""
    torch._dynamo.reset()
    return torch.compile(f, dynamic=False)


# ---- cases: each yields (op, shape, bytes or Flops, tensors by name, contenders by name) ----

class Flops(float):
    """Of a case whose matrix products take the time."""


def some(shapes):
    return shapes[part[0]::part[1]]


def normal(*shape, grad=False):
    return torch.randn(*shape, device="cuda", dtype=BF16, requires_grad=grad)


def contender(who, name, make):
    """A peer that can't be made ready is named, and the others go on."""
    try:
        who[name] = make()
    except Exception as e:
        missing[name] = f"{type(e).__name__}: {e}"[:160]


def gradient_of(f, inputs):
    """Only the backward of f, by random upstreams."""
    out = f()
    out = [o for o in (out if isinstance(out, tuple) else (out,)) if torch.is_tensor(o) and o.requires_grad]
    up = [torch.randn_like(o) for o in out]
    return lambda: torch.autograd.grad(out, inputs, up, retain_graph=True)


def both(op, shape, contenders, inputs, tensors, forward, backward, own={}):
    """own: contenders that are no function of autograd: name -> make(backward)."""
    for which, size in ("fwd", forward), ("bwd", backward):
        who = {}
        for name, f in contenders.items(): contender(who, name, lambda: gradient_of(f, inputs) if which == "bwd" else f)
        for name, make in own.items(): contender(who, name, lambda: make(which == "bwd"))
        yield f"{op}.{which}", shape, size, tensors, who


def plain_rms(x, w):
    return (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)).to(BF16) * w


def rmsnorm(p):
    for T, H in some(((16384, 4096), (16384, 2048), (16384, 5120), (8192, 8192), (4097, 2880))):
        x, w, size, compiled = normal(T, H, grad=True), normal(H, grad=True), 2 * T * H, exact(plain_rms)
        who = {"torch": lambda: F.rms_norm(x, (H,), w, 1e-6), "torch.compile": lambda: compiled(x, w)}
        own = {}
        if p.liger: who["liger"] = lambda: p.liger.rms.apply(x, w, 1e-6, 0.0, "llama", False)
        if p.quack and H in (4096, 8192): who["quack"] = lambda: p.quack.rms(x, w, eps=1e-6)
        if p.cudnn: own["cudnn"] = lambda backward: p.cudnn("rmsnorm", backward, x, w)
        yield from both("rmsnorm", f"{T}x{H}", who, [x, w], dict(x=x, w=w), 2 * size, 3 * size, own)
        if p.unsloth and (T, H) == (16384, 4096):
            alone = {"unsloth (dx only)": lambda: p.unsloth.rms.apply(x, w.detach(), 1e-6, False)}
            yield from both("rmsnorm_no_dw", f"{T}x{H}", alone, [x], dict(x=x, w=w), 2 * size, 3 * size)


def layernorm(p):
    T, H = 16384, 4096
    x, w, b, size = normal(T, H, grad=True), normal(H, grad=True), normal(H, grad=True), 2 * T * H
    who = {"torch": lambda: F.layer_norm(x, (H,), w, b, 1e-6)}
    if p.liger: who["liger"] = lambda: p.liger.layer.apply(x, w, b, 1e-6)
    own = {"cudnn": lambda backward: p.cudnn("layernorm", backward, x, w, b)} if p.cudnn else {}
    yield from both("layernorm", f"{T}x{H}", who, [x, w, b], dict(x=x, w=w, b=b), 2 * size, 3 * size, own)


def add_rmsnorm(p):
    T, H = 16384, 4096
    x, r, w, size = normal(T, H, grad=True), normal(T, H, grad=True), normal(H, grad=True), 2 * T * H
    compiled = exact(lambda x, r, w: (x + r, plain_rms(x + r, w)))
    who = {"torch.compile": lambda: compiled(x, r, w)}
    if p.liger: who["liger"] = lambda: p.liger.add_rms.apply(x, r, w, 1e-6, 0.0, "llama", False)
    yield from both("add_rmsnorm", f"{T}x{H}", who, [x, w], dict(x=x, r=r, w=w), 4 * size, 4 * size)


def swiglu(p):
    for T, I in some(((16384, 14336), (8192, 2880))):
        a, b, size, compiled = normal(T, I, grad=True), normal(T, I, grad=True), 2 * T * I, exact(lambda a, b: F.silu(a) * b)
        who = {"torch.compile": lambda: compiled(a, b)}
        if p.liger: who["liger"] = lambda: p.liger.swiglu.apply(a, b)
        yield from both("swiglu", f"{T}x{I}", who, [a, b], dict(a=a, b=b), 3 * size, 5 * size)
        d, e, g = normal(T, I), normal(T, I), normal(T, I)
        who = {"unsloth": lambda: p.unsloth.swiglu_bwd(d, e, g)} if p.unsloth else {}
        yield "swiglu.bwd_and_h", f"{T}x{I}", 6 * size, dict(d=d, a=e, b=g), who


def rope(p):
    B, S, Nq, Nk, D = 2, 8192, 32, 8, 128
    q, k, cos, sin = normal(B, S, Nq, D).transpose(1, 2), normal(B, S, Nk, D).transpose(1, 2), normal(1, S, D), normal(1, S, D)
    half = lambda x: torch.cat((-x[..., D // 2:], x[..., :D // 2]), -1)
    who = {"torch.compile": exact(lambda: (q * cos + half(q) * sin, k * cos + half(k) * sin))}
    if p.liger: who["liger"] = lambda: p.liger.rope.apply(q, k, cos, sin)
    if p.unsloth: who["unsloth"] = lambda: p.unsloth.rope(q, k, cos[0], sin[0])
    yield "rope.fwd", f"{B}x{S} q{Nq} k{Nk} d{D}", 4 * B * S * (Nq + Nk) * D, dict(q=q, k=k, cos=cos, sin=sin), who


def ce(p):
    for T, V in some(((8192, 32000), (8192, 128256), (8192, 151936))):
        x, y = normal(T, V, grad=True), torch.randint(0, V, (T,), device="cuda")
        compiled = exact(lambda x: F.cross_entropy(x.float(), y))
        who = {"torch.compile": lambda: torch.autograd.grad(compiled(x), [x])}
        if p.liger: who["liger (in place)"] = lambda: p.liger.ce.apply(x, y, None, -100, 0.0, 0.0, "mean", None, False)
        if p.unsloth: who["unsloth (in place)"] = lambda: torch.autograd.grad(p.unsloth.ce.apply(x, y, 0, 0).sum(), [x])
        if p.quack and V == 128256:
            who["quack (in place)"] = lambda: torch.autograd.grad(p.quack.ce(x, y, inplace_backward=True), [x])
        yield "ce.loss_and_grad", f"{T}x{V}", 4 * T * V, dict(x=x, y=y), who


def linear_ce(p):
    for T, H, V in (8192, 4096, 128256), (8192, 5120, 151936):
        h, w, y = normal(T, H, grad=True), normal(V, H) * 0.02, torch.randint(0, V, (T,), device="cuda")
        who = {"liger": lambda: torch.autograd.grad(p.liger.linear_ce.apply(h, w, y)[0], [h])} if p.liger else {}
        yield "linear_ce.loss_and_dx", f"{T}x{H}x{V}", Flops(4 * T * H * V), dict(h=h, w=w, y=y), who


def attention(p):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    shapes = (2, 8192, 32, 8, 128), (4, 4096, 32, 8, 128), (1, 16384, 40, 8, 128), (2, 8192, 32, 8, 64), (1, 4096, 28, 4, 128)
    for B, S, hq, hk, D in shapes:
        q, k, v = normal(B, hq, S, D, grad=True), normal(B, hk, S, D, grad=True), normal(B, hk, S, D, grad=True)
        flops = 2 * B * hq * S * S * D

        def by(backend):
            def run():
                with sdpa_kernel(backend): return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            return run
        who = {"fa2": by(SDPBackend.FLASH_ATTENTION), "cudnn": by(SDPBackend.CUDNN_ATTENTION)}
        rows = lambda t: t.detach().transpose(1, 2).reshape(B * S, -1, D).contiguous()  # of one row alone, reshape gives a view
        tensors = dict(q=rows(q), k=rows(k), v=rows(v), lengths=[S] * B)
        yield from both("attention", f"B{B} S{S} q{hq} kv{hk} d{D}", who, [q, k, v], tensors, Flops(flops), Flops(2.5 * flops))


def packed(p):
    from torch.nn.attention.varlen import varlen_attn
    T, hq, hk, D = 16384, 32, 8, 128
    mixed = [4000, 180, 1700, 512, 64, 900, 333, 4000, 1700, 2995]
    for name, lengths in ("8x2048", [2048] * 8), ("mixed", mixed), ("64x256", [256] * 64):
        q, k, v = normal(T, hq, D, grad=True), normal(T, hk, D, grad=True), normal(T, hk, D, grad=True)
        cu, most = torch.tensor([0] + lengths, device="cuda").cumsum(0).int(), max(lengths)
        wide_k, wide_v = (t.detach().repeat_interleave(hq // hk, 1).requires_grad_() for t in (k, v))

        def fa2():
            try:
                return varlen_attn(q, k, v, cu, cu, most, most, window_size=(-1, 0), enable_gqa=True)
            except TypeError:  # a torch whose varlen_attn has no grouped queries
                return varlen_attn(q, wide_k, wide_v, cu, cu, most, most, window_size=(-1, 0))
        flops = sum(2 * hq * n * n * D for n in lengths)
        tensors = dict(q=q.detach(), k=k.detach(), v=v.detach(), lengths=lengths)
        yield from both("packed", name, {"fa2": fa2}, [q], tensors, Flops(flops), Flops(2.5 * flops))


def adamw(p):
    n = 1 << 28
    p, g = normal(n, grad=True), normal(n)
    p.grad = g
    step = torch.optim.AdamW([p], lr=1e-5, fused=True).step
    yield "adamw.step", str(n), 14 * n, dict(p=p, g=g), {"torch fused": lambda: step()}


def nf4(p):
    rows, columns = 14336, 4096
    n = rows * columns
    if not p.bitsandbytes: return
    for name, nested in ("dequantize", False), ("double", True):
        q, state = p.bitsandbytes.quantize_4bit(normal(rows, columns), blocksize=64, compress_statistics=nested, quant_type="nf4")
        statistics_bytes = n // 64 + n // 64 // 256 * 4 if nested else n // 64 * 4
        tensors = dict(q=q.view(-1), absmax=state.absmax.view(-1), nested=state.state2.absmax.view(-1) if nested else None, offset=state.offset)
        yield f"nf4.{name}", str(n), n // 2 + statistics_bytes + 2 * n, tensors, {"bitsandbytes": lambda: p.bitsandbytes.dequantize_4bit(q, state)}


OPS = {f.__name__: f for f in (rmsnorm, layernorm, add_rmsnorm, swiglu, rope, ce, linear_ce, attention, packed, adamw, nf4)}
COMPILED = "rmsnorm:0/3", "rmsnorm:1/3", "rmsnorm:2/3", "ce:0/2", "ce:1/2", "swiglu", "layernorm,add_rmsnorm", "rope,linear_ce"


# ---- measuring ----

class Meter:
    def __init__(self):
        l2 = getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 64 << 20)
        self.flush = torch.empty(4 * l2, dtype=torch.uint8, device="cuda")

    def warm(self, f, seconds=0.1):
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

    def compare(self, contenders, rounds=30, gap=0):
        """Forwards and backwards in turns, since what ran before tells how much power is left; gap: seconds of rest before each."""
        times = {}
        for name, f in contenders.items():
            try:
                self.warm(f)
                times[name] = []
            except Exception as e:
                missing[name] = f"{type(e).__name__}: {e}"[:160]
        names = list(times)
        for r in range(rounds):
            k = r // 2 % len(names) if names else 0
            for name in (names[k:] + names[:k])[::-1 if r % 2 else 1]:
                if gap: time.sleep(gap)
                times[name].append(self.once(contenders[name]))
        return times


def rates(meter):
    x = normal(1 << 29)
    y, a, b = torch.empty_like(x), normal(8192, 8192), normal(8192, 8192)
    copy, gemm = (statistics.median(meter.compare({"": f})[""]) for f in (lambda: y.copy_(x), lambda: a @ b))
    return dict(copy_TBps=4 * x.numel() / copy / 1e9, gemm_TFLOPs=2 * 8192 ** 3 / gemm / 1e9)


def report(name, shape, who, t, size, rate):
    ms, unit = statistics.median(t), "TFLOP/s" if isinstance(size, Flops) else "TB/s"
    speed, best = size / ms / 1e9, rate["gemm_TFLOPs" if isinstance(size, Flops) else "copy_TBps"]
    print("%-20s %-22s %-24s %8.1f us %7.2f %s %5.1f %% of %s, spread %.0f %%"
          % (name, shape, who, 1e3 * ms, speed, unit, 100 * speed / best, "GEMM" if isinstance(size, Flops) else "copy",
             100 * (max(t) - min(t)) / ms), flush=True)
    return dict(op=name, shape=shape, who=who, ms=ms, spread=(max(t) - min(t)) / ms, rate=speed, unit=unit, of_best=speed / best)


def run_op(op, peers, ours, meter, rate, out):
    for name, shape, size, tensors, who in OPS[op](peers):
        if ours:
            try:
                who.update(ours.cases(name, tensors) or {})
            except Exception as e:
                missing["gradsmith " + name + " " + shape] = f"{type(e).__name__}: {e}"[:160]
        for contender, t in meter.compare(who, gap=0.004 if isinstance(size, Flops) else 0).items(): out.append(report(name, shape, contender, t, size, rate))
        torch.cuda.empty_cache()


# ---- compilers ----

def compile_only(op, peers):
    for _, _, _, _, who in OPS[op](peers):
        for name in list(who): contender(who, name, who[name])
        torch.cuda.synchronize()


def compile_beside(ops, without):
    """Each op once, in processes beside each other; what they say of peers is said again by the run itself."""
    wanted, own = set(ops), dict(os.environ, TORCHINDUCTOR_COMPILE_THREADS="1")
    words = [sys.executable, os.path.abspath(__file__), "--without", ",".join(without | {"quack"}), "--compile", "--ops"]
    quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=own)
    begun = [subprocess.Popen(words + [c], **quiet) for c in COMPILED if wanted & set(c.partition(":")[0].split(","))]
    for process in begun: process.wait()


def run_all(ops, peers, ours, begin, path):
    """The file is whole after each op, whatever happens in the next."""
    meter = Meter()
    rate = rates(meter)
    about = dict(protocol=1, gpu=torch.cuda.get_device_name(), torch=torch.__version__, seconds_before=time.monotonic() - begin, **rate)
    print("%s, torch %s: copy %.3f TB/s, bf16 8192^3 %.0f TFLOP/s; ready after %.0f s"
          % (about["gpu"], torch.__version__, rate["copy_TBps"], rate["gemm_TFLOPs"], about["seconds_before"]), flush=True)
    out = [about]
    for op in ops:
        try:
            run_op(op, peers, ours, meter, rate, out)
        except Exception as e:
            missing[op] = f"{type(e).__name__}: {e}"[:160]
        if path:
            with open(path, "w") as f: json.dump(out + [dict(missing=missing)], f, indent=1)
    for name, why in missing.items(): print(f"not there: {name}: {why}")


def main():
    global part
    begin = time.monotonic()
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--ops", default=",".join(OPS))
    ap.add_argument("--without", default="", help="peers to leave out, by name")
    ap.add_argument("--ours")
    ap.add_argument("--out")
    ap.add_argument("--compile", action="store_true", help="only run each contender once, so that compilers' caches are filled")
    ap.add_argument("--prepare", action="store_true", help="only that, for all ops beside each other; PEERS_PREPARED=1 says that it has been done")
    a = ap.parse_args()
    import torch._functorch.config
    torch._functorch.config.donated_buffer = False  # a compiled backward is timed alone, again and again
    ops, _, cut = a.ops.partition(":")
    ops, without = ops.split(","), set(filter(None, a.without.split(",")))
    if cut: part = tuple(int(v) for v in cut.split("/"))
    if a.prepare or not (a.compile or os.environ.get("PEERS_PREPARED")): compile_beside(ops, without)
    if a.prepare: return
    peers = load_all(missing, without)
    torch.manual_seed(0)
    if a.compile:
        for op in ops: compile_only(op, peers)
        return
    ours = None
    if a.ours:
        spec = importlib.util.spec_from_file_location("ours", a.ours)
        ours = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(ours)
    run_all(ops, peers, ours, begin, a.out)


if __name__ == "__main__":
    main()
