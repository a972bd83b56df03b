# SPDX-License-Identifier: Apache-2.0
# tidegate run as a wrapper: exit codes, streams, what is waiting said, nesting (W1, W2, W8, W11, W13, W14, L2).
. "$(dirname "$0")/lib.sh"
use_slots 2

w1_exit_codes_are_the_commands() {
  local code
  for code in $(seq 0 255); do
    exits $code "$TG" run -- sh -c "exit $code"
    [ -s err ] && fail "exit $code: a message of ours: $(cat err)"
  done
}
w2_signals_are_seen() {
  local sig
  for sig in HUP INT QUIT KILL SEGV TERM USR1 PIPE ABRT; do
    exits $((128 + $(kill -l $sig))) "$TG" run -- sh -c "ulimit -c 0; kill -$sig \$\$; sleep 5"
  done
}
own_failures_have_their_codes() {
  exits 127 "$TG" run -- no-such-command-at-all
  exits 127 "$TG" run -- ./nothing-here
  exits 127 "$TG" run -- ""
  echo hello >plain
  exits 126 "$TG" run -- ./plain
  exits 126 "$TG" run -- /
  printf '#!/nowhere/interpreter\n' >bad && chmod +x bad
  exits 127 "$TG" run -- ./bad
  exits 123 "$TG" run -m 4000T -- touch ran
  exits 123 "$TG" run --slots 3 -- touch ran
  hold a
  exits 124 "$TG" run --slots 2 --timeout 100ms -- touch ran
  exits 124 "$TG" run --slots 2 --timeout 0 -- touch ran
  in_background "$TG" run -q --slots 2 -- touch ran
  local waiter=$BG code=0
  must_count 1 1
  "$TG" cancel "$(ticket_of touch)" >/dev/null
  wait "$waiter" 2>/dev/null || code=$?
  [ $code = 125 ] || fail "a cancelled waiter exits $code"
  let_go a
  must_count 0 0
  TIDEGATE_BROKER=/no/such/broker XDG_RUNTIME_DIR=$PLACE/tmp exits 125 "$TG" run -- touch ran
  [ ! -e ran ] || fail "a command ran"
}
the_path_is_searched_as_execvp_does() {
  local place=$PLACE/path
  mkdir -p "$place/a" "$place/b/tool" "$place/c"
  printf '#!/bin/sh\necho c\n' >"$place/c/tool"
  cp "$place/c/tool" "$place/a/tool" # not executable there
  cp "$place/c/tool" here && chmod +x here
  PATH=$place/a:$place/b exits 126 "$TG" run -- tool
  PATH=$place/b: exits 126 "$TG" run -- tool
  PATH=/nowhere exits 127 "$TG" run -- tool
  chmod +x "$place/c/tool"
  PATH=$place/a:$place/b:/dev/null/x:$place/c exits 0 "$TG" run -- tool
  PATH=/nowhere: exits 0 "$TG" run -- here
  (unset PATH; "$TG" run -- true) || fail "without PATH /bin is searched"
}
a_script_without_an_interpreter_line_runs() {
  printf 'echo "$1|$2"; exit 5\n' >noshebang && chmod +x noshebang
  exits 5 "$TG" run -- ./noshebang 'a b' '$HOME'
  [ "$(cat out)" = 'a b|$HOME' ] || fail "it printed $(cat out)"
}
w11_no_shell_reads_the_words() {
  exits 0 "$TG" run -- printf '%s\n' '$HOME' '`id`' "it's" '"q"' 'a;b' '*' '' -- -p
  printf '%s\n' '$HOME' '`id`' "it's" '"q"' 'a;b' '*' '' -- -p | cmp - out || fail "the words are not the same"
  exits 0 "$TG" run -p high printf '%s ' -p low --timeout
  [ "$(cat out)" = "-p low --timeout " ] || fail "options after the command are the command's: $(cat out)"
}
w_streams_and_surroundings_are_the_commands() {
  printf 'in\0put' >stdin
  "$TG" run -v -- sh -c 'cat; echo e >&2' <stdin >out 2>err || fail "cat failed"
  cmp -s stdin out || fail "standard input or output was touched"
  [ "$(grep -v '^tidegate' err)" = e ] || fail "standard error was touched"
  # Descriptors: those of the caller and no more; a closed standard stream stays closed.
  bash -c 'exec 7<stdin; "$0" run -- ls -l /proc/self/fd' "$TG" >out </dev/null
  grep -q ' 7 -> .*stdin' out || fail "descriptor 7 was not passed on"
  grep -E 'socket:|/proc/[0-9]+/(mem|exe)' out && fail "a descriptor of ours leaked"
  for n in 0 1 2; do
    bash -c "exec $n>&-; \"\$0\" run -- sh -c 'test -e /proc/self/fd/$n' <&0" "$TG" &&
      [ $n != 0 ] && fail "descriptor $n was closed and is open in the command"
  done
  # Environment, directory, umask, limits, niceness, ignored signals.
  env -i HOME="$HOME" XDG_RUNTIME_DIR="$XDG_RUNTIME_DIR" XDG_STATE_HOME="$XDG_STATE_HOME" A='x y' \
    "$TG" run -- /usr/bin/env | grep -v '^TIDEGATE_\(TICKET\|GRANTED_NS\)=' | sort >out
  [ "$(cut -d= -f1 out | tr '\n' ' ')" = "A HOME XDG_RUNTIME_DIR XDG_STATE_HOME " ] || fail "environment: $(cat out)"
  # shellcheck disable=SC2016
  local probe='pwd; umask; ulimit -n; ulimit -c; nice; grep -E "^Sig(Blk|Ign|Cgt)" /proc/self/status'
  (mkdir -p deep && cd deep && umask 027 && ulimit -n 200 && ulimit -c 0 && trap '' HUP USR2 CHLD &&
    nice -n 3 sh -c "$probe" >../direct && nice -n 3 "$TG" run -- sh -c "$probe" >../through)
  cmp direct through || fail "the surroundings differ: $(diff direct through)"
}
w8_a_grandchild_that_keeps_the_stream() {
  # The wrapper returns when the command ends, whoever still has its output; the slot is free then.
  "$TG" run -- sh -c 'sleep 600 & echo $! >grandchild' >out || fail "run failed"
  STARTED+=("$(cat grandchild)")
  ended "$(cat grandchild)" && fail "the wrapper waited for the grandchild"
  kill -KILL "$(cat grandchild)"
  must_count 0 0
}
w13_says_who_is_ahead_and_why() {
  hold a
  hold b
  exits 124 "$TG" run -v --timeout 200ms -- true
  grep -q '^tidegate: run: ticket [0-9]* waits for slots' err || fail "it said: $(cat err)"
  [ -s out ] && fail "standard output is the command's alone"
  exits 124 "$TG" run --timeout 100ms -- true
  [ "$(wc -l <err)" = 1 ] || fail "not on a terminal: only that it waited too long, not: $(cat err)"
  exits 124 "$TG" run -q --timeout 100ms -- true
  let_go a
  let_go b
  must_count 0 0
}
w14_nested_takes_one_slot() {
  use_slots 1
  exits 0 "$TG" run --timeout 500s -- "$TG" run --timeout 500s -- sh -c "\"$TG\" run --timeout 500s -- \"$TG\" status"
  head -n 1 out | grep -qx 'holders=1 waiters=0' || fail "inside it is $(head -n 1 out)"
  # A wrapper inside the command that ends does not end the ticket it runs under.
  exits 0 "$TG" run -- sh -c "\"$TG\" run -- true; \"$TG\" status"
  head -n 1 out | grep -qx 'holders=1 waiters=0' || fail "after the nested one it is $(head -n 1 out)"
  # wait-admit under a held ticket passes as well.
  exits 0 "$TG" run -- sh -c "\"$TG\" wait-admit \$\$ 0 10 1 0"
  # A ticket of nobody's gives nothing.
  hold a
  TIDEGATE_TICKET=999999:00000000-0000-4000-8000-000000000000 exits 124 "$TG" run --timeout 100ms -- true
  TIDEGATE_TICKET='$(touch ran)' exits 124 "$TG" run --timeout 100ms -- true
  let_go a
  use_slots 2
  must_count 0 0
}
l2_a_parent_that_exits_at_once() {
  sh -c "\"$TG\" run -- sh -c 'sleep 0.2; echo finished >l2' >/dev/null 2>&1 & exit 0"
  until_true 5 test -s l2 || fail "the job did not run"
  must_count 0 0
}
row w1_exit_codes_are_the_commands
row w2_signals_are_seen
row own_failures_have_their_codes
row the_path_is_searched_as_execvp_does
row a_script_without_an_interpreter_line_runs
row w11_no_shell_reads_the_words
row w_streams_and_surroundings_are_the_commands
row w8_a_grandchild_that_keeps_the_stream
row w13_says_who_is_ahead_and_why
row w14_nested_takes_one_slot
row l2_a_parent_that_exits_at_once
