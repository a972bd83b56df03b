#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The demo as a person runs it: its checks hold, it leaves nothing behind, it says no when something is wrong.
set -u
build=$1
tidegate=$build/tidegate
scratch=$(mktemp -d /tmp/tg-demo-test-XXXXXX)
trap 'rm -rf "$scratch"' EXIT
export TMPDIR=$scratch/tmp HOME=$scratch
mkdir "$TMPDIR" "$scratch/files" "$scratch/empty" "$scratch/shim"

fail() { echo "FAILED: $1"; [ -f "$scratch/out" ] && tail -n 60 "$scratch/out"; exit 1; }

for i in $(seq 1 40); do
    { echo "file $i"; seq "$i" 7 $((i * 900)); } >"$scratch/files/file $i.txt"
done
: >"$scratch/files/nothing"
mkfifo "$scratch/files/fifo"
ln -s /dev/zero "$scratch/files/link"

"$tidegate" demo "$scratch/files" >"$scratch/out" 2>&1 || fail "the demo did not exit 0"
grep -q '^every check held' "$scratch/out" || fail "no closing line"
grep -q 'FAILED' "$scratch/out" && fail "a failed check with exit 0"
grep -q 'backfilled before' "$scratch/out" || fail "nobody backfilled"
grep -E 'waits +waits|waited .* waits' "$scratch/out" && fail "a reason says 'waits' twice"
[ "$(grep -c '^  ok ' "$scratch/out")" -ge 10 ] || fail "fewer than ten checks"
[ -z "$(ls -A "$TMPDIR")" ] || fail "left behind: $(ls -A "$TMPDIR")"
for p in /proc/[0-9]*; do
    line=$(tr '\0' ' ' 2>/dev/null <"$p/cmdline") || continue
    case $line in *tidegate-broker*"$TMPDIR"*) fail "left behind: $line" ;; esac
done
echo "a run whose checks hold"

# Two at once, each with a broker of its own.
"$tidegate" demo "$scratch/files" >"$scratch/out" 2>&1 &
first=$!
"$tidegate" demo "$scratch/files" >"$scratch/out2" 2>&1 || { mv "$scratch/out2" "$scratch/out"; fail "the second of two"; }
wait "$first" || fail "the first of two"
echo "two at once"

# A job that fails is a failed check and exit 1.
printf '#!/bin/sh\nexit 3\n' >"$scratch/shim/gzip"
chmod +x "$scratch/shim/gzip"
PATH=$scratch/shim:$PATH "$tidegate" demo "$scratch/files" >"$scratch/out" 2>&1
[ $? = 1 ] || fail "a failing command must end the demo with 1"
grep -q 'FAILED' "$scratch/out" || fail "the failing check is not named"
echo "a check that does not hold"

# A broker that cannot be started: exit 1, with a reason, and nothing left.
TIDEGATE_BROKER=/bin/false "$tidegate" demo "$scratch/files" >"$scratch/out" 2>&1
[ $? = 1 ] || fail "without a broker it must end with 1"
[ -z "$(ls -A "$TMPDIR")" ] || fail "left behind after a failure: $(ls -A "$TMPDIR")"

for bad in "$scratch/empty" "$scratch/not there" "$scratch/files/nothing" --no-such-option; do
    "$tidegate" demo "$bad" >"$scratch/out" 2>&1
    [ $? = 2 ] || fail "'$bad' must end with 2"
    grep -qF -- "$bad" "$scratch/out" || fail "the message does not name '$bad'"
done
"$tidegate" demo a b >"$scratch/out" 2>&1
[ $? = 2 ] || fail "two folders must end with 2"
echo "bad input"
