"""Makes tests/golden/tiny_llama_{f32,bf16}: what transformers + peft compute on a tiny random Llama.

    python3 tests/golden/make_tiny_llama.py        (needs torch, transformers, peft, safetensors; CPU)

Each folder holds: model/ (config.json, model.safetensors), adapter/ (PEFT, random A and B),
batch.safetensors (id, label, position, start: int32 [T]), expected.safetensors (logits [T, V], loss [1],
grad.<PEFT name> of the mean loss over all labels) and losses.json (20 steps of torch.optim.AdamW without and
with clipping, constant learning rate). The batch is three documents and a padding document packed into one row;
here each document runs alone, so that packing is checked too. For bfloat16, exact.safetensors holds the same
values computed in float64 from the same bfloat16 weights: the yardstick of what rounding alone does.
"""
import copy
import json
import os

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
LENGTHS, PAD, IGNORE = [11, 1, 19], 6, -100
LR, STEPS, CLIP, R, ALPHA = 2e-3, 20, 0.02, 4, 8
PROJ = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def config():
    return LlamaConfig(hidden_size=48, intermediate_size=68, num_hidden_layers=2, num_attention_heads=6,
                       num_key_value_heads=2, vocab_size=97, max_position_embeddings=64, rms_norm_eps=1e-5,
                       rope_theta=10000.0, tie_word_embeddings=True, bos_token_id=1, eos_token_id=2)


def batch():
    gen = torch.Generator().manual_seed(5)
    ids, label, position, start = [], [], [], []
    for n in LENGTHS + [PAD]:
        base, doc = len(ids), torch.randint(3, 97, (n,), generator=gen).tolist()
        pad = base == sum(LENGTHS)
        ids += doc
        nxt = [IGNORE if pad or (base == 0 and i < 3) else t for i, t in enumerate(doc[1:])] + [IGNORE]
        label += nxt
        position += range(n)
        start += [base] * n
    return {k: torch.tensor(v, dtype=torch.int32) for k, v in
            dict(id=ids, label=label, position=position, start=start).items()}


def documents(b):
    at = 0
    for n in LENGTHS + [PAD]:
        yield slice(at, at + n)
        at += n


def loss_of(model, b):
    """Mean over all labels of the cross entropy in float32 (float64 for a float64 model), and the logits [T, V]."""
    count = int((b["label"] != IGNORE).sum())
    total, logits = 0, []
    for s in documents(b):
        out = model(input_ids=b["id"][s].long()[None], position_ids=b["position"][s].long()[None]).logits[0]
        logits.append(out.detach())
        wide = out if out.dtype == torch.float64 else out.float()
        total = total + torch.nn.functional.cross_entropy(wide, b["label"][s].long(), ignore_index=IGNORE,
                                                          reduction="sum")
    return total / count, torch.cat(logits)


def gradients(model):
    return {n.replace(".default", ""): p for n, p in model.named_parameters() if p.requires_grad}


def values(model, b):
    model.zero_grad()
    loss, logits = loss_of(model, b)
    loss.backward()
    out = {"logits": logits.float(), "loss": loss.detach().float().reshape(1)}
    out.update({"grad." + n: p.grad.detach().float().contiguous() for n, p in gradients(model).items()})
    return out


def train(model, b, clip):
    model = copy.deepcopy(model)
    params = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(params, lr=LR, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
    losses = []
    for _ in range(STEPS):
        opt.zero_grad()
        loss, _ = loss_of(model, b)
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(params, clip)
        opt.step()
        losses.append(float(loss.detach()))
    return losses


def make(dtype, name):
    folder = os.path.join(HERE, "tiny_llama_" + name)
    torch.manual_seed(11)
    base = LlamaForCausalLM(config())
    for p in base.parameters():  # larger than the default: gradients and logits that are not near zero
        p.data = torch.randn_like(p) * (0.3 if p.ndim > 1 else 0.1) + (1.0 if p.ndim == 1 else 0.0)
    base = base.to(dtype)
    base.save_pretrained(os.path.join(folder, "model"))
    lora = LoraConfig(r=R, lora_alpha=ALPHA, target_modules=PROJ, task_type="CAUSAL_LM")
    model = get_peft_model(base, lora)
    for n, p in gradients(model).items():
        p.data = torch.randn_like(p) * (0.2 if "lora_A" in n else 0.1)
    model.save_pretrained(os.path.join(folder, "adapter"))
    for extra in ("adapter/README.md", "model/generation_config.json"):
        if os.path.exists(os.path.join(folder, extra)):
            os.remove(os.path.join(folder, extra))
    b = batch()
    save_file(b, os.path.join(folder, "batch.safetensors"))
    save_file(values(model, b), os.path.join(folder, "expected.safetensors"))
    if dtype != torch.float32:
        save_file(values(copy.deepcopy(model).double(), b), os.path.join(folder, "exact.safetensors"))
    out = dict(lr=LR, steps=STEPS, betas=[0.9, 0.999], eps=1e-8, weight_decay=0.0, clip=CLIP,
               losses=train(model, b, 0), losses_clipped=train(model, b, CLIP))
    if dtype != torch.float32:
        out["losses_exact"] = train(copy.deepcopy(model).double(), b, 0)
    with open(os.path.join(folder, "losses.json"), "w") as f:
        json.dump(out, f, indent=1)
    print(folder, values(model, b)["loss"].item())


if __name__ == "__main__":
    make(torch.float32, "f32")
    make(torch.bfloat16, "bf16")
