# SPDX-License-Identifier: Apache-2.0
# A process that a signal has stopped, while it waits and while it holds: status says so, its turn is passed
# over and its place kept, and nobody waits for it (A7; docs/command.md, "Stopped processes").
. "$(dirname "$0")/lib.sh"
without_leak_search
use_slots 1

# The process that waits, or runs: the child of the wrapper.
owner_of() { "$TG" status | awk -v w="$1" '$0 ~ w && $1 ~ /^[0-9]+$/ { print $6; exit }'; }
state_of() { "$TG" status | awk -v w="$1" '$0 ~ w && $1 ~ /^[0-9]+$/ { print $2; exit }'; }
state_is() { [ "$(state_of "$1")" = "$2" ]; }
is_stopped() { [ "$(awk '{ print $3 }' "/proc/$1/stat")" = T ]; }
stop_it() {
  kill -STOP "$1"
  until_true 10 is_stopped "$1" || fail "process $1 does not stop"
}

a_stopped_waiter_is_passed_over_and_keeps_its_place() {
  local first pid second
  rm -f order
  mkfifo fifo-b
  hold a
  in_background "$TG" run -q -m 10 -- sh -c 'echo first >>order'
  first=$BG
  must_count 1 1
  in_background "$TG" run -q -m 10 -- sh -c 'echo second >>order; read x <fifo-b'
  second=$BG
  must_count 1 2
  pid=$(owner_of 'echo first')
  stop_it "$pid"
  "$TG" status | grep -q 'waits for slots.*(its process is stopped)' || fail "status does not say that it is stopped"
  state_is 'echo first' '#1' || fail "it has lost its turn before it came"
  exits 0 "$TG" why "$(ticket_of 'echo first')"
  let_go a
  until_true 20 grep -qsx second order || fail "a stopped waiter blocks the one behind it"
  until_true 10 state_is 'echo first' stopped || fail "status does not say that it was passed over"
  "$TG" status | grep -q 'was passed over, keeps its place until it goes on' || fail "status does not say why"
  json | grep -q '"why": "stopped"' || fail "status --json does not say why"
  json | grep -q '"stopped": true' || fail "status --json does not say that it is stopped"
  exits 0 "$TG" why "$(ticket_of 'echo first')"
  grep -q 'is stopped' out || fail "why says $(cat out)"
  # It goes on, and goes before whoever came later.
  in_background "$TG" run -q -m 10 -- sh -c 'echo third >>order'
  must_count 1 2
  kill -CONT "$pid"
  until_true 10 state_is 'echo first' '#1' || fail "it is no waiter again"
  echo >fifo-b
  wait "$first" || fail "the one that was stopped exits $?"
  wait "$second" || fail "the second exits $?"
  must_count 0 0
  [ "$(tr '\n' ' ' <order)" = "second first third " ] || fail "the order was $(tr '\n' ' ' <order)"
}

# Nobody else is there: the slot stays free, and is taken when the waiter goes on.
a_stopped_waiter_takes_no_slot() {
  local pid waiter
  hold a
  in_background "$TG" run -q -m 10 -- sh -c 'echo alone >alone'
  waiter=$BG
  must_count 1 1
  pid=$(owner_of 'echo alone')
  stop_it "$pid"
  let_go a
  must_count 0 1
  until_true 10 state_is 'echo alone' stopped || fail "it is $(state_of 'echo alone')"
  exits 0 "$TG" run -q -m 10 -- true
  [ ! -e alone ] || fail "it ran while it was stopped"
  kill -CONT "$pid"
  wait "$waiter" || fail "it exits $?"
  [ -e alone ] || fail "it did not run"
  must_count 0 0
}

# Everything that concerns a parked ticket concerns it as well.
a_stopped_waiter_is_cancelled_killed_and_survives_a_broker() {
  local pid waiter code=0 ticket how limit
  for how in cancel kill broker timeout; do
    hold a
    limit=600s
    [ $how != timeout ] || limit=4s
    in_background "$TG" run -q --timeout $limit -m 10 -- sh -c "echo $how >>how"
    waiter=$BG
    until_true 5 counts 1 1 || ended "$waiter" || fail "it does not wait"
    if [ $how = timeout ] && ended "$waiter"; then
      not_shown "the machine is too busy to stop it within $limit"
      let_go a
      must_count 0 0
      return
    fi
    ticket=$(ticket_of "echo $how")
    pid=$(owner_of "echo $how")
    stop_it "$pid"
    let_go a
    must_count 0 1
    until_true 10 state_is "echo $how" stopped || fail "$how: it is $(state_of "echo $how")"
    code=0
    case $how in
    cancel)
      exits 0 "$TG" cancel "$ticket"
      kill -CONT "$pid"
      wait "$waiter" || code=$?
      [ $code = 125 ] || fail "cancelled: exit $code"
      ;;
    kill)
      kill -KILL "$pid"
      wait "$waiter" || code=$?
      [ $code = 137 ] || fail "killed: exit $code"
      ;;
    broker)
      kill -KILL "$(broker_pid)"
      exits 0 "$TG" run -q -m 10 -- true
      kill -CONT "$pid"
      wait "$waiter" || code=$?
      [ $code = 0 ] || fail "after a restart: exit $code"
      ;;
    timeout)
      sleep 4.2
      kill -CONT "$pid"
      wait "$waiter" || code=$?
      [ $code = 124 ] || [ $code = 0 ] || fail "its time was up: exit $code"
      ;;
    esac
    must_count 0 0
  done
}

# The one who waits for wait-admit is the caller, not the process that is to own the ticket.
a_stopped_wait_admit_is_passed_over() {
  local shell caller code=0
  hold a
  sleep 600 &
  shell=$!
  STARTED+=("$shell")
  in_background "$TG" wait-admit "$shell" 3 10 9 200000 >verdict
  caller=$BG
  must_count 1 1
  stop_it "$caller"
  let_go a
  must_count 0 1
  exits 0 "$TG" run -q -m 10 -- true
  kill -CONT "$caller"
  wait "$caller" || fail "wait-admit exits $?"
  grep -q GRANT verdict || fail "it says $(cat verdict)"
  must_count 1 0
  exits 0 "$TG" release "$shell"
  kill -KILL "$shell"
}

a_stopped_holder_holds_and_status_says_so() {
  local pid
  hold a
  pid=$(owner_of 'read x')
  stop_it "$pid"
  state_is 'read x' stopped || fail "status calls it $(state_of 'read x')"
  json | grep -q '"stopped": true' || fail "status --json does not say that it is stopped"
  exits 124 "$TG" run -q --timeout 300ms -m 10 -- true
  kill -CONT "$pid"
  state_is 'read x' holds || until_true 10 state_is 'read x' holds || fail "status calls it $(state_of 'read x')"
  let_go a
  must_count 0 0
}

row a_stopped_waiter_is_passed_over_and_keeps_its_place
row a_stopped_waiter_takes_no_slot
row a_stopped_waiter_is_cancelled_killed_and_survives_a_broker
row a_stopped_wait_admit_is_passed_over
row a_stopped_holder_holds_and_status_says_so
shown_all
