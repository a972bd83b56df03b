#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# U13, U14: the clock that people set is read to be shown and kept, in the lines below, and nowhere else: orders
# and limits cannot come from it. A new line here has to be argued for.
set -u
src=$(cd "$(dirname "$0")/../../src" && pwd) || exit 1
reads='tg_clock_wall_ms\(|CLOCK_REALTIME|gettimeofday|(^|[^_[:alnum:]])time\((NULL|&)'
allowed='^broker/log\.c:time_t now = time\(NULL\);$
^broker/(ops_admit|life|marks)\.c:.*(asked|held)_wall_ms = tg_clock_wall_ms\(\);$
^broker/outputs\.c:uint64_t now = tg_clock_wall_ms\(\);$
^broker/(ended|store_end|adopt)\.c:.*\.wall_ms = tg_clock_wall_ms\(\)\}[,;]$
^client/(launch_)?run\.c:\.ended_wall_ms = tg_clock_wall_ms\(\)\};$
^cli/history\.c:uint64_t now = tg_clock_wall_ms\(\);$'
# ended, store_end, adopt, run: when it ended, as the history shows it. outputs: how old a kept file is (its time
# stamp is of that clock); history: --since.
found=$(grep -rnE --include='*.[ch]' "$reads" "$src" | grep -vE ':[0-9]+:[[:space:]]*(/\*|\*|//)' |
    grep -v "^$src/base/clock.h:" | sed -E "s|^$src/||; s|:[0-9]+:[[:space:]]*|:|")
[ -n "$found" ] || { echo "the pattern finds nothing: it is broken"; exit 1; }
wrong=$(echo "$found" | grep -vE "$allowed")
if [ -n "$wrong" ]; then
    echo "the wall clock is read where nobody has argued for it:"
    echo "$wrong"
    exit 1
fi
# Waits on conditions go by the monotonic clock.
grep -rlE --include='*.c' 'pthread_cond_timedwait' "$src" | while IFS= read -r file; do
    grep -rqE 'pthread_condattr_setclock\([^,]*, CLOCK_MONOTONIC\)|CLOCK_MONOTONIC' "$(dirname "$file")" ||
        { echo "$file waits by another clock"; exit 1; }
done || exit 1
exit 0
