# SPDX-License-Identifier: Apache-2.0
# U7, A8: the store is lost while commands run. They are recognised by their marks and hold what they hold;
# nobody is granted their slot, until they end.
. "$(dirname "$0")/lib.sh"
STORE=$XDG_STATE_HOME/tidegate/store.db
use_slots 1

zero_store() {
  local pid
  pid=$(broker_pid)
  kill -KILL "$pid"
  until_true 5 ended "$pid" || fail "the broker does not die"
  dd if=/dev/zero of="$STORE" bs=4096 count=$(($(stat -c %s "$STORE") / 4096 + 1)) conv=notrunc 2>/dev/null
  rm -f "$STORE-wal"
}
jfield() { json | sed -n "s/.*\"$1\": \"*\([^\",]*\).*/\1/p" | head -n 1; }

# hold's job ends by its fifo; $1 is what must be there after the loss.
must_be_recognised() {
  [ "$(jfield recognised)" = "$1" ] || fail "recognised: $(jfield recognised), not $1"
  "$TG" status | grep -q "recognised by their marks" || fail "status does not say it"
  use_slots 1 || fail "no settings"
  must_count "$1" 0
}

u7_a8_a_running_command_keeps_its_slot_when_the_store_is_zeroed() {
  local id uuid waiter
  hold a
  id=$(ticket_of 'echo in')
  uuid=$(jfield uuid)
  zero_store
  must_be_recognised 1
  "$TG" status | grep -q 'a damaged store was moved' || fail "the quarantine is not said"
  [ "$(ticket_of 'echo in')" = "$id" ] || fail "it has another number"
  [ "$(jfield uuid)" = "$uuid" ] || fail "the store has another name: its mark is worth nothing"
  in_background "$TG" run -q -m 10 -- touch late
  waiter=$BG
  must_count 1 1
  [ ! -e late ] || fail "a second one was let in"
  [ "$(ticket_of 'touch late')" -gt $((id + 1000)) ] || fail "a number may be given twice"
  let_go a
  wait "$waiter" || fail "the waiter exits $?"
  [ -e late ] || fail "it did not run"
  must_count 0 0
  grep -q "carries the mark of ticket $id" "$XDG_STATE_HOME/tidegate/broker.log" || fail "the log is silent"
}

a6_a4_what_it_starts_and_leaves_behind_still_belongs_to_it() {
  mkfifo nested nested.end
  in_background "$TG" run -q -m 10 -- sh -c 'read x <nested; "$0" run -q -- touch inner; (read x <nested.end) & exit 0' "$TG"
  must_count 1 0
  zero_store
  must_be_recognised 1
  echo >nested # the inner launch passes under the mark; what is left keeps the slot
  until_true 10 test -e inner || fail "a nested launch waits for its own parent"
  until_true 10 ended "$BG" || fail "the wrapper stays"
  must_count 1 0
  echo >nested.end
  must_count 0 0
}

a8_killed_in_the_middle_it_is_found_again() {
  local point code
  for point in start.opened marks.taken marks.named start.adopted; do
    hold a
    zero_store
    code=3
    # 3: the killed one still has the lock. A thread of it that looks at /proc ends a moment after the first.
    for _ in $(seq 1000); do
      [ $code = 3 ] || break
      code=0
      "$BUILD/tidegate-broker-armed" --runtime-dir "$XDG_RUNTIME_DIR/tidegate" --state-dir "$XDG_STATE_HOME/tidegate" \
        --foreground --fault-point $point >/dev/null 2>&1 &
      STARTED+=("$!")
      wait $! || code=$?
    done
    [ $code = 137 ] || fail "$point: the broker ends with $code"
    must_count 1 0
    use_slots 1
    let_go a
    must_count 0 0
    # A wrapper that has not told how its command ended starts the next broker, before this script does.
    until_true 10 ended "$BG" || fail "the wrapper stays"
  done
}

a_store_that_was_removed_is_the_same() {
  local pid
  hold a
  pid=$(broker_pid)
  kill -KILL "$pid"
  until_true 5 ended "$pid" || fail "the broker does not die"
  rm -f "$STORE" "$STORE-wal"
  must_be_recognised 1
  let_go a
  must_count 0 0
}

# What wait-admit granted has no mark: it stands beside the store.
u7_a8_a_wait_admit_holder_keeps_what_it_holds() {
  local holder released dead waiter
  use_slots 3
  sleep 600 & holder=$!
  sleep 600 & released=$!
  sleep 600 & dead=$!
  STARTED+=($holder $released $dead)
  for pid in $holder $released $dead; do
    "$TG" wait-admit $pid 3 123 4 1000 >/dev/null || fail "no grant for $pid"
  done
  exits 0 "$TG" release $released
  zero_store
  kill -KILL $dead
  until_true 5 ended $dead || fail "it stays"
  [ "$(jfield recognised)" = 1 ] || fail "recognised: $(jfield recognised), not 1"
  json | grep -q '"est_mb": 123,' || fail "it holds something else: $(json)"
  use_slots 1
  must_count 1 0
  in_background "$TG" run -q -m 10 -- touch after
  waiter=$BG
  must_count 1 1
  [ ! -e after ] || fail "a second one was let in"
  exits 0 "$TG" release $holder
  wait "$waiter" || fail "the waiter exits $?"
  must_count 0 0
  zero_store # and is not found again
  [ "$(jfield recognised)" = 0 ] || fail "who released is recognised"
  use_slots 1
  kill -KILL $holder $released
}

marks_of_other_stores_do_not_count() {
  local other
  # Nobody else's on this machine.
  TIDEGATE_TICKET=$$:$(cat /proc/sys/kernel/random/uuid) in_background sleep 600
  other=$BG
  zero_store
  [ "$(jfield recognised)" = 0 ] || fail "a stranger was taken for a holder"
  must_count 0 0
  # Not even the name is left: then any mark may be one.
  "$TG" stop --force
  zero_store_by_hand
  rm -f "$XDG_STATE_HOME/tidegate/store.uuid"
  json | grep -q "\"pid\": $other," || fail "the mark does not count although nobody knows whose it is"
  kill -KILL "$other"
  until_true 5 not_listed "$other" || fail "the dead hold something"
}
not_listed() { ! json | grep -q "\"pid\": $1,"; }
zero_store_by_hand() {
  until_true 5 test ! -S "$XDG_RUNTIME_DIR/tidegate/broker.sock" || fail "the broker stays"
  dd if=/dev/zero of="$STORE" bs=4096 count=2 conv=notrunc 2>/dev/null
  rm -f "$STORE-wal"
}

# S10: a mark is what its process says. A number that was never given is no ticket's: no reason not to start, to give
# the store up, or to have no numbers left. Of a lost store half of all numbers may have been given.
s10_a_mark_with_a_number_that_nobody_gave() {
  local id uuid pid last
  exits 0 "$TG" status
  uuid=$(jfield uuid)
  for id in 9223372036854775807 4611686018427387904 4611686018427387903 4611686018426339328 9000000; do
    TIDEGATE_TICKET=$id:$uuid in_background sleep 600
    if [ $id = 9000000 ]; then
      pid=$(broker_pid)
      kill -KILL "$pid"
      until_true 5 ended "$pid" || fail "the broker does not die"
    else
      zero_store # what the second one makes of it is the same
    fi
    exits 0 "$TG" status
    must_count 0 0
    pid=$(broker_pid)
    kill -KILL "$pid"
    until_true 5 ended "$pid" || fail "the broker does not die"
    exits 0 "$TG" status
    ! "$TG" status | grep -q recognised || fail "$id was believed"
    use_slots 1
    exits 0 "$TG" run -q -m 10 -- true
    last=$("$TG" history --json --limit 1 | sed -n 's/.*"ticket":\([0-9]*\).*/\1/p')
    [ "$last" -lt 9000000 ] || fail "after the mark $id there is a ticket $last"
    kill -KILL "$BG"
    wait "$BG" 2>/dev/null
  done
}

# A pipe where a file should be has no other end: nobody waits for one.
pipes_in_place_of_files() {
  local name pid
  for name in store.uuid store.uuid.new words words.old broker.log; do
    exits 0 "$TG" status
    pid=$(broker_pid)
    kill -KILL "$pid"
    until_true 5 ended "$pid" || fail "the broker does not die"
    if [ $name = store.uuid.new ]; then rm -f "$XDG_STATE_HOME/tidegate/store.uuid"; fi
    if [ $name = words.old ]; then truncate -s 70000 "$XDG_STATE_HOME/tidegate/words"; fi
    rm -f "$XDG_STATE_HOME/tidegate/$name"
    mkfifo "$XDG_STATE_HOME/tidegate/$name"
    exits 0 "$TG" run -q -m 10 -- true
    exits 0 "$TG" run -q -m 10 -- true
    "$TG" wait "$("$TG" history --json --limit 1 | sed -n 's/.*"ticket":\([0-9]*\).*/\1/p')"
    exits 0 "$TG" status
    rm -f "$XDG_STATE_HOME/tidegate/$name"
  done
}

row u7_a8_a_running_command_keeps_its_slot_when_the_store_is_zeroed
row a6_a4_what_it_starts_and_leaves_behind_still_belongs_to_it
[ -x "$BUILD/tidegate-broker-armed" ] && row a8_killed_in_the_middle_it_is_found_again
row a_store_that_was_removed_is_the_same
row u7_a8_a_wait_admit_holder_keeps_what_it_holds
row s10_a_mark_with_a_number_that_nobody_gave
row pipes_in_place_of_files
row marks_of_other_stores_do_not_count
exit 0
