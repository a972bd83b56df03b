#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tidegate engine emit --cuda: nvcc makes PTX of it for every architecture from sm_80 to sm_90, warnings being errors.
# Where there is a GPU the kernel runs on it and is held against the C11 of the same nodes (emit_cuda_run.cu).
set -u
tidegate=$1/tidegate
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
[ -x "$nvcc" ] || { echo "no nvcc here" >&2; exit 77; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
fail() { echo "FAIL: $*" >&2; exit 1; }
cat >"$dir/body.ir" <<'END'
(buffer own 9)
(opcode 8
  (let __global__ (load observable a0))
  (let threadIdx (mul __global__ 3))
  (store own 1 threadIdx)
  (let unread 2)
  (atomic_and _ observable 1 __global__ release) (atomic_or or observable 2 a1 acquire)
  (atomic_cas int observable 0 __global__ threadIdx acq_rel)
  (return (select (eq int threadIdx) 0 1)))
END
"$tidegate" engine emit --cuda --slots 4096 --stride 64 --body "$dir/body.ir" >"$dir/kernel.cu" || fail "emit failed"
for arch in sm_80 sm_86 sm_89 sm_90; do
    "$nvcc" -arch=$arch -ptx -Werror all-warnings -o "$dir/kernel.ptx" "$dir/kernel.cu" 2>"$dir/err" ||
        { head -30 "$dir/err" >&2; fail "nvcc -arch=$arch refuses it"; }
    grep -q '\.entry tg_kernel' "$dir/kernel.ptx" || fail "no entry point in the PTX of $arch"
    grep -q 'atom.acq_rel.sys' "$dir/kernel.ptx" || fail "no system-scope atomics in the PTX of $arch"
done
"$tidegate" engine emit --cuda --slots 65536 --indexed >"$dir/indexed.cu" || fail "emit --indexed failed"
"$nvcc" -arch=sm_80 -ptx -Werror all-warnings -o "$dir/kernel.ptx" "$dir/indexed.cu" || fail "nvcc refuses the index"

"$tidegate" engine emit --c --slots 24 --until-idle >"$dir/alone.c" || fail "emit --c failed"
"$tidegate" engine emit --cuda --slots 24 --until-idle >"$dir/alone.cu" || fail "emit --cuda failed"
cc -O2 -c "$dir/alone.c" -o "$dir/alone.o" || fail "the C11 does not compile"
"$nvcc" -O2 -gencode arch=compute_80,code=compute_80 -DKERNEL="\"$dir/alone.cu\"" -o "$dir/run" \
    "$(dirname "$0")/emit_cuda_run.cu" "$dir/alone.o" || fail "the runner does not compile"
timeout 150 "$dir/run"
code=$?
[ $code = 77 ] && echo "no GPU here: compiled only" >&2 && exit 0
exit $code
