"""A model folder of a real shape with random bfloat16 weights, for runs that measure speed and memory.

    python3 tests/bench/random_model.py SHAPE DIR        (needs torch, transformers and a GPU)

SHAPE is one of peers_step.py. DIR has no tokenizer: copy tokenizer.json and tokenizer_config.json of another model there.
"""
import sys

import torch
from peers_step import SHAPES
from transformers import AutoModelForCausalLM

torch.manual_seed(0)
torch.set_default_dtype(torch.bfloat16)
with torch.device("cuda"):
    model = AutoModelForCausalLM.from_config(SHAPES[sys.argv[1]]())
model.save_pretrained(sys.argv[2], max_shard_size="4GB")
