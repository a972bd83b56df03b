#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# An installed tree is whole: every public header compiles alone as C11 and as C++17 without a warning, and every
# example of examples/ builds through pkg-config against what was installed, with nothing of the source tree.
# Argument: the build folder.
set -eu
build=$1
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT

cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
cc=$(cached CMAKE_C_COMPILER)
cxx=$(cached CMAKE_CXX_COMPILER)
flags=(-Wall -Wextra -Werror)
sanitize=$(cached TG_SANITIZE)
[ -z "$sanitize" ] || flags+=("-fsanitize=$sanitize")

DESTDIR='' cmake --install "$build" --prefix "$prefix" >"$prefix/log" || { cat "$prefix/log"; exit 1; }
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig

echo what_is_installed
wanted=(lib/libtidegate.a lib/pkgconfig/tidegate.pc share/man/man1/tidegate.1 share/man/man1/tidegate-engine.1
    share/man/man3/tg_launch.3 share/man/man3/tg_engine.3 share/man/man3/tg_engine_attach.3 share/man/man3/tg_ir.3)
[ ! -x "$build/tidegate" ] || wanted+=(bin/tidegate libexec/tidegate/tidegate-broker)
for file in "${wanted[@]}"; do
    [ -f "$prefix/$file" ] || { echo "FAILED: $file was not installed" >&2; exit 1; }
done
[ ! -e "$prefix/bin/nx_swarm_queue" ] || { echo "FAILED: nx_swarm_queue came unasked" >&2; exit 1; }
if grep -rIl -- "$source_dir" "$prefix/lib/pkgconfig" "$prefix/share" "$prefix/include" 2>/dev/null; then
    echo "FAILED: these name the source tree" >&2
    exit 1
fi

read -ra cflags < <(pkg-config --cflags tidegate)
read -ra libs < <(pkg-config --libs tidegate)

for header in "$prefix"/include/tidegate/*.h; do
    [ -f "$header" ] || continue
    name=${header##*/}
    echo "header_$name"
    printf "#include <tidegate/%s>\nextern int alone;\n" "$name" | "$cc" -std=c11 -pedantic "${flags[@]}" "${cflags[@]}" -fsyntax-only -x c -
    echo "#include <tidegate/$name>" | "$cxx" -std=c++17 "${flags[@]}" "${cflags[@]}" -fsyntax-only -x c++ -
done

for example in "$source_dir"/examples/*.c; do
    [ -f "$example" ] || continue
    echo "example_${example##*/}"
    "$cc" -std=gnu11 "${flags[@]}" "${cflags[@]}" "$example" -o "$prefix/example" "${libs[@]}"
done

nvcc=$(cached TG_NVCC)
if [ -x "$nvcc" ]; then
    echo example_checksums_device.cu
    "$nvcc" -std=c++17 -fatbin -arch=sm_90 "${cflags[@]}" -I "$prefix/include/tidegate/device" \
        "$source_dir/examples/gpu/checksums_device.cu" -o "$prefix/example"
fi

if [ -x "$prefix/bin/tidegate" ]; then
    echo installed_command_runs
    # A program elsewhere finds the broker with the command of PATH, and the broker goes when it is told to.
    echo own_program_finds_the_broker
    mkdir -m 700 "$prefix/run" "$prefix/state"
    cat >"$prefix/own.c" <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <tidegate/launch.h>
int main(void)
{
    struct tg_launch *launch = NULL;
    char *text = NULL;
    int r = tg_launch_open(true, &launch);
    if (r == 0)
        r = tg_launch_status_json(launch, &text);
    if (r != 0)
        fprintf(stderr, "own program: %d: %s\n", r, tg_launch_error());
    free(text);
    tg_launch_close(launch);
    return r != 0;
}
END
    "$cc" -std=gnu11 "${flags[@]}" "${cflags[@]}" "$prefix/own.c" -o "$prefix/own" "${libs[@]}"
    own=(env -u TIDEGATE_BROKER "PATH=relative:$prefix/bin:$PATH" "XDG_RUNTIME_DIR=$prefix/run" "XDG_STATE_HOME=$prefix/state")
    "${own[@]}" "$prefix/own" || { echo "FAILED: it did not find the broker of $prefix" >&2; exit 1; }
    "${own[@]}" tidegate stop
    "$prefix/bin/tidegate" --version
    cmake --install "$build" --prefix "$prefix" --component nx_swarm_queue >"$prefix/log"
    [ -L "$prefix/bin/nx_swarm_queue" ] || { echo "FAILED: no nx_swarm_queue when asked for" >&2; exit 1; }
fi
