"""A model folder of a real shape whose weights are zeros in a sparse file: for runs that measure starts and memory. Needs nothing but Python.

    python3 tests/bench/zero_model.py CONFIG.json DIR [LAYERS]       (a Llama configuration; DIR then lacks a tokenizer: copy another's)
"""
import json
import os
import sys

config = json.load(open(sys.argv[1]))
if len(sys.argv) > 3: config["num_hidden_layers"] = int(sys.argv[3])
H, F, V = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
head = config.get("head_dim") or H // config["num_attention_heads"]
q, kv = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
shapes = {"model.embed_tokens.weight": [V, H], "model.norm.weight": [H]}
if not config.get("tie_word_embeddings"): shapes["lm_head.weight"] = [V, H]
for i in range(config["num_hidden_layers"]):
    at = f"model.layers.{i}."
    shapes.update({at + "input_layernorm.weight": [H], at + "post_attention_layernorm.weight": [H], at + "self_attn.q_proj.weight": [q, H],
                   at + "self_attn.k_proj.weight": [kv, H], at + "self_attn.v_proj.weight": [kv, H], at + "self_attn.o_proj.weight": [H, q],
                   at + "mlp.gate_proj.weight": [F, H], at + "mlp.up_proj.weight": [F, H], at + "mlp.down_proj.weight": [H, F]})
header, end = {}, 0
for name, shape in shapes.items():
    size = 2
    for n in shape: size *= n
    header[name] = dict(dtype="BF16", shape=shape, data_offsets=[end, end + size])
    end += size
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
os.makedirs(sys.argv[2], exist_ok=True)
json.dump(config, open(os.path.join(sys.argv[2], "config.json"), "w"))
with open(os.path.join(sys.argv[2], "model.safetensors"), "wb") as f:
    f.write(len(text).to_bytes(8, "little") + text)
    f.truncate(8 + len(text) + end)
print(f"{len(shapes)} tensors, {end / 2**30:.1f} GiB")
