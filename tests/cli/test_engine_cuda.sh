#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# engine run --backend cuda: the same lines give the same results as with the CPU's workers. Where there is no card, or no
# CUDA in the build, it says which is missing, ends with that exit code, has run nothing, and the rest is skipped.
set -u
build=$1
tidegate=$build/tidegate
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() { echo "FAILED: $1"; tail -n 40 "$scratch"/out "$scratch"/err; exit 1; }

{
    for i in $(seq 1 500); do
        echo "{\"op\": \"ATOMIC_ADD\", \"args\": [$i, 161], \"tenant\": $((i % 29)), \"priority\": $((i % 5)), \"id\": $i}"
    done
    echo '{"op": "STORE_U32", "args": [7, 162]}'
    echo '{"op": "STORE_U32", "args": [7, 3]}'
    echo '{"op": "STORE_U32", "args": [7, 100000]}'
    echo '{"op": 99}'
    echo '{"packed": [{"op": "ATOMIC_ADD", "args": [1, 163]}, {"op": "ATOMIC_ADD", "args": [2, 163]}]}'
    echo '{"batch": [{"op": "ATOMIC_ADD", "args": [5, 164]}, {"op": "NOP"}], "tag": 77}'
    echo '{"op": "PRINTF", "args": [1, 2, 3]}'
} >"$scratch/in"

"$tidegate" engine run --backend cuda "$scratch/in" --summary json >"$scratch/out" 2>"$scratch/err"
code=$?
if [ $code = 2 ] && grep -q 'not in this build' "$scratch/err"; then
    [ ! -s "$scratch/out" ] || fail "results without an engine"
    echo "SKIPPED: the build has no CUDA; that was said" >&2
    exit 77
fi
if [ $code = 125 ] && grep -q 'needs a GPU and its driver' "$scratch/err"; then
    [ ! -s "$scratch/out" ] || fail "results without an engine"
    echo "SKIPPED: no GPU here; that was said" >&2
    exit 77
fi
[ $code = 1 ] || fail "items that fault must end it with 1, not $code"
"$tidegate" engine run --backend cuda:1000 </dev/null 2>"$scratch/err" && fail "a GPU 1000"
grep -q 'no such GPU' "$scratch/err" || fail "it does not say that there is no GPU 1000"
"$tidegate" engine run "$scratch/in" --summary json >"$scratch/cpu" 2>"$scratch/err" && fail "the CPU's run must end with 1 too"

# The results line by line; of the summary what is counted, not what is timed.
grep -v '"summary"' "$scratch/out" >"$scratch/a"
grep -v '"summary"' "$scratch/cpu" >"$scratch/b"
cmp "$scratch/a" "$scratch/b" || { diff "$scratch/a" "$scratch/b" | head; fail "the results differ"; }
for what in out cpu; do
    grep '"summary"' "$scratch/$what" | grep -o '"observable[^}]*}\|"epoch": [0-9]*' >"$scratch/$what.end"
done
[ -s "$scratch/out.end" ] || fail "no observables in the summary"
cmp "$scratch/out.end" "$scratch/cpu.end" || fail "the observable words differ"
echo "the same results as the CPU's workers"

# The buffers that the kernel wrote are as a reader of the wire expects them (dump ends with 1 otherwise), and say the same.
save() { # NAME OPTIONS...
    local name=$1
    shift
    "$tidegate" engine run "$@" "$scratch/in" --summary none --save-ring "$scratch/$name.ring" --save-control "$scratch/$name.control" \
        --save-log "$scratch/$name.log" >"$scratch/out" 2>"$scratch/err"
    for what in ring control log; do
        "$tidegate" engine dump "--$what" "$scratch/$name.$what" --json >"$scratch/$name.$what.json" 2>"$scratch/err" ||
            fail "dump --$what: something odd in what $name wrote"
    done
}
save gpu --backend cuda
save cpu
# (Not how often was claimed: a fence that waits for its items is claimed again.)
for what in shutdown done_count epoch tenant_masks tenant_quota executions partition_offsets fault_count log_dropped observables; do
    grep -oE "\"$what\": (\[[^]]*|[0-9]+|\{[^}]*)" "$scratch/gpu.control.json" >"$scratch/a"
    grep -oE "\"$what\": (\[[^]]*|[0-9]+|\{[^}]*)" "$scratch/cpu.control.json" >"$scratch/b"
    [ -s "$scratch/a" ] && cmp -s "$scratch/a" "$scratch/b" || { cat "$scratch/a" "$scratch/b"; fail "$what in the control buffers differs"; }
done
[ "$(grep -c '"status_name": "DONE"' "$scratch/gpu.ring.json")" -gt 0 ] || fail "nothing DONE in the ring"
grep -q '"record": 0, "format": 1, "args": \[2, 3,' "$scratch/gpu.log.json" || fail "the debug log's record"
echo "its buffers dump as the CPU's"

# The demo uses the GPU.
export TMPDIR=$scratch/tmp HOME=$scratch
mkdir "$TMPDIR" "$scratch/files"
for i in $(seq 1 20); do seq "$i" 7 $((i * 900)) >"$scratch/files/$i.txt"; done
"$tidegate" demo "$scratch/files" >"$scratch/out" 2>&1 || fail "the demo did not exit 0"
grep -q '^work-item plane on the GPU$' "$scratch/out" || fail "the demo did not use the GPU"
[ "$(grep -c '^  ok .*GPU: ' "$scratch/out")" -ge 4 ] || fail "fewer than four checks of the GPU"
echo "the demo uses it"
