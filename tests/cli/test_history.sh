# SPDX-License-Identifier: Apache-2.0
# history: newest last, as text, as JSON, and as a trace that replay reads.
. "$(dirname "$0")/lib.sh"
without_leak_search
use_slots 2

# The wrapper's word on how a command ended comes a moment after the end itself.
settled() { [ "$("$TG" history | grep -cE ' (exit|signal) ')" = "$1" ]; }
newest_last_with_how_it_ended() {
  exits 0 "$TG" history
  [ "$(wc -l <out)" = 1 ] || fail "an empty history is $(cat out)"
  exits 0 "$TG" run -m 10 -- true
  exits 7 "$TG" run -m 10 -- sh -c 'exit 7'
  exits 143 "$TG" run -m 10 -- sh -c 'kill $$'
  until_true 5 settled 3 || fail "not three results: $("$TG" history)"
  exits 0 "$TG" history
  sed -n 2p out | grep -Eq 'exit 0 .*true$' || fail "first: $(cat out)"
  sed -n 3p out | grep -Eq 'exit 7 .*sh -c exit 7$' || fail "second: $(cat out)"
  sed -n 4p out | grep -Eq 'signal 15 ' || fail "third: $(cat out)"
  exits 0 "$TG" history --limit 1
  [ "$(wc -l <out)" = 2 ] && grep -q 'signal 15' out || fail "the last one: $(cat out)"
  exits 0 "$TG" history --since 1h
  [ "$(wc -l <out)" = 4 ] || fail "of one hour: $(cat out)"
  "$TG" stop
  exits 0 "$TG" history -n2
  [ "$(wc -l <out)" = 3 ] || fail "it is not kept: $(cat out)"
}
json_is_one_document() {
  command -v python3 >/dev/null || return 0
  "$TG" history --json 2>/dev/null | python3 -c 'import json,sys
h = json.load(sys.stdin)
assert h["history_version"] == 1
r = h["history"]
assert [x["exit"] for x in r] == [0, 7, None], r
assert r[2]["signal"] == 15 and r[0]["outcome"] == "done" and r[0]["ran_ms"] >= 0
assert r[0]["ticket"] < r[1]["ticket"]' || fail "history --json: $("$TG" history --json)"
}
replay_reads_the_trace() {
  "$TG" history --swf >trace.swf || fail "history --swf"
  grep -qx '; Version: 2.2' trace.swf || fail "no header in $(cat trace.swf)"
  awk '/^;/ { next } NF != 18 { exit 1 } { n++ } END { exit n != 3 }' trace.swf ||
    fail "not three jobs of 18 fields: $(cat trace.swf)"
  awk '!/^;/ { print $11 }' trace.swf | tr '\n' ' ' | grep -qx '1 0 0 ' || fail "the status: $(cat trace.swf)"
  grep -q 'kill' trace.swf && fail "commands stand in the trace"
  exits 0 "$TG" replay trace.swf --procs 1
  grep -q '^jobs  *3$' out || fail "replay says $(cat out)"
  grep -q '^skipped  *0$' out || fail "replay says $(cat out)"
}
what_never_ran_is_skipped() {
  hold a
  hold b
  in_background "$TG" run -q -m 10 -- touch never
  must_count 2 1
  exits 0 "$TG" cancel "$(ticket_of 'touch never')"
  let_go a
  let_go b
  must_count 0 0
  "$TG" history --swf >trace.swf
  awk '$11 == 5 && $4 == -1 && $5 == -1 { n++ } END { exit n != 1 }' trace.swf || fail "$(cat trace.swf)"
  exits 0 "$TG" replay trace.swf --procs 4
  grep -q '^skipped  *1$' out || fail "replay says $(cat out)"
}
wrong_arguments_are_named() {
  for bad in '--limit 0' '--limit -1' '--limit 5x' '--limit 1e3' '--since 5y' '--since -1' '--since x' '--what' \
    '--json --swf' 'stray'; do
    # shellcheck disable=SC2086
    exits 2 "$TG" history $bad
    [ -s err ] && [ ! -s out ] || fail "$bad: $(cat out err)"
  done
}
row newest_last_with_how_it_ended
row json_is_one_document
row replay_reads_the_trace
row what_never_ran_is_skipped
row wrong_arguments_are_named
