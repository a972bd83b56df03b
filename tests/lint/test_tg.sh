#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What ./tg promises before it builds anything: its verbs, its exit codes, and how it asks for what is missing.
# apt-get, sudo and id are replaced by scripts that write down how they were called; nothing is installed.
set -u
tg=$(cd "$(dirname "$0")/../.." && pwd)/tg
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fakes=$scratch/fakes
calls=$scratch/calls
tools=$scratch/tools
mkdir "$fakes" "$tools"

fail() {
    echo "FAILED: $*" >&2
    [ ! -f "$scratch/out" ] || sed 's/^/  | /' "$scratch/out" >&2
    exit 1
}

# A PATH with everything a bare Debian has, and the tools that are named; but no apt-get, sudo or id of its own.
for tool in sh bash awk sed grep cat tr tee touch rm mkdir mktemp dirname readlink env nproc tail id flock gzip; do
    ln -s "$(command -v "$tool")" "$tools/$tool" || exit 1
done
give() {
    local tool
    for tool; do
        ln -sf "$(command -v "$tool")" "$tools/$tool" || exit 1
    done
}

# fake NAME BODY: a command that notes its arguments, then does BODY.
fake() {
    printf '#!/bin/sh\necho "%s $*" >>"%s"\n%s\n' "$1" "$calls" "$2" >"$fakes/$1"
    chmod +x "$fakes/$1"
}

# run WANTED_EXIT ARG...: ./tg in that PATH, with no library but those in $scratch/pc.
run() {
    local wanted=$1 got=0
    shift
    rm -f "$calls"
    touch "$calls"
    env -i PATH="$fakes:$tools" HOME="$scratch" PKG_CONFIG_LIBDIR="$scratch/pc" sh "$tg" "$@" \
        >"$scratch/out" 2>&1 </dev/null || got=$?
    [ $got = "$wanted" ] || fail "tg $*: exit $got, expected $wanted"
}

says() { grep -Eq -- "$1" "$scratch/out" || fail "it does not say: $1"; }
called() { grep -Eq -- "$1" "$calls" || fail "no call: $1; calls were: $(cat "$calls")"; }
library() { printf 'Name: %s\nDescription: x\nVersion: %s\nLibs:\n' "$1" "$2" >"$scratch/pc/$1.pc"; }
no_libraries() { rm -rf "$scratch/pc"; mkdir "$scratch/pc"; }

no_libraries
fake apt-get 'exit 100'

echo verbs_are_listed
run 0
for verb in demo test build bench lint install clean; do
    says "^  $verb "
done

echo unknown_verb_is_named
run 2 frobnicate
says "unknown verb 'frobnicate'"

echo bad_arguments_exit_2
run 2 install --prefix
run 2 install --nope
run 2 build all
run 2 bench no_such_bench
says no_such_bench
run 2 deps everything
[ ! -s "$calls" ] || fail "bad arguments called $(cat "$calls")"

give cc c++ cmake pkg-config
if command -v ninja >/dev/null; then give ninja; else give make; fi

echo all_here_makes_no_call
library libuv 1.44.2
library sqlite3 3.40.1
library jansson 2.14
run 0 deps test
[ ! -s "$calls" ] || fail "all is there, yet it called $(cat "$calls")"
rm "$fakes/apt-get"
run 0 deps test

echo missing_libraries_are_asked_for_once
no_libraries
fake id 'echo 0'
fake apt-get "case \"\$*\" in *-s*) exit 0 ;; esac
printf 'Name: x\nDescription: x\nVersion: 9\n' | tee '$scratch/pc/libuv.pc' '$scratch/pc/sqlite3.pc' >'$scratch/pc/jansson.pc'"
run 0 deps test
says 'libuv1-dev +the broker'
says 'libsqlite3-dev '
called '^apt-get .*install -y --no-install-recommends libuv1-dev libsqlite3-dev libjansson-dev$'
[ "$(grep -c 'install -y' "$calls")" = 1 ] || fail "asked more than once: $(cat "$calls")"
! grep -q update "$calls" || fail "fetched the lists without need"
run 0 deps test
! grep -q apt-get "$calls" || fail "asked again: $(cat "$calls")"

echo too_old_counts_as_missing
no_libraries
library libuv 1.2.0
library sqlite3 3.40.1
library jansson 2.14
run 0 deps build
called 'recommends libuv1-dev$'

echo lists_are_fetched_when_apt_knows_nothing
no_libraries
fake apt-get "case \"\$*\" in
*update*) touch '$scratch/lists' ;;
*) [ -f '$scratch/lists' ] || exit 100 ;;
esac
case \"\$*\" in *'install -y'*)
printf 'Name: x\nDescription: x\nVersion: 9\n' | tee '$scratch/pc/libuv.pc' '$scratch/pc/sqlite3.pc' >'$scratch/pc/jansson.pc' ;;
esac"
run 0 deps build
[ "$(grep -c update "$calls")" = 1 ] || fail "update: $(cat "$calls")"

echo apt_that_fails_is_reported
no_libraries
fake apt-get 'echo "E: no network today"; exit 100'
run 1 deps build
says 'no network today'
says 'libuv1-dev libsqlite3-dev libjansson-dev'

echo user_goes_through_sudo
no_libraries
fake id 'echo 1000'
fake sudo 'shift; exec "$@"'
fake apt-get "case \"\$*\" in *-s*) exit 0 ;; esac
printf 'Name: x\nDescription: x\nVersion: 9\n' | tee '$scratch/pc/libuv.pc' '$scratch/pc/sqlite3.pc' >'$scratch/pc/jansson.pc'"
run 0 deps build
called '^sudo -- env DEBIAN_FRONTEND=noninteractive apt-get .* install -y'

echo user_without_sudo_is_told_the_packages
no_libraries
rm "$fakes/sudo"
run 1 deps build
says 'neither root nor sudo'
says 'apt-get install --no-install-recommends libuv1-dev libsqlite3-dev libjansson-dev'
[ ! -s "$calls" ] || [ "$(grep -vc '^id' "$calls")" = 0 ] || fail "called $(cat "$calls")"

echo without_apt_the_libraries_are_named
rm "$fakes/apt-get"
run 1 deps build
says 'libuv 1.40 or newer'
says 'SQLite 3.31 or newer'
says 'no apt here'

echo without_apt_it_goes_on_when_found
library libuv 1.44.2
library sqlite3 3.40.1
library jansson 2.14
run 0 deps build
[ "$(grep -vc '^id' "$calls")" = 0 ] || fail "called $(cat "$calls")"

echo without_a_compiler_it_asks_for_one
rm "$tools/cc" "$tools/c++"
run 1 deps build
says 'gcc or clang'
says 'C library headers'
