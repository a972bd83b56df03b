#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Memory as a person sees it: jobs that use more than they said, estimates that are learned, a build tool under
# a fixed budget. Rows M14, M16, W16 of the cases. $1 is the build folder.
. "$(dirname "$0")/lib.sh" "$@"

# A command that takes 60 MB: dd allocates its block.
take_60() { echo "dd if=/dev/zero of=/dev/null bs=60M count=1 status=none; echo out"; }

m14_w16_a_warning_goes_to_standard_error_once() {
  exits 0 "$TG" run -m 5 -- sh -c "$(take_60)"
  [ "$(cat out)" = out ] || fail "standard output is not the command's alone: $(cat out)"
  grep -q 'ticket [0-9]*: it used [0-9]* MB, its estimate was 5 MB' err || fail "no warning: $(cat err)"
  [ "$(wc -l <err)" = 1 ] || fail "more than one line: $(cat err)"
  exits 7 "$TG" run -q -m 5 -- sh -c "$(take_60); exit 7"
  [ ! -s err ] || fail "-q is not quiet: $(cat err)"
  exits 0 "$TG" run -m 100 -- sh -c "$(take_60)"
  [ ! -s err ] || fail "a warning without a reason: $(cat err)"
}

# last_of KEY: of the newest row of the history.
last_of() { "$TG" history --json --limit 1 | grep -o "\"$1\": *[^,}]*" | sed 's/.*: *//; s/"//g'; }

# The row is there when the ticket is gone, what the wrapper tells of the end a moment later.
recorded() { [ "$(last_of exit)" = 0 ]; }
run_recorded() { # OPTIONS AND COMMAND...
  exits 0 "$TG" run "$@"
  must_count 0 0
  until_true 5 recorded || fail "no status in the history"
}

m14_the_next_estimate_is_learned() {
  run_recorded -m 200 -- sh -c "$(take_60); : learned"
  [ "$(last_of estimate)" = stated ] || fail "the estimate was stated, not $(last_of estimate)"
  local peak
  peak=$(last_of peak_mb)
  [ "$peak" -ge 60 ] && [ "$peak" -lt 90 ] || fail "a peak of $peak MB"
  run_recorded -- sh -c "$(take_60); : learned"
  [ "$(last_of estimate)" = learned ] || fail "the estimate is $(last_of estimate), not learned"
  [ "$(last_of est_mb)" = $((peak + 64)) ] || fail "$(last_of est_mb) MB were learned from a peak of $peak MB"
  [ "$(last_of time_ms)" -gt 0 ] || fail "no run time was learned"
  run_recorded -- sh -c ': another command'
  [ "$(last_of estimate)" = default ] || fail "another command's estimate is $(last_of estimate)"
}

m16_a_build_tool_under_a_budget() {
  command -v ninja >/dev/null || { echo "SKIPPED: there is no ninja here" >&2; return; }
  mkdir -p build16/running
  {
    echo "rule job"
    echo "  command = '$TG' run -m 60 -- sh ./job.sh \$out"
    for i in 1 2 3 4 5 6 7 8; do echo "build made$i: job"; done
  } >build16/build.ninja
  cat >build16/job.sh <<'END'
: >running/$$
ls running | wc -l >>counts
dd if=/dev/zero of=/dev/null bs=50M count=4 status=none
rm running/$$
: >"$1"
END
  "$TG" config slots 20 >/dev/null
  "$TG" config budget-mb 130 >/dev/null
  (cd build16 && exits 0 ninja -j 8)
  [ "$(ls build16/made* | wc -l)" = 8 ] || fail "not everything was built"
  [ "$(sort -n build16/counts | tail -n 1)" -le 2 ] || fail "more than 130 MB at once: $(tr '\n' ' ' <build16/counts)"
  # Below a job that holds the whole budget its own jobs pass under its ticket, and nothing waits for ever.
  rm build16/made*
  (cd build16 && exits 0 "$TG" run -m 130 -- ninja -j 2)
  [ "$(ls build16/made* | wc -l)" = 8 ] || fail "not everything was built below a ticket"
  "$TG" config budget-mb off >/dev/null
}

use_slots 4 >/dev/null
"$TG" config floor-mb 0 >/dev/null
row m14_w16_a_warning_goes_to_standard_error_once
row m14_the_next_estimate_is_learned
row m16_a_build_tool_under_a_budget
