#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# L13, L8: signals are sent in src/machine/proc.c alone, where pid, group and start time are checked.
set -u
src=$(cd "$(dirname "$0")/../../src" && pwd) || exit 1
calls='(^|[^[:alnum:]_])(kill|killpg|tgkill|tkill|sigqueue|uv_kill|pidfd_send_signal|SYS_(kill|tgkill|tkill|pidfd_send_signal|rt_sigqueueinfo))[[:space:]]*[(,]'
# Comments may name them: lines of comments are left out.
found=$(grep -rnE --include='*.[ch]' "$calls" "$src" | grep -vE ':[0-9]+:[[:space:]]*(/\*|\*|//)' | grep -v "^$src/machine/proc.c:")
if [ -n "$found" ]; then
    echo "signals are sent outside src/machine/proc.c:"
    echo "$found"
    exit 1
fi
grep -qE "$calls" "$src/machine/proc.c" || { echo "the pattern finds nothing in proc.c: it is broken"; exit 1; }
# Within proc.c no call takes a bare 0, 1 or -1.
if grep -nE '(^|[^[:alnum:]_])kill\(-?[01],' "$src/machine/proc.c"; then
    echo "a fixed pid in a call of kill"
    exit 1
fi
