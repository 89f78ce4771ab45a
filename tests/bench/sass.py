"""sass.py: the machine code of a pack's kernels: how wide they reach into memory, and that nothing is kept in local memory.

    python3 tests/bench/sass.py FILE.pack NAME [NAME ...]        (needs the CUDA toolkit's cuobjdump and nvdisasm)

NAME is the beginning of a kernel's name. Of each kernel: registers, shared memory, stack frame; instructions that reach global memory by
width (128: sixteen bytes a thread), copies into shared memory, instructions on local memory. Exit 1 when a kernel uses local memory.
"""
import collections
import os
import re
import struct
import subprocess
import sys
import tempfile

GLOBAL = re.compile(r"\b(LDG|STG|LDGSTS|RED|REDG|ATOMG|UBLKCP|UTMALDG|UTMASTG|UTMAREDG|LDL|STL|LD|ST)((?:\.[A-Z0-9_]+)*)\s")
NAMES = {"LDG": "loads", "STG": "stores", "LDGSTS": "copies to shared", "UBLKCP": "bulk copies", "UTMALDG": "TMA loads", "UTMASTG": "TMA stores",
         "UTMAREDG": "TMA additions", "LDL": "LOCAL loads", "STL": "LOCAL stores", "LD": "generic loads", "ST": "generic stores"}


def cubins(data):
    """Every ELF file inside: from its header to the end of its section or program headers, whichever lies last."""
    at = data.find(b"\x7fELF")
    while at >= 0:
        phoff, shoff = struct.unpack_from("<QQ", data, at + 32)
        phentsize, phnum, shentsize, shnum = struct.unpack_from("<HHHH", data, at + 54)
        size = max(phoff + phentsize * phnum, shoff + shentsize * shnum)
        yield data[at:at + size]
        at = data.find(b"\x7fELF", at + size)


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def width(modifiers):
    return next((int(m) for m in modifiers.split(".") if m in ("64", "128", "256")), 8 if ".U8" in modifiers else 16 if ".U16" in modifiers else 32)


def count(sass):
    found = collections.Counter()
    for line in sass.splitlines():
        m = GLOBAL.search(line)
        if not m or m[1] not in NAMES: continue
        bits = "" if m[1].startswith("U") else f" of {width(m[2])} bits"
        found[NAMES[m[1]] + bits] += 1
    return found


def report(path, name):
    sass, use = run("cuobjdump", "--dump-sass", path), run("cuobjdump", "--dump-resource-usage", path)
    arch = re.search(r"sm_\d+\w?", sass)
    facts = dict(re.findall(r"(REG|STACK|SHARED|LOCAL):(\d+)", use))
    found = count(sass)
    local = [k for k in found if k.startswith("LOCAL")]
    print(f"{name}, {arch[0] if arch else 'unknown target'}: {facts.get('REG')} registers, {facts.get('SHARED')} bytes of static shared memory, "
          f"stack frame {facts.get('STACK')}, local {facts.get('LOCAL')}")
    for k in sorted(found): print(f"    {found[k]:4d} {k}")
    if not local: print("       0 instructions on local memory")
    return not local and facts.get("STACK", "0") == "0"


def main():
    fine, seen = True, set()
    with open(sys.argv[1], "rb") as f: data = f.read()
    for cubin in cubins(data):
        name = re.search(rb"\.text\.(\w+)", cubin)
        name = name[1].decode() if name else ""
        if not any(name.startswith(n) for n in sys.argv[2:]): continue
        with tempfile.NamedTemporaryFile(suffix=".cubin", delete=False) as f: f.write(cubin)
        fine = report(f.name, name) and fine
        seen.add(next(n for n in sys.argv[2:] if name.startswith(n)))
        os.unlink(f.name)
    for n in set(sys.argv[2:]) - seen: print(f"{n}: no such kernel in {sys.argv[1]}")
    return 0 if fine and len(seen) == len(set(sys.argv[2:])) else 1


if __name__ == "__main__":
    if len(sys.argv) < 3: sys.exit(__doc__)
    sys.exit(main())
