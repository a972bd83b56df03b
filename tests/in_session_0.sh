#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# in_session_0.sh COMMAND...: runs it in a PID namespace of its own, whose processes all have session 0, because
# the session's leader stayed outside. Who detaches must be told from who does not there too (L16). Skips (77)
# where such a namespace cannot be made.
own=(unshare --fork --pid --mount-proc --kill-child)
[ "$(id -u)" = 0 ] || own=(unshare --map-root-user "${own[@]:1}")
[ "$("${own[@]}" sh -c 'cut -d" " -f6 /proc/self/stat' 2>/dev/null)" = 0 ] || {
  echo "no PID namespace with session 0 can be made here"
  exit 77
}
exec "${own[@]}" "$@"
