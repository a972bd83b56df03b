# SPDX-License-Identifier: Apache-2.0
# status, prio, cancel, config, stop (O11, V1, V2, W16, A9).
. "$(dirname "$0")/lib.sh"
without_leak_search
use_slots 1

status_begins_with_the_counts_and_says_where() {
  exits 0 "$TG" status
  [ "$(head -n 1 out)" = "holders=0 waiters=0" ] || fail "it begins with $(head -n 1 out)"
  grep -q "^broker .* pid $(broker_pid), on $XDG_RUNTIME_DIR/tidegate/" out || fail "no broker in $(cat out)"
  grep -q "^store $XDG_STATE_HOME/tidegate/" out || fail "no store in $(cat out)"
  hold a
  in_background "$TG" run -q -p high -m 20 -- touch ran
  must_count 1 1
  exits 0 "$TG" status
  grep -Eq "^ *[0-9]+ +holds +normal +10M" out || fail "no holder in $(cat out)"
  grep -Eq "^ *[0-9]+ +#1 +high +20M .*touch ran" out || fail "no waiter in $(cat out)"
  grep -q 'waits for slots' out || fail "not why, in $(cat out)"
  let_go a
  must_count 0 0
  rm -f ran
}
w16_json_is_alone_on_standard_output() {
  command -v python3 >/dev/null || return 0
  local check='import json,sys
s = json.load(sys.stdin)
assert s["status_version"] == 1 and s["broker"]["pid"] > 1 and s["broker"]["version"]
assert s["store"]["path"].startswith("/") and s["gates"]["slots"]["limit"] == 1
assert isinstance(s["holders"], list) and isinstance(s["waiters"], list)
print(len(s["holders"]), len(s["waiters"]))'
  hold a
  mkfifo b
  in_background "$TG" run -q -- "$(printf 'a\033]0;x\007 "q\\ \377\n')" 2>/dev/null
  in_background "$TG" run -q -- sh -c ': "$(printf "\377\033[2J\n")" '"'"'"\'"'"
  must_count 1 1
  "$TG" status --json 2>/dev/null | python3 -c "$check" >out || fail "status --json is not what it should be"
  [ "$(cat out)" = "1 1" ] || fail "it lists $(cat out)"
  "$TG" status | grep -q "$(printf '\033')" && fail "control bytes reach the terminal"
  "$TG" stop --force 2>/dev/null
  # Started anew by this very call, with whatever that has to say on standard error.
  "$TG" status --json | python3 -c "$check" >/dev/null || fail "status --json that starts the broker"
  let_go a
  must_count 0 0
  # A number is written as a person would: at most the three decimals that it has.
  exits 0 "$TG" config load 5.76
  json | grep -q '"limit": 5\.76,$' || fail "5.76 became $(json | grep -m 1 '"limit": 5')"
  json | grep -E '\.[0-9]{4}' && fail "more than three decimals"
  exits 0 "$TG" config load off
  exits 125 sh -c "\"$TG\" status >/dev/full"
}
o11_prio_changes_the_order_at_once() {
  hold a
  rm -f order
  in_background "$TG" run -q -- sh -c 'echo one >>order'
  must_count 1 1
  in_background "$TG" run -q -- sh -c 'echo two >>order'
  must_count 1 2
  in_background "$TG" run -q -p low -- sh -c 'echo three >>order'
  must_count 1 3
  exits 0 "$TG" prio "$(ticket_of three)" critical
  exits 0 "$TG" prio "$(ticket_of one)" -7
  "$TG" status | grep -Eq '#1 +critical .*three' || fail "status does not show it"
  let_go a
  must_count 0 0
  [ "$(tr '\n' ' ' <order)" = "three two one " ] || fail "the order was $(tr '\n' ' ' <order)"
  exits 125 "$TG" prio 999999999 high
}
cancel_in_each_state() {
  local code=0 holder waiter
  mkfifo c
  in_background "$TG" run -q -- sh -c 'echo up >c.log; exec sleep 600'
  holder=$BG
  until_true 5 test -s c.log
  in_background "$TG" run -v -- touch ran 2>c.err
  waiter=$BG
  must_count 1 1
  exits 0 "$TG" cancel "$(ticket_of touch)"
  wait "$waiter" || code=$?
  [ $code = 125 ] || fail "a cancelled waiter exits $code"
  grep -q cancelled c.err || fail "it does not say why: $(cat c.err)"
  exits 0 "$TG" cancel "$(ticket_of sleep)"
  code=0
  wait "$holder" || code=$?
  [ $code = 143 ] || fail "a cancelled holder exits $code"
  must_count 0 0
  exits 125 "$TG" cancel 999999999
  [ ! -e ran ] || fail "a cancelled command ran"
}
config_is_live_and_kept() {
  exits 0 "$TG" config
  grep -qx 'slots 1' out && grep -qx 'load off' out || fail "config says $(cat out)"
  exits 0 "$TG" config floor-mb 1000
  [ -s out ] && fail "setting is not silent"
  "$TG" stop
  [ "$("$TG" config floor-mb)" = 1000 ] || fail "not kept over a restart"
  exits 0 "$TG" config floor-mb 2048
  hold a
  in_background "$TG" run -q -- true
  must_count 1 1
  exits 0 "$TG" config slots 2
  must_count 1 0
  let_go a
  must_count 0 0
  exits 0 "$TG" config slots auto
  exits 0 "$TG" config slots 1
}
stop_is_refused_with_waiters() {
  hold a
  in_background "$TG" run -q -- true
  local waiter=$BG pid
  must_count 1 1
  exits 125 "$TG" stop
  pid=$(broker_pid)
  exits 0 "$TG" stop --force
  ended "$pid" || fail "stop returned before the broker was gone"
  must_count 1 1 # the waiter's next broker, with the holder adopted
  let_go a
  wait "$waiter" || fail "the waiter got lost"
  must_count 0 0
  pid=$(broker_pid)
  exits 0 "$TG" stop
  ended "$pid" || fail "stop returned before the broker was gone"
  exits 0 "$TG" stop
  [ "$(cat out)" = "no broker runs" ] || fail "it said $(cat out)"
}
r2_another_runtime_directory_is_the_same_broker() {
  local pid
  pid=$(broker_pid)
  mkdir -m 700 "$PLACE/run2"
  hold a
  [ "$(XDG_RUNTIME_DIR=$PLACE/run2 broker_pid)" = "$pid" ] || fail "two brokers serve one store"
  XDG_RUNTIME_DIR=$PLACE/run2 exits 124 "$TG" run -q --timeout 100ms -- touch ran
  let_go a
  must_count 0 0
  [ ! -e ran ] || fail "two run with one slot"
}
no_standard_streams_at_all() {
  # Our own descriptors never land on 0 to 2, and messages go nowhere instead of into them.
  "$TG" run -v -- no-such-command <&- >&- 2>&-
  [ $? = 127 ] || fail "not 127"
  "$TG" run -- sh -c 'exit 9' <&- >&- 2>&-
  [ $? = 9 ] || fail "not 9"
  "$TG" stop <&- >&- 2>&-
  "$TG" run -- sh -c 'exit 9' <&- >&- 2>&- # starts a broker as well
  [ $? = 9 ] || fail "not 9 when it starts the broker"
  must_count 0 0
}
row status_begins_with_the_counts_and_says_where
row w16_json_is_alone_on_standard_output
row o11_prio_changes_the_order_at_once
row cancel_in_each_state
row config_is_live_and_kept
row stop_is_refused_with_waiters
row r2_another_runtime_directory_is_the_same_broker
row no_standard_streams_at_all
