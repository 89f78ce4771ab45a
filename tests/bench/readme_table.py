"""readme_table.py: the README's tables of kernels and attention from a run of `gradsmith bench --peers`.

    python3 tests/bench/readme_table.py BENCH.json            (prints them)
    python3 tests/bench/readme_table.py BENCH.json README.md  (writes each between its two comments there, if any)
    python3 tests/bench/readme_table.py BENCH.json awkward    (sizes that are no round ones beside their neighbours)

Both columns are of the run's turns, ours between the peers; only linear + cross entropy is in turns with its own two
matrix products, and its peers follow.
"""
import json
import re
import sys

BOTH = "forward", "backward"
ROWS = (
    ("RMSNorm forward / backward with dw, 16384×4096", "rmsnorm", "T=16384 H=4096", BOTH),
    ("… 16384×2048", "rmsnorm", "T=16384 H=2048", BOTH),
    ("… 16384×5120", "rmsnorm", "T=16384 H=5120", BOTH),
    ("… 8192×8192", "rmsnorm", "T=8192 H=8192", BOTH),
    ("… 4097×2880", "rmsnorm", "T=4097 H=2880", BOTH),
    ("LayerNorm forward / backward, 16384×4096", "layernorm", "T=16384 H=4096", BOTH),
    ("residual add + RMSNorm forward / backward, 16384×4096", "residual_rmsnorm", "T=16384 H=4096", ("forward", "backward dx,dr=dx,dw")),
    ("SwiGLU forward / backward, 16384×14336", "swiglu", "T=16384 F=14336", BOTH),
    ("… 8192×2880", "swiglu", "T=8192 F=2880", BOTH),
    ("RoPE on q and k, 16384 tokens", "rope_pair", "T=16384 N=32 K=8 D=128", ("forward",)),
    ("cross entropy, loss and gradient in place, 8192×32000", "cross_entropy", "T=8192 V=32000", ("terminal",)),
    ("… 8192×128256", "cross_entropy", "T=8192 V=128256", ("terminal",)),
    ("… 8192×151936", "cross_entropy", "T=8192 V=151936", ("terminal",)),
    ("linear + cross entropy, no logits tensor, 8192×4096→128256", "linear_cross_entropy", "T=8192 H=4096 V=128256", ("",)),
    ("… 8192×5120→151936", "linear_cross_entropy", "T=8192 H=5120 V=151936", ("",)),
    ("AdamW, all bf16, 2²⁸ values", "adamw_storage", "N=268435456", ("forward",)),
    ("NF4 → bf16, 4096×14336", "nf4_dequantize", "N=58720256", ("forward",)),
)

ATTENTION = (
    ("2×8192, 32 on 8, d 128", "T=16384 S=16384 B1=3 K=8 G=4 D=128 of 2x8192"),
    ("4×4096, 32 on 8, d 128", "T=16384 S=16384 B1=5 K=8 G=4 D=128 of 4x4096"),
    ("1×16384, 40 on 8, d 128", "T=16384 S=16384 B1=2 K=8 G=5 D=128 of 16384"),
    ("2×8192, 32 on 8, d 64", "T=16384 S=16384 B1=3 K=8 G=4 D=64 of 2x8192"),
    ("1×4096, 28 on 4, d 128", "T=4096 S=4096 B1=2 K=4 G=7 D=128 of 4096"),
    ("packed 8×2048, 32 on 8, d 128", "T=16384 S=16384 B1=9 K=8 G=4 D=128 of 8x2048"),
    ("packed, ten of 64 to 4000", "T=16384 S=16384 B1=11 K=8 G=4 D=128 of 4000,180,1700,512,64,900,333,4000,1700,2995"),
    ("packed 64×256", "T=16384 S=16384 B1=65 K=8 G=4 D=128 of 64x256"),
)
NORM = "rmsnorm.forward", "rmsnorm.backward"
AWKWARD = (  # name, shape, its round neighbour; what is compared is bytes a second
    *((n, "T=4097 H=4096", "T=4096 H=4096") for n in NORM), *((n, "T=4097 H=2880", "T=4096 H=3072") for n in NORM),
    *((n, "T=16384 H=896", "T=16384 H=1024") for n in NORM),
    *((n, "T=16384 H=2304", "T=16384 H=2048") for n in NORM), *((n, "T=16384 H=2880", "T=16384 H=2048") for n in NORM),
    *((n, "T=16384 H=5120", "T=16384 H=4096") for n in NORM), ("cross_entropy.terminal", "T=8192 V=50257", "T=8192 V=49152"),
    ("cross_entropy.terminal", "T=8192 V=151669", "T=8192 V=151936"), ("cross_entropy.terminal", "T=4096 V=262144", "T=8192 V=128256"),
)


def awkward(run):
    found = {(c["name"], c["shape"]): c for c in run["cases"] if "us" in c}
    out = ["| kernel | size | TB/s | round neighbour | TB/s | ratio | within 10 % |", "|---|---|---|---|---|---|---|"]
    for name, odd, even in AWKWARD:
        if (name, odd) not in found or (name, even) not in found: continue
        a, b = (found[name, s]["bytes_per_s"] * 1e-12 for s in (odd, even))
        out.append(f"| {name} | {odd} | {a:.2f} | {even} | {b:.2f} | {a / b:.2f} | {'yes' if a / b >= 0.9 else 'no'} |")
    return "\n".join(out)


def number(us):
    return f"{us:.1f}" if us < 1000 else f"{us:,.0f}".replace(",", " ")


def cells(case):
    beside = dict(case["beside_us"])
    ours = beside.pop("gradsmith", case["us"])
    name = min(beside, key=beside.get) if beside else None
    mine = number(ours)
    if "products_us" in case: mine += f", {case['memory_bytes'] / 2**20:.0f} MiB ({case['us'] / case['products_us']:.2f} × its two GEMMs)"
    return mine, f"{name} {number(beside[name])}" if name else "–"


def table(run):
    found = {(c["name"], c["shape"]): c for c in run["cases"] if "us" in c}
    out = ["| kernel, shape; µs in turns | gradsmith | best peer |", "|---|---|---|"]
    for label, layer, shape, passes in ROWS:
        some = [found.get((f"{layer}.{p}" if p else layer, shape)) for p in passes]
        if not all(some): continue
        pairs = [cells(c) for c in some]
        out.append(f"| {label} | {' / '.join(p[0] for p in pairs)} | {' / '.join(p[1] for p in pairs)} |")
    return "\n".join(out)


def attention(run):
    """TFLOP/s, forward / backward, of times in turns."""
    found = {(c["name"], c["shape"]): c for c in run["cases"] if "us" in c}
    out = ["| tokens, heads | gradsmith | cuDNN | FlashAttention-2 |", "|---|---|---|---|"]
    for label, shape in ATTENTION:
        some = [found.get((f"attention.{p}", shape)) for p in BOTH]
        if not all(some): continue
        rate = lambda c, who: f"{c['flops'] / c['beside_us'][who] * 1e-6:.0f}" if who in c["beside_us"] else "–"
        pair = [" / ".join(rate(c, who) for c in some) for who in ("gradsmith", "cudnn", "fa2")]
        out.append(f"| {label} | {' | '.join('–' if set(p) == {'–', ' ', '/'} else p for p in pair)} |")
    return "\n".join(out)


def place(text, name, into):
    """into, with text between the comments of that name; and whether they are there."""
    return re.subn(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", lambda m: m[1] + text + "\n" + m[2], into, flags=re.S)


def main():
    with open(sys.argv[1]) as f: run = json.load(f)
    if sys.argv[2:] == ["awkward"]:
        print(awkward(run))
        return
    if len(sys.argv) < 3:
        print(table(run), attention(run), sep="\n\n")
        return
    with open(sys.argv[2], encoding="utf-8") as f: text = f.read()
    text, kernels = place(table(run), "kernels", text)
    text, tiles = place(attention(run), "attention", text)
    if not kernels and not tiles: sys.exit(f"{sys.argv[2]} has no place: <!-- kernels --> and <!-- end of kernels -->, or so of attention")
    with open(sys.argv[2], "w", encoding="utf-8") as f: f.write(text)


if __name__ == "__main__":
    main()
