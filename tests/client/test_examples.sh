#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The examples of the C API do what they say, against a broker that they start themselves. Argument: the build
# folder.
set -eu
build=$1
place=$(mktemp -d)
export XDG_RUNTIME_DIR=$place/run XDG_STATE_HOME=$place/state TIDEGATE_BROKER=$build/tidegate-broker
unset TIDEGATE_TICKET
mkdir -m 700 "$XDG_RUNTIME_DIR" "$XDG_STATE_HOME"
trap '"$build/tidegate" stop --force >/dev/null 2>&1 || true; rm -rf "$place"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
"$build/tidegate" config load off >/dev/null
"$build/tidegate" config floor-mb 0 >/dev/null
"$build/tidegate" config slots 2 >/dev/null

echo a_pool_asks_before_each_heavy_step
out=$("$build/examples/example_launch_pool") || fail "launch_pool: $out"
[[ $out =~ 'at most '([12])' heavy' ]] || fail "the cap was not kept: $out"

echo one_grows_while_it_runs
out=$("$build/examples/example_launch_grow") || fail "launch_grow: $out"
[[ $out == 'grew from 8 MB to 64 MB:'* ]] || fail "it did not grow: $out"

echo one_that_has_no_room_goes_on_with_less
"$build/tidegate" config budget-mb 20 >/dev/null
out=$("$build/examples/example_launch_grow") || fail "launch_grow: $out"
[[ $out == 'grew from 8 MB to 16 MB:'* ]] || fail "it grew beyond the budget: $out"

echo the_broker_of_a_build_folder_in_path_is_found
"$build/tidegate" stop
out=$(env -u TIDEGATE_BROKER PATH="$build:$PATH" "$build/examples/example_launch_grow") || fail "launch_grow: $out"
[[ $out == 'grew from 8 MB to 16 MB:'* ]] || fail "no broker was started: $out"

echo nothing_is_left
"$build/tidegate" status --json | grep -q '"holders": \[\]' || fail "somebody still holds"
