# SPDX-License-Identifier: Apache-2.0
# run --key: the same thing is not started twice (V8): joined, refused or replaced.
. "$(dirname "$0")/lib.sh"
without_leak_search
use_slots 2

# A run with the key "build" that says that it is up in a.log, and ends with code $1 when fifo a is opened.
first() {
  rm -f a a.log && mkfifo a
  in_background "$TG" run -q -m 10 --key build -- sh -c "echo in >>a.log; echo text; read x <a; exit $1" >first.out
  FIRST=$BG
  until_true 5 test -s a.log || fail "the first did not start"
}
code_of() {
  CODE=0
  wait "$1" || CODE=$?
}

v8_joined_by_the_running_one() {
  first 7
  in_background "$TG" run -m 10 --key build -- sh -c 'echo twice >>twice; exit 1' >join.out 2>join.err
  local joiner=$BG
  in_background "$TG" run -q -m 10 --key build --if-exists join -- sh -c 'echo twice >>twice' >quiet.out 2>quiet.err
  local quiet=$BG
  until_true 5 grep -q joined join.err || fail "it does not say that it joins: $(cat join.err)"
  must_count 1 0
  exits 0 "$TG" run -m 10 --key other -- true # another key is another thing
  exits 0 "$TG" run -m 10 -- true
  ended "$joiner" && fail "it did not wait"
  let_go a
  code_of "$FIRST"
  [ $CODE = 7 ] || fail "the first ended with $CODE"
  code_of "$joiner"
  [ $CODE = 7 ] || fail "who joined ended with $CODE: $(cat join.err)"
  code_of "$quiet"
  [ $CODE = 7 ] || fail "who joined quietly ended with $CODE"
  [ ! -e twice ] || fail "it ran twice"
  [ "$(cat first.out)" = text ] && [ ! -s join.out ] || fail "output: $(cat first.out join.out)"
  [ ! -s quiet.err ] || fail "-q is not quiet: $(cat quiet.err)"
  # It has ended: the next one runs again.
  exits 3 "$TG" run -m 10 --key build -- sh -c 'exit 3'
}
v8_joined_by_a_waiting_one() {
  hold h
  hold i
  in_background "$TG" run -q -m 10 --key build -- sh -c 'echo once >>once; kill -9 $$'
  local waiter=$BG
  must_count 2 1
  in_background "$TG" run -q -m 10 --key build -- sh -c 'echo once >>once'
  local joiner=$BG
  in_background "$TG" run -q -m 10 --key build --timeout 100ms -- sh -c 'echo once >>once'
  code_of "$BG"
  [ $CODE = 124 ] || fail "a time limit gives $CODE"
  must_count 2 1
  let_go h
  let_go i
  code_of "$waiter"
  [ $CODE = 137 ] || fail "the first ended with $CODE"
  code_of "$joiner"
  [ $CODE = 137 ] || fail "who joined ended with $CODE"
  [ "$(cat once)" = once ] || fail "it ran $(wc -l <once) times"
}
v8_refused_by_name() {
  first 0
  exits 125 "$TG" run -m 10 --key build --if-exists refuse -- touch ran
  grep -q "key 'build'.*ticket $(ticket_of 'echo text') runs" err || fail "it says $(cat err)"
  [ ! -e ran ] || fail "it ran"
  let_go a
  code_of "$FIRST"
  must_count 0 0
  exits 0 "$TG" run -m 10 --key build --if-exists refuse -- touch ran
  rm ran
}
v8_replaced() {
  first 0
  in_background "$TG" run -v -m 10 --key build --if-exists replace -- sh -c 'echo new >>new' 2>new.err
  local second=$BG
  code_of "$FIRST"
  [ $CODE = 143 ] || fail "the first ended with $CODE"
  code_of "$second"
  [ $CODE = 0 ] && [ "$(cat new)" = new ] || fail "the second ended with $CODE: $(cat new.err)"
  grep -q 'ended first' new.err || fail "it says $(cat new.err)"
  must_count 0 0
  # A waiting one, and several that replace each other: the last one stays.
  hold h
  hold i
  rm -f new
  in_background "$TG" run -q -m 10 --key build -- sh -c 'echo one >>new'
  local one=$BG
  must_count 2 1
  in_background "$TG" run -q -m 10 --key build --if-exists replace -- sh -c 'echo two >>new'
  local two=$BG
  code_of "$one"
  [ $CODE = 125 ] || fail "one that is replaced before it ran ends with $CODE"
  must_count 2 1
  let_go h
  let_go i
  code_of "$two"
  [ "$(cat new)" = two ] || fail "the one that ran is $(cat new)"
}
v8_joins_over_a_restart() {
  first 6
  in_background "$TG" run -m 10 --key build -- touch twice 2>join.err
  local joiner=$BG
  until_true 5 grep -q joined join.err || fail "it did not join: $(cat join.err)"
  "$TG" stop --force
  until_true 5 counts 1 0
  exits 125 "$TG" run -m 10 --key build --if-exists refuse -- touch twice
  let_go a
  code_of "$joiner"
  [ $CODE = 6 ] || fail "who joined ended with $CODE"
  [ ! -e twice ] || fail "it ran twice"
}
v8_detached_jobs_are_not_started_twice() {
  exits 0 "$TG" run -m 10 --detach --key build -- sh -c 'echo once >>detached; sleep 600'
  local ticket
  ticket=$(tr -cd '0-9\n' <out | head -n 1)
  must_count 1 0
  exits 0 "$TG" run -m 10 --detach --key build -- sh -c 'echo twice >>detached'
  [ "$(tr -cd '0-9\n' <out | head -n 1)" = "$ticket" ] || fail "it is another ticket: $(cat out)"
  until_true 5 test -s detached || fail "it did not start"
  exits 0 "$TG" cancel "$ticket"
  must_count 0 0
  [ "$(cat detached)" = once ] || fail "it ran twice"
}
# Under its own ticket a launch passes: it would wait for itself for ever (A6).
nested_keys_pass() {
  exits 0 "$TG" run -m 10 --key build -- "$TG" run --key build -- touch inner
  [ -e inner ] || fail "the inner one did not run"
}
a_signal_ends_who_joined_alone() {
  first 0
  in_background "$TG" run -m 10 --key build -- true 2>join.err
  local joiner=$BG
  until_true 5 grep -q joined join.err || fail "it did not join"
  kill -TERM "$joiner"
  code_of "$joiner"
  [ $CODE = 143 ] || fail "it ended with $CODE"
  must_count 1 0
  let_go a
  code_of "$FIRST"
  [ $CODE = 0 ] || fail "the first ended with $CODE"
}
wrong_arguments_are_named() {
  exits 2 "$TG" run --key '' -- touch ran
  exits 2 "$TG" run --key "$(printf 'a\tb')" -- touch ran
  exits 2 "$TG" run --key "$(printf 'a\377')" -- touch ran
  exits 2 "$TG" run --key "$(printf '%0257d' 1)" -- touch ran
  exits 2 "$TG" run --key k --if-exists wait -- touch ran
  grep -q "'wait'.*join, refuse or replace" err || fail "it says $(cat err)"
  exits 2 "$TG" run --if-exists join -- touch ran
  exits 0 "$TG" run --key "$(printf '%0256d' 1)" -- true
  exits 0 "$TG" run --key 'ein Schlüssel "q" \ 7' -- true
  [ ! -e ran ] || fail "it ran"
  must_count 0 0
}
row v8_joined_by_the_running_one
row v8_joined_by_a_waiting_one
row v8_refused_by_name
row v8_replaced
row v8_joins_over_a_restart
row v8_detached_jobs_are_not_started_twice
row nested_keys_pass
row a_signal_ends_who_joined_alone
row wrong_arguments_are_named
