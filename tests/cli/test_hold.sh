# SPDX-License-Identifier: Apache-2.0
# hold, resume, prio, drain, why on the command line (V1, V2, V5, O11), and what they refuse.
. "$(dirname "$0")/lib.sh"
use_slots 1

v5_hold_and_resume() {
  hold a
  rm -f order
  in_background "$TG" run -q -m 10 -- sh -c 'echo one >>order'
  must_count 1 1
  in_background "$TG" run -q -m 10 -- sh -c 'echo two >>order'
  must_count 1 2
  local one
  one=$(ticket_of 'echo one')
  exits 0 "$TG" hold "$one"
  grep -q "ticket $one is on hold" out || fail "it says $(cat out)"
  "$TG" status | grep -Eq "^ *$one  on hold " || fail "status does not show it: $("$TG" status)"
  let_go a
  until_true 5 test -s order || fail "the second did not pass"
  must_count 0 1
  exits 0 "$TG" resume "$one"
  must_count 0 0
  [ "$(tr '\n' ' ' <order)" = "two one " ] || fail "the order was $(tr '\n' ' ' <order)"
}
what_runs_is_refused() {
  hold a
  local held
  held=$(ticket_of 'read x <a')
  exits 125 "$TG" hold "$held"
  grep -q "ticket $held has been admitted already" err || fail "it says $(cat err)"
  exits 125 "$TG" resume "$held"
  exits 0 "$TG" prio "$held" low
  grep -q 'no effect on the order' out || fail "it says $(cat out)"
  let_go a
  must_count 0 0
}
v1_v2_why_says_what_binds_and_who_holds() {
  hold a
  in_background "$TG" run -q -m 10 -- touch first
  must_count 1 1
  in_background "$TG" run -q -m 10 -p low -- touch second
  must_count 1 2
  local first second held
  held=$(ticket_of 'read x <a')
  first=$(ticket_of 'touch first')
  second=$(ticket_of 'touch second')
  exits 0 "$TG" why "$second"
  head -n 1 out | grep -q "^ticket $second waits for slots: needs 1, 1 of 1 are held; 1 ahead$" || fail "$(cat out)"
  sed -n '/^ahead of it:/,/^held by:/p' out | grep -Eq "^ *$first +normal, 10 MB, slots 1 +touch first" || fail "$(cat out)"
  sed -n '/^held by:/,$p' out | grep -Eq "^ *$held .*read x <a" || fail "$(cat out)"
  "$TG" status | grep -q 'waits for slots: needs 1, 1 of 1 are held; 1 ahead' || fail "status says otherwise"
  exits 0 "$TG" why --json "$second"
  grep -q '"why": "slots"' out && grep -q '"position": 2' out || fail "$(cat out)"
  exits 0 "$TG" why "$held"
  grep -q 'does not wait: it was admitted' out || fail "$(cat out)"
  let_go a
  must_count 0 0
  exits 0 "$TG" why "$first"
  grep -q 'does not wait: it has ended' out || fail "$(cat out)"
  exits 125 "$TG" why 999999
}
drain_and_undrain() {
  hold a
  exits 0 "$TG" drain
  "$TG" status | grep -q '^drained: nobody is admitted' || fail "status does not say so"
  [ "$("$TG" config drain)" = on ] || fail "config does not say so"
  exits 124 "$TG" run -m 10 --timeout 0 -- touch ran
  in_background "$TG" run -q -m 10 -- touch ran
  must_count 1 1
  exits 0 "$TG" why "$(ticket_of 'touch ran')"
  grep -q 'drained' out || fail "$(cat out)"
  let_go a
  must_count 0 1
  "$TG" stop --force
  must_count 0 1 # kept in the store
  [ ! -e ran ] || fail "it ran although the queue is drained"
  exits 0 "$TG" undrain
  must_count 0 0
  [ -e ran ] || fail "it did not run"
}
wrong_arguments_are_named() {
  for verb in hold resume why; do
    exits 2 "$TG" $verb
    exits 2 "$TG" $verb 1 2
    for bad in 0 -1 x 1.5 '' ' 5' 5x 0x10 1e3 9223372036854775808 18446744073709551616 99999999999999999999; do
      exits 2 "$TG" $verb "$bad"
      grep -qF -- "'$bad'" err || fail "$verb '$bad': it is not named: $(cat err)"
    done
  done
  exits 2 "$TG" drain now
  exits 2 "$TG" undrain 1
  exits 2 "$TG" config drain maybe
  exits 2 "$TG" prio 1 urgent
  exits 125 "$TG" hold 999999
}
row v5_hold_and_resume
row what_runs_is_refused
row v1_v2_why_says_what_binds_and_who_holds
row drain_and_undrain
row wrong_arguments_are_named
