#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# scripts/check-arrows fails on each kind of breach, names its file, line and rule, and passes a clean tree.
# Every case writes one file into a scratch tree that is otherwise clean. l13_... is row L13 of the cases.
set -u
check=$(cd "$(dirname "$0")/../.." && pwd)/scripts/check-arrows
tree=$(mktemp -d)/"a tree"
trap 'rm -rf "${tree%/*}"' EXIT
failures=0

fresh() {
    rm -rf "$tree"
    mkdir -p "$tree"/src/{base,policy,ring,ir,engine,proto,machine,cluster,broker,client,sim,cli} \
        "$tree"/{include/tidegate,tests/ring,examples}
    put include/tidegate/abi.h ''
    put include/tidegate/engine.h '#include <tidegate/abi.h>' '#include <tidegate/ring.h>'
    put include/tidegate/tidegate.h '#include <tidegate/engine.h>' '#include <tidegate/launch.h>'
    put include/tidegate/hd.h '#define TG_HD __host__ __device__'
    put include/tidegate/partition.h '#include <tidegate/abi.h>' '#include <tidegate/hd.h>'
    put src/policy/partition.c '#include <tidegate/partition.h>'
    put src/base/atomic.h 'static int f(int *p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }'
    put src/broker/store.c '#include <sqlite3.h>' 'static const char *q = "SELECT 1";'
    put src/machine/proc.c 'int tg_proc_signal(void) { return kill(2, 0); }'
    put src/cluster/etcd.c '#include <curl/curl.h>' 'int etcd_open(void);'
    put src/engine/cuda.cu '__global__ void body(void) { cudaFree(0); }'
    put src/ir/cuda_text.c '#include <tidegate/policy.h>' 'static const char *t = "__global__ void \"f\"()";'
    put src/engine/worker.c '#include "engine/index.h"' '#include "index.h"' '#include "ring/slot.h"' \
        '#include <tidegate/ir.h>' '/* kill(1) and strcpy(' ' * sleep(1) in a comment */ int a;' \
        "// system(\"x\")" "int q = '\"'; /* \" */ int tg_kill(int), fgets_(int), x_system(int);"
    put src/broker/loop.c '#include "machine/proc.h"' '#include "base/clock.h"' 'int usleep_not(int);'
    put tests/ring/test_x.c 'int main(void) { return kill(1, 0); }'
}

# put FILE LINE...: the file with an SPDX line first, so LINE 1 is line 2 of the file.
put() {
    local file=$tree/$1
    shift
    printf '%s\n' '/* SPDX-License-Identifier: Apache-2.0 */' "$@" >"$file"
}

fail() {
    echo "FAILED: $*" >&2
    failures=$((failures + 1))
}

# breaks NAME FILE:LINE RULE: the tree as it stands must be refused, for exactly that.
breaks() {
    local out
    echo "$1"
    if out=$("$check" "$tree" 2>&1); then
        fail "$1: passed"
    elif [ "$(printf '%s\n' "$out" | wc -l)" != 1 ] || [[ $out != "$2: $3: "* ]]; then
        fail "$1: expected one line beginning '$2: $3: ', got:"$'\n'"$out"
    fi
}

# one NAME FILE RULE CODE: CODE as line 2 of FILE in a fresh tree breaks RULE there.
one() {
    fresh
    put "$2" "$4"
    breaks "$1" "$2:2" "$3"
}

# Every arrow that is not drawn, from the list of those that are.
wrong_arrows() {
    local from to
    local -A uses=([base]='' [policy]=base [ring]=base [proto]=base [machine]=base [cluster]=base
        [ir]='base ring policy' [engine]='base ir ring policy' [sim]='base policy' [client]='base proto machine'
        [broker]='base cluster machine proto policy' [cli]='base client sim engine')
    for from in "${!uses[@]}"; do
        fresh
        : >"$tree/expected"
        local lines=() n=1
        for to in "${!uses[@]}"; do
            lines+=("#include \"$to/x.h\"")
            n=$((n + 1))
            [[ $to == "$from" || " ${uses[$from]} " == *" $to "* ]] ||
                echo "src/$from/arrows.c:$n: arrow: " >>"$tree/expected"
        done
        put "src/$from/arrows.c" "${lines[@]}"
        "$check" "$tree" | sed 's/\(: arrow: \).*/\1/' >"$tree/found"
        cmp -s "$tree/expected" "$tree/found" || fail "arrows from $from: $(diff "$tree/expected" "$tree/found")"
    done
}

fresh
echo clean_tree_passes
out=$("$check" "$tree" 2>&1) || fail "clean tree refused: $out"

echo every_wrong_arrow_is_found
wrong_arrows
one planes_include_each_other src/broker/x.c arrow '#include <tidegate/engine.h>'
one public_header_runs_up include/tidegate/ring.h arrow '#include <tidegate/engine.h>'
one public_header_uses_internals include/tidegate/ring.h arrow '#include "base/atomic.h"'
one climbing_include src/ring/x.c arrow '  #  include "../engine/x.h"'
one unknown_room_included src/ring/x.c arrow '#include "attic/x.h"'
one public_header_of_another_room src/ring/x.c arrow '#include <tidegate/partition.h>'
one unknown_public_header src/ring/x.c arrow '#include <tidegate/attic.h>'

fresh
mkdir "$tree/src/attic"
put src/attic/x.c 'int x;'
breaks unknown_room src/attic/x.c:1 arrow

one memory_order src/engine/x.c memory-order 'int x = __ATOMIC_SEQ_CST;'
one memory_order_in_tests tests/ring/test_y.c memory-order 'void f(void) { __sync_synchronize(); }'
one memory_order_of_c11 src/ring/x.h memory-order 'x = atomic_load_explicit(p, memory_order_relaxed);'
one threadfence src/engine/x.c memory-order '__threadfence();'
one cuda_call src/engine/cpu.c cuda 'int x = cudaMalloc(&p, 1);'
one cuda_driver src/engine/cpu.c cuda 'CUdevice d;'
one cuda_word include/tidegate/abi.h cuda '#ifdef __CUDACC__'
one cuda_include src/engine/cpu.c cuda '#include <cuda_runtime.h>'
one cuda_in_ir src/ir/x.c cuda '__device__ int x;'
one sql_call src/broker/queue.c sql 'int x = sqlite3_step(s);'
one sql_text src/client/x.c sql 'const char *q = "SELECT * FROM t";'
one etcd_name src/broker/peers.c etcd 'int x = etcd_put();'
one etcd_http src/client/x.c etcd '#include <curl/curl.h>'
for name in strcpy strcat sprintf atoi atol gets system popen; do
    one "banned_$name" src/cli/x.c banned-call "	x = $name (a, b);"
done
one banned_in_tests tests/ring/test_y.c banned-call 'int x = atoi("1");'
one banned_after_string src/cli/x.c banned-call 'puts("/* \" //"); system("ls"); // kill(1)'
one l13_kill src/client/x.c kill 'if (kill(pid, sig)) return;'
one l13_killpg src/broker/x.c kill 'killpg(g, 9);'
one l13_pidfd src/cli/x.c kill 'syscall(SYS_pidfd_send_signal, fd, 9, 0, 0);'
one l13_uv_kill src/broker/x.c kill 'uv_kill(p, 9);'
one l13_in_machine src/machine/death.c kill 'return pidfd_send_signal(fd, 9, 0, 0);'
one sleep_in_broker src/broker/x.c sleep 'usleep(10);'
one sleep_in_client src/client/x.c sleep 'nanosleep(&t, 0);'

fresh
seq -f 'int x%g;' 600 | sed '1s|.*|/* SPDX-License-Identifier: Apache-2.0 */|' >"$tree/src/ring/long.c"
echo six_hundred_lines_pass
"$check" "$tree" || fail "600 lines refused"
echo 'int y;' >>"$tree/src/ring/long.c"
breaks long_file src/ring/long.c:601 long-file

fresh
echo 'int x;' >"$tree/src/ring/bare.c"
breaks no_spdx src/ring/bare.c:1 spdx

echo no_sources_is_an_error
mkdir "$tree/empty"
"$check" "$tree/empty" >/dev/null 2>&1 && fail "an empty tree passed"

[ $failures = 0 ]
