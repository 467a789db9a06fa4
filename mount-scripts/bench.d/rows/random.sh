# shellcheck shell=bash disable=SC2034,SC2154
size=$(scaled $((1 << 27)))
title="each 4 KiB of a $((size >> 20)) MiB file written once, in random order, then fsync"
peers='native passthrough'
goal='>= 1.0'
through_goal=''
amount="each $((size >> 12))"
own_source=1

fill() { head -c "$size" /dev/urandom >"$1/file"; }
before() { cat "${root[$1]}/file" >/dev/null; }
run() { "$drive" random "${root[$1]}/file"; }
after() { settle "$1"; }
