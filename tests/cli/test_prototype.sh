# SPDX-License-Identifier: Apache-2.0
# The prototype's contract: wait-admit, release and status, by their own and by its name; rows S3, S7, S8,
# S9, R7, R10.
. "$(dirname "$0")/lib.sh"
use_slots 1
NX=$PLACE/nx_swarm_queue
ln -s "$TG" "$NX"

# Owners are processes of the test that do nothing.
owner() {
  in_background sleep 600
  OWNER=$BG
}
said() { [ "$(cat out)" = "$1" ] || fail "it said '$(cat out)', not '$1'"; }

the_prototypes_lines() {
  owner
  local a=$OWNER
  exits 0 "$NX" wait-admit "$a" 0 100 1 100000
  said 'SWARM-QUEUE GRANT (admitted; run then: nx_swarm_queue release <pid>)'
  exits 0 "$NX" status
  said 'SWARM-QUEUE holders=1 waiters=0'
  owner
  exits 1 "$NX" wait-admit "$OWNER" 0 100 1 50
  said 'SWARM-QUEUE TIMEOUT (still queued; box stayed saturated past max_wait)'
  exits 0 "$NX" release "$a"
  said 'SWARM-QUEUE released'
  exits 0 "$NX" release "$OWNER"
  exits 0 "$NX" release "$OWNER"
  said 'SWARM-QUEUE released'
  exits 0 "$NX" status
  said 'SWARM-QUEUE holders=0 waiters=0'
  exits 2 "$NX" wait-admit 1 2 3
  said ''
}
the_lines_by_our_name() {
  owner
  exits 0 "$TG" wait-admit "$OWNER" -3 100 1 0
  said "GRANT (admitted; run then: tidegate release $OWNER)"
  # A holder that asks again has it already: no second slot.
  exits 0 "$TG" wait-admit "$OWNER" -3 100 1 0
  counts 1 0 || fail "an owner holds twice"
  local a=$OWNER
  owner
  exits 1 "$TG" wait-admit "$OWNER" 0 100 1 0
  said 'TIMEOUT (still queued; box stayed saturated past max_wait)'
  exits 0 "$TG" release "$a"
  said released
  "$TG" release "$OWNER" >/dev/null
  must_count 0 0
}
backfill_says_so_first() {
  # The big one cannot start: the floor leaves less than it needs; the small one fills in.
  local total
  total=$(awk '/^MemTotal/ { print int($2 / 1024) }' /proc/meminfo)
  use_slots 4
  "$TG" config backfill-mb 50
  "$TG" config floor-mb 0
  owner
  local holder=$OWNER
  exits 0 "$TG" wait-admit "$holder" 0 $((total / 2)) 9 0
  owner
  in_background "$TG" wait-admit "$OWNER" 5 $((total * 9 / 10)) 9 200000
  local big=$BG bigowner=$OWNER
  must_count 1 1
  owner
  exits 0 "$NX" wait-admit "$OWNER" 0 40 9 100000
  said 'SWARM-QUEUE (backfill: small job fills idle capacity while a bigger job waits)
SWARM-QUEUE GRANT (admitted; run then: nx_swarm_queue release <pid>)'
  kill -TERM "$big"
  for o in "$holder" "$bigowner" "$OWNER"; do "$TG" release "$o" >/dev/null; done
  "$TG" config backfill-mb 6000
  "$TG" config floor-mb 2048
  use_slots 1
  must_count 0 0
}
what_never_fits_has_no_verdict() {
  owner
  exits 123 "$NX" wait-admit "$OWNER" 0 99999999 1 0
  said ''
  grep -q 'can never start here: needs 99999999 MB' err || fail "it says $(cat err)"
  exits 123 "$TG" wait-admit "$OWNER" 0 99999999 1 60000
  said ''
  must_count 0 0
}
s3_r7_no_store_no_grant() {
  # A state directory that cannot be used refuses, whoever asks; root may write anywhere, so it is a file.
  owner
  local out code
  : >"$PLACE/nodir"
  for place in "$PLACE/nodir" "$PLACE/nodir/below"; do
    XDG_STATE_HOME=$place XDG_RUNTIME_DIR=$PLACE/tmp exits 125 "$NX" wait-admit "$OWNER" 0 100 1 50
    said ''
    XDG_STATE_HOME=$place XDG_RUNTIME_DIR=$PLACE/tmp exits 125 "$TG" run -- touch ran
  done
  mkdir -m 777 "$PLACE/open"
  mkdir -m 777 "$PLACE/open/tidegate"
  chmod 777 "$PLACE/open/tidegate"
  XDG_STATE_HOME=$PLACE/open XDG_RUNTIME_DIR=$PLACE/tmp exits 125 "$NX" wait-admit "$OWNER" 0 100 1 50
  said ''
  XDG_RUNTIME_DIR=relative exits 125 "$NX" wait-admit "$OWNER" 0 100 1 50
  said ''
  env -u HOME -u XDG_STATE_HOME "$NX" wait-admit "$OWNER" 0 100 1 50 >out 2>err && fail "granted without a HOME"
  # Another store than that broker's is refused, not served (R2).
  counts 0 0 || fail "counts"
  mkdir -m 700 "$PLACE/other"
  XDG_STATE_HOME=$PLACE/other exits 125 "$NX" wait-admit "$OWNER" 0 100 1 50
  said ''
  [ ! -e ran ] || fail "a command ran"
}
s3_r7_a_dead_or_stopped_broker_grants_nothing() {
  owner
  TIDEGATE_BROKER=/bin/false XDG_RUNTIME_DIR=$PLACE/tmp exits 125 "$NX" wait-admit "$OWNER" 0 100 1 50
  said ''
  TIDEGATE_BROKER=relative XDG_RUNTIME_DIR=$PLACE/tmp exits 125 "$NX" wait-admit "$OWNER" 0 100 1 50
  said ''
  TIDEGATE_BROKER=/bin/echo XDG_RUNTIME_DIR=$PLACE/tmp exits 125 "$TG" run -- touch ran
  [ ! -e ran ] || fail "a command ran"
}
owners_are_checked() {
  exits 2 "$TG" wait-admit 4194304 0 100 1 0
  exits 2 "$TG" wait-admit "$(broker_pid)" 0 100 1 0
  sh -c 'exit 0' &
  local dead=$!
  wait $dead
  exits 2 "$TG" wait-admit $dead 0 100 1 0
  must_count 0 0
}
s7_a_waiter_that_left_blocks_nobody() {
  owner
  local a=$OWNER
  exits 0 "$TG" wait-admit "$a" 0 100 9 0
  owner
  local gone=$OWNER
  exits 1 "$TG" wait-admit "$gone" 50 100 9 50 # most urgent, gives up, its caller lives on
  owner
  in_background "$TG" wait-admit "$OWNER" 0 100 9 200000
  local waiter=$BG code=0
  must_count 1 2
  "$TG" release "$a" >/dev/null
  wait "$waiter" || code=$?
  [ $code = 0 ] || fail "the second waiter got $code behind one that has left"
  # It resumes its old place: before a later one of the same priority (A7).
  local second=$OWNER
  owner
  in_background "$TG" wait-admit "$OWNER" 50 100 9 200000
  local later=$BG laterowner=$OWNER
  must_count 1 2
  in_background "$TG" wait-admit "$gone" 50 100 9 200000
  waiter=$BG
  until_true 5 sh -c "\"$TG\" status | grep -q '#2'" || fail "it does not wait again"
  "$TG" release "$second" >/dev/null
  wait "$waiter" || fail "the one that came back was not first"
  ended "$later" && fail "two hold one slot"
  "$TG" release "$gone" >/dev/null
  wait "$later" || fail "the later one"
  "$TG" release "$laterowner" >/dev/null
  must_count 0 0
}
s8_negative_priority_is_one_order() {
  owner
  local a=$OWNER
  exits 0 "$TG" wait-admit "$a" 0 100 9 0
  owner
  local low=$OWNER
  in_background "$TG" wait-admit "$low" -5 100 9 200000
  local wlow=$BG
  must_count 1 1
  owner
  local mid=$OWNER
  in_background "$TG" wait-admit "$mid" 0 100 9 200000
  local wmid=$BG
  must_count 1 2
  "$TG" release "$a" >/dev/null
  wait "$wmid" || fail "priority 0 did not go before -5"
  ended "$wlow" && fail "two hold one slot"
  "$TG" release "$mid" >/dev/null
  wait "$wlow" || fail "-5"
  "$TG" release "$low" >/dev/null
  must_count 0 0
}
s9_caps_of_callers_are_their_own() {
  # Capacity is the broker's (A10): slots caps both; max_conc limits the heavy holders beside that caller.
  use_slots 3
  "$TG" config backfill-mb 50
  owner; local a=$OWNER
  exits 0 "$TG" wait-admit "$a" 0 60 8 0
  owner; local b=$OWNER
  exits 1 "$TG" wait-admit "$b" 0 60 1 0 # cap 1: beside one heavy holder it does not start
  owner; local c=$OWNER
  exits 0 "$TG" wait-admit "$c" 0 60 8 0 # cap 8: it does
  owner; local d=$OWNER
  exits 0 "$TG" wait-admit "$d" 0 60 8 0
  owner; local e=$OWNER
  exits 1 "$TG" wait-admit "$e" 0 60 8 0 # slots are three, whatever it says
  for o in $a $b $c $d $e; do "$TG" release "$o" >/dev/null; done
  "$TG" config backfill-mb 6000
  use_slots 1
  must_count 0 0
}
r10_a_waiter_holds_nothing() {
  use_slots 2
  owner; local a=$OWNER
  exits 0 "$TG" wait-admit "$a" 0 10 9 0
  # It wants both slots and waits; the free one is not its own: status says so.
  in_background "$TG" run -q --slots 2 -m 10 -- true
  local waiter=$BG
  must_count 1 1
  json | tr -d ' \n' | grep -q '"slots":{[^}]*"held":1' || fail "a waiter occupies a slot"
  json | tr -d ' \n' | grep -q '"reserved_mb":10[,}]' || fail "a waiter reserves memory"
  "$TG" release "$a" >/dev/null
  wait "$waiter" || fail "the waiter failed"
  use_slots 1
  must_count 0 0
}
wait_admit_killed_is_parked() {
  owner; local a=$OWNER
  exits 0 "$TG" wait-admit "$a" 0 100 9 0
  owner
  in_background "$TG" wait-admit "$OWNER" 0 100 9 200000
  must_count 1 1
  kill -KILL "$BG"
  until_true 5 sh -c "\"$TG\" status | grep -q parked" || fail "not parked"
  kill -KILL "$OWNER"
  must_count 1 0
  "$TG" release "$a" >/dev/null
  must_count 0 0
}
row the_prototypes_lines
row the_lines_by_our_name
row backfill_says_so_first
row what_never_fits_has_no_verdict
row s3_r7_no_store_no_grant
row s3_r7_a_dead_or_stopped_broker_grants_nothing
row owners_are_checked
row s7_a_waiter_that_left_blocks_nobody
row s8_negative_priority_is_one_order
row s9_caps_of_callers_are_their_own
row r10_a_waiter_holds_nothing
row wait_admit_killed_is_parked
