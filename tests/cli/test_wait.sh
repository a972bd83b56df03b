# SPDX-License-Identifier: Apache-2.0
# wait ID... and wait --all (V7): exit codes, time limit, ends that were earlier, a broker that dies meanwhile.
. "$(dirname "$0")/lib.sh"
use_slots 3

# starts FIFO CODE: a holder that exits with CODE when its fifo is opened; its ticket in TICKET.
starts() {
  rm -f "$1" "$1.log" && mkfifo "$1"
  in_background "$TG" run -m 10 -- sh -c "echo in >>$1.log; read x <$1; exit $2"
  until_true 5 test -s "$1.log" || fail "the holder $1 did not start"
  TICKET=$(ticket_of "read x <$1;")
}

# waiting ARGS...: `wait ARGS` in the background, once the broker knows of it.
waiting() {
  in_background "$TG" wait "$@" 2>w.err
  until_true 5 sh -c "'$TG' metrics | grep -q '^tidegate_waits 1$'" || fail "the broker does not know of wait $*"
}

v7_the_first_that_is_not_zero_in_the_order_of_the_arguments() {
  starts a 0 && local a=$TICKET
  starts b 5 && local b=$TICKET
  starts c 6 && local c=$TICKET
  waiting "$a" "$c" "$b"
  let_go b
  let_go c
  must_count 1 0
  ended "$BG" && fail "it did not wait for all"
  let_go a
  local code=0
  wait "$BG" || code=$?
  [ $code = 6 ] || fail "exit code $code"
  grep -q "ticket $c ended with 6" w.err || fail "it said $(cat w.err)"
  # They have ended earlier now.
  exits 5 "$TG" wait "$b" "$c"
  exits 0 "$TG" wait "$a" "$a"
  exits 0 "$TG" wait --timeout 0 "$a"
}
v7_all() {
  exits 0 "$TG" wait --all
  starts a 0
  starts b 7
  waiting --all
  let_go a
  until_true 5 counts 1 0
  ended "$BG" && fail "it did not wait for all"
  let_go b
  local code=0
  wait "$BG" || code=$?
  [ $code = 7 ] || fail "exit code $code"
  # Its own ticket is none of them.
  exits 0 "$TG" run -m 10 -- "$TG" wait --all
}
a_time_limit_gives_124() {
  starts a 0
  exits 124 "$TG" wait --timeout 50ms "$TICKET"
  exits 124 "$TG" wait --timeout 0 --all
  let_go a
  exits 0 "$TG" wait --timeout 1h "$TICKET"
}
v7_over_a_restart() {
  starts a 3
  waiting "$TICKET"
  local code=0 before
  before=$(broker_pid)
  "$TG" stop --force
  until_true 5 counts 1 0
  [ "$(broker_pid)" != "$before" ] || fail "the broker is the same"
  ended "$BG" && fail "the end of the broker is not the end of the ticket"
  let_go a
  wait "$BG" || code=$?
  [ $code = 3 ] || fail "exit code $code"
}
signals_cancelled_and_released() {
  in_background "$TG" run -q -m 10 -- sh -c 'echo up >d.log; kill -9 $$'
  wait "$BG"
  must_count 0 0 # and so it is in the history
  exits 137 "$TG" wait "$("$TG" history | awk '/kill -9/ { print $1 }')"
  starts a 0 && local a=$TICKET
  "$TG" config slots 1
  in_background "$TG" run -q -m 10 -- touch never
  must_count 1 1
  local waiter
  waiter=$(ticket_of 'touch never')
  waiting "$waiter"
  exits 0 "$TG" cancel "$waiter"
  local code=0
  wait "$BG" || code=$?
  [ $code = 125 ] || fail "a cancelled waiter gives $code"
  grep -q "without an exit status (cancelled)" w.err || fail "it said $(cat w.err)"
  let_go a
  must_count 0 0
  "$TG" config slots 3
}
wrong_arguments_are_named() {
  for bad in '' '--all 1' '0' '-1' 'x' '1.5' '99999999999999999999' '1 2 x' '--timeout 5y 1' '--timeout -1 1' '--what 1'; do
    # shellcheck disable=SC2086
    exits 2 "$TG" wait $bad
    [ -s err ] || fail "'$bad' is refused without a word"
  done
  exits 125 "$TG" wait 999999
  grep -q 999999 err || fail "it does not name the ticket: $(cat err)"
}
row v7_the_first_that_is_not_zero_in_the_order_of_the_arguments
row v7_all
row a_time_limit_gives_124
row v7_over_a_restart
row signals_cancelled_and_released
row wrong_arguments_are_named
