#!/bin/sh
# From the start of the process to the end of the first training step: nothing compiled before, everything compiled before, and with a pack.
#
#   tests/bench/start_times.sh GRADSMITH MODEL DATA.jsonl TOKENS      (a machine with a GPU; everything it writes goes to a new folder in TMPDIR)
# WARM="1 2": that many runs with everything compiled before (default three).
#
# Each line of "timing" is the program's own (train --timing); "process" is the whole process by the clock outside, its end included.
set -eu
gradsmith=$1 model=$2 data=$3 tokens=$4
work=$(mktemp -d)
export GRADSMITH_CACHE="$work/cache"

now() { date +%s.%N; }

# run NAME [OPTION ...]: one step
run() {
  name=$1 begin=$(now)
  shift
  "$gradsmith" train --model "$model" --data "$data" --out "$work/$name" --seq "$tokens" --steps 1 --timing "$@" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
  end=$(now)
  echo "$name: process $(echo "$begin $end" | awk '{printf "%.3f", $2 - $1}') s"
  grep '^timing' "$work/log"
}

"$gradsmith" doctor 2>/dev/null | sed -n 's/^ *GPU, driver */GPU /p;s/^ *NVRTC */NVRTC /p'
run cold
for i in ${WARM:-1 2 3}; do run "warm$i"; done
"$gradsmith" pack --model "$model" --seq "$tokens" --arch sm_90a --out "$work/model.pack"
run pack1 --pack "$work/model.pack"
run pack2 --pack "$work/model.pack"
echo "compiled again from nothing on 2 cores, then from the cache:"
rm -rf "$GRADSMITH_CACHE"
taskset -c 0,1 "$gradsmith" compile --model "$model" --seq "$tokens" --arch sm_90a --jobs 2
taskset -c 0,1 "$gradsmith" compile --model "$model" --seq "$tokens" --arch sm_90a --jobs 2
rm -rf "$work"
