#!/usr/bin/env bash
# Builds and passes the tests on a machine without GPU. `./test.sh --asan` does the same under
# AddressSanitizer and UndefinedBehaviorSanitizer.
set -euo pipefail
cd "$(dirname "$0")"
. cmake/install_packages.sh

preset=release
case ${1:-} in
  "") ;;
  --asan) preset=asan ;;
  *) echo "usage: ./test.sh [--asan]" >&2; exit 2 ;;
esac

install_packages $build_packages python3 python3 pip3 python3-pip \
  /usr/include/criterion/criterion.h libcriterion-dev xz xz-utils

# NVRTC compiles the kernels for GPUs that are not here. Without a CUDA toolkit it comes from PyPI, once.
find_nvrtc() {
  ls /usr/local/cuda*/lib64/libnvrtc.so* /usr/local/cuda*/targets/*/lib/libnvrtc.so* > /dev/null 2>&1 && return
  local cache=${XDG_CACHE_HOME:-$HOME/.cache}/gradsmith/nvrtc-13.0
  if [ ! -e "$cache/lib64" ]; then
    echo "Fetching NVRTC (nvidia-cuda-nvrtc, from PyPI, once)"
    rm -rf "$cache.part" && mkdir -p "$cache.part"
    pip3 download --quiet --no-deps --disable-pip-version-check --dest "$cache.part" nvidia-cuda-nvrtc==13.0.88 || {
      echo "NVRTC could not be fetched: the tests that compile for GPUs will be skipped" >&2
      return 0
    }
    python3 -m zipfile -e "$cache.part"/*.whl "$cache.part"
    rm -f "$cache.part"/*.whl
    ln -s nvidia/cu13/lib "$cache.part/lib64"
    rm -rf "$cache" && mv "$cache.part" "$cache"
  fi
  export CUDA_HOME=$cache
}
find_nvrtc

# What tests compile is the same for both presets: kept once.
cmake --preset $preset -DGS_TESTS=ON -DGS_TEST_CACHE="$PWD/build/kernels" > /dev/null
cmake --build --preset $preset
ctest --test-dir build/$preset -j"$(nproc)" --output-on-failure --no-tests=error
