# SPDX-License-Identifier: Apache-2.0
# The dead hold nothing (A4), whoever is killed and when: rows L1, and the broker's own death (A8).
. "$(dirname "$0")/lib.sh"
use_slots 1

# The command's pid writes itself down, then waits for its fifo.
command_of() { cat "$1.pid"; }
start() { # NAME [OPTIONS...]
  local name=$1
  shift
  [ -p "$name" ] || mkfifo "$name"
  rm -f "$name.pid"
  # shellcheck disable=SC2016
  in_background "$TG" run -q -m 10 "$@" -- sh -c 'echo $$ >'"$name.tmp && mv $name.tmp $name.pid; read x <$name; exit 7"
}
must_run() { until_true 5 test -s "$1.pid" || fail "$1 does not run"; }
# The queue moves on the event of a death, in well under a millisecond (bench_broker). Thirty seconds are the
# patience with a machine that others keep busy; whatever looked for the dead every minute would fail.
moves_at_once() {
  local begin=${EPOCHREALTIME/./}
  until_true 10 "$@" || fail "the queue does not move"
  [ $((${EPOCHREALTIME/./} - begin)) -lt 30000000 ] || fail "the queue moved after $((${EPOCHREALTIME/./} - begin)) us"
}

l1_wrapper_killed_while_queued() {
  start first; must_run first
  start second; local victim=$BG
  must_count 1 1
  start third
  must_count 1 2
  kill -KILL "$victim"
  moves_at_once counts 1 1
  let_go first
  moves_at_once test -s third.pid
  [ ! -e second.pid ] || fail "the killed one's command ran"
  let_go third
  must_count 0 0
}
l1_wrapper_killed_while_running() {
  start first; must_run first
  local victim=$BG
  start second
  must_count 1 1
  kill -KILL "$victim"
  until_true 2 ended "$victim" || fail "the wrapper lives"
  sleep 0.3
  # The command goes on and keeps its ticket (A4).
  kill -0 "$(command_of first)" || fail "the command was ended with its wrapper"
  counts 1 1 || fail "the ticket of a running command went with its wrapper"
  [ ! -e second.pid ] || fail "two run with one slot"
  let_go first
  moves_at_once test -s second.pid
  let_go second
  must_count 0 0
}
l1_command_killed_while_running() {
  start first; must_run first
  local wrapper=$BG code=0
  start second
  must_count 1 1
  kill -KILL "$(command_of first)"
  moves_at_once test -s second.pid
  wait "$wrapper" 2>/dev/null || code=$?
  [ $code = 137 ] || fail "the wrapper of a killed command exits $code"
  let_go second
  must_count 0 0
}
# Granted, not started: the wrapper and its child are stopped while they wait, so the grant finds them so.
l1_killed_between_grant_and_start() {
  local child
  start first; must_run first
  start second; local wrapper=$BG
  must_count 1 1
  child=$(cat "/proc/$wrapper/task/$wrapper/children")
  kill -STOP ${child}
  let_go first
  start third
  must_count 1 1 # second holds, third waits
  [ ! -e second.pid ] || fail "a stopped process has started a command"
  kill -KILL "$wrapper"
  moves_at_once test -s third.pid
  [ ! -e second.pid ] || fail "the killed one's command ran"
  let_go third
  must_count 0 0
}
# Exiting: the wrapper is killed when the command has ended and before it said so.
l1_wrapper_killed_while_exiting() {
  local i
  for i in 1 2 3 4 5; do
    start first; must_run first
    kill -STOP "$BG"
    let_go first
    must_count 0 0
    kill -KILL "$BG"
    until_true 2 ended "$BG" || fail "the wrapper lives"
    must_count 0 0
  done
}
signals_end_a_waiter() {
  local sig code
  start first; must_run first
  for sig in TERM INT HUP QUIT; do
    # Background jobs of a script ignore INT and QUIT, and so would the command: not here.
    env --default-signal="$sig" "$TG" run -q -- touch ran </dev/null &
    BG=$!
    must_count 1 1
    code=0
    kill -"$sig" $BG
    wait $BG 2>/dev/null || code=$?
    [ $code = $((128 + $(kill -l $sig))) ] || fail "a waiter that got $sig exits $code"
    must_count 1 0
  done
  [ ! -e ran ] || fail "the command of a signalled waiter ran"
  let_go first
  must_count 0 0
}
signals_are_passed_on() {
  local sig code
  for sig in TERM HUP USR1 USR2 WINCH ALRM; do
    rm -f up
    "$TG" run -- sh -c "trap 'exit 33' $sig; : >up; while :; do sleep 0.02; done" </dev/null &
    BG=$!
    STARTED+=("$BG")
    until_true 5 test -e up || fail "it does not run"
    code=0
    kill -"$sig" $BG
    wait $BG 2>/dev/null || code=$?
    [ $code = 33 ] || fail "after $sig the wrapper exits $code"
  done
  must_count 0 0
}
broker_killed_while_running() {
  local code=0 old
  start first; must_run first
  local wrapper=$BG
  old=$(broker_pid)
  kill -KILL "$old"
  until_true 5 ended "$old"
  # The next client starts another one, which adopts what lives.
  counts 1 0 || fail "the running command was not adopted: $("$TG" status | head -n 1)"
  exits 124 "$TG" run -q --timeout 100ms -- touch ran
  old=$(broker_pid)
  kill -KILL "$old"
  until_true 5 ended "$old"
  let_go first
  wait "$wrapper" || code=$?
  [ $code = 7 ] || fail "the command never noticed, but the wrapper exits $code"
  must_count 0 0
  [ ! -e ran ] || fail "a second one ran"
}
broker_killed_while_waiting() {
  local old i
  start first; must_run first
  start low -p low
  must_count 1 1
  start second
  must_count 1 2
  start third
  must_count 1 3
  local before
  before=$("$TG" status | awk '$2 ~ /^#/ { print $1, $2 }')
  for i in 1 2 3; do
    old=$(broker_pid)
    kill -KILL "$old"
    until_true 5 ended "$old"
    must_count 1 3
    [ "$("$TG" status | awk '$2 ~ /^#/ { print $1, $2 }')" = "$before" ] || fail "the places have changed"
  done
  let_go first
  must_run second
  [ ! -e third.pid ] && [ ! -e low.pid ] || fail "two run with one slot"
  old=$(broker_pid)
  kill -KILL "$old"
  let_go second
  must_run third
  [ ! -e low.pid ] || fail "two run with one slot"
  let_go third
  must_run low
  let_go low
  must_count 0 0
}
# What is wrong is said, whoever finds it: the command, or the broker to whoever started it.
a_path_too_long_for_a_store_is_named() {
  local long=$PLACE
  while [ ${#long} -lt 500 ]; do long=$long/0123456789; done
  XDG_STATE_HOME=$long exits 125 "$TG" status
  grep -q 'XDG_STATE_HOME.* 504' err || fail "it says $(cat err)"
  "$BUILD/tidegate-broker" --runtime-dir "$PLACE/run/long" --state-dir "$long/0123456789/0123456789" --ready-fd 3 3>word 2>/dev/null
  grep -q '^error --state-dir .* too long' word || fail "the broker's word is $(cat word)"
}
# The first clients after a reboot, say: all find no broker, one starts, all use it (R2).
many_clients_start_one_broker() {
  local i pids=()
  "$TG" stop || fail "stop"
  for i in $(seq 12); do
    "$TG" run -- sh -c "echo $i >>many" </dev/null &
    pids+=($!)
  done
  for i in "${pids[@]}"; do wait "$i" || fail "one of twelve failed"; done
  [ "$(wc -l <many)" = 12 ] || fail "$(wc -l <many) of 12 ran"
  must_count 0 0
}
row l1_wrapper_killed_while_queued
row l1_wrapper_killed_while_running
row l1_command_killed_while_running
row l1_killed_between_grant_and_start
row l1_wrapper_killed_while_exiting
row signals_end_a_waiter
row signals_are_passed_on
row broker_killed_while_running
row broker_killed_while_waiting
row a_path_too_long_for_a_store_is_named
row many_clients_start_one_broker
