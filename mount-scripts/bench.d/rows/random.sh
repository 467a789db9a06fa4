# shellcheck shell=bash disable=SC2034,SC2154
size=$(scaled $((1 << 28)))
count=$(scaled 20000)
title="$count writes of 4 KiB at random places of a $((size >> 20)) MiB file, then fsync"
peers='native passthrough'
goal='>= 1.0'
amount="each $count"
own_source=1

fill() { head -c "$size" /dev/urandom >"$1/file"; }
before() { cat "${root[$1]}/file" >/dev/null; }
run() { "$drive" random "${root[$1]}/file" "$count"; }
after() { settle "$1"; }
