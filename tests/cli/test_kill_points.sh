# SPDX-License-Identifier: Apache-2.0
# A8: kill -9 at every named point of a transition (src/base/fault.h), of the broker, the client, the wrapper
# and the command; whoever is left goes on. No ticket is lost, none is granted twice, no slot leaks.
HERE=$(cd "$(dirname "$0")" && pwd)
SOURCE=$HERE/../../src
. "$(dirname "$0")/lib.sh"
INSTALLED=$TG
TG=$BUILD/tidegate-armed
BROKER=$BUILD/tidegate-broker-armed
[ -x "$BROKER" ] || { echo "SKIPPED: built without TG_FAULT_POINTS" >&2; exit 77; }
use_slots 1

# A job notes that it ran, and whether another was inside the one slot at the same time.
cat >job.sh <<'END'
mkdir inside 2>/dev/null || echo "$1" >>overlaps
echo "$1" >>ran
sleep 0.01
rmdir inside
END

# Every point that a row goes over; the last row compares them with those in the source.
COVERED=()

# armed POINT: the broker that will be killed there; its pid in ARMED.
armed() {
  "$TG" stop --force >/dev/null 2>&1
  : >word
  "$BROKER" --runtime-dir "$XDG_RUNTIME_DIR/tidegate" --state-dir "$XDG_STATE_HOME/tidegate" --ready-fd 9 \
    --foreground --fault-point "$1" 9>word 2>>broker.err &
  ARMED=$!
  STARTED+=("$ARMED")
}
must_be_killed() {
  local code=0
  until_true 10 ended "$ARMED" || fail "$1 was never passed"
  wait "$ARMED" || code=$?
  [ $code = 137 ] || fail "the broker armed with $1 ended with $code"
}
# What nobody may ever see.
nothing_went_wrong() {
  must_count 0 0
  [ ! -e overlaps ] || fail "$1: two at once: $(cat overlaps)"
  [ ! -d inside ] || fail "$1: a job ended in the middle"
}
ran() { grep -cx "$1" ran; }

# Three jobs, and a process that tries once (and is parked) and then waits, over one slot.
scene() {
  local point=$1 n shell pids=() code
  COVERED+=("${point%:*}")
  armed "$point"
  until_true 10 grep -q ready word || fail "the armed broker is not ready: $(cat word)"
  : >ran
  for n in 1 2 3; do
    in_background "$TG" run -q -m 10 -- sh job.sh $n
    pids+=("$BG")
  done
  sleep 600 &
  shell=$!
  STARTED+=("$shell")
  code=0
  "$TG" wait-admit $shell 3 10 9 0 >verdict || code=$?
  [ $code -le 1 ] || fail "$point: one attempt gives $code: $(cat verdict)"
  [ $code = 0 ] || "$TG" wait-admit $shell 3 10 9 200000 >verdict || fail "$point: wait-admit gives $?"
  mkdir inside || fail "$point: granted while a job is inside"
  rmdir inside
  exits 0 "$TG" release $shell
  for n in 1 2 3; do
    wait "${pids[n - 1]}" || fail "$point: job $n exits $?"
    [ "$(ran $n)" = 1 ] || fail "$point: job $n ran $(ran $n) times"
  done
  must_be_killed "$point"
  nothing_went_wrong "$point"
  kill -KILL $shell
}

a8_the_broker_killed_at_each_point_of_a_transition() {
  local point n
  for point in insert.before insert.after grant.before grant.after end.before end.after commit.before \
    commit.after reply.before reply.after; do
    for n in 1 3; do
      scene $point:$n
    done
  done
  # The grant of wait-admit: nothing is known of its acknowledgement, or the store is about to know, or knows.
  for point in ack.before touch.before touch.after; do
    scene $point:1
  done
  # Once in a scene at the least: who gives up after one attempt.
  park_scene park.before
  park_scene park.after
}

# Somebody holds, another gives up (park) while the broker is killed, and asks again.
park_scene() {
  local shell code=0
  COVERED+=("$1")
  armed "$1"
  until_true 10 grep -q ready word || fail "not ready"
  hold a
  sleep 600 &
  shell=$!
  STARTED+=("$shell")
  "$TG" wait-admit $shell 3 10 9 50 >verdict || code=$?
  [ $code = 1 ] || fail "$1: giving up gives $code: $(cat verdict)"
  must_be_killed "$1"
  must_count 1 1 # parked, at its place
  let_go a
  exits 0 "$TG" wait-admit $shell 3 10 9 200000
  must_count 1 0
  exits 0 "$TG" release $shell
  nothing_went_wrong "$1"
  kill -KILL $shell
}

# A start that is killed leaves the holder where it was, and the next one finds it.
a8_the_broker_killed_at_each_point_of_its_start() {
  local point code waiter former
  for point in start.locked start.opened start.adopted start.listening; do
    : >ran
    COVERED+=("$point")
    hold a
    former=$(broker_pid)
    kill -KILL "$former"
    until_true 10 ended "$former" || fail "$point: the broker does not die"
    armed $point
    must_be_killed $point
    in_background "$TG" run -q -m 10 -- sh job.sh 1
    waiter=$BG
    must_count 1 1
    [ ! -s ran ] || fail "$point: a second one was let in"
    let_go a
    wait "$waiter" || fail "$point: the waiter exits $?"
    nothing_went_wrong $point
  done
}

# One victim among others, first while the slot is free, then while somebody holds it.
a8_client_and_wrapper_killed_at_each_point() {
  local point busy pids n code victim
  for point in client.connected client.asked client.answered client.decided client.before-exec \
    wrapper.forked wrapper.ended wrapper.kept wrapper.told; do
    COVERED+=("$point")
    for busy in no yes; do
      : >ran
      pids=()
      [ $busy = no ] || hold a
      TIDEGATE_FAULT_POINT=$point in_background "$TG" run -q -m 10 -- sh job.sh victim
      victim=$BG
      for n in 1 2; do
        in_background "$TG" run -q -m 10 -- sh job.sh $n
        pids+=("$BG")
      done
      [ $busy = no ] || let_go a
      code=0
      wait "$victim" || code=$?
      [ $code = 137 ] || fail "$point: the victim exits $code"
      for n in 1 2; do
        wait "${pids[n - 1]}" || fail "$point: job $n exits $?"
        [ "$(ran $n)" = 1 ] || fail "$point: job $n ran $(ran $n) times"
      done
      [ "$(ran victim)" -le 1 ] || fail "$point: the victim ran twice"
      case $point in
      client.*) [ "$(ran victim)" = 0 ] || fail "$point: the victim ran without its client" ;;
      wrapper.ended | wrapper.kept | wrapper.told) [ "$(ran victim)" = 1 ] || fail "$point: the victim did not run" ;;
      esac
      nothing_went_wrong $point
    done
  done
}

# wait-admit: until its word is read the place is kept, after it the process holds until it is released.
a8_wait_admit_killed_at_each_point() {
  local point shell code
  for point in client.connected client.asked client.answered client.decided client.acked; do
    COVERED+=("$point")
    sleep 600 &
    shell=$!
    STARTED+=("$shell")
    code=0
    TIDEGATE_FAULT_POINT=$point "$TG" wait-admit $shell 3 10 9 200000 >verdict 2>&1 || code=$?
    [ $code = 137 ] || fail "$point: wait-admit exits $code"
    [ ! -s verdict ] || fail "$point: it said $(cat verdict)"
    exits 0 "$TG" wait-admit $shell 3 10 9 200000
    must_count 1 0
    exits 0 "$TG" release $shell
    nothing_went_wrong $point
    kill -KILL $shell
  done
}

l1_the_command_killed_by_itself() {
  exits 137 "$TG" run -q -m 10 -- sh -c 'kill -KILL $$'
  must_count 0 0
}

a_point_is_named_well_or_refused() {
  TIDEGATE_FAULT_POINT=x:0 exits 2 "$TG" status
  exits 2 "$BROKER" --runtime-dir /x --state-dir /x --fault-point :3
  TIDEGATE_FAULT_POINT=no.such.point exits 0 "$TG" run -q -m 10 -- true
}

# What is installed is another executable: nobody's environment kills it.
what_is_installed_cannot_be_armed() {
  TIDEGATE_FAULT_POINT=client.connected exits 0 "$INSTALLED" run -q -m 10 -- true
  TIDEGATE_FAULT_POINT=x:0 exits 0 "$INSTALLED" status
  exits 2 "$BUILD/tidegate-broker" --runtime-dir /x --state-dir /x --fault-point end.before
  exits 0 "$BUILD/tidegate-broker" --help
  grep -q fault-point out && fail "it has fault points: $(cat out)"
  return 0
}

# A point that is new in the source and in no row.
every_point_of_the_source_was_gone_over() {
  grep -rhoE --include='*.c' 'tg_fault_point\("[^"]*"\)' "$SOURCE" | sed 's/.*("//; s/").*//' | sort -u >named
  [ -s named ] || fail "no point is found in $SOURCE"
  # Those of a start without its store stand in a test of their own.
  { printf '%s\n' "${COVERED[@]}" && grep 'for point in' "$HERE/test_lost_store.sh" | grep -o 'marks\.[a-z]*'; } |
    sort -u >covered
  diff named covered >missed || fail "points of the source (<) and of this test (>): $(cat missed)"
}

row a_point_is_named_well_or_refused
row a8_the_broker_killed_at_each_point_of_a_transition
row a8_the_broker_killed_at_each_point_of_its_start
row a8_client_and_wrapper_killed_at_each_point
row a8_wait_admit_killed_at_each_point
row l1_the_command_killed_by_itself
row what_is_installed_cannot_be_armed
row every_point_of_the_source_was_gone_over
exit 0
