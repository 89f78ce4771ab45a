#!/usr/bin/env python3
"""angles.md from the table of the golden test:

    GS_GOLDEN_TABLE=t GS_GOLDEN_FAMILY=positions GS_GOLDEN_CASE=rope_table \\
        build/debug/tests/test_layers_golden --filter '*/every_family'
    python tests/golden/layers/angles_table.py t > tests/golden/layers/angles.md
"""
import sys

HEAD = """# Errors of rotary angles

Largest error of cos and sin against exact angles (float64, frequency not rounded), theta 500 000,
64 frequencies, the 16 positions below each number, by the kernel of `rope_table` in the emulator.
`exact = 0` follows the reference: frequency, position and their product in f32. Written by
`angles_table.py` from the golden test's table.

| positions below | `exact = 0` | PyTorch, f32 | `exact = 1` |
|---|---|---|---|"""

rows = {}
for line in open(sys.argv[1], encoding="utf-8"):
    layer, case, _, _, _, ours, torch, _ = (x.strip() for x in line.split("|"))
    words = case.split()
    if layer == "rope_table" and words[1].isdigit():
        row = rows.setdefault(int(words[1]), {"reference": 0, "torch": 0, "exact": 0})
        row[words[2]] = max(row[words[2]], float(ours))
        if words[2] == "reference":
            row["torch"] = max(row["torch"], float(torch))
print(HEAD)
for top, row in sorted(rows.items()):
    print(f"| {top} | {row['reference']:.2e} | {row['torch']:.2e} | {row['exact']:.2e} |")
