# shellcheck shell=bash disable=SC2034,SC2154
size=$(scaled $((1 << 29)))
title="read of a $((size >> 20)) MiB file again"
peers='native rclone'
goal='>= 0.3'
through_goal='>= 0.95'
amount="bytes $size"

fill() { head -c "$size" /dev/urandom >"$1/file"; }
before() { cat "${root[$1]}/file" >/dev/null; }
run() { "$drive" read "${root[$1]}/file"; }
