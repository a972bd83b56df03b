# SPDX-License-Identifier: Apache-2.0
# N1 to N5: a wrong argument is named with its rule, exit 2, and nothing is enqueued: not even a broker is
# started.
. "$(dirname "$0")/lib.sh"

BAD=(-1 "" " 5" 5x 5.5 1e3 0x10 +5 9223372036854775808 18446744073709551616 99999999999999999999 5,0 "5 ")

refused() { # VALUE COMMAND...
  local value=$1
  shift
  exits 2 "$@"
  [ -s out ] && fail "'$*' wrote to standard output: $(cat out)"
  [ "$(wc -l <err)" = 1 ] || fail "'$*' did not say it in one line: $(cat err)"
  grep -qF -- "'$value'" err || fail "the message does not name '$value': $(cat err)"
  [ ! -e "$XDG_RUNTIME_DIR/tidegate" ] || fail "'$*' started a broker"
}

n1_wait_admit() {
  local v
  for v in "${BAD[@]}"; do
    refused "$v" "$TG" wait-admit "$v" 0 100 1 0
    [ "$v" = -1 ] || refused "$v" "$TG" wait-admit $$ "$v" 100 1 0
    refused "$v" "$TG" wait-admit $$ 0 "$v" 1 0
    refused "$v" "$TG" wait-admit $$ 0 100 "$v" 0
    refused "$v" "$TG" wait-admit $$ 0 100 1 "$v"
    refused "$v" "$TG" release "$v"
    refused "$v" "$TG" cancel "$v"
    [ "$v" = -1 ] || refused "$v" "$TG" prio 1 "$v"
    refused "$v" "$TG" prio "$v" high
  done
}
n1_run() {
  local v
  for v in "${BAD[@]}"; do
    [ "$v" = -1 ] || refused "$v" "$TG" run -p "$v" -- touch ran
    refused "$v" "$TG" run -m "$v" -- touch ran
    refused "$v" "$TG" run --slots "$v" -- touch ran
    refused "$v" "$TG" run --slots="$v" -- touch ran
    refused "$v" "$TG" run --timeout "$v" -- touch ran
    refused "$v" "$TG" run --time "$v" -- touch ran
  done
  for v in "" "a b" "ü" "$(printf 'x%.0s' {1..65})" a/b; do
    exits 2 "$TG" run -t "$v" -- touch ran
  done
  [ ! -e ran ] || fail "a command ran"
}
what_excludes_each_other_is_refused() {
  exits 2 "$TG" run -q -v -- touch ran
  exits 2 "$TG" run -vq -- touch ran
  exits 2 "$TG" run --verbose --quiet -- touch ran
  grep -q 'exclude each other' err || fail "it says: $(cat err)"
  [ ! -e "$XDG_RUNTIME_DIR/tidegate" ] || fail "it started a broker"
}
n2_units_are_whole() {
  local v
  for v in 1.5G 5GX G 1K 5Gb "5 G" 99999999999T; do refused "$v" "$TG" run -m "$v" -- touch ran; done
  for v in 1.5s 5x s 5S 1hour 2h30m; do
    refused "$v" "$TG" run --timeout "$v" -- touch ran
    refused "$v" "$TG" run --time "$v" -- touch ran
  done
}
n4_large_values_do_not_wrap() {
  refused 8796093022209 "$TG" wait-admit $$ 0 8796093022209 1 0
  refused 17592186044416 "$TG" run -m 17592186044416 -- touch ran
  refused 4294967296 "$TG" wait-admit 4294967296 0 1 1 0
  refused 4294967297 "$TG" wait-admit $$ 0 1 4294967297 0
  refused 2147483648 "$TG" wait-admit $$ 2147483648 1 1 0
  refused -2147483649 "$TG" wait-admit $$ -2147483649 1 1 0
}
n5_zero_is_documented() {
  refused 0 "$TG" wait-admit 0 0 100 1 0
  refused 1 "$TG" wait-admit 1 0 100 1 0
  refused 0 "$TG" wait-admit $$ 0 100 0 0
  refused 0 "$TG" cancel 0
}
wrong_shapes_are_named() {
  local words
  for words in "wait-admit" "wait-admit 1 2 3 4" "wait-admit 1 2 3 4 5 6" "release" "release 5 6" "cancel" \
    "prio 5" "config a b c" "run" "run --" "run -p" "run -m" "run --timeout" "run --slots" "run --time"; do
    # shellcheck disable=SC2086
    exits 2 "$TG" $words
    [ "$(wc -l <err)" = 1 ] || fail "'$words' did not say it in one line"
  done
  refused frobnicate "$TG" frobnicate
  refused --frobnicate "$TG" run --frobnicate -- touch ran
  refused -Z "$TG" run -Z -- touch ran
  refused --jsn "$TG" status --jsn
  refused more "$TG" status more
  refused --verbose=1 "$TG" run --verbose=1 -- touch ran
  exits 2 "$TG"
  [ ! -e ran ] || fail "a command ran"
  exits 0 "$TG" --help && exits 0 "$TG" run --help && exits 0 "$TG" help stop && exits 0 "$TG" --version
  [ ! -e "$XDG_RUNTIME_DIR/tidegate" ] || fail "a broker was started"
}
# Values that the broker judges, and what is the border of the right side.
values_at_the_borders_are_taken() {
  use_slots 2
  exits 0 "$TG" run -p -2147483648 -m 0 --slots 0 --timeout 0 -q -- true
  exits 0 "$TG" run -p2147483647 -m1M --slots=1 --timeout=1d -q -- true
  exits 0 "$TG" run -t A.b_c-9 --priority critical --memory 1 --tenant x -- true
  exits 0 "$TG" wait-admit $$ -2147483648 0 1000000 3153600000000
  exits 0 "$TG" release $$
  local k
  for k in "nosuch" "slots -1" "slots 1.5" "slots 2x" "slots 99999999999999999999" "load -1" "load x" "load-least -1" "load-least 1x" "floor-mb -5" \
    "backfill-mb 5G5"; do
    # shellcheck disable=SC2086
    exits 2 "$TG" config $k
    grep -qF -- "${k#* }" err || fail "config $k: the message does not name it: $(cat err)"
    grep -q 'config: config:' err && fail "config $k: the verb stands there twice: $(cat err)"
  done
  [ "$("$TG" config slots)" = 2 ] || fail "a refused setting has changed something"
  must_count 0 0
}
# It is started by programs that have their GPU owned by it, with a socket; without one it ends.
owning_a_device_is_not_for_hands() {
  exits 2 "$TG" engine device 3</dev/null
  grep -q 'device_process' err || fail "it says: $(cat err)"
  exits 2 "$TG" engine device now
  grep -q "'now'" err || fail "it says: $(cat err)"
}
what_is_for_a_gpu_is_not_overlooked() {
  local v
  exits 2 "$TG" engine run --sm 4
  grep -q -- '--sm is for a GPU' err || fail "it says: $(cat err)"
  for v in cuda: cuda:x cuda:-1 cuda:1024; do refused "$v" "$TG" engine run --backend "$v"; done
}
folders_of_the_demo_are_one() {
  refused two "$TG" demo one two
  refused --fast "$TG" demo --fast
}
row n1_wait_admit
row n1_run
row what_excludes_each_other_is_refused
row n2_units_are_whole
row n4_large_values_do_not_wrap
row n5_zero_is_documented
row wrong_shapes_are_named
row what_is_for_a_gpu_is_not_overlooked
row folders_of_the_demo_are_one
row values_at_the_borders_are_taken
row owning_a_device_is_not_for_hands
