# SPDX-License-Identifier: Apache-2.0
# A benchmark that is ended in the middle, as by `timeout`, takes its broker, its holder and its crowd along, and
# its folder.
set -u
BUILD=$(cd "$1" && pwd)
for exe in "$BUILD/bench/bench_launch" "$BUILD/bench/bench_build" "$BUILD/bench/bench_broker" "$BUILD/tidegate-broker"; do
  [ -x "$exe" ] || { echo "SKIPPED: $exe is not built" >&2; exit 77; }
done
MARK=tg-bench-killed-$$-$RANDOM
fail() { echo "$*" >&2; exit 1; }
trap 'kill -KILL "${PID:-}" 2>/dev/null' EXIT

# until_true SECONDS COMMAND...
until_true() {
  local end=$(($(date +%s) + $1))
  shift
  until "$@"; do
    [ "$(date +%s)" -lt $end ] || return 1
    sleep 0.05
  done
}
# What started with the mark in its environment; the broker has none, and is known by its folder.
ours() { grep -lsaF "TMP_MARK=$MARK" /proc/[0-9]*/environ | tr -cd '0-9\n'; }
many() { [ "$(ours | wc -l)" -ge "$1" ]; }
children_of() { cat "/proc/$1/task/$1/children" 2>/dev/null; }
broker_of() { # PID: the broker that is a child of it, or of its child
  local child
  for child in $(children_of "$1") $(for child in $(children_of "$1"); do children_of "$child"; done); do
    tr '\0' '\n' 2>/dev/null <"/proc/$child/cmdline" | grep -q 'tidegate-broker$' && { echo "$child"; return; }
  done
  return 1
}
gone() { [ ! -e "/proc/$1" ] || grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null; }
nobody() { [ -z "$(ours)" ]; }

# ends SIGNAL PROCESSES BENCH ARGUMENTS...: so many processes must be there before it is told to end.
ends() {
  local sig=$1 least=$2 code=0 broker place
  shift 2
  TMP_MARK=$MARK "$@" >/dev/null 2>&1 &
  PID=$!
  until_true 60 broker_of $PID >/dev/null || fail "$1 has no broker"
  broker=$(broker_of $PID)
  place=$(tr '\0' '\n' <"/proc/$broker/cmdline" | sed 1d | grep -m 1 -o '^/tmp/[^/]*')
  [ -d "$place" ] || fail "$1: the broker's folder is not known"
  until_true 60 many "$least" || fail "$1: there are $(ours | wc -l) processes of $least"
  kill -"$sig" $PID
  wait $PID || code=$?
  [ $code -gt 128 ] || fail "$1: exit code $code after SIG$sig"
  gone "$broker" || fail "$1: its broker $broker is still there"
  nobody || fail "$1: processes are left: $(ours | tr '\n' ' ')"
  [ ! -e "$place" ] || fail "$1: $place is left"
}
ends TERM 8 "$BUILD/bench/bench_launch" 50 0 200
if command -v make >/dev/null; then # what it measures; a build with ninja needs none
  ends INT 3 "$BUILD/bench/bench_build" 4 50
fi
ends TERM 20 "$BUILD/bench/bench_broker" 500 100
exit 0
