#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every page of docs/ is in its list, every link of a page leads somewhere, and tidegate.h has every public header.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
failed=0
complain() { echo "FAILED: $*"; failed=1; }

for page in "$root"/docs/*.md; do
    name=${page##*/}
    [ "$name" = README.md ] || grep -qF "]($name)" "$root/docs/README.md" || complain "docs/README.md does not list $name"
done
for page in "$root"/*.md "$root"/docs/*.md; do
    while IFS= read -r link; do
        [ -e "$(dirname "$page")/${link%%#*}" ] || complain "${page#"$root"/} links to $link"
    done < <(grep -o ']([^)# ]*)' "$page" | sed 's/^](//; s/)$//' | grep -v '^[a-z]*:')
done
included=$(cd "$root" && cc -I include -M include/tidegate/tidegate.h) || complain "tidegate.h does not compile"
for header in "$root"/include/tidegate/*.h; do
    case $included in *"include/tidegate/${header##*/}"*) ;; *) complain "tidegate.h leaves out ${header##*/}" ;; esac
done
exit $failed
