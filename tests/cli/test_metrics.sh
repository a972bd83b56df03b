# SPDX-License-Identifier: Apache-2.0
# metrics (V4): pending, admitted, cycle latency, head-of-queue wait, as Prometheus text.
. "$(dirname "$0")/lib.sh"
use_slots 1

value() { awk -v n="$1" '$1 == n { print $2; exit }' out; }
must_be() { [ "$(value "$1")" = "$2" ] || fail "$1 is '$(value "$1")', not $2: $(cat out)"; }

v4_the_four_metrics() {
  exits 0 "$TG" metrics
  must_be tidegate_pending 0
  must_be tidegate_head_wait_seconds 0.000
  must_be 'tidegate_admitted_total{verdict="ordered"}' 0
  hold a
  in_background "$TG" run -q -m 10 -- true
  in_background "$TG" run -q -m 10 -- true
  must_count 1 2
  sleep 0.01
  exits 0 "$TG" metrics
  must_be tidegate_pending 2
  must_be tidegate_holders 1
  must_be 'tidegate_admitted_total{verdict="ordered"}' 1
  awk '$1 == "tidegate_head_wait_seconds" { exit !($2 > 0) }' out || fail "the front has not waited: $(cat out)"
  awk '$1 == "tidegate_cycle_seconds_count" { exit !($2 > 0) }' out || fail "no cycle: $(cat out)"
  let_go a
  must_count 0 0
  exits 0 "$TG" metrics
  must_be tidegate_pending 0
  must_be 'tidegate_admitted_total{verdict="ordered"}' 3
  must_be tidegate_ended_total 3
}
# Every line is a comment or a sample, every sample has a type before it, buckets only grow.
v4_the_text_is_well_formed() {
  exits 0 "$TG" metrics
  awk '
    /^# HELP [a-z_]+ .+$/ { next }
    /^# TYPE [a-z_]+ (gauge|counter|histogram)$/ { type[$3] = $4; next }
    /^[a-z_]+(\{[a-z]+="[^"]*"\})? [0-9]+(\.[0-9]+)?$/ {
      name = $1
      sub(/\{.*/, "", name)
      base = name
      sub(/_(bucket|sum|count)$/, "", base)
      if (!(name in type) && type[base] != "histogram") { print "no type: " $0; bad = 1 }
      if (name ~ /_bucket$/) { if ($2 < last) { print "shrinks: " $0; bad = 1 } last = $2 }
      if (name ~ /_count$/ && $2 != last) { print "not the last bucket: " $0; bad = 1 }
      next
    }
    { print "what is this: " $0; bad = 1 }
    END { exit bad }' out || fail "$(cat out)"
  exits 2 "$TG" metrics all
}
row v4_the_four_metrics
row v4_the_text_is_well_formed
