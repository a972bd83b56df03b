#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tidegate engine emit --c: the unit compiles alone and without a warning, under gcc and clang, for rings and strides of
# several sizes and with bodies of the user; bad input is refused with exit 2 and the place; names do no harm.
set -u
tidegate=$1/tidegate
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
fail() { echo "FAIL: $*" >&2; exit 1; }
compilers=
for cc in gcc clang; do command -v $cc >/dev/null && compilers="$compilers $cc"; done
[ -n "$compilers" ] || { echo "no gcc and no clang here" >&2; exit 77; }

# Names that are words of C, of the prelude, or of CUDA.
cat >"$dir/int.ir" <<'END'
(buffer return 0)
(buffer own 7)
(opcode 8
  (let int (load observable a0))
  (let k (add int 3))
  (let tg_load_relaxed (rem k 0))
  (if (lt int 10) (block a*label* (assign int (shl k 40)) (store own 3 int)))
  (loop u32 0 (min k 4) 4 (store observable u32 (select (ge u32 0) int tg_load_relaxed)))
  (atomic_add env observable 1 k acq_rel)
  (return 0))
END
check() { # NAME ARGUMENTS...
    local name=$1
    shift
    "$tidegate" engine emit "$@" >"$dir/$name.c" 2>"$dir/err" || { cat "$dir/err" >&2; fail "emit $* failed"; }
    for cc in $compilers; do
        $cc -std=c11 -O1 -Wall -Wextra -Wconversion -Wshadow -pedantic -Werror -c "$dir/$name.c" -o "$dir/$name.o" \
            2>"$dir/err" || { head -30 "$dir/err" >&2; fail "$cc refuses emit $*"; }
    done
}
check plain --c
check large --c --slots 1048576 --stride 1024 --unrestricted
check indexed --c --slots 1048576 --indexed
check one --c --slots 1 --until-idle
check body --c --slots 64 --body "$dir/int.ir"
grep -q 'v[0-9]*_tg_load_relaxed' "$dir/body.c" || fail "the body is not in the text"
grep -q 'u32 int\b' "$dir/body.c" && fail "a name of the user is a word of the text"

# An atomic keeps its order, which no run on x86 would tell.
for order in relaxed acquire release acq_rel; do
    echo "(opcode 8 (atomic_add _ observable 1 1 $order) (atomic_exchange _ observable 2 1 $order)
        (atomic_cas _ observable 3 1 2 $order))" >"$dir/order.ir"
    check order --c --body "$dir/order.ir"
    for verb in add exchange cas; do
        # Buffer 2 is observable.
        grep -q "tg_${verb}_$order(k->words\[2\] + [123]u" "$dir/order.c" || fail "no $order $verb in the text"
    done
    grep -Eq "^TG_ATOMICS\($order, __ATOMIC_${order^^}," "$dir/order.c" || fail "$order is not what C calls it"
done
grep -q 'tg_cas_acq_rel(k->words\[0\]' "$dir/plain.c" || fail "a claim is not acq_rel"
! grep -q 'tg_cas_relaxed(k->words\[0\]' "$dir/plain.c" || fail "a claim is relaxed"

# Standard input, and the same text twice.
"$tidegate" engine emit --c --body - <"$dir/int.ir" | cmp - <("$tidegate" engine emit --c --body "$dir/int.ir") ||
    fail "two texts of one body"

refuse() { # WANTED-IN-MESSAGE ARGUMENTS...
    local wanted=$1
    shift
    "$tidegate" engine emit "$@" >"$dir/out" 2>"$dir/err"
    [ $? = 2 ] || fail "emit $* is not refused with 2"
    [ ! -s "$dir/out" ] || fail "emit $* prints something"
    grep -q -- "$wanted" "$dir/err" || { cat "$dir/err" >&2; fail "emit $*: no '$wanted' in the message"; }
}
echo '(opcode 8 (store control 0 1))' >"$dir/control.ir"
echo '(opcode 8 (let x y))' >"$dir/unknown.ir"
echo '(opcode 5 (pause))' >"$dir/reserved.ir"
printf '(opcode 8\n  (let %s 1))' "$(head -c 10000 /dev/zero | tr '\0' n)" >"$dir/long.ir"
refuse 'language'
refuse 'language' --c --cuda
refuse 'slots' --c --slots 0
refuse 'slots' --c --slots 4294967297
refuse 'stride' --c --stride x
refuse 'stride of 4' --c --stride 4 --indexed
refuse 'control' --c --body "$dir/control.ir"
refuse 'line 1' --c --body "$dir/unknown.ir"
refuse '5' --c --body "$dir/reserved.ir"
refuse 'line 2' --c --body "$dir/long.ir"

head -n 2 "$dir/int.ir" >"$dir/none.ir"
refuse 'line 3' --c --body "$dir/none.ir"
"$tidegate" engine emit --c --unrestricted --body "$dir/control.ir" >"$dir/out" || fail "an unrestricted body is refused"
"$tidegate" engine emit --c --body "$dir/no-such-file" 2>"$dir/err" && fail "a missing file is no error"
grep -q no-such-file "$dir/err" || fail "the missing file is not named"
exit 0
