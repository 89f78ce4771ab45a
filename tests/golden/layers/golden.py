"""Golden cases of single layers: what PyTorch (or transformers) gives for one layer's forward and
gradients, in the storage type and in float64, for tests/unit/test_layers_golden.c.

A family is a script make_FAMILY.py that writes FAMILY.safetensors beside it:

    import torch
    import golden

    f = golden.Family("norms")
    for dtype in ("f32", "bf16"):
        f.case("rmsnorm", dtype, reference, {"x": golden.normal(5, 17), "w": golden.normal(17)},
               dims={"x": "T H", "w": "H"}, scalars={"eps": 1e-6}, bits=["y"])
    f.write()

`reference` takes the tensors as keyword arguments (of the case's storage type, or of the type they
have when they are integers or named in `types`) and returns a dict of outputs, or one tensor: "y".
It runs twice: as it is, and for the exact values with every float tensor in float64 and
torch.float32, Tensor.float() and the like meaning float64, so that a reference that computes in
f32 inside is exact too.
"""
import contextlib
import json
import os
import zlib

import torch
from safetensors.torch import save_file

TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "i32": torch.int32,
         "i64": torch.int64, "u8": torch.uint8, "i8": torch.int8, "e4m3": torch.float8_e4m3fn,
         "e5m2": torch.float8_e5m2}
_generator = torch.Generator().manual_seed(20)
torch.set_num_threads(1)


def normal(*shape, scale=1.0, shift=0.0):
    """Random numbers in float64, the same in every run of a script."""
    return torch.randn(shape, generator=_generator, dtype=torch.float64) * scale + shift


def uniform(low, high, *shape):
    return torch.rand(*shape, generator=_generator, dtype=torch.float64) * (high - low) + low


def integers(low, high, *shape, dtype=torch.int32):
    """In [low, high)."""
    return torch.randint(low, high, shape, generator=_generator).to(dtype)


@contextlib.contextmanager
def in_double():
    """torch.float32, .float() and softmax(dtype=torch.float32) mean float64 inside."""
    kept = torch.float32, torch.float, torch.Tensor.float, torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = kept[:3]
        torch.set_default_dtype(kept[3])


def _outputs(y):
    return y if isinstance(y, dict) else {"y": y}


class Family:
    def __init__(self, name):
        self.name, self.cases, self.tensors = name, [], {}

    def _keep(self, prefix, name, t):
        key = f"{prefix}.{name}"
        self.tensors[key] = t.detach().contiguous().clone()
        return key

    def case(self, layer, dtype, reference, inputs, dims, name="", options=None, scalars=None,
             types=None, upstream=None, bits=(), grads=None, exact=None):
        """One case. inputs: parameter -> tensor (floats in float64, rounded here to the case's
        type, or to that which `types` names); a step scalar is a tensor of no dims. dims: parameter
        -> its dims as text, from which the sizes are read; a further entry "sizes" -> {dim: size}
        names those that no tensor shows. upstream: output -> tensor (expanded along its first dim:
        the kernel gets one row and a stride of 0); drawn where it is left out, and given to each
        output that has a gradient. grads: the parameters whose gradient is kept (None: every float
        one that the outputs depend on). bits: results ("y", "dx") that equal
        PyTorch's to the bit. exact: another function for the float64 values."""
        types, upstream = types or {}, dict(upstream or {})
        repeated = {o for o, t in upstream.items() if t.dim() > 1 and t.stride(0) == 0}
        stored = {}
        for p, t in inputs.items():
            floating = t.dtype.is_floating_point and t.dtype.itemsize > 1
            t = t.to(TYPES[types.get(p, dtype if t.dim() or p in types else "f32")]) \
                if floating else t
            stored[p] = t
        sizes = dict(dims.get("sizes", {}))
        for p, t in stored.items():
            names = dims.get(p, "").split()
            assert len(names) == t.dim(), f"{layer}: dims of {p} are {names}, not {tuple(t.shape)}"
            for d, n in zip(names, t.shape):
                assert sizes.setdefault(d, n) == n, f"{layer}: dim {d} is {sizes[d]} and {n}"
        title = " ".join(filter(None, [layer, name, dtype]))
        prefix = f"{len(self.cases)}"
        got, made = self._run(reference, stored, upstream, grads, False)
        want, _ = self._run(exact or reference, stored, made, grads, True)
        expect = {}
        for r in got:
            expect[r] = {"torch": self._keep(prefix, f"{r}.torch", got[r]),
                         "exact": self._keep(prefix, f"{r}.exact", self._narrow(want[r], dtype))
                         if got[r].dtype.is_floating_point else None,
                         "bits": r in bits}
        missing = set(bits) - set(got)
        assert not missing, f"{title}: bits of {missing}, which are no results"
        self.cases.append({
            "name": title, "layer": layer, "dtype": dtype, "options": options or {},
            "scalars": scalars or {}, "sizes": sizes,
            "inputs": {p: self._keep(prefix, p, t) for p, t in stored.items()},
            "upstream": {o: self._keep(prefix, f"d.{o}", t[:1] if o in repeated else t)
                         for o, t in made.items()},
            "expect": expect})

    @staticmethod
    def _narrow(exact, dtype):
        """Beside 16-bit rounding, f32 is as good as exact, and half as large."""
        return exact if dtype == "f32" else exact.to(torch.float32)

    def _run(self, function, stored, upstream, grads, double):
        leaves = {}
        for p, t in stored.items():
            t = t.detach().clone()
            if t.dtype.is_floating_point and t.dtype.itemsize > 1:
                if double:
                    t = t.double()
                t.requires_grad_(grads is None or p in grads)
            leaves[p] = t
        with in_double() if double else contextlib.nullcontext():
            out = _outputs(function(**leaves))
        results = {o: t.detach() for o, t in out.items()}
        made = {}
        for o, t in out.items():
            if t.requires_grad:
                if o not in upstream:
                    upstream[o] = normal(*t.shape)
                made[o] = upstream[o].to(t.dtype)
        if made and grads != []:
            wanted = [p for p, t in leaves.items() if t.requires_grad]
            found = torch.autograd.grad([out[o] for o in made], [leaves[p] for p in wanted],
                                        [made[o] for o in made], allow_unused=True)
            for p, g in zip(wanted, found):
                if g is not None:
                    results[f"d{p}"] = g
        return results, made

    def write(self):
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), self.name + ".safetensors")
        names = [c["name"] for c in self.cases]
        assert len(set(names)) == len(names), f"two cases of one name: {names}"
        tensors, same = dict(self.tensors), {}  # equal tensors are kept once
        for k, t in list(tensors.items()):
            raw = t.reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b""
            mark = (t.dtype, tuple(t.shape), zlib.crc32(raw), raw)
            if mark in same:
                self._rename(k, same[mark])
                del tensors[k]
            else:
                same[mark] = k
        save_file(tensors, path, {"cases": json.dumps(self.cases)})
        os.chmod(path, 0o644)
        print(f"{path}: {len(self.cases)} cases, {os.path.getsize(path)} bytes")

    def _rename(self, old, new):
        for c in self.cases:
            for part in ("inputs", "upstream"):
                c[part] = {p: new if k == old else k for p, k in c[part].items()}
            for e in c["expect"].values():
                for which in ("torch", "exact"):
                    e[which] = new if e[which] == old else e[which]
