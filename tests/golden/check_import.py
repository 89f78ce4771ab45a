#!/usr/bin/env python3
"""Holds `gradsmith import` against the gguf package and transformers, on a real GGUF file.

    python tests/golden/check_import.py build/release/gradsmith MODEL.gguf [--logits]

Needs torch, transformers, tokenizers, safetensors, gguf. A developer's tool; not part of the tests.
Checked: every tensor equals the package's own dequantisation (un-permuted here by reshape), to the
bit in f32 and after one rounding in bf16; tokenizer ids and decoded text equal those of
transformers reading the same GGUF; with --logits, float32 logits of the two readings are equal.
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile

import gguf
import numpy as np
import tokenizers
import torch
import transformers
from safetensors.torch import load_file

NAMES = {
    "token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head",
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}

TEXTS = [
    "", " ", "  ", "\n", "\n\n \t x", "Hello, world!", "I'll don't WE'VE it's", "12345 67 8 9.10",
    "٣٤٥ ½ ² Ⅷ", "naïve café – “quotes”", "日本語のテキスト 漢字123", "emoji 🙂👩‍👩‍👧 flags 🇩🇪",
    "def f(x):\n    return x**2  # sq\n", "a" * 300, "0" * 40, "x1y22z333", "tab\tseparated\tvalues",
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "<|im_start|><repo_name>a<filename>",
    "\u0000\u0001\u007f", "e\u0301 combining", "İstanbul ßẞ ﬁ", "trailing space ", " leading",
    "nb\u00a0space \u2003em \u200bzero", "https://example.org/?q=1&b=2", "∑ᵢ xᵢ² ≤ ∞", "\r\n\r\nCRLF",
]


def hf_name(name):
    part = name.split(".")
    if part[0] == "blk":
        return f"model.layers.{part[1]}.{NAMES[part[2]]}.{part[3]}"
    return f"{NAMES[part[0]]}.{part[1]}"


def reference_tensors(path):
    reader = gguf.GGUFReader(path)
    heads = reader.fields["llama.attention.head_count"].contents()
    kv = reader.fields["llama.attention.head_count_kv"].contents()
    for t in reader.tensors:
        w = gguf.dequantize(t.data, t.tensor_type).astype(np.float32)
        for part, n in (("attn_q.weight", heads), ("attn_k.weight", kv)):
            if t.name.endswith(part):
                w = w.reshape(n, w.shape[0] // n // 2, 2, -1).swapaxes(1, 2).reshape(w.shape)
        yield hf_name(t.name), torch.from_numpy(np.ascontiguousarray(w))


def same_bits(a, b):
    as_int = torch.int32 if a.dtype == torch.float32 else torch.int16
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a.view(as_int), b.view(as_int))


def check_tensors(path, folders):
    got = {t: load_file(f"{d}/model.safetensors") for t, d in folders.items()}
    n = 0
    for name, want in reference_tensors(path):
        for dtype, tensors in got.items():
            if not same_bits(tensors.pop(name), want.to(dtype)):
                sys.exit(f"FAILED: {name} differs in {dtype}")
        n += 1
    for dtype, rest in got.items():
        if rest:
            sys.exit(f"FAILED: tensors that the GGUF has not: {sorted(rest)}")
    print(f"tensors: {n} equal to the bit, in float32 and in bfloat16")


def more_texts():
    here = os.path.dirname(os.path.abspath(__file__))
    for f in sorted(glob.glob(f"{here}/../../lua/**/*.lua", recursive=True)):
        yield open(f, encoding="utf-8").read()


def with_pre_tokenizer(theirs, ours):
    """transformers' reading of a GGUF has GPT-2's pre-tokenizer whatever tokenizer.ggml.pre says;
    vocabulary, merges and added tokens are its own, the pre-tokenizer that the name means is ours."""
    d = json.loads(theirs.to_str())
    d["pre_tokenizer"] = json.loads(ours.to_str())["pre_tokenizer"]
    return tokenizers.Tokenizer.from_str(json.dumps(d))


def check_tokenizer(path, folder):
    ours = transformers.AutoTokenizer.from_pretrained(folder)
    theirs = transformers.AutoTokenizer.from_pretrained(
        os.path.dirname(path) or ".", gguf_file=os.path.basename(path))
    mine = ours.backend_tokenizer
    exact = with_pre_tokenizer(theirs.backend_tokenizer, mine)
    bad, other, n = 0, 0, 0
    for text in TEXTS + list(more_texts()):
        x, y = mine.encode(text).ids, exact.encode(text).ids
        n += len(x)
        other += x != theirs(text)["input_ids"]
        if x != y:
            bad += 1
            print(f"  ids differ on {text[:60]!r}:\n    {x[:24]}\n    {y[:24]}")
        back = ours.decode(x, skip_special_tokens=False)
        if back != text:
            sys.exit(f"FAILED: {text[:60]!r} decodes to {back[:60]!r}")
    for key in ("bos_token_id", "eos_token_id", "pad_token_id", "chat_template"):
        if getattr(ours, key) != getattr(theirs, key):
            sys.exit(f"FAILED: {key}: {getattr(ours, key)!r} against {getattr(theirs, key)!r}")
    print(f"tokenizer: {n} ids, {bad} texts differ ({other} would under GPT-2's pre-tokenizer)")
    return bad == 0


def check_logits(path, folder):
    ours = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        os.path.dirname(path) or ".", gguf_file=os.path.basename(path), dtype=torch.float32)
    tok = transformers.AutoTokenizer.from_pretrained(folder)
    chat = tok.apply_chat_template([{"role": "user", "content": "What is the capital of France?"}],
                                   tokenize=False, add_generation_prompt=True)
    ids = tok(chat, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        d = (ours(ids).logits - theirs(ids).logits).abs().max().item()
        text = tok.decode(ours.generate(ids, max_new_tokens=24, do_sample=False)[0, ids.shape[1]:])
    print(f"logits: largest difference {d:g}; greedy answer: {text!r}")
    return d == 0


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("program")
    p.add_argument("gguf")
    p.add_argument("--logits", action="store_true")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as tmp:
        folders = {torch.float32: f"{tmp}/f32", torch.bfloat16: f"{tmp}/bf16"}
        for dtype, d in folders.items():
            kind = "f32" if dtype == torch.float32 else "bf16"
            subprocess.run([a.program, "import", a.gguf, d, "--dtype", kind], check=True)
        check_tensors(a.gguf, folders)
        ok = check_tokenizer(a.gguf, folders[torch.float32])
        if a.logits:
            ok = check_logits(a.gguf, folders[torch.float32]) and ok
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
