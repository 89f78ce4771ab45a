#!/bin/sh
# Builds and runs what needs a GPU. Exit 0 when everything passed. See README.md beside this.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${GS_BUILD:-$root/build/gpu}
generator=""
command -v ninja >/dev/null 2>&1 && generator="-G Ninja"
# shellcheck disable=SC2086
cmake $generator -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DGS_TESTS=OFF >/dev/null
cmake --build "$build" --target gpu_smoke prelude_bits tile_bits linear_ce gradsmith
"$build/gradsmith" doctor
failed=0
"$(find "$build" -name gpu_smoke -type f | head -n 1)" "$@" || failed=1
"$(find "$build" -name prelude_bits -type f | head -n 1)" || failed=1
"$(find "$build" -name tile_bits -type f | head -n 1)" || failed=1
"$(find "$build" -name linear_ce -type f | head -n 1)" || failed=1
"$build/gradsmith" check --device cuda || failed=1
cmake --build "$build" --target libgradsmith libgradsmith_static
cmake --install "$build" --prefix "$build/installed" >/dev/null
cmake -S "$root/examples/rmsnorm" -B "$build/example" -DCMAKE_PREFIX_PATH="$build/installed" >/dev/null
cmake --build "$build/example"
"$build/gradsmith" pack --layers rmsnorm:bf16:H=4096 --out "$build/rmsnorm.pack" &&
  "$build/example/rmsnorm" "$build/rmsnorm.pack" || failed=1
exit $failed
