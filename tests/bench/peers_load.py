"""peers_load.py: other libraries, as far as peers_kernels.py times them. PEERS_PATH lists folders that hold them.

liger_kernel, bitsandbytes and cudnn (nvidia-cudnn-frontend) are imported as they are; of Unsloth the Triton kernels in unsloth/kernels alone,
without its package; quack (with nvidia_cutlass_dsl) from its folder. One that can't be imported is left out and named, with why.
"""
import contextlib
import importlib
import os
import sys
import types

import torch

SEARCH = [p for p in os.environ.get("PEERS_PATH", "").split(":") if p]
sys.path[:0] = SEARCH + [d for d in (os.path.join(p, "nvidia_cutlass_dsl", "python_packages") for p in SEARCH) if os.path.isdir(d)]


def load_liger():
    ops = {n: importlib.import_module("liger_kernel.ops." + n)
           for n in ("cross_entropy", "fused_add_rms_norm", "fused_linear_cross_entropy", "layer_norm", "rms_norm", "rope", "swiglu")}
    return types.SimpleNamespace(
        rms=ops["rms_norm"].LigerRMSNormFunction, layer=ops["layer_norm"].LigerLayerNormFunction,
        add_rms=ops["fused_add_rms_norm"].LigerFusedAddRMSNormFunction, swiglu=ops["swiglu"].LigerSiLUMulFunction,
        rope=ops["rope"].LigerRopeFunction, ce=ops["cross_entropy"].LigerCrossEntropyFunction,
        linear_ce=ops["fused_linear_cross_entropy"].LigerFusedLinearCrossEntropyFunction)


def load_unsloth():
    """The modules of unsloth/kernels over small stand-ins for what its package would set up."""
    import triton
    import triton.language as tl
    from triton.language.extra import libdevice
    folder = next((p for p in SEARCH if os.path.isdir(os.path.join(p, "unsloth", "kernels"))), None)
    if not folder: raise ImportError("no folder unsloth/kernels in PEERS_PATH")

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


class CudnnNorm:
    """One graph of cuDNN's own API: RMSNorm or LayerNorm of [T, H], forward or backward, in buffers of its own."""

    def __init__(self, cudnn, kind, backward, x, *weights):
        self.cudnn, self.handle = cudnn, cudnn.create_handle()
        for dtype in torch.bfloat16, torch.float32:  # of weights and their gradients: not every engine takes both
            try:
                self.build(kind, backward, x.detach(), [w.detach().to(dtype) for w in weights])
                return
            except Exception as e:
                why = e
        raise why

    def tensor(self, t):
        """t as [T, H], [1, H] or [T, 1] in the four dims that norms take, and the graph's name for it."""
        t = t.view(*t.shape, 1, 1) if t.dim() == 2 else t.view(1, -1, 1, 1)
        made = self.graph.tensor(dim=list(t.shape), stride=[t.shape[1], 1, t.shape[1], t.shape[1]], data_type=t.dtype)
        self.buffers[made] = t
        return made

    def result(self, made, like):
        made.set_output(True).set_data_type(like.dtype)
        self.buffers[made] = torch.empty_like(like)

    def build(self, kind, backward, x, weights):
        types, T = self.cudnn.data_type, x.shape[0]
        self.graph = self.cudnn.pygraph(io_data_type=types.BFLOAT16, intermediate_data_type=types.FLOAT, compute_data_type=types.FLOAT,
                                        handle=self.handle)
        self.buffers, statistic = {}, torch.rand(T, 1, device=x.device) + 0.5
        (self.backward if backward else self.forward)(kind == "layernorm", x, statistic, weights, self.tensor(x), self.tensor(weights[0]))
        self.graph.build([self.cudnn.heur_mode.A, self.cudnn.heur_mode.FALLBACK])
        self.work = torch.empty(self.graph.get_workspace_size() + 16, device=x.device, dtype=torch.uint8)

    def forward(self, is_layer, x, statistic, weights, X, W):
        g, eps = self.graph, self.graph.tensor(dim=[1, 1, 1, 1], stride=[1, 1, 1, 1], is_pass_by_value=True, data_type=torch.float32)
        self.buffers[eps] = torch.full((1, 1, 1, 1), 1e-6)
        given = dict(norm_forward_phase=self.cudnn.norm_forward_phase.TRAINING, input=X, scale=W, epsilon=eps)
        results = g.layernorm(bias=self.tensor(weights[1]), **given) if is_layer else g.rmsnorm(**given)
        for made, like in zip(results, (x, statistic, statistic)): self.result(made, like)

    def backward(self, is_layer, x, statistic, weights, X, W):
        given = dict(grad=self.tensor(torch.randn_like(x)), input=X, scale=W)
        if is_layer: given.update(mean=self.tensor(statistic))
        given.update(inv_variance=self.tensor(statistic))
        results = self.graph.layernorm_backward(**given) if is_layer else self.graph.rmsnorm_backward(has_dbias=False, **given)
        for made, like in zip(results, (x, weights[0], weights[-1] if is_layer else None)):
            if like is not None: self.result(made, like)

    def __call__(self):
        self.cudnn.set_stream(handle=self.handle, stream=torch.cuda.current_stream().cuda_stream)
        self.graph.execute(self.buffers, self.work, handle=self.handle)


def load_cudnn():
    cudnn = importlib.import_module("cudnn")
    return lambda *a: CudnnNorm(cudnn, *a)


def load_bitsandbytes():
    return importlib.import_module("bitsandbytes.functional")


def load_quack():
    rms, ce = importlib.import_module("quack.rmsnorm"), importlib.import_module("quack.cross_entropy")
    return types.SimpleNamespace(rms=rms.rmsnorm, ce=ce.cross_entropy)


LOADERS = {"liger": load_liger, "unsloth": load_unsloth, "cudnn": load_cudnn, "bitsandbytes": load_bitsandbytes, "quack": load_quack}


def load_all(missing, without=()):
    """The peers by name; None for one that is not there, of which `missing` then says why."""
    peers = types.SimpleNamespace()
    for name, load in LOADERS.items():
        try:
            setattr(peers, name, None if name in without else load())
        except Exception as e:
            setattr(peers, name, None)
            missing[name] = f"{type(e).__name__}: {e}"[:160]
    return peers
