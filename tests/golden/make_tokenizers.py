#!/usr/bin/env python3
"""Makes tests/golden/tokenizers: tiny tokenizers in the configurations that real models use, and the
ids that Hugging Face's `tokenizers` gives for texts that are easy to get wrong.

  python3 tests/golden/make_tokenizers.py        (needs the package tokenizers; made with 0.23.3)
"""
import json
import os
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers as pre
from tokenizers import processors, trainers

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizers")
QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3 = QWEN.replace(r"\p{N}|", r"\p{N}{1,3}|")
CORPUS = """A layer is a short file with two formulas, the forward and the backward, and the machine checks
that the second is the gradient of the first. You're told what is wrong, where, and what would be right;
it's then yours to mend, and we'll see whether they've agreed. The norm of a row is the root of the mean
of its squares; the rows of 1024, 2048 and 4096 numbers are read once, the weights too. Die Größe der
Zeilen läßt sich überprüfen. 形状 は 行 と 列 である。 Слой читает строку и пишет строку.
    for i in range(10):
        print(i, i * 2, "text")   # 1 22 333 4444
""" * 3

TEXTS = [
    "", " ", "  ", "   x", "\n", "\n\n\n", " \n \n", "\t\t\n", "\r\n", "a\r\nb\r\n", "x ", "x  ",
    "x   y", "The rows are read once.", " The rows", "it's they've we'll I'm you'd he'Re THEY'LL",
    "'s 'tis", "\u017fs '\u017f", "1", "12", "123", "1234567890", "a1b22c333d4444",
    "½ ² ③ Ⅷ ٣٤", "3.14e-10, 1_000", "Größe läßt", "Gro\u0308ße la\u0308ßt",
    "\u1100\u1161\u11a8 \uac01", "\u212b \xc5 A\u030a", "e\u0301\u0327 e\u0327\u0301",
    "\ufb01 \u2460 \u3000", "形状は行と列である。", "Слой читает", "שלום עולם", "नमस्ते", "👍",
    "👨\u200d👩\u200d👧\u200d👦 🏳️\u200d🌈", "a👍b 🦙🦙", "\u200d\u200b\xa0x\xa0 y\u2028z\x85",
    "\u180e \u1680 x", "\x00", "a\x00b\x7f\x1f", "\ufeffbom", "\U0010ffff \ue000", "<|end|>",
    "a<|end|>b", "<|end|><|end|>", "<|end|", "<|start|>user\nHi<|end|>\n", "x <keep> y",
    "x<keep>y<keep>er<keep>e", "word words sword word", "wordé word_", "a <left> b",
    "a\n\t <left><left>", "a <right> \n b", "a<both>  <both> b", "Größer Gro\u0308ßer",
    "<s>hello</s> <s> a", "▁ ▁▁a", "a▁b", "    for i in range(10):\n        print(i)\n",
    "--==!!??...", "don't!\n\n\n  Stop", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "                                x", "=================================",
    "https://a.b/c?d=e&f=%20", "tab\tsep\tvalues", "mixed 行 and слой и 1024形",
]


def special(text, **kw):
    return AddedToken(text, special=True, normalized=False, **kw)


def trained(model, size, steps, alphabet, specials):
    tok = Tokenizer(model)
    tok.normalizer, tok.pre_tokenizer, tok.decoder = steps
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=specials, show_progress=False,
                                  initial_alphabet=alphabet)
    tok.train_from_iterator(CORPUS.splitlines(keepends=True), trainer)
    return tok


def byte_level(steps, size=420, **kw):
    return trained(models.BPE(**kw), size, steps, pre.ByteLevel.alphabet(), [special("<|end|>")])


def spm(steps, byte_fallback, **kw):
    specials = [special("<unk>"), special("<s>"), special("</s>")]
    if byte_fallback:
        specials += [AddedToken(f"<0x{i:02X}>") for i in range(256)]
    tok = trained(models.BPE(unk_token="<unk>", byte_fallback=byte_fallback, **kw),
                  480 if byte_fallback else 200, steps, [], specials)
    data = json.loads(tok.to_str())  # byte tokens are of the vocabulary, not added
    data["added_tokens"] = [t for t in data["added_tokens"] if not t["content"].startswith("<0x")]
    tok = Tokenizer.from_str(json.dumps(data))
    tok.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    return tok


def split_zoo():
    split = pre.Sequence([
        pre.Split(Regex(r"\s+"), "merged_with_next"), pre.Split("e", "merged_with_previous"),
        pre.Split(Regex(r"[!-/]"), "contiguous"),
        pre.Split(Regex(r"[b-df-hj-z ]+"), "merged_with_next", invert=True), pre.Split("tt", "removed"),
        pre.Split(Regex(r"[a-z0-9 ]+|\W"), "removed", invert=True), pre.Digits(False),
        pre.ByteLevel(add_prefix_space=True, use_regex=False)])
    return byte_level((normalizers.NFKC(), split, decoders.ByteLevel()), 360)


def build():
    made = {}
    plain = pre.ByteLevel(add_prefix_space=False)
    made["gpt2"] = byte_level((None, plain, decoders.ByteLevel()))
    made["smollm"] = byte_level((None, pre.Sequence([pre.Digits(True), plain]), decoders.ByteLevel()))
    regex = lambda p: pre.Sequence([pre.Split(Regex(p), "isolated"), pre.ByteLevel(False, use_regex=False)])
    qwen = byte_level((normalizers.NFC(), regex(QWEN), decoders.ByteLevel()))
    qwen.add_tokens([
        special("<|start|>"), AddedToken("<keep>", normalized=False),
        AddedToken("<keep>er", normalized=False), AddedToken("word", single_word=True),
        AddedToken("<left>", lstrip=True), AddedToken("<right>", rstrip=True), AddedToken("Größe"),
        AddedToken("<both>", lstrip=True, rstrip=True, normalized=False), AddedToken("    ")])
    made["qwen"] = qwen
    llama = byte_level((None, regex(LLAMA3), decoders.ByteLevel()), ignore_merges=True)
    llama.add_special_tokens([special("<|start|>")])
    llama.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|start|> $A <|end|>", pair="<|start|> $A $B", special_tokens=[
            ("<|start|>", llama.token_to_id("<|start|>")), ("<|end|>", llama.token_to_id("<|end|>"))])])
    made["llama3"] = llama
    back = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                              decoders.Strip(" ", 1, 0)])
    marks = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made["spm"] = spm((marks, None, back), True, fuse_unk=True)
    made["metaspace"] = spm((None, pre.Metaspace("▁", "first", False), decoders.Metaspace("▁", "first")),
                            False, fuse_unk=False)
    made["split"] = split_zoo()
    return made


def shrink(name, tok):
    data = json.loads(tok.to_str())
    if name in ("gpt2", "spm"):  # as older files write them
        data["model"]["merges"] = [" ".join(m) for m in data["model"]["merges"]]
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def random_texts(n):
    rnd, parts = random.Random(7), [t for t in TEXTS if t]
    return ["".join(rnd.choice(parts)[: rnd.randrange(1, 9)] for _ in range(rnd.randrange(1, 6)))
            for _ in range(n)]


def main():
    texts = TEXTS + random_texts(60)
    vectors = {"texts": texts}
    for name, made in build().items():
        folder = os.path.join(HERE, name)
        os.makedirs(folder, exist_ok=True)
        text = shrink(name, made)
        with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as f:
            f.write(text + "\n")
        tok = Tokenizer.from_str(text)
        ids = [tok.encode(t, add_special_tokens=False).ids for t in texts]
        vectors[name] = {
            "ids": ids,
            "special": [tok.encode(t).ids for t in texts[:20]],
            "decoded": [tok.decode(i, skip_special_tokens=False) for i in ids[:72]],
            "skipped": [tok.decode(i, skip_special_tokens=True) for i in ids[44:60]],
        }
    with open(os.path.join(HERE, "vectors.json"), "w", encoding="utf-8") as f:
        json.dump(vectors, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
