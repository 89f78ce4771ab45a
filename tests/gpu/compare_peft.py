"""The same training steps by transformers + peft, beside those that gradsmith logged.

    gradsmith train --model M --data D.jsonl --out O --init-adapter A --steps 50 --log ours.jsonl --log-rows
    python3 tests/gpu/compare_peft.py --model M --adapter A --ours ours.jsonl --out result.json

Both start from the adapter A, see the same packed rows and take the learning rate of each step, all from gradsmith's log. Documents of a
row are kept apart by a block-diagonal causal mask. Prints both losses and their relative difference at every step, and
fails when one exceeds 0.5 %. --exact also runs peft in float32 and says how far each of the two is from that.
"""
import argparse
import datetime
import json
import subprocess
import sys
import time

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM


def mask_of(cu, dtype):
    """[documents + 1] where documents begin, and the end -> additive [1, 1, T, T]."""
    t = torch.arange(int(cu[-1]), device=cu.device)
    document = torch.searchsorted(cu, t, right=True)
    seen = (t[None, :] <= t[:, None]) & (document[None, :] == document[:, None])
    return torch.where(seen, 0.0, torch.finfo(dtype).min).to(dtype)[None, None]


def step(model, params, opt, row, lr, clip):
    for g in opt.param_groups:
        g["lr"] = lr
    opt.zero_grad(set_to_none=True)
    mask = mask_of(row["cu"], model.dtype)
    logits = model(input_ids=row["id"][None], position_ids=row["position"][None], attention_mask=mask).logits[0]
    count = (row["label"] != -100).sum()
    loss = torch.nn.functional.cross_entropy(logits.float(), row["label"], ignore_index=-100, reduction="sum") / count
    loss.backward()
    if clip:
        torch.nn.utils.clip_grad_norm_(params, clip)
    opt.step()
    return float(loss.detach())


def card():
    out = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                         capture_output=True, text=True).stdout
    return out.strip()


def run(a, ours, dtype):
    """The losses of every step by peft, the model in that type."""
    torch.backends.cuda.matmul.allow_tf32 = False
    base = AutoModelForCausalLM.from_pretrained(a.model, dtype=getattr(torch, dtype)).cuda()
    model = PeftModel.from_pretrained(base, a.adapter, is_trainable=True)
    model.train()
    params = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
    losses = []
    for mine in ours:
        row = {k: torch.tensor(mine[k], device="cuda") for k in ("id", "label", "position", "cu")}
        losses.append(step(model, params, opt, row, mine["lr"], a.clip))
    return losses


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("model", "adapter", "ours"):
        ap.add_argument("--" + name, required=True)
    ap.add_argument("--out")
    ap.add_argument("--clip", type=float, default=1.0)
    ap.add_argument("--dtype", default="bfloat16")
    ap.add_argument("--bound", type=float, default=0.005)
    ap.add_argument("--exact", action="store_true")
    a = ap.parse_args()
    ours = [json.loads(line) for line in open(a.ours)]
    begin = time.time()
    theirs = run(a, ours, a.dtype)
    took = time.time() - begin
    exact = run(a, ours, "float32") if a.exact else [None] * len(ours)
    table = []
    for i, (mine, peft, true) in enumerate(zip(ours, theirs, exact)):
        r = dict(step=i + 1, gradsmith=mine["loss"], peft=peft, relative=abs(mine["loss"] - peft) / peft)
        if true:
            r.update(peft_float32=true, gradsmith_off=abs(mine["loss"] - true) / true, peft_off=abs(peft - true) / true)
        table.append(r)
        print(f"{i + 1:3d}  gradsmith {mine['loss']:.6f}  peft {peft:.6f}  {100 * r['relative']:.4f} %", flush=True)
    worst = max(r["relative"] for r in table)
    print(f"{len(ours[0]['id'])} tokens a step: largest difference {100 * worst:.4f} % over {len(table)} steps; "
          f"peft took {took:.1f} s, gradsmith {sum(m['seconds'] for m in ours):.1f} s")
    if a.exact:
        print("from peft in float32: gradsmith at most %.4f %%, peft at most %.4f %%" % tuple(
            100 * max(r[k] for r in table) for k in ("gradsmith_off", "peft_off")))
    if a.out:
        head = dict(card=card(), date=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                    command=" ".join(sys.argv), torch=torch.__version__, dtype=a.dtype, tokens=len(ours[0]["id"]), worst=worst)
        json.dump(dict(head, steps=table), open(a.out, "w"), indent=1)
    sys.exit(0 if worst <= a.bound else 1)


if __name__ == "__main__":
    main()
