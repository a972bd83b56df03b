# SPDX-License-Identifier: Apache-2.0
# What a command starts and leaves behind, and its end: rows W8, L16, L17, L19, L2, W5, E8, E10, with real
# wrappers.
. "$(dirname "$0")/lib.sh"
without_leak_search
use_slots 1

gone() { ended "$1"; }
# names PID FILE: the script in a command writes its background child's number like this, whole or not at all.
say='say() { echo $! >"$1.t"; mv "$1.t" "$1"; }'
pid_of() { until_true 5 test -s "$1" || fail "no $1"; cat "$1"; }
survivors() { json | sed -n 's/.*"survivors": \([0-9]*\).*/\1/p'; }

# The main child exits, a grandchild keeps standard output: the wrapper returns at once, and the ticket stays
# until the grandchild has ended.
w8_l16_the_wrapper_returns_and_the_ticket_stays() {
  local begin=${EPOCHREALTIME/./} child
  exits 3 "$TG" run -m 10 -- sh -c "$say; sleep 600 & say child; exit 3"
  [ $((${EPOCHREALTIME/./} - begin)) -lt 20000000 ] || fail "the wrapper waited for the grandchild"
  child=$(pid_of child)
  must_count 1 0
  [ "$(survivors)" = 1 ] || fail "status counts $(survivors) survivors"
  "$TG" status | grep -q "survivors: 1" || fail "status does not say it"
  exits 124 "$TG" run -q --timeout 100ms -- touch ran
  kill -KILL "$child"
  must_count 0 0
  rm -f child
}
# The same with an empty environment: found as an orphan of the wrapper.
l16_a_child_without_environment_keeps_it_too() {
  local child
  exits 0 "$TG" run -m 10 -- sh -c "$say; env -i /bin/sleep 300 & say bare; exit 0"
  child=$(pid_of bare)
  must_count 1 0
  [ "$(survivors)" = 1 ] || fail "status counts $(survivors) survivors"
  kill -KILL "$child"
  must_count 0 0
}
# An orphan daemon in a session of its own does not hold a slot for ever.
l16_a_daemon_in_its_own_session_holds_nothing() {
  local daemon
  exits 0 "$TG" run -m 10 -- sh -c "$say; setsid sleep 600 & say daemon; exit 0"
  must_count 0 0
  daemon=$(pid_of daemon)
  kill -KILL "$daemon" || fail "the daemon was ended"
}
# What the process had as children before it became the wrapper is not the command's.
children_of_before_do_not_count() {
  local other
  exits 0 sh -c "$say; sleep 600 & say other; exec \"$TG\" run -m 10 -- true"
  must_count 0 0
  other=$(pid_of other)
  kill -KILL "$other" || fail "it was ended"
}
# The wrapper is killed, the command ends, a child stays: found by its mark.
l1_l16_killed_wrapper_and_a_child_left_behind() {
  local child wrapper
  mkfifo fifo
  in_background "$TG" run -q -m 10 -- sh -c "$say; sleep 600 & say left; read x <fifo"
  wrapper=$BG
  child=$(pid_of left)
  kill -KILL "$wrapper"
  until_true 5 ended "$wrapper"
  echo >fifo
  until_true 5 eval '[ "$(survivors)" = 1 ]' || fail "the survivor is not seen"
  counts 1 0 || fail "the ticket went with the command"
  kill -KILL "$child"
  must_count 0 0
}

# cancel returns when the tree is empty: no process is left, whoever it was.
l17_l19_cancel_leaves_nobody() {
  local code=0 wrapper name id
  rm -f child deaf daemon
  in_background "$TG" run -q -m 10 -- sh -c "$say
    sleep 600 & say child
    (trap '' TERM; sleep 600; sleep 600) & say deaf
    (setsid sh -c 'sleep 600 & echo \$! >daemon.t; mv daemon.t daemon' &)
    wait"
  wrapper=$BG
  for name in child deaf daemon; do pid_of $name >/dev/null; done
  id=$(ticket_of sleep)
  exits 0 "$TG" cancel "$id" --grace 100ms
  grep -q "ticket $id is cancelled" out || fail "it says: $(cat out)"
  for name in child deaf daemon; do gone "$(cat $name)" || fail "$name lives"; done
  counts 0 0 || fail "the ticket is still there"
  wait "$wrapper" 2>/dev/null || code=$?
  [ $code = 143 ] || fail "the wrapper exits $code"
  "$TG" history | grep -q cancelled || fail "the history does not know it: $("$TG" history)"
}
cancel_ends_what_was_left_behind() {
  local child
  rm -f child
  exits 0 "$TG" run -m 10 -- sh -c "$say; sleep 600 & say child; exit 0"
  child=$(pid_of child)
  must_count 1 0
  exits 0 "$TG" cancel --grace 5s "$(ticket_of sleep)"
  gone "$child" || fail "it lives"
  must_count 0 0
}
release_of_what_has_ended_names_the_ticket_that_is_left() {
  local child pid
  rm -f child
  exits 0 "$TG" run -m 10 -- sh -c "$say; sleep 600 & say child; exit 0"
  child=$(pid_of child)
  must_count 1 0
  pid=$("$TG" status | awk '/say child/ && $1 ~ /^[0-9]+$/ { print $6; exit }')
  exits 0 "$TG" release "$pid"
  grep -q "keeps ticket $(ticket_of 'say child') " err || fail "it says: $(cat err)"
  must_count 1 0
  kill -KILL "$child"
  must_count 0 0
  exits 0 "$TG" release "$pid"
  [ ! -s err ] || fail "it says: $(cat err)"
}
cancel_checks_its_arguments() {
  local v
  for v in -1 x 5x '' 2d 1e3; do
    exits 2 "$TG" cancel 1 --grace "$v"
    grep -q "grace is '$v'" err || fail "it says: $(cat err)"
  done
  exits 2 "$TG" cancel 1 2
  exits 125 "$TG" cancel 999999
}

# A command that ignores TERM: a second one, a second later, is the sender's last word.
w5_an_insisting_sender_gets_his_way() {
  local code=0
  rm -f up
  "$TG" run -q -- sh -c "trap '' TERM; : >up; while :; do sleep 0.05; done" </dev/null &
  BG=$!
  STARTED+=("$BG")
  until_true 5 test -e up || fail "it does not run"
  kill -TERM $BG; kill -TERM $BG
  sleep 1.2
  ended $BG && fail "two at once are one"
  kill -TERM $BG
  wait $BG || code=$?
  [ $code = 137 ] || fail "the wrapper exits $code"
  must_count 0 0
}

# Submitted by a parent that is gone 10 ms later: the job runs, and its status is kept.
l2_a_parent_that_ends_at_once() {
  sh -c "\"$TG\" run -q -m 10 -- sh -c 'sleep 0.3; : >done-by-orphan; exit 9' & sleep 0.01" >/dev/null 2>&1 </dev/null
  until_true 5 test -e done-by-orphan || fail "the job did not run"
  must_count 0 0
  until_true 5 eval '"$TG" history | grep -q "exit 9"' || fail "no status: $("$TG" history)"
}

# When memory runs out, the kernel chooses the command before its wrapper.
e8_the_command_scores_higher_than_its_wrapper() {
  exits 0 "$TG" run -- sh -c 'echo $(cat /proc/self/oom_score_adj) $(cat /proc/$PPID/oom_score_adj)'
  read -r command wrapper <out
  [ "$command" -gt "$wrapper" ] || [ "$wrapper" = 1000 ] || fail "command $command, wrapper $wrapper"
}
# A real one, in a control group with 32 MB: the exit code stays that of KILL, and the word is said.
e8_e10_oom_is_said() {
  local group=/sys/fs/cgroup/memory/${PLACE##*/} limit=memory.limit_in_bytes code=0
  if [ ! -d /sys/fs/cgroup/memory ]; then
    group=/sys/fs/cgroup/${PLACE##*/} limit=memory.max
  fi
  if ! mkdir "$group" 2>/dev/null || ! echo 33554432 2>/dev/null >"$group/$limit"; then
    rmdir "$group" 2>/dev/null
    echo "  left out: no control group with a memory limit can be made here" >&2
    return 0
  fi
  echo 0 2>/dev/null >"$group/memory.swap.max"
  "$TIMEOUT" --foreground -s KILL 30 sh -c "echo \$\$ >$group/cgroup.procs; exec \"$TG\" run -q -m 10 -- \
    sh -c 'sleep 0.3; exec tail -n 1 /dev/zero'" >out 2>err </dev/null || code=$?
  until_true 5 rmdir "$group" || fail "the group is not empty"
  [ $code = 137 ] || fail "it exits $code: $(cat err)"
  grep -q "OOM-killed" err || fail "it says: $(cat err)"
  until_true 5 eval '"$TG" history --json | grep -q "\"outcome\": *\"oom\""' || fail "the history says: $("$TG" history)"
}
killed_by_somebody_is_not_oom() {
  local code=0
  "$TG" run -q -m 10 -- sh -c 'sleep 0.2; kill -KILL $$' 2>err || code=$?
  [ $code = 137 ] || fail "it exits $code"
  grep -q OOM err && fail "it says: $(cat err)"
  until_true 5 eval '"$TG" history --json | grep -q "\"outcome\": *\"killed\""' || fail "$("$TG" history --json)"
}

row w8_l16_the_wrapper_returns_and_the_ticket_stays
row l16_a_child_without_environment_keeps_it_too
row l16_a_daemon_in_its_own_session_holds_nothing
row children_of_before_do_not_count
row l1_l16_killed_wrapper_and_a_child_left_behind
row l17_l19_cancel_leaves_nobody
row cancel_ends_what_was_left_behind
row release_of_what_has_ended_names_the_ticket_that_is_left
row cancel_checks_its_arguments
row w5_an_insisting_sender_gets_his_way
row l2_a_parent_that_ends_at_once
row e8_the_command_scores_higher_than_its_wrapper
row e8_e10_oom_is_said
row killed_by_somebody_is_not_oom
