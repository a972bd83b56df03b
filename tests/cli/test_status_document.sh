# SPDX-License-Identifier: Apache-2.0
# Every key that status, why and history show stands in docs/status.md, so that the document keeps up.
DOC=$(cd "$(dirname "$0")/../.." && pwd)/docs/status.md
. "$(dirname "$0")/lib.sh"
without_leak_search
use_slots 1

# documented FILE: each "key": of a JSON text is a word in backticks of the document.
documented() {
  local key missing=
  for key in $(grep -o '"[a-z_]*":' "$1" | tr -d '":' | sort -u); do
    grep -qE "\`([a-z_.]*\.)?$key(\.[a-z_]+)*\`" "$DOC" || missing="$missing $key"
  done
  [ -z "$missing" ] || fail "docs/status.md does not know of:$missing"
}
every_key_is_documented() {
  [ -r "$DOC" ] || fail "there is no $DOC"
  hold a
  in_background "$TG" run -q -m 10 --key k -- sleep 600
  must_count 1 1
  "$TG" status --json >out
  documented out
  "$TG" why --json "$(ticket_of 'sleep 600')" >out
  documented out
  let_go a
  until_true 5 counts 1 0
  "$TG" cancel "$(ticket_of 'sleep 600')"
  must_count 0 0
  "$TG" history --json >out
  documented out
}
row every_key_is_documented
