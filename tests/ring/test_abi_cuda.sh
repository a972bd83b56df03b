#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The wire header compiles as CUDA, host and device half. Skips (77) where there is no nvcc.
set -u
here=$(cd "$(dirname "$0")" && pwd)
nvcc=$(command -v nvcc || true)
[ -n "$nvcc" ] || nvcc=${CUDA_HOME:-/usr/local/cuda}/bin/nvcc
if [ ! -x "$nvcc" ]; then
    echo "SKIPPED: no nvcc on this machine" >&2
    exit 77
fi
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
"$nvcc" -std=c++17 -Werror all-warnings -I "$here/../../include" -c "$here/abi.cu" -o "$tmp/abi.o" || exit 1
# A wrong layout must be seen by the same compiler: otherwise this test proves nothing.
sed 's/alignof(struct tg_slot) == 64/alignof(struct tg_slot) == 32/' "$here/abi.cu" >"$tmp/wrong.cu"
if "$nvcc" -std=c++17 -I "$here/../../include" -c "$tmp/wrong.cu" -o "$tmp/wrong.o" 2>/dev/null; then
    echo "a false static assertion compiled" >&2
    exit 1
fi
