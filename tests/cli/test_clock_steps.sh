# SPDX-License-Identifier: Apache-2.0
# S10, U13, U14: the wall clock is stepped by an hour, forward and back, as broker and clients see it
# (clock_shim.c), while commands wait, run, have ended and are asked for. Order comes from numbers, limits from
# clocks that nobody can set; what the wall clock is shown for may be wrong by the step, and nothing else.
. "$(dirname "$0")/lib.sh"
# ld.so divides what it is to preload at blanks: from a path without one.
SHIM=$PLACE/clock_shim.so
if grep -q '^TG_SANITIZE:[A-Z]*=.' "$BUILD/CMakeCache.txt"; then
  echo "SKIPPED: nothing can be preloaded into a sanitized program" >&2
  exit 77
fi
cp "$BUILD/tests/clock_shim.so" "$SHIM"
export TG_TEST_CLOCK_FILE=$PLACE/clock TIDEGATE_BROKER=$PLACE/broker
TG=$BUILD/tests/tidegate-dynamic

mono_ms() { awk '{ printf "%d\n", $1 * 1000 }' /proc/uptime; }
# step SECONDS: what the wall clock of the programs is off by from now on.
step() { echo "$1" >"$PLACE/clock.new" && mv "$PLACE/clock.new" "$PLACE/clock"; }

# A broker forgets its environment, and whoever finds none starts one: each starts it with the shim.
cat >"$PLACE/broker" <<END
#!/bin/sh
LD_PRELOAD='$SHIM' TG_TEST_CLOCK_FILE='$TG_TEST_CLOCK_FILE' exec '$BUILD/tidegate-broker' "\$@"
END
chmod 755 "$PLACE/broker"
step 0
export LD_PRELOAD=$SHIM
use_slots 1

# The shim does what it is for: what is shown moves with the step.
the_clock_is_stepped_indeed() {
  local now before after
  before=$("$TG" history --json --limit 1 | sed -n 's/.*"ended_wall_ms":\([0-9]*\).*/\1/p')
  step "$1"
  exits 0 "$TG" run -q -m 10 -- true
  must_count 0 0
  after=$("$TG" history --json --limit 1 | sed -n 's/.*"ended_wall_ms":\([0-9]*\).*/\1/p')
  now=$(env -u LD_PRELOAD date +%s)
  [ -n "$after" ] || fail "no history (before: $before)"
  [ $((after / 1000 - now - $1)) -gt -60 ] && [ $((after / 1000 - now - $1)) -lt 60 ] ||
    fail "it ended at $after, it is $now, the step is $1"
}

s10_the_order_is_that_of_arrival() {
  local pids=() n
  rm -f order
  hold a
  for n in 1 2 3 4; do
    in_background "$TG" run -q -m 10 -- sh -c "echo $n >>order"
    pids+=("$BG")
    must_count 1 "$n"
    step "$(((n % 2 ? 1 : -1) * $1))"
  done
  let_go a
  for n in "${pids[@]}"; do wait "$n" || fail "a job exits $?"; done
  [ "$(tr -d '\n' <order)" = 1234 ] || fail "the order was $(tr '\n' ' ' <order)"
}

# A limit that is far away is not reached by a step, and one that is near is not moved by it.
u13_limits_of_waiters_do_not_move() {
  local patient shell begin took limit code=0
  hold a
  in_background "$TG" run -q --timeout 600s -m 10 -- true
  patient=$BG
  must_count 1 1
  sleep 600 &
  shell=$!
  STARTED+=("$shell")
  # Longer where the machine is too busy to step the clock before the limit is reached.
  for limit in 1500 6000 24000; do
    begin=$(mono_ms)
    in_background "$TG" wait-admit $shell 3 10 9 $limit >verdict
    until counts 1 2 || ended "$BG"; do sleep 0.01; done
    step "$1"
    ended "$BG" || break
    step 0
  done
  wait "$BG" || code=$?
  took=$(($(mono_ms) - begin))
  [ $code = 1 ] || fail "wait-admit exits $code: $(cat verdict)"
  [ $took -ge $((limit - 100)) ] && [ $took -lt $((limit + 60000)) ] || fail "a limit of $limit ms took $took ms"
  kill -KILL $shell
  must_count 1 1
  json | grep -q '"waited_ms": [0-9]\{1,6\},$' || fail "it has waited $(json | grep -m 1 waited_ms)"
  let_go a
  wait "$patient" || fail "the patient one exits $?"
}

# What runs is measured by a clock that does not step, in status and in the history.
u13_a_running_command_is_not_older_than_it_is() {
  local ran
  hold a
  step "$1"
  json | grep -q '"held_ms": [0-9]\{1,6\},$' || fail "it is held $(json | grep -m 1 held_ms)"
  let_go a
  must_count 0 0
  ran=$("$TG" history --json --limit 1 | sed -n 's/.*"ran_ms":\([0-9]*\).*/\1/p')
  [ -n "$ran" ] && [ "$ran" -lt 1000000 ] || fail "it ran ${ran:-null} ms"
}

# The word on how a command ended comes after its end, and the clock steps between the two.
u13_the_status_of_what_has_just_ended_is_awaited() {
  local wrapper id waiter code=0 begin
  # A wrapper that can tell nothing as long as it is stopped.
  begin=$(mono_ms)
  in_background "$TG" run -q -m 10 -- sh -c 'kill -STOP $PPID; exit 7'
  wrapper=$BG
  until_true 10 row_of_the_end >/dev/null || fail "the command does not end"
  id=$(row_of_the_end)
  step "$1"
  in_background "$TG" wait "$id"
  waiter=$BG
  sleep 0.3
  if ended "$waiter"; then # 5 s after the end it need not any more
    [ $(($(mono_ms) - begin)) -gt 4500 ] || fail "wait does not wait for the word"
    not_shown "the machine is too busy to ask within 5 s"
    kill -CONT "$wrapper"
    return
  fi
  kill -CONT "$wrapper"
  wait "$waiter" || code=$?
  [ $code = 7 ] || fail "wait exits $code"
  wait "$wrapper"
  # And when nobody tells, an answer comes in bounded time all the same.
  in_background "$TG" run -q -m 10 -- sh -c 'kill -KILL $PPID; exit 7'
  wrapper=$BG
  code=0
  wait "$wrapper" 2>/dev/null
  must_count 0 0
  id=$("$TG" history --json --limit 1 | sed -n 's/.*"ticket":\([0-9]*\).*/\1/p')
  step 0
  begin=$(mono_ms)
  "$TG" wait "$id" || code=$?
  [ $code = 125 ] || fail "wait for what nobody tells exits $code"
  [ $(($(mono_ms) - begin)) -lt 120000 ] || fail "it took $(($(mono_ms) - begin)) ms"
}
# The ticket of the last row, when its status is not known.
row_of_the_end() {
  "$TG" history --json --limit 1 >last.json
  grep -q '"status":null' last.json && counts 0 0 && sed -n 's/.*"ticket":\([0-9]*\).*/\1/p' last.json
}

# The rows stand in the order of the ends, whatever the clock said then.
u14_the_history_is_in_the_order_of_the_ends() {
  local n
  for n in 1 2 3; do
    step "$(((n % 2 ? 1 : -1) * $1))"
    exits 0 "$TG" run -q -m 10 -- sh -c ": row$n"
    must_count 0 0
  done
  "$TG" history --limit 3 | grep -o 'row[123]' | tr -d '\n' >rows
  [ "$(cat rows)" = row1row2row3 ] || fail "the history has $(cat rows)"
}

# A broker that starts at another time of day knows who lives, and who came first.
u14_a_broker_that_starts_an_hour_off_keeps_everybody() {
  local pids=() n
  rm -f order
  hold a
  for n in 1 2; do
    in_background "$TG" run -q -m 10 -- sh -c "echo $n >>order"
    pids+=("$BG")
    must_count 1 "$n"
  done
  step "$1"
  kill -KILL "$(broker_pid)"
  until_true 20 counts 1 2 || fail "they are not all there"
  [ ! -e order ] || fail "somebody was let in beside the holder"
  let_go a
  for n in "${pids[@]}"; do wait "$n" || fail "a job exits $?"; done
  [ "$(tr -d '\n' <order)" = 12 ] || fail "the order was $(tr '\n' ' ' <order)"
}

# With the clock right before it.
stepped() { step 0 && row "$@"; }
for hour in 3600 -3600; do
  stepped the_clock_is_stepped_indeed $hour
  stepped s10_the_order_is_that_of_arrival $hour
  stepped u13_limits_of_waiters_do_not_move $hour
  stepped u13_a_running_command_is_not_older_than_it_is $hour
  stepped u13_the_status_of_what_has_just_ended_is_awaited $hour
  stepped u14_the_history_is_in_the_order_of_the_ends $hour
  stepped u14_a_broker_that_starts_an_hour_off_keeps_everybody $hour
done
shown_all
