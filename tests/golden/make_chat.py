#!/usr/bin/env python3
"""Makes tests/golden/chat/expected.json: conversations as transformers renders them with the chat
templates that lua/chat knows. The templates themselves are the models' and are not kept here: give a
folder with NAME.jinja for each NAME below (chat_template of the model's tokenizer_config.json).

  python3 tests/golden/make_chat.py FOLDER       (needs transformers; made with 5.24.0)
"""
import json
import os
import re
import sys

from jinja2.exceptions import TemplateError
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

NAMES = {  # file: model, bos, eos
    "smollm2": ("SmolLM2-Instruct", "<|im_start|>", "<|im_end|>"),
    "chatml": ("ChatML", "<s>", "<|im_end|>"),
    "qwen2.5": ("Qwen2.5-Instruct", None, "<|im_end|>"),
    "qwen3": ("Qwen3", None, "<|im_end|>"),
    "llama3": ("Llama-3-Instruct", "<|begin_of_text|>", "<|eot_id|>"),
    "llama3-always": ("Llama-3-Instruct, first edition", "<|begin_of_text|>", "<|eot_id|>"),
    "llama3.1": ("Llama-3.1-Instruct", "<|begin_of_text|>", "<|eot_id|>"),
    "llama3.2": ("Llama-3.2-Instruct", "<|begin_of_text|>", "<|eot_id|>"),
    "mistral-v0.1": ("Mistral-7B-Instruct-v0.1", "<s>", "</s>"),
    "mistral-v0.2": ("Mistral-7B-Instruct-v0.2", "<s>", "</s>"),
    "mixtral": ("Mixtral-8x7B-Instruct-v0.1", "<s>", "</s>"),
    "mixtral-8x22b": ("Mixtral-8x22B-Instruct-v0.1", "<s>", "</s>"),
    "mistral-nemo": ("Mistral-Nemo-Instruct-2407", "<s>", "</s>"),
    "phi3.5": ("Phi-3.5-mini-instruct", "<s>", "<|endoftext|>"),
    "zephyr": ("Zephyr-7B", "<s>", "</s>"),
    "tinyllama": ("TinyLlama-Chat, without system messages", "<s>", "</s>"),
    "r1-distill": ("DeepSeek-R1-Distill-Qwen", "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"),
}
S, U, A = "system", "user", "assistant"
TALKS = [  # roles and texts, generate
    ([(U, "What is a layer?")], True),
    ([(U, "What is a layer?"), (A, "Two formulas.")], False),
    ([(S, "Be brief."), (U, "Hi")], True),
    ([(S, "Be brief."), (U, "Hi"), (A, "Hello."), (U, "Bye")], True),
    ([(S, "Be brief."), (U, "Hi"), (A, "Hello."), (U, "Bye"), (A, "So long.")], False),
    ([(U, "a"), (A, "b"), (U, "c"), (A, "d"), (U, "e"), (A, "f")], False),
    ([(U, "  spaced \n"), (A, "\n\n also\u00a0 \u3000")], False),
    ([(U, "\x1cGröße 形 👍"), (A, "\u2028ja\u0085")], False),
    ([(S, ""), (U, ""), (A, "x")], False),
    ([(S, "  "), (U, "{{ 1 }} {% x %}"), (A, "<|im_end|></s>")], False),
    ([(U, "q"), (A, "<think>\nhm\n\n</think>\n\nr\n"), (U, "s"), (A, "\n<think>\n\nt</think>\nu")], False),
    ([(U, "q"), (A, "x</think>y</think>\nz")], False),
    ([(U, "q"), (A, "<think>a<think>b"), (U, "<tool_response>1</tool_response>")], True),
    ([(U, "q"), (A, "<think>a</think>b"), (U, "<tool_response>1</tool_response>"), (A, "c")], False),
    ([(U, "a"), (U, "b")], True),
    ([(A, "first"), (U, "b")], True),
    ([(S, "one"), (S, "two"), (U, "b")], True),
    ([(U, "b"), (S, "late"), (A, "c")], False),
    ([(S, "only")], True),
    ([(A, "only")], False),
]


def key(text):
    """As runtime/data/chat_key.c, written anew."""
    inside = r"(?:[^'\"]|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\")*?"
    tag = r"(\{%" + inside + r"%\}|\{\{" + inside + r"\}\}|\{#.*?#\})"
    tags = re.split(tag, text.replace("\r\n", "\n"), flags=re.S)
    out = []
    for i, part in enumerate(tags):
        if i % 2 == 0:
            if i and tags[i - 1][-3] == "-":
                part = part.lstrip(" \t\n\r\v\f")
            if i + 1 < len(tags) and tags[i + 1][2] == "-":
                part = part.rstrip(" \t\n\r\v\f")
            if i + 1 == len(tags) and part.endswith("\n"):
                part = part[:-1]
            out.append(part)
            continue
        head = part[:3] if part[2] in "-+" else part[:2]
        tail = part[-3:] if part[-3] == "-" else part[-2:]
        body = part[len(head):-len(tail)].strip(" \t\n\r\v\f")
        strings = r"('(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\")" if head[1] != "#" else r"(\Z.)"
        bits = re.split(strings, body, flags=re.S)
        body = "".join(b if k % 2 else re.sub(r"[ \t\n\r\v\f]+", " ", b) for k, b in enumerate(bits))
        out.append(head + " " + body + tail)
    data = "".join(out).encode()
    h = 0xCBF29CE484222325
    for b in data:
        h = (h ^ b) * 0x100000001B3 % 2**64
    return f"{len(data)}-{h:016x}"


def main():
    here, folder, made = os.path.dirname(os.path.abspath(__file__)), sys.argv[1], []
    for name, (model, bos, eos) in NAMES.items():
        with open(os.path.join(folder, name + ".jinja"), encoding="utf-8", newline="") as f:
            template = f.read()
        tok = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), bos_token=bos, eos_token=eos)
        texts = []
        for talk, generate in TALKS:
            messages = [{"role": r, "content": c} for r, c in talk]
            try:
                texts.append(tok.apply_chat_template(
                    messages, chat_template=template, tokenize=False, add_generation_prompt=generate,
                    date_string="26 Jul 2024"))
            except TemplateError:
                texts.append(None)
        made.append({"model": model, "key": key(template), "bos": bos, "eos": eos, "texts": texts})
    with open(os.path.join(here, "chat", "expected.json"), "w", encoding="utf-8") as f:
        json.dump({"talks": TALKS, "templates": made}, f, ensure_ascii=False, indent=0)
        f.write("\n")


if __name__ == "__main__":
    main()
