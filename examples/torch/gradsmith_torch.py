"""gradsmith_torch.py: the kernels of a gradsmith pack inside PyTorch, through ctypes.

    gradsmith pack --file examples/torch/peers.layers --arch sm_90a --out peers.pack

    pack = gradsmith_torch.Pack("peers.pack")
    y = gradsmith_torch.RMSNorm.apply(x, w, 1e-6, pack)  # forward and backward by its kernels

GRADSMITH_LIBRARY names libgradsmith.so where the loader does not find it.
"""
import ctypes as C
import os, threading

import torch
from torch.autograd import Function

TYPES = {torch.float32: 1, torch.bfloat16: 2, torch.float16: 3, torch.int32: 4, torch.int64: 5,
         torch.uint8: 6, torch.int8: 8}
NAMES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}
INPUT, RESULT, SUM, NUMBER, DEVICE_NUMBER = range(5)


class Error(C.Structure):
    _fields_ = [("status", C.c_int), ("message", C.c_char * 4096)]


class Info(C.Structure):
    _fields_ = [("name", C.c_char_p), ("kind", C.c_int), ("type", C.c_int), ("rank", C.c_int),
                ("shape", C.c_int64 * 6), ("dim", C.c_char_p * 6), ("shares", C.c_char_p)]


class Operand(C.Structure):
    _fields_ = [("name", C.c_char_p), ("type", C.c_int), ("rank", C.c_int),
                ("shape", C.c_int64 * 6), ("stride", C.c_int64), ("ptr", C.c_uint64),
                ("value", C.c_double)]


READY = threading.local()  # autograd's threads begin without a context: the first call makes it
P, S, N, E, O = C.c_void_p, C.c_char_p, C.c_int, C.POINTER(Error), C.POINTER(Operand)
FUNCTIONS = {"open": (N, S, C.POINTER(P), E), "close": (None, P), "count": (N, P), "key": (S, P, N),
             "find": (N, P, S, C.POINTER(P), E), "operands": (N, P),
             "operand": (C.POINTER(Info), P, N),
             "workspace": (N, P, O, N, C.POINTER(C.c_size_t), E),
             "launch": (N, P, P, O, N, C.c_uint64, C.c_size_t, E)}


class Pack:
    def __init__(self, path):
        lib = C.CDLL(os.environ.get("GRADSMITH_LIBRARY", "libgradsmith.so.0"))
        for name, (result, *args) in FUNCTIONS.items():
            f = getattr(lib, "gs_pack_" + name)
            f.restype, f.argtypes = result, args
            setattr(self, "c_" + name, f)
        self.p, self.found = P(), {}
        self.check(self.c_open, path.encode(), C.byref(self.p))
        self.keys = [self.c_key(self.p, i).decode() for i in range(self.c_count(self.p))]

    def __del__(self):
        if getattr(self, "p", None): self.c_close(self.p)

    def check(self, f, *args):
        if not hasattr(READY, "memory"): READY.memory = torch.cuda.mem_get_info()
        err = Error()
        if f(*args, C.byref(err)): raise RuntimeError(err.message.decode())

    def call(self, what, dtype, results, **sizes):
        """The pass `what` ("rmsnorm.forward") with those results ("y,rstd"), sizes and options;
        options that are not said are as the pack has them."""
        want = [what, NAMES[dtype]] + [f"{k}={v}" for k, v in sizes.items()] + ["->", results]
        name = " ".join(want)
        if name not in self.found:
            fits = [k for k in self.keys if set(want) <= set(k.split(" "))]
            self.found[name] = Call(self, fits[0] if fits else name)
        return self.found[name]


class Call:
    def __init__(self, pack, key):
        self.pack, self.c = pack, P()
        pack.check(pack.c_find, pack.p, key.encode(), C.byref(self.c))
        self.info = [pack.c_operand(self.c, i)[0] for i in range(pack.c_operands(self.c))]

    def bind(self, **given):
        """A callable that launches on the current stream and returns the results by name: in the
        tensors that were given for them, else in new ones. Names that the pass lacks are left."""
        pack, ops, dims, results = self.pack, (Operand * len(self.info))(), {}, {}
        for i in self.info:
            t = given.get(i.name.decode())
            if torch.is_tensor(t):
                dims.update((i.dim[k], n) for k, n in enumerate(t.shape))
                device = t.device
        for o, i in zip(ops, self.info):
            name = i.name.decode()
            if i.shares: given.setdefault(name, given[i.shares.decode()])
            if i.kind == RESULT and name not in given:
                dtype = next(t for t, n in TYPES.items() if n == i.type)
                shape = [dims[i.dim[k]] for k in range(i.rank)]
                given[name] = torch.empty(shape, dtype=dtype, device=device)
            if name not in given: raise TypeError(f"operand {name} is missing")
            t, o.name = given[name], i.name
            if i.kind == NUMBER:
                o.value = t
                continue
            if t.numel() and not (t[:1] if t.dim() > 1 else t).is_contiguous():
                raise TypeError(f"operand {name}: all dims but the first must be packed")
            o.type, o.ptr = TYPES[t.dtype], t.data_ptr()
            o.rank = 0 if i.kind == DEVICE_NUMBER else t.dim()
            o.shape[:o.rank] = t.shape[:o.rank]
            o.stride = t.stride(0) if o.rank > 1 and t.shape[0] > 1 else 0
            if i.kind in (RESULT, SUM): results[name] = t
        need = C.c_size_t()
        pack.check(pack.c_workspace, self.c, ops, len(ops), C.byref(need))
        work = torch.empty(need.value + 256, dtype=torch.uint8, device=device)

        def run(keep=(given, work)):
            stream = torch.cuda.current_stream(device).cuda_stream
            at = (work.data_ptr() + 255) // 256 * 256
            pack.check(pack.c_launch, self.c, stream, ops, len(ops), at, need.value)
            return results
        return run

    def __call__(self, **given):
        return self.bind(**given)()


# Below, rows are all dims but the last; a gradient comes back in the type of what it belongs to.

def rows(x):
    r = x.reshape(-1, x.shape[-1])
    return r if r.stride(1) == 1 and r.stride(0) >= r.shape[1] else r.contiguous()


class RMSNorm(Function):
    """y = RMSNorm.apply(x, w, eps, pack)"""
    @staticmethod
    def forward(ctx, x, w, eps, pack):
        call = pack.call("rmsnorm.forward", x.dtype, "y,rstd", H=x.shape[-1])
        r = call(x=rows(x), w=w, eps=eps)
        ctx.save_for_backward(rows(x), w, r["rstd"])
        ctx.pack = pack
        return r["y"].view_as(x)

    @staticmethod
    def backward(ctx, dy):
        x, w, rstd = ctx.saved_tensors
        wanted = "dx,dw" if ctx.needs_input_grad[1] else "dx"
        call = ctx.pack.call("rmsnorm.backward", x.dtype, wanted, H=x.shape[-1])
        r = call(x=x, w=w, rstd=rstd, dy=rows(dy))
        return r["dx"].view_as(dy), r["dw"].to(w.dtype) if "dw" in r else None, None, None


class AddRMSNorm(Function):
    """h, y = AddRMSNorm.apply(x, r, w, eps, pack): h = x + r, y = rmsnorm(h)"""
    @staticmethod
    def forward(ctx, x, r, w, eps, pack):
        call = pack.call("residual_rmsnorm.forward", x.dtype, "h,y,rstd", H=x.shape[-1])
        o = call(x=rows(x), r=rows(r), w=w, eps=eps)
        ctx.save_for_backward(o["h"], w, o["rstd"])
        ctx.pack = pack
        return o["h"].view_as(x), o["y"].view_as(x)

    @staticmethod
    def backward(ctx, dh, dy):
        h, w, rstd = ctx.saved_tensors
        call = ctx.pack.call("residual_rmsnorm.backward", h.dtype, "dx,dw", H=h.shape[-1])
        o = call(h=h, w=w, rstd=rstd, dh=rows(dh), dy=rows(dy))
        dx = o["dx"].view_as(dy)
        return dx, dx, o["dw"].to(w.dtype), None, None


class SwiGLU(Function):
    """y = SwiGLU.apply(gate, up, pack)"""
    @staticmethod
    def forward(ctx, gate, up, pack):
        ctx.save_for_backward(rows(gate), rows(up))
        ctx.pack = pack
        call = pack.call("swiglu.forward", gate.dtype, "y", F=gate.shape[-1])
        return call(gate=rows(gate), up=rows(up))["y"].view_as(gate)

    @staticmethod
    def backward(ctx, dy):
        gate, up = ctx.saved_tensors
        call = ctx.pack.call("swiglu.backward", gate.dtype, "dgate,dup", F=gate.shape[-1])
        r = call(gate=gate, up=up, dy=rows(dy))
        return r["dgate"].view_as(dy), r["dup"].view_as(dy), None


class CrossEntropy(Function):
    """The mean over labels other than -100; its gradient takes the memory of the logits."""
    @staticmethod
    def forward(ctx, logits, label, pack):
        up = 1 / (label != -100).sum().clamp(min=1).float()
        call = pack.call("cross_entropy.terminal", logits.dtype, "loss,dlogits", V=logits.shape[-1])
        r = call(logits=rows(logits.detach()), label=label.reshape(-1).int(), dloss=up)
        ctx.save_for_backward(r["dlogits"].view_as(logits))
        return r["loss"].sum() * up

    @staticmethod
    def backward(ctx, dloss):
        d, = ctx.saved_tensors
        return d * dloss.to(d.dtype), None, None
