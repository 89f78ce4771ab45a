#!/usr/bin/env python3
"""rope_scaling.json: the frequencies of every rope type of transformers' modeling_rope_utils, in
f32 as it computes them and in float64, for tests/unit/test_rope_scaling.c."""
import json
import os

import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

import golden

CASES = {
    "default": ({"rope_type": "default", "rope_theta": 500000.0}, {}, None),
    "linear": ({"rope_type": "linear", "rope_theta": 10000.0, "factor": 3.0}, {}, None),
    "dynamic short": ({"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}, {}, 1000),
    "dynamic long": ({"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}, {}, 5000),
    "yarn": ({"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0,
              "original_max_position_embeddings": 32768},
             {"max_position_embeddings": 131072}, None),
    "yarn deepseek": ({"rope_type": "yarn", "rope_theta": 10000.0, "factor": 40.0,
                       "original_max_position_embeddings": 4096, "beta_fast": 32, "beta_slow": 1,
                       "mscale": 1.0, "mscale_all_dim": 0.8},
                      {"max_position_embeddings": 163840}, None),
    "yarn gpt-oss": ({"rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0,
                      "original_max_position_embeddings": 4096, "beta_fast": 32.0,
                      "beta_slow": 1.0, "truncate": False},
                     {"max_position_embeddings": 131072}, None),
    "llama3": ({"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0,
                "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192}, {}, None),
    "longrope short": ({"rope_type": "longrope", "rope_theta": 10000.0,
                        "short_factor": [1.0 + 0.05 * i for i in range(32)],
                        "long_factor": [1.0 + 1.5 * i for i in range(32)],
                        "original_max_position_embeddings": 4096},
                       {"max_position_embeddings": 131072}, 4096),
    "longrope long": ({"rope_type": "longrope", "rope_theta": 10000.0,
                       "short_factor": [1.0 + 0.05 * i for i in range(32)],
                       "long_factor": [1.0 + 1.5 * i for i in range(32)],
                       "original_max_position_embeddings": 4096, "attention_factor": 1.25},
                      {"max_position_embeddings": 131072}, 4097),
    "partial": ({"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0,
                 "partial_rotary_factor": 0.25}, {}, None),
    "proportional": ({"rope_type": "proportional", "rope_theta": 1e6, "factor": 2.0,
                      "partial_rotary_factor": 0.25}, {}, None),
}
HEAD = 64


def frequencies(rope, more, longest):
    c = LlamaConfig(hidden_size=4 * HEAD, num_attention_heads=4, head_dim=HEAD,
                    rope_parameters=dict(rope), **{"max_position_embeddings": 2048, **more})
    if rope["rope_type"] == "default":
        f, scale = LlamaRotaryEmbedding.compute_default_rope_parameters(c)
    else:
        f, scale = ROPE_INIT_FUNCTIONS[rope["rope_type"]](c, torch.device("cpu"), longest)
    return [float(x) for x in f], float(scale)


cases = []
for name, (rope, more, longest) in CASES.items():
    inv_freq, scale = frequencies(rope, more, longest)
    with golden.in_double():
        exact, _ = frequencies(rope, more, longest)
    config = {"rope_parameters": rope, "max_position_embeddings": 2048, **more}
    cases.append({"name": name, "config": config, "head": HEAD, "longest": longest,
                  "inv_freq": inv_freq, "exact": exact, "scale": scale})
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rope_scaling.json")
with open(path, "w", encoding="utf-8") as out:
    json.dump(cases, out, indent=0)
    out.write("\n")
print(path, len(cases), "cases", os.path.getsize(path), "bytes")
