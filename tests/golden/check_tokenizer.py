#!/usr/bin/env python3
"""check_tokenizer.py TOKENIZER_JSON TEXT IDS: the ids of each line of TEXT, and of all of it last, one
list a line in IDS, against those of Hugging Face's `tokenizers`. Exit code 1 at the first difference."""
import sys

from tokenizers import Tokenizer

tok = Tokenizer.from_file(sys.argv[1])
with open(sys.argv[2], "rb") as f:
    whole = f.read().decode()
with open(sys.argv[3], encoding="ascii") as f:
    lines = f.read().split("\n")[:-1]
texts = whole.split("\n")[:-1] + [whole]
if len(texts) != len(lines):
    sys.exit(f"{sys.argv[2]}: {len(lines)} lists of ids for {len(texts)} texts")
total = 0
for k, (text, line) in enumerate(zip(texts, lines)):
    got, want = [int(x) for x in line.split()], tok.encode(text, add_special_tokens=False).ids
    total += len(want)
    if got != want:
        i = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
        sys.exit(f"{sys.argv[2]}:{k + 1}: id {i}: got {got[i:i + 5]}, want {want[i:i + 5]}: {text[:80]!r}")
print(f"{total} tokens of {len(texts)} texts agree")
