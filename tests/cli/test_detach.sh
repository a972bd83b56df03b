# SPDX-License-Identifier: Apache-2.0
# run --detach and output: a job that outlives its terminal, its output kept (L2, W8, L17).
. "$(dirname "$0")/lib.sh"
without_leak_search
use_slots 1
KEPT=$XDG_STATE_HOME/tidegate/output

detach() { # sets ID; what follows are run's options and the command
  exits 0 "$TG" run --detach -m 10 "$@"
  ID=$(cat out)
  case $ID in '' | *[!0-9]*) fail "the number is '$ID'" ;; esac
  [ ! -s err ] || fail "it says: $(cat err)"
}
ended_with() { # CODE: the job ID has
  local code=0
  "$TG" wait "$ID" >/dev/null 2>err || code=$?
  [ $code = "$1" ] || fail "job $ID ended with $code, not $1: $(cat err)"
}
prints() { # TEXT: its output is exactly that
  [ "$("$TG" output "$ID")" = "$1" ] || fail "the output of $ID is '$("$TG" output "$ID")'"
}

it_returns_at_once_and_the_job_goes_on() {
  mkfifo go
  # The caller's standard streams are a pipe that is read to its end: nobody else may hold it.
  ID=$("$TG" run --detach -m 10 -- sh -c 'echo begun; echo problem >&2; read x <go; echo over; exit 6' </dev/null)
  must_count 1 0
  until_true 5 eval '[ "$("$TG" output "$ID")" = "begun
problem" ]' || fail "the output is '$("$TG" output "$ID")'"
  echo >go
  ended_with 6
  prints "begun
problem
over"
  [ "$(stat -c %a "$KEPT/$ID")" = 600 ] || fail "the mode is $(stat -c %a "$KEPT/$ID")"
  [ "$(stat -c %a "$KEPT")" = 700 ] || fail "the folder's mode is $(stat -c %a "$KEPT")"
  "$TG" history | grep -q 'exit 6' || fail "the history says: $("$TG" history)"
}
it_has_a_session_no_terminal_and_empty_input() {
  detach -- sh -c 'cat; [ "$(awk "{ print \$6 }" /proc/$$/stat)" = "$(awk "{ print \$4 }" /proc/$$/stat)" ] && echo own
    [ "$(awk "{ print \$7 }" /proc/$$/stat)" = 0 ] && echo no terminal; pwd; echo "$MARKED"'
  ended_with 0
  prints "own
no terminal
$PWD
$MARKED"
}
it_outlives_the_session_it_came_from() {
  rm -f go2 number; mkfifo go2
  # A session of its own that ends at once, with all that is in it.
  setsid sh -c "\"$TG\" run --detach -m 10 -- sh -c 'read x <go2; echo alive; exit 4' >number; kill -HUP 0" </dev/null >/dev/null 2>&1
  until_true 5 test -s number || fail "no number"
  ID=$(cat number)
  must_count 1 0
  echo >go2
  ended_with 4
  prints alive
}
it_queues_like_any_other() {
  local first
  rm -f go; mkfifo go
  detach -- sh -c 'read x <go'
  first=$ID
  detach -- sh -c 'echo second'
  must_count 1 1
  [ -e "$KEPT/$ID" ] || fail "a waiting job has no output yet"
  prints ""
  exits 0 "$TG" cancel "$ID"
  must_count 1 0
  until_true 5 grep -q cancelled "$KEPT/$ID" || fail "its output says: $("$TG" output "$ID")"
  detach --timeout 100ms -- touch ran
  until_true 5 grep -q "too long" "$KEPT/$ID" || fail "its output says: $("$TG" output "$ID")"
  [ ! -e ran ] || fail "it ran"
  ID=$first
  echo >go
  ended_with 0
  must_count 0 0
}
# Followed by events: the end of the output is the end of the job, of its children too.
output_follows_until_the_end() {
  local follower begin
  rm -f go; mkfifo go
  detach -- sh -c 'echo one; read x <go; echo two; (sleep 0.3; echo three) & exit 0'
  "$TG" output -f "$ID" >followed &
  follower=$!
  STARTED+=("$follower")
  until_true 5 grep -q one followed || fail "nothing comes"
  ended $follower && fail "it does not follow"
  echo >go
  until_true 10 ended $follower || fail "it does not end"
  wait $follower || fail "it exits $?"
  [ "$(cat followed)" = "one
two
three" ] || fail "followed: $(cat followed)"
  must_count 0 0
  exits 0 "$TG" output "$ID" -f # of a job that has ended: all of it, at once
  [ "$(cat out)" = "$(cat followed)" ] || fail "again: $(cat out)"
}
following_ends_with_its_reader() {
  rm -f go; mkfifo go
  detach -- sh -c 'echo one; read x <go'
  "$TG" output -f "$ID" | head -n 1 >/dev/null
  [ "${PIPESTATUS[1]}" = 0 ] || fail "head"
  echo >go
  ended_with 0
}
# Under a ticket it has one of its own: the outer one ends, and its cancellation ends no detached job.
under_a_ticket_it_has_its_own() {
  local inner
  rm -f go inner hold; mkfifo go hold
  in_background "$TG" run -q -m 10 -- sh -c "\"$TG\" run --detach -m 10 -- sh -c 'echo in; read x <go; exit 8' >inner; read y <hold"
  until_true 5 test -s inner || fail "no number"
  inner=$(cat inner)
  must_count 1 1
  exits 0 "$TG" cancel "$(ticket_of hold)"
  must_count 1 0
  ID=$inner
  until_true 5 grep -q in "$KEPT/$ID" || fail "it does not run"
  echo >go
  ended_with 8
}
cancel_ends_it() {
  detach -- sh -c '(setsid sleep 600 & echo $! >daemon.t; mv daemon.t daemon); sleep 600 & wait'
  until_true 5 test -s daemon || fail "it does not run"
  exits 0 "$TG" cancel "$ID" --grace 1s
  must_count 0 0
  until_true 1 eval '! kill -0 "$(cat daemon)" 2>/dev/null || grep -q " Z " "/proc/$(cat daemon)/stat"' ||
    fail "its daemon lives"
}
# The wrapper is killed: the job and its output go on, and the ticket with it.
a_killed_wrapper_changes_nothing_for_it() {
  local owner wrapper
  rm -f go; mkfifo go
  detach -- sh -c 'echo one; read x <go; echo two'
  until_true 5 grep -q one "$KEPT/$ID" || fail "it does not run"
  owner=$(json | sed -n 's/.*"pid": \([0-9]*\).*/\1/p' | tail -n 1)
  wrapper=$(awk '{ print $4 }' "/proc/$owner/stat")
  kill -KILL "$wrapper"
  until_true 5 ended "$wrapper"
  counts 1 0 || fail "its ticket went with the wrapper"
  echo >go
  must_count 0 0
  prints "one
two"
}
what_is_refused_leaves_nothing() {
  local before
  before=$(ls -A "$KEPT" | wc -l)
  exits 127 "$TG" run --detach -- no-such-command-here
  exits 123 "$TG" run --detach -m 4000000G -- true
  [ -s err ] || fail "it does not say why"
  exits 2 "$TG" run --detach
  [ ! -s out ] || fail "a number of nothing: $(cat out)"
  until_true 2 eval "[ \$(ls -A \"$KEPT\" | wc -l) = $before ]" || fail "something stays: $(ls -A "$KEPT")"
  exits 2 "$TG" output
  exits 2 "$TG" output 1 2
  exits 2 "$TG" output x
  exits 125 "$TG" output 99999
  grep -q "no output of ticket 99999" err || fail "it says: $(cat err)"
  chmod 500 "$XDG_STATE_HOME/tidegate"
  [ "$(id -u)" = 0 ] || exits 125 "$TG" run --detach -- true
  chmod 700 "$XDG_STATE_HOME/tidegate"
}
# Only the newest stay, and those that are still written to.
a_long_output_is_cut_with_a_note() {
  local id file="$XDG_STATE_HOME/tidegate/output"
  exits 0 "$TG" config output-max-mb 1
  exits 2 "$TG" config output-max-mb 0
  # While it runs, and what it writes between the last look and its end.
  mkfifo cut
  id=$("$TG" run --detach -m 10 -- sh -c 'echo begins; head -c 3000000 /dev/zero; read x <cut; head -c 3000000 /dev/zero')
  until_true 20 grep -qa 'tidegate: cut here: the output is longer than 1 MB' "$file/$id" || fail "nothing is cut"
  [ "$(stat -c %s "$file/$id")" -lt 1050000 ] || fail "it is $(stat -c %s "$file/$id") bytes long"
  echo >cut
  exits 0 "$TG" wait "$id"
  "$TG" output "$id" >copy
  [ "$(head -n 1 copy)" = begins ] || fail "the beginning is lost"
  [ "$(tail -n 1 copy)" = 'tidegate: cut here: the output is longer than 1 MB (config output-max-mb)' ] ||
    fail "it does not end with the note"
  [ "$(stat -c %s copy)" -lt 1050000 ] || fail "it is $(stat -c %s copy) bytes long"
  # What is short enough is left alone, and so is everything without the setting.
  id=$("$TG" run --detach -m 10 -- head -c 1000000 /dev/zero)
  exits 0 "$TG" wait "$id"
  [ "$(stat -c %s "$file/$id")" = 1000000 ] || fail "a short one was cut"
  exits 0 "$TG" config output-max-mb off
  id=$("$TG" run --detach -m 10 -- head -c 3000000 /dev/zero)
  exits 0 "$TG" wait "$id"
  [ "$(stat -c %s "$file/$id")" = 3000000 ] || fail "cut although it is off"
}
old_outputs_go() {
  local i keep running
  exits 0 "$TG" config slots 2
  rm -f go; mkfifo go
  detach -- sh -c 'read x <go'
  running=$ID
  exits 0 "$TG" config output-keep 3
  for i in 1 2 3 4 5; do detach -- echo "$i"; ended_with 0; done
  echo nothing of ours >"$KEPT/README"
  exits 0 "$TG" stop --force # a start sweeps too
  exits 0 "$TG" status
  until_true 5 eval "[ \$(ls \"$KEPT\" | grep -c '^[0-9]') = 4 ]" || fail "there are: $(ls "$KEPT")"
  for keep in "$running" "$ID" $((ID - 1)) $((ID - 2)); do [ -e "$KEPT/$keep" ] || fail "no $keep: $(ls "$KEPT")"; done
  [ -e "$KEPT/README" ] || fail "it removes what is not its own"
  echo >go
  must_count 0 0
  exits 0 "$TG" config output-keep 0
  detach -- true
  ended_with 0
  sleep 1.1
  detach -- true
  ended_with 0
  until_true 5 eval "[ \$(ls \"$KEPT\" | grep -c '^[0-9]') -le 1 ]" || fail "there are: $(ls "$KEPT")"
}

export MARKED="a b'c"
row it_returns_at_once_and_the_job_goes_on
row it_has_a_session_no_terminal_and_empty_input
row it_outlives_the_session_it_came_from
row it_queues_like_any_other
row output_follows_until_the_end
row following_ends_with_its_reader
row under_a_ticket_it_has_its_own
row cancel_ends_it
row a_killed_wrapper_changes_nothing_for_it
row what_is_refused_leaves_nothing
row a_long_output_is_cut_with_a_note
row old_outputs_go
