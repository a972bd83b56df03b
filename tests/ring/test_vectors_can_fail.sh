#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The vector replayer can fail: on copies of wire.jsonl with one kind of corruption it fails exactly the lines
# that were changed, closes with the right counts and exits 1; bad usage exits 2. Also 64-bit numbers.
set -u
replay=$1/tests/ring_vectors
good=$(cd "$(dirname "$0")/../data" && pwd)/wire.jsonl
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
# Without the lines that fill tens of megabytes: dozens of replays would be slow under a sanitizer.
grep -v '"fn":"[a-z_]*_large"' "$good" >"$tmp/good.jsonl"
good=$tmp/good.jsonl
total=$(grep -c . "$good")

die() {
    echo "FAILED: $*" >&2
    exit 1
}

# expect FILE CODE 'CLOSING LINE'
expect() {
    local out code
    out=$("$replay" "$1" 2>"$tmp/err")
    code=$?
    [ "$code" = "$2" ] || die "$1: exit $code, not $2"
    [ "$out" = "$3" ] || die "$1: '$out', not '$3'"
}

# corrupt NAME SED...: every line that the sed script changes must fail, and no other.
corrupt() {
    local name=$1 changed
    shift
    sed "$@" "$good" >"$tmp/$name.jsonl" || die "$name: sed"
    changed=$(paste "$good" "$tmp/$name.jsonl" | awk -F '\t' '$1 != $2' | wc -l)
    [ "$changed" -gt 0 ] || die "$name: changes nothing"
    expect "$tmp/$name.jsonl" 1 "$((total - changed)) passed, $changed failed"
    [ "$(grep -c '^line [0-9]* FAILED' "$tmp/err")" = "$changed" ] || die "$name: failing lines not named"
    echo "$name: $changed lines changed, $changed failed"
}

expect "$good" 0 "$total passed, 0 failed"

corrupt class_queue_full -e 's/"out":{"err":"QueueFull"}/"out":{"err":"Backend"}/'
corrupt class_backend -e 's/"out":{"err":"Backend"}/"out":{"err":"QueueFull"}/'
corrupt class_finer -e 's/"err":"ByteLengthOverflow"/"err":"QueueFull"/'
corrupt success_for_error -e 's/"out":{"err":"[A-Za-z]*"}/"out":{"ok":null}/'
corrupt last_digit_zero -e '/"bytes_after":"[0-9a-f]*[1-9a-f]"[^"]*$/s/\("bytes_after":"[0-9a-f]*\)[1-9a-f]"\([^"]*\)$/\10"\2/'
corrupt last_digit_one -e '/"bytes_after":"[0-9a-f]*0"[^"]*$/s/\("bytes_after":"[0-9a-f]*\)0"\([^"]*\)$/\11"\2/'
corrupt first_digit -e 's/"bytes_after":"0/"bytes_after":"f/'
corrupt bytes_missing -e '/"fn":"transition_slot_status".*"out":{"ok"/s/,"bytes_after":"[0-9a-f]*"}$/}/'
corrupt bytes_longer -e 's/"bytes_after":"\([0-9a-f]*\)"}$/"bytes_after":"\100"}/'
corrupt reader_vector -e 's/"out_after":\[.*\]}$/"out_after":[[1,1]]}/'
corrupt reader_vector_missing -e 's/,"out_after":\[.*\]}$/}/'
corrupt number -e 's/"out":{"ok":\([0-9]\+\)}/"out":{"ok":1\1}/'
corrupt boolean -e 's/"publish_ok":true/"publish_ok":false/'
corrupt constant -e 's/"opcode.PRINTF":65534/"opcode.PRINTF":65533/'
corrupt constant_unknown -e 's/"opcode.NOP":0/"opcode.NOP":0,"opcode.HALT":9/'
corrupt result_hex -e 's/"out":{"ok":"\([0-9a-f]*\)[0-9a-f]\{2\}"}/"out":{"ok":"\1fe"}/'
corrupt unknown_function -e 's/"fn":"publish_slot","in":{"ring"/"fn":"publish_slots","in":{"ring"/'
corrupt unknown_input -e 's/"in":{"ring"/"in":{"extra":1,"ring"/'
corrupt missing_input -e 's/"slot_count":[0-9]*,//'
corrupt negative_input -e 's/"slot_idx":\([0-9]\)/"slot_idx":-1\1/'
corrupt no_expectation -e 's/"out":{"err":"Backend"},\?/"note":0,/;s/"note":0,}$/"note":0}/'
corrupt truncated -e '7s/.\{9\}$//'

# 2^58 slots overflow 64 bits; so do the largest number there is and the first that 63 bits do not hold.
big='"fn":"try_count_done_ring_slots".*"item_count":288230376151711744'
for n in 18446744073709551615 9223372036854775808; do
    sed "/$big/s/288230376151711744/$n/" "$good" >"$tmp/big.jsonl"
    cmp -s "$good" "$tmp/big.jsonl" && die "no line with 2^58"
    expect "$tmp/big.jsonl" 0 "$total passed, 0 failed"
done
corrupt too_big -e "/$big/s/288230376151711744/18446744073709551616/"
corrupt not_whole -e "/$big/s/288230376151711744/288230376151711744.0/"

: >"$tmp/empty.jsonl"
expect "$tmp/empty.jsonl" 1 "0 passed, 0 failed"
printf '\n  \n' >"$tmp/blank.jsonl"
expect "$tmp/blank.jsonl" 1 "0 passed, 0 failed"
printf '{"fn":"ring_byte_len","in":{"n":1},"out":{"ok":64}}\0garbage\n' >"$tmp/nul.jsonl"
expect "$tmp/nul.jsonl" 1 "0 passed, 1 failed"
printf '{"fn":"ring_byte_len","in":{"n":1},"out":{"ok":64}}' >"$tmp/no_newline.jsonl"
expect "$tmp/no_newline.jsonl" 0 "1 passed, 0 failed"

"$replay" 2>/dev/null && die "no argument is accepted"
[ $? = 2 ] || die "no argument: not exit 2"
"$replay" "$good" "$good" >/dev/null 2>&1
[ $? = 2 ] || die "two arguments: not exit 2"
"$replay" "$tmp/absent" >/dev/null 2>&1
[ $? = 2 ] || die "an absent file: not exit 2"
echo "all corruptions were seen"
