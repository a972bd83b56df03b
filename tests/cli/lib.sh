# SPDX-License-Identifier: Apache-2.0
# For the scripts here: a private place with a broker of its own (load gate off, two slots), what to check,
# and an end that stops what was started, by its pid. Sourced with the build folder as $1.
set -u
BUILD=$(cd "$1" && pwd)
TG=$BUILD/tidegate
for exe in "$TG" "$BUILD/tidegate-broker"; do
  [ -x "$exe" ] || { echo "SKIPPED: $exe is not built" >&2; exit 77; }
done
PLACE=$(mktemp -d /tmp/tg-cli-XXXXXX)
export HOME=$PLACE XDG_RUNTIME_DIR=$PLACE/run XDG_STATE_HOME=$PLACE/state
mkdir -m 700 "$PLACE/run" "$PLACE/state" "$PLACE/tmp"
unset TIDEGATE_TICKET TIDEGATE_BROKER
cd "$PLACE/tmp" || exit 1
STARTED=()
SEARCH=$PATH
TIMEOUT=$(command -v timeout)

# What this script started, and what that started, has our place in its environment.
kill_ours() {
  local pid
  for pid in $(grep -lsaF "XDG_RUNTIME_DIR=$PLACE/" /proc/[0-9]*/environ | tr -cd '0-9\n') "${STARTED[@]}"; do
    [ "$pid" = $$ ] || [ "$pid" = "$BASHPID" ] || kill -KILL "$pid" 2>/dev/null
  done
}
finish() {
  local code=$?
  PATH=$SEARCH
  kill_ours
  "$TG" stop --force >/dev/null 2>&1
  chmod -R u+rwx "$PLACE"
  rm -rf "$PLACE"
  exit $code
}
trap finish EXIT
# Whatever hangs, the script ends, and before ctest ends it (which would leave its processes behind). Long: most take
# seconds, and on a machine that others keep busy twenty times as many.
trap 'echo "too slow, stopped" >&2; exit 1' TERM
mkfifo "$PLACE/never"
(read -r -t 280 _ <>"$PLACE/never"; kill -TERM $$; kill_ours) >/dev/null 2>&1 &
STARTED+=($!)

fail() {
  echo "${BASH_SOURCE[1]##*/}:${BASH_LINENO[0]}: ${FUNCNAME[1]}: $*" >&2
  "$TG" status >&2
  exit 1
}
row() { echo "$*" >&2; "$@"; }
# What a row could not show on this machine. `shown_all`, a test's last line, then makes it skipped, not passed.
NOT_SHOWN=0
not_shown() {
  echo "  not shown: $*" >&2
  NOT_SHOWN=1
}
shown_all() { exit $((NOT_SHOWN ? 77 : 0)); }

# until_true SECONDS COMMAND...: polls every 10 ms. This is the test's patience, not the program's: ten times
# SECONDS, for a machine on which others work too.
until_true() {
  local end=$((${EPOCHREALTIME/./} + $1 * 10000000))
  shift
  until "$@"; do
    [ "${EPOCHREALTIME/./}" -lt $end ] || return 1
    sleep 0.01
  done
}

# exits CODE COMMAND...: runs it with output in out and err (files here); its exit code must be CODE (a run of
# more than 120 s gives 137).
exits() {
  local want=$1 got=0
  shift
  "$TIMEOUT" --foreground -s KILL 120 "$@" >out 2>err </dev/null || got=$?
  [ "$got" = "$want" ] || { cat out err >&2; fail "'$*' gave exit code $got, not $want"; }
}
counts() { [ "$("$TG" status | head -n 1)" = "holders=$1 waiters=$2" ]; }
must_count() { until_true 5 counts "$1" "$2" || fail "the counts are not holders=$1 waiters=$2"; }

# field JSON-PATH: a value of status --json, by a plain python-free look: KEY of the first object that has it.
json() { "$TG" status --json; }
broker_pid() { json | sed -n '/"broker": {/,/}/s/.*"pid": \([0-9]*\).*/\1/p'; }
# ticket_of WORD: the id of the ticket whose command has WORD in it.
ticket_of() { "$TG" status | awk -v w="$1" '$0 ~ w && $1 ~ /^[0-9]+$/ { print $1; exit }'; }

# For scripts that cancel what runs: with it goes whatever its wrapper has started, also the helper by which a sanitizer
# looks for leaks when the wrapper ends, for whose answer it would then wait for ever.
without_leak_search() { export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"; }

use_slots() { "$TG" config load off && "$TG" config slots "$1"; }

# in_background COMMAND...: starts it, BG is its pid.
in_background() {
  "$@" </dev/null &
  BG=$!
  STARTED+=("$BG")
}
# One look: between two, whoever reaps it may come.
ended() {
  local state
  state=$(awk '{ print $3 }' "/proc/$1/stat" 2>/dev/null)
  [ -z "$state" ] || [ "$state" = Z ] || [ "$state" = X ]
}

# hold FIFO: makes a holder that lasts until its fifo is opened for writing; the pid of its wrapper in BG.
hold() {
  rm -f "$1" "$1.log" && mkfifo "$1"
  in_background "$TG" run -m 10 -- sh -c "echo in >>$1.log; read x <$1"
  until_true 5 test -s "$1.log" || fail "the holder $1 did not start"
}
let_go() { echo >"$1"; }
