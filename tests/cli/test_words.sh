# SPDX-License-Identifier: Apache-2.0
# A8: how a command ended is known, whatever becomes of the broker at that moment: stopped before it has read
# the wrapper's word, killed before the row is written, or not there at all.
PATIENCE=150
. "$(dirname "$0")/lib.sh"
BROKER=$BUILD/tidegate-broker
use_slots 2

killed() { kill -KILL "$1" && until_true 10 ended "$1"; }
# last: outcome, exit code and signal of the newest row of the history.
last() { "$TG" history --json --limit 1 >row.json && tr -d ' ,"\n' <row.json; }
must_end() { # OUTCOME EXIT
  local row
  row=$(last)
  case $row in
  *outcome:$1*) ;;
  *) fail "it ended as $(cat row.json), not $1" ;;
  esac
  case $row in
  *exit:$2*) ;;
  *) fail "it ended as $(cat row.json), not with $2" ;;
  esac
}

a8_killed_before_it_has_read_the_word() {
  local pid code=0
  rm -f in
  in_background "$TG" run -q -m 10 -- sh -c 'echo >in; until [ -e go ]; do sleep 0.01; done; exit 7'
  until_true 10 test -e in || fail "it does not start"
  pid=$(broker_pid)
  kill -STOP "$pid"
  touch go
  wait "$BG" || code=$?
  [ $code = 7 ] || fail "the wrapper exits $code"
  killed "$pid" || fail "the broker does not die"
  must_end done 7
  rm -f go
}

a8_no_broker_when_it_ends() {
  local code=0
  rm -f in
  in_background "$TG" run -q -m 10 -- sh -c 'echo >in; until [ -e go ]; do sleep 0.01; done; kill -USR1 $$'
  until_true 10 test -e in || fail "it does not start"
  killed "$(broker_pid)" || fail "the broker does not die"
  touch go
  wait "$BG" || code=$?
  [ $code = 138 ] || fail "the wrapper exits $code"
  must_end signalled null
  grep -q '"signal":10' row.json || fail "it ended as $(cat row.json)"
  rm -f go
}

# As soon as the wrapper has returned, again and again.
a8_killed_at_once_after_the_end() {
  local i code
  for i in $(seq 1 10); do
    code=0
    "$TG" run -q -m 10 -- sh -c "exit $i" || code=$?
    [ $code = "$i" ] || fail "the wrapper exits $code"
    killed "$(sed 's/ .*//' "$XDG_STATE_HOME/tidegate/broker.lock")" || fail "the broker does not die"
    must_end done "$i"
  done
}

# Several ends of which the store has no row yet.
a8_many_ends_not_written_yet() {
  local i before
  for i in $(seq 40 59); do "$TG" run -q -m 10 -- sh -c "exit $i"; done
  killed "$(sed 's/ .*//' "$XDG_STATE_HOME/tidegate/broker.lock")" || fail "the broker does not die"
  "$TG" history --json --limit 20 >rows.json
  for i in $(seq 40 59); do
    grep -q "\"exit\":$i," rows.json || fail "there is no exit $i: $(cat rows.json)"
  done
  [ "$(grep -c '"outcome":"done"' rows.json)" = 20 ] || fail "not all of them are done: $(cat rows.json)"
  before=$("$TG" history --json --limit 20)
  killed "$(broker_pid)" || fail "the broker does not die"
  [ "$("$TG" history --json --limit 20)" = "$before" ] || fail "the next broker tells something else"
}

# S10: the store has lost its end (no power, a damaged log). The words tell which numbers were given; without them the
# next ticket would have the number, and the word, of another.
s10_a_number_that_a_word_tells_of_is_not_given_again() {
  local before after file
  killed "$(sed 's/ .*//' "$XDG_STATE_HOME/tidegate/broker.lock")" || fail "the broker does not die"
  mkdir former
  for file in store.db store.db-wal; do
    [ ! -e "$XDG_STATE_HOME/tidegate/$file" ] || cp "$XDG_STATE_HOME/tidegate/$file" former/
  done
  for _ in 1 2 3; do exits 11 "$TG" run -q -m 10 -- sh -c 'exit 11'; done
  last >/dev/null
  before=$(sed -n 's/.*"ticket":\([0-9]*\).*/\1/p' row.json)
  killed "$(broker_pid)" || fail "the broker does not die"
  rm -f "$XDG_STATE_HOME/tidegate"/store.db*
  cp former/* "$XDG_STATE_HOME/tidegate/"
  exits 0 "$TG" run -q -m 10 -- true
  must_end done 0
  after=$(sed -n 's/.*"ticket":\([0-9]*\).*/\1/p' row.json)
  [ "$after" -gt "$before" ] || fail "the number $after was given before $before"
}

# A file that cannot be written to costs nobody anything but this.
without_the_file_all_else_works() {
  local code=0
  rm -f "$XDG_STATE_HOME/tidegate/words"
  mkdir "$XDG_STATE_HOME/tidegate/words"
  "$TG" run -q -m 10 -- sh -c 'exit 9' || code=$?
  [ $code = 9 ] || fail "the wrapper exits $code"
  must_end done 9
  killed "$(broker_pid)" || fail "the broker does not die"
  exits 0 "$TG" run -q -m 10 -- true
  must_end done 0
  rmdir "$XDG_STATE_HOME/tidegate/words"
}

# A limit on the size of files is no reason for the wrapper to die. It is set when the wrapper runs: a sanitizer's
# runtime writes a file of its own at the start, and dies of it.
a_limit_on_the_size_of_files() {
  local code=0
  killed "$(broker_pid)" || fail "the broker does not die"
  exits 0 "$TG" run -q -m 10 -- true
  [ -f "$XDG_STATE_HOME/tidegate/words" ] || fail "there is no file that could not be written to"
  # shellcheck disable=SC2016 # for the inner shell; its parent is the wrapper
  "$TG" run -q -m 10 -- sh -c 'prlimit --fsize=0 --pid $PPID || exit 99; exit 7' </dev/null || code=$?
  [ "$code" = 7 ] || fail "the wrapper exits $code"
  must_end done 7
}

row a8_killed_before_it_has_read_the_word
row a8_no_broker_when_it_ends
row a8_killed_at_once_after_the_end
row a8_many_ends_not_written_yet
row s10_a_number_that_a_word_tells_of_is_not_given_again
row without_the_file_all_else_works
row a_limit_on_the_size_of_files
must_count 0 0
exit 0
