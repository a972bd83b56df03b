# SPDX-License-Identifier: Apache-2.0
# The broker is killed again and again, or stopped, or loses its socket: whoever waits goes on waiting, no
# longer than it said, and nobody takes silence for a grant (A8, R7, R2).
. "$(dirname "$0")/lib.sh"
use_slots 1

# Of the broker's own record: asks nobody.
recorded_pid() { sed 's/ .*//' "$XDG_STATE_HOME/tidegate/broker.lock"; }
changed_from() { local now; now=$(recorded_pid) && [ -n "$now" ] && [ "$now" != "$1" ]; }
starts() { wc -l <starts; }

a8_a_waiter_outlives_any_number_of_brokers() {
  local i old code=0 shell
  hold a
  in_background "$TG" run -q -- sh -c 'exit 5'
  local waiter=$BG
  must_count 1 1
  sleep 600 & shell=$!
  STARTED+=("$shell")
  in_background "$TG" wait-admit "$shell" 0 1 9 600000 >granted
  local asker=$BG
  must_count 1 2
  in_background "$TG" wait "$(ticket_of 'exit 5')"
  local onlooker=$BG
  for i in $(seq 20); do
    old=$(recorded_pid)
    kill -KILL "$old" 2>/dev/null
    until_true 15 changed_from "$old" || fail "kill $i: nobody started the next broker"
    ended "$waiter" && fail "the waiter gave up after $i kills"
    ended "$asker" && fail "wait-admit gave up after $i kills"
    ended "$onlooker" && fail "wait gave up after $i kills"
    # Whom no broker has answered for 10 s gives up, rightly: on a slow machine one is let live that long.
    [ $((i % 3)) != 0 ] || must_count 1 2
  done
  must_count 1 2
  let_go a
  wait "$waiter" || code=$?
  [ $code = 5 ] || fail "the waiter exits $code"
  code=0
  wait "$onlooker" || code=$?
  [ $code = 5 ] || fail "wait exits $code"
  wait "$asker" || fail "wait-admit exits $?"
  grep -q '^GRANT' granted || fail "wait-admit says $(cat granted)"
  exits 0 "$TG" release "$shell"
  must_count 0 0
}
# Each start is written down by what stands in for the broker.
count_starts() {
  cat >broker.sh <<END
#!/bin/sh
echo started >>"$PWD/starts"
exec "$BUILD/tidegate-broker" "\$@"
END
  chmod +x broker.sh
  : >starts
}
a8_a_hundred_waiters_start_one_broker() {
  local i old pids=()
  count_starts
  hold a
  for i in $(seq 100); do
    TIDEGATE_BROKER=$PWD/broker.sh "$TG" run -q -- true </dev/null &
    pids+=($!)
  done
  STARTED+=("${pids[@]}")
  until_true 20 counts 1 100 || fail "not all of them wait"
  old=$(recorded_pid)
  kill -KILL "$old"
  until_true 20 changed_from "$old" || fail "nobody started the next broker"
  until_true 20 counts 1 100 || fail "not all of them came back"
  [ "$(starts)" -le 2 ] || fail "$(starts) brokers were started"
  let_go a
  for i in "${pids[@]}"; do wait "$i" || fail "one of a hundred failed"; done
  must_count 0 0
}
# A broker that never says a word: the reason is given, soon, and it is tried a few times only.
a_broker_that_cannot_run_is_given_up() {
  exits 0 "$TG" stop --force
  : >starts
  printf '#!/bin/sh\necho started >>%s/starts\nexit 1\n' "$PWD" >dead.sh
  chmod +x dead.sh
  TIDEGATE_BROKER=$PWD/dead.sh exits 125 "$TG" status
  grep -q 'dead.sh ended before it was ready' err || fail "it says $(cat err)"
  [ "$(starts)" = 3 ] || fail "it was tried $(starts) times"
  use_slots 1
}
within() { # SECONDS CODE COMMAND...
  local limit=$1 begin=$SECONDS
  shift
  exits "$@"
  [ $((SECONDS - begin)) -le "$limit" ] || fail "it took $((SECONDS - begin)) s: ${*:2}"
}
r7_a_stopped_broker_keeps_nobody_beyond_its_limit() {
  local pid code=0
  hold a
  in_background "$TG" run -q --timeout 3 -- touch ran 2>waiter.err
  must_count 1 1
  pid=$(recorded_pid)
  kill -STOP "$pid"
  within 40 124 "$TG" run -q --timeout 2 -- touch ran
  grep -q "(process $pid) does not answer" err || fail "run says $(cat err)"
  within 40 1 "$TG" wait-admit $$ 0 1 9 1500
  grep -q '^TIMEOUT' out || fail "wait-admit says $(cat out)"
  grep -q "(process $pid) does not answer" err || fail "wait-admit says $(cat err)"
  wait "$BG" || code=$?
  [ $code = 124 ] || fail "one that waited when the broker was stopped exits $code"
  grep -q "(process $pid) does not answer" waiter.err || fail "it says $(cat waiter.err)"
  kill -CONT "$pid"
  # What it finds when it goes on: nobody who gave up holds or waits.
  must_count 1 0
  let_go a
  must_count 0 0
  [ ! -e ran ] || fail "a command ran whose time was up"
}
# The broker stands still when the command ends, and is killed while the wrapper awaits its answer, which it
# does for 200 ms: where the machine leaves no time for that, once more.
end_while_the_broker_dies() {
  local pid id owner code=0
  rm -f w && mkfifo w
  in_background "$TG" run -q -- sh -c 'echo $$ >owner; sleep 1.1; read x <w; exit 7'
  must_count 1 0
  id=$(ticket_of 'exit 7')
  exec 8<>w # does not wait for the reader
  sleep 1.2 # of such a command the answer is awaited
  owner=$(cat owner)
  pid=$(recorded_pid)
  kill -STOP "$pid"
  echo >&8
  exec 8>&-
  until_true 10 ended "$owner" || fail "process $owner does not end"
  sleep 0.03
  kill -KILL "$pid"
  wait "$BG" || code=$?
  [ $code = 7 ] || fail "run exits $code"
  code=0
  "$TG" wait "$id" >out 2>&1 || code=$?
  must_count 0 0
  [ $code = 7 ]
}
a8_how_it_ended_outlives_the_broker_that_has_not_read_it() {
  local i
  for i in 1 2 3; do
    end_while_the_broker_dies && return
  done
  fail "wait says $(cat out)"
}
stop_by_force_ends_a_stopped_broker() {
  local pid
  hold a
  pid=$(recorded_pid)
  kill -STOP "$pid"
  within 40 0 "$TG" stop --force
  grep -q "process $pid" err || fail "it says $(cat err)"
  ended "$pid" || fail "the broker lives"
  must_count 1 0 # the next one knows it all
  let_go a
  must_count 0 0
}
r2_a_socket_that_was_removed_comes_back() {
  local pid
  hold a
  pid=$(broker_pid)
  rm -r "$XDG_RUNTIME_DIR/tidegate"
  exits 0 "$TG" status
  [ "$(head -n 1 out)" = "holders=1 waiters=0" ] || fail "it says $(cat out)"
  [ "$(broker_pid)" = "$pid" ] || fail "another broker"
  # One who looks elsewhere is sent to where it is about to be.
  rm -r "$XDG_RUNTIME_DIR/tidegate"
  XDG_RUNTIME_DIR=$PLACE/elsewhere exits 0 "$TG" status
  grep -q "pid $pid" out || fail "it says $(cat out)"
  let_go a
  must_count 0 0
}
r2_every_verb_minds_the_store() {
  local pid verb
  hold a
  pid=$(broker_pid)
  ln -s "$PLACE" link
  mkdir -m 700 -p "$PLACE/other"
  for verb in status 'status --json' stop 'stop --force' config 'config slots 9' 'cancel 1' 'prio 1 high' \
    "release $$" 'why 1' 'hold 1' 'resume 1' drain undrain 'wait --all' history "wait-admit $$ 0 1 9 0" 'run -- touch ran'; do
    # shellcheck disable=SC2086
    XDG_STATE_HOME=$PLACE/other exits 125 "$TG" $verb
    grep -q "serves the store $XDG_STATE_HOME/tidegate/store.db, not $PLACE/other/" err || fail "$verb: $(cat err)"
  done
  [ ! -e ran ] || fail "a command ran"
  # The same place by another name.
  XDG_STATE_HOME=$PLACE/state/ exits 0 "$TG" config slots 1
  XDG_STATE_HOME=$PWD/link/state exits 0 "$TG" status
  [ "$(broker_pid)" = "$pid" ] || fail "another broker"
  let_go a
  must_count 0 0
}
row r2_every_verb_minds_the_store
row a8_a_waiter_outlives_any_number_of_brokers
row a8_a_hundred_waiters_start_one_broker
row a_broker_that_cannot_run_is_given_up
row r7_a_stopped_broker_keeps_nobody_beyond_its_limit
row a8_how_it_ended_outlives_the_broker_that_has_not_read_it
row stop_by_force_ends_a_stopped_broker
row r2_a_socket_that_was_removed_comes_back
