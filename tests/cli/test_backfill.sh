# SPDX-License-Identifier: Apache-2.0
# run --time, --slots, --strict, -t, and config strict and ageing, from the command line to the broker (O1, O10,
# A3, A10).
. "$(dirname "$0")/lib.sh"
use_slots 3

# A holder of that many slots and run time, until its fifo is opened.
hold_slots() { # FIFO SLOTS TIME
  rm -f "$1" "$1.log" && mkfifo "$1"
  in_background "$TG" run -q -m 0 --slots "$2" --time "$3" -- sh -c "echo in >>$1.log; read x <$1"
  until_true 5 test -s "$1.log" || fail "the holder $1 did not start"
}
wait_for() { # WORDS...: queues a run that writes its last word into the file order
  in_background "$TG" run -q -m 0 "${@:1:$#-1}" -- sh -c "echo ${!#} >>order"
}
# A command has ended when run returns; its slot is free a moment later.
passes() { # OPTIONS...
  must_count 1 1
  exits 0 "$TG" run -m 0 "$@" --timeout 0 -- true
}

o1_who_ends_in_time_passes() {
  rm -f order
  hold_slots h 2 1h
  wait_for --slots 3 front
  must_count 1 1
  local i
  for i in {1..18}; do passes --time 50m; done
  must_count 1 1
  exits 124 "$TG" run -m 0 --time 2h --timeout 0 -- true
  exits 124 "$TG" run -m 0 --timeout 0 -- echo never seen before
  exits 124 "$TG" run -m 0 --time 0 --timeout 0 -- true
  passes # how long it takes has been learned
  passes --slots 0
  "$TG" status | grep -Eq 'can start in [56][0-9] min' || fail "status does not say when: $("$TG" status)"
  let_go h
  must_count 0 0
  [ "$(cat order)" = front ] || fail "the front did not run"
}
a10_slots_weigh() {
  hold_slots h 3 1h
  exits 124 "$TG" run -m 0 --timeout 0 -- true
  exits 0 "$TG" run -m 0 --slots 0 --timeout 0 -- true
  exits 123 "$TG" run -m 0 --slots 4 -- true
  let_go h
  must_count 0 0
}
o10_tenants_take_turns() {
  rm -f order
  hold_slots h 3 1h
  local i n=0
  for i in a1 a2 a3 a4; do
    wait_for -t alice --slots 3 $i
    must_count 1 $((++n))
  done
  wait_for -t bob --slots 3 b1
  must_count 1 5
  wait_for -t bob --slots 3 --strict b2
  must_count 1 6
  "$TG" status | grep -Eq '#2 .*echo b1' || fail "bob is not second: $("$TG" status)"
  let_go h
  must_count 0 0
  [ "$(tr '\n' ' ' <order)" = "a1 b1 a2 a3 a4 b2 " ] || fail "the order was $(tr '\n' ' ' <order)"
}
strict_is_plain_fifo() {
  rm -f order
  exits 0 "$TG" config strict on
  hold_slots h 2 1h
  wait_for -t alice --slots 3 a1
  must_count 1 1
  wait_for -t alice --slots 3 a2
  must_count 1 2
  wait_for -t bob --time 1s b1
  must_count 1 3
  let_go h
  must_count 0 0
  [ "$(tr '\n' ' ' <order)" = "a1 a2 b1 " ] || fail "the order was $(tr '\n' ' ' <order)"
  exits 0 "$TG" config strict off
}
n1_settings_are_whole() {
  local v
  for v in "" yes 1 ON; do exits 2 "$TG" config strict "$v"; done
  for v in "" 0 -1 1.5s 400d on; do exits 2 "$TG" config ageing "$v"; done
  exits 0 "$TG" config ageing 10m
  exits 0 "$TG" config ageing
  grep -q 600 out || fail "ageing is $(cat out)"
  exits 0 "$TG" config ageing off
}

row o1_who_ends_in_time_passes
row a10_slots_weigh
row o10_tenants_take_turns
row strict_is_plain_fifo
row n1_settings_are_whole
