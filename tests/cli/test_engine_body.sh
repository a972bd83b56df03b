#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# engine run --body: an opcode of the user, given as text, runs among the others; what is wrong with it is said with exit 2
# and nothing runs. The same lines give the same results on a GPU, where there is one and NVRTC (cli.engine_cuda opens it).
set -u
tidegate=$1/tidegate
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
fail() { echo "FAILED: $*" >&2; tail -n 20 "$dir"/out "$dir"/err >&2; exit 1; }
command -v cc >/dev/null || { echo "SKIPPED: no compiler cc here" >&2; exit 77; }

cat >"$dir/square.ir" <<'END'
(opcode 8
  (atomic_add before observable a1 (mul a0 a0) relaxed)
  (if (eq a0 13) (return 77))
  (return 0))
END
cat >"$dir/sum.ir" <<'END'
(opcode 300 (loop i 0 a0 64 (store observable (add i 10) i)))
END
cat >"$dir/in" <<'END'
{"op": 8, "args": [5, 3], "id": "square"}
{"op": 8, "args": [6, 3]}
{"op": 8, "args": [13, 4]}
{"op": 8, "args": [1, 100000]}
{"op": 300, "args": [20]}
{"op": "ATOMIC_ADD", "args": [100, 163]}
END
"$tidegate" engine run "$dir/in" --body "$dir/square.ir" --body "$dir/sum.ir" --save-control "$dir/control" >"$dir/out" 2>"$dir/err"
[ $? = 1 ] || fail "items that fault end it with 1"
word() { od -An -tu4 -j $((4 * $1)) -N 4 "$dir/control" | tr -d ' '; }
[ "$(word 163)" = 161 ] || fail "25 + 36 + 100, not $(word 163)"
[ "$(word 164)" = 169 ] || fail "13 * 13, not $(word 164)"
[ "$(word 189)" = 19 ] || fail "the loop's last word"
[ "$(grep -c '"done"' "$dir/out")" = 4 ] || fail "four are done"

echo '(opcode 9 (store control 3 1))' >"$dir/bad.ir"
"$tidegate" engine run "$dir/in" --body "$dir/bad.ir" >"$dir/out" 2>"$dir/err"
[ $? = 2 ] || fail "a body outside of what it may touch"
[ ! -s "$dir/out" ] && grep -q 'line 1' "$dir/err" || fail "it ran, or the place is not said"
"$tidegate" engine run "$dir/in" --body "$dir/square.ir" --body "$dir/square.ir" >"$dir/out" 2>"$dir/err"
[ $? = 2 ] || fail "one opcode twice"
"$tidegate" engine run "$dir/in" --body "$dir/none.ir" >"$dir/out" 2>"$dir/err"
[ $? = 125 ] || fail "a file that is not there"
CC=/bin/false "$tidegate" engine run "$dir/in" --body "$dir/square.ir" >"$dir/out" 2>"$dir/err"
[ $? = 2 ] && grep -q 'cannot compile' "$dir/err" || fail "a compiler that fails"
exit 0
