"""Writes lua/layers/TABLE.md from what the checks and the golden test print.

    gradsmith check --rounds 1 --table checks.md          # --device cuda on a GPU
    GS_GOLDEN_TABLE=golden.txt build/release/tests/test_layers_golden
    python3 tests/golden/layers/table.py checks.md golden.txt > lua/layers/TABLE.md
"""
import sys

checks, golden = sys.argv[1], sys.argv[2]
worst = {}  # (layer, type) -> [ours - torch, ours - exact, torch - exact]
for line in open(golden):
    layer, case, result, dtype, *errors = [c.strip() for c in line.split("|")]
    low = "bf16" if " bf16" in case else "f16" if " f16" in case else "f32"
    have = worst.setdefault((layer, low), [0.0, 0.0, 0.0])
    for i in range(3):
        have[i] = max(have[i], float(errors[i]))

print("""# Shipped layers

Made by `tests/golden/layers/table.py`. check: closed form against adjoint and differences, kernels against float64. Flops of the
backward an element of the largest input, and values saved, by hand / derived from the forward alone (`gradsmith derive`).
Golden errors: largest absolute difference over all results of all cases, ours from PyTorch's value, and in brackets
ours / PyTorch's own from float64; - where PyTorch has no such case or all values are f32.

| layer | lines | check | flops, hand / derived | saved, hand / derived | float32 | bfloat16 |
|---|---|---|---|---|---|---|""")


def golden_text(layer, low):
    e = worst.get((layer, low))
    return f"{e[0]:.1e} ({e[1]:.1e} / {e[2]:.1e})" if e else "-"


for line in list(open(checks))[2:]:
    layer, lines, check, bound, flops, saved = [c.strip() for c in line.strip().strip("|").split("|")]
    print(f"| {layer} | {lines} | {check} | {flops or '-'} | {saved or '-'} | {golden_text(layer, 'f32')} | "
          f"{golden_text(layer, 'bf16')} |")
