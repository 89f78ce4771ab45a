"""A peer's LoRA / QLoRA / full fine-tuning step on one NVIDIA GPU, random weights of a real shape, one JSON line a run.

    python3 tests/bench/peers_step.py [--runs llama8b:2x4096,qwen3_14b:1x8192,...] [--peers hf,liger] [--qlora] [--full] [--no-ckpt] [--steps 8]

hf = transformers + peft, sdpa attention, gradient checkpointing; liger = the same with Liger's patch. `--qlora` needs bitsandbytes.
Reported: median step after two warm-up steps, tokens/s, peak memory allocated, the first losses. PEERS_PATH: folders (":"-separated) that hold the peers.
"""
import argparse, gc, json, os, sys, time

import torch

for p in filter(None, os.environ.get("PEERS_PATH", "").split(":")):
    sys.path.insert(0, p)

from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen3Config

PROJ = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def llama(h, i, n, q, kv, v, **k):
    return LlamaConfig(hidden_size=h, intermediate_size=i, num_hidden_layers=n, num_attention_heads=q, num_key_value_heads=kv, vocab_size=v,
                       max_position_embeddings=131072, rms_norm_eps=1e-5, **k)


def qwen3(h, i, n, q, kv, **k):
    return Qwen3Config(hidden_size=h, intermediate_size=i, num_hidden_layers=n, num_attention_heads=q, num_key_value_heads=kv, head_dim=128,
                       vocab_size=151936, max_position_embeddings=40960, rms_norm_eps=1e-6, **k)


SHAPES = dict(
    llama8b=lambda: llama(4096, 14336, 32, 32, 8, 128256, tie_word_embeddings=False),
    llama1b=lambda: llama(2048, 8192, 16, 32, 8, 128256, tie_word_embeddings=True),
    smollm2_135m=lambda: llama(576, 1536, 30, 9, 3, 49152, tie_word_embeddings=True),
    qwen3_0_6b=lambda: qwen3(1024, 3072, 28, 16, 8, tie_word_embeddings=True),
    qwen3_8b=lambda: qwen3(4096, 12288, 36, 32, 8, tie_word_embeddings=False),
    qwen3_14b=lambda: qwen3(5120, 17408, 40, 40, 8, tie_word_embeddings=False),
    qwen3_32b=lambda: qwen3(5120, 25600, 64, 64, 8, tie_word_embeddings=False),
)


def quantise(m):
    import bitsandbytes as bnb
    for name, mod in list(m.named_modules()):
        for child, lin in list(mod.named_children()):
            if isinstance(lin, torch.nn.Linear) and child in PROJ:
                q = bnb.nn.Linear4bit(lin.in_features, lin.out_features, bias=lin.bias is not None, compute_dtype=torch.bfloat16,
                                      quant_type="nf4", compress_statistics=True)
                q.weight = bnb.nn.Params4bit(lin.weight.data.cpu(), requires_grad=False, quant_type="nf4", compress_statistics=True)
                setattr(mod, child, q.to("cuda"))
    m.is_loaded_in_4bit = True
    return m


def run(shape, B, S, a, peer):
    torch.cuda.empty_cache(); torch.cuda.reset_peak_memory_stats(); torch.manual_seed(0)
    cfg = SHAPES[shape]()
    cfg._attn_implementation = "sdpa"
    if peer == "liger":
        import liger_kernel.transformers as lt
        (lt.apply_liger_kernel_to_llama if isinstance(cfg, LlamaConfig) else lt.apply_liger_kernel_to_qwen3)()
    t0 = time.time()
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        m = AutoModelForCausalLM.from_config(cfg)
    torch.set_default_dtype(torch.float32)
    if a.qlora: m = quantise(m)
    if not a.full:
        m = get_peft_model(m, LoraConfig(r=16, lora_alpha=16, target_modules=PROJ, task_type="CAUSAL_LM"))
    if not a.no_ckpt:
        m.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        if not a.full: m.enable_input_require_grads()
    m.train(); m.config.use_cache = False
    torch.cuda.reset_peak_memory_stats()
    opt = torch.optim.AdamW([p for p in m.parameters() if p.requires_grad], lr=1e-4, fused=True)
    ids = torch.randint(0, cfg.vocab_size, (B, S), device="cuda")
    ts, losses = [], []
    for _ in range(a.steps):
        torch.cuda.synchronize(); t = time.time()
        out = m(input_ids=ids, labels=ids); out.loss.backward(); opt.step(); opt.zero_grad(set_to_none=True)
        torch.cuda.synchronize(); ts.append(time.time() - t); losses.append(round(float(out.loss), 5))
    first = time.time() - t0 - sum(ts[1:])
    med = sorted(ts[2:])[len(ts[2:]) // 2]
    print(json.dumps(dict(model=shape, peer=peer, kind="full" if a.full else "qlora" if a.qlora else "lora", B=B, S=S, ckpt=not a.no_ckpt,
                          step_s=round(med, 4), tok_s=round(B * S / med), peak_GiB=round(torch.cuda.max_memory_allocated() / 2**30, 2),
                          to_first_step_s=round(first, 1), losses=losses[:3])), flush=True)
    del m, opt, out
    gc.collect(); torch.cuda.empty_cache()


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--runs", default="llama8b:2x4096,llama8b:1x16384,qwen3_14b:1x8192")
    ap.add_argument("--peers", default="hf,liger")
    ap.add_argument("--steps", type=int, default=8)
    for f in ("qlora", "full", "no-ckpt"): ap.add_argument("--" + f, action="store_true")
    a = ap.parse_args()
    for peer in a.peers.split(","):
        for r in a.runs.split(","):
            shape, bs = r.split(":")
            B, S = map(int, bs.split("x"))
            try:
                run(shape, B, S, a, peer)
            except Exception as e:
                print(json.dumps(dict(model=shape, peer=peer, failed=repr(e)[:300])), flush=True)


if __name__ == "__main__":
    main()
