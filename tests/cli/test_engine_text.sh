#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# engine run --cuda FILE --op N[:SHAPE]: what is wrong with the options or the text is said and nothing runs; on a card with
# NVRTC, items of the text's opcodes run by a lane, a warp and a block. Without card or NVRTC that part is skipped.
set -u
tidegate=$1/tidegate
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
fail() { echo "FAILED: $*" >&2; tail -n 20 "$dir"/out "$dir"/err >&2; exit 1; }

cat >"$dir/ops.cu" <<'END'
#include <tidegate/device.cuh>
TG_DEVICE int tg_device_run(struct tg_device_op *op)
{
    uint32_t before;
    switch (op->opcode) {
    case 300: /* a lane: word a0 += a1 * a1; 13 is refused */
        if (op->args[1] == 13)
            return -22;
        return tg_device_add(op, op->args[0], op->args[1] * op->args[1], &before) ? TG_OP_FINISHED : -14;
    case 301: /* a warp: each lane its number */
    case 302: /* a block: likewise, and its lanes meet */
        tg_device_add(op, op->args[0], op->lane, &before);
        if (op->opcode == 302)
            tg_device_block_sync();
        return TG_OP_FINISHED;
    default:
        return TG_DEVICE_UNKNOWN;
    }
}
END
cat >"$dir/in" <<'END'
{"op": 300, "args": [3, 5], "id": "square"}
{"op": 300, "args": [3, 6], "priority": "high", "tenant": 4}
{"op": 300, "args": [3, 13]}
{"op": 301, "args": [4]}
{"op": 302, "args": [5]}
{"op": 303}
{"batch": [{"op": 300, "args": [6, 2]}, {"op": 301, "args": [6]}], "tag": 7}
{"op": "ATOMIC_ADD", "args": [100, 163]}
{"op": "SPIN_US", "args": [1]}
END

refused() { # WORD ARGUMENTS...
    local word=$1
    shift
    "$tidegate" engine run "$dir/in" "$@" >"$dir/out" 2>"$dir/err"
    [ $? = 2 ] || fail "'$*' does not end with 2"
    [ ! -s "$dir/out" ] || fail "'$*': results"
    grep -qF -- "$word" "$dir/err" || fail "'$*' does not say '$word'"
}
text=(--cuda "$dir/ops.cu")
refused "there is none" --op 300
refused "--backend cuda" "${text[@]}" --op 300
refused "--backend cuda" "${text[@]}" --op 300 --backend cpu
refused "which opcodes" "${text[@]}" --backend cuda
refused "exclude each other" "${text[@]}" --op 300 --backend cuda --body "$dir/in"
refused "opcode of the wire" "${text[@]}" --op 3 --backend cuda
refused "lane, warp or block" "${text[@]}" --op 300:grid --backend cuda
refused "lane, warp or block" "${text[@]}" --op 300: --backend cuda
refused "twice" "${text[@]}" --op 300 --op 300:warp --backend cuda
for value in "" x -1 0x100 4294967296 1.5 "300 :lane"; do
    refused "whole number" "${text[@]}" --op "$value" --backend cuda
done
many=()
for i in $(seq 300 556); do many+=(--op "$i"); done
refused "256 times" "${text[@]}" "${many[@]}" --backend cuda
"$tidegate" engine run --help | grep -q -- '--cuda FILE' || fail "the help does not have it"

ops=(--op 300 --op 301:warp --op 302:block --backend cuda)
"$tidegate" engine run "$dir/in" --cuda "$dir/none.cu" "${ops[@]}" >"$dir/out" 2>"$dir/err"
code=$?
if [ $code = 2 ] && grep -q 'not in this build' "$dir/err"; then
    echo "SKIPPED: the build has no command that can load a driver" >&2
    exit 77
fi
[ $code = 125 ] && grep -q 'cannot read' "$dir/err" || fail "a file that is not there"
printf 'a\0b' >"$dir/zero.cu"
refused "no text" --cuda "$dir/zero.cu" "${ops[@]}"

"$tidegate" engine run "$dir/in" "${text[@]}" "${ops[@]}" --save-control "$dir/control" >"$dir/out" 2>"$dir/err"
code=$?
if [ $code = 125 ] && grep -qE 'driver|no such GPU|NVRTC' "$dir/err"; then
    [ ! -s "$dir/out" ] || fail "results without an engine"
    echo "SKIPPED: no GPU with NVRTC here; that was said" >&2
    exit 77
fi
[ $code = 1 ] || fail "items that fault end it with 1, not $code"
word() { od -An -tu4 -j $((4 * $1)) -N 4 "$dir/control" | tr -d ' '; }
[ "$(word 163)" = 161 ] || fail "25 + 36 + 100, not $(word 163)"
[ "$(word 164)" = 496 ] || fail "the lanes of a warp, not $(word 164)"
[ "$(word 165)" = 8128 ] || fail "the lanes of a block, not $(word 165)"
[ "$(word 166)" = 500 ] || fail "a batch of both, not $(word 166)"
[ "$(grep -c '"status": "done"' "$dir/out")" -ge 7 ] || fail "seven are done"
grep -q '"line": 3, "status": "fault"' "$dir/out" || fail "what returned -22 is a fault"
grep '"line": 6,' "$dir/out" | grep -q 'unknown opcode' || fail "an opcode the text does not have"
sed 's/tg_device_add/tg_device_ad/' "$dir/ops.cu" >"$dir/bad.cu"
refused "tg_device_ad" --cuda "$dir/bad.cu" "${ops[@]}"
echo "lanes, warps and blocks ran the text"
