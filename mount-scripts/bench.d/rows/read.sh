# shellcheck shell=bash disable=SC2034,SC2154
size=$(scaled $((1 << 29)))
title="read of a $((size >> 20)) MiB file whose bytes are here, page cache dropped"
peers='native rclone'
goal='>= 0.8'
through_goal='>= 0.95'
amount="bytes $size"

fill() { head -c "$size" /dev/urandom >"$1/file"; }
prepare() {
    cat "${root[$1]}/file" >/dev/null
    settle "$1"
    [ "$1" != cove ] || downloaded=$(counter bytes_downloaded)
}
before() { forget_pages "$1"; }
run() { "$drive" read "${root[$1]}/file"; }
after() {
    [ "$1" != cove ] || [ "$(counter bytes_downloaded)" = "$downloaded" ] || fail "the file was not all here"
}
