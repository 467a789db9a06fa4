# shellcheck shell=bash disable=SC2034,SC2154
rounds=$(scaled 200)
title="stat of 1000 files, known to the kernel"
peers='native rclone'
goal='>= 0.8'
amount="each $((rounds * 1000))"

fill() { "$drive" create "$1" 1000 0 >/dev/null; }
before() {
    "$drive" stat "${root[$1]}" 1 >/dev/null
    [ "$1" != cove ] || requests=$(counter fuse_requests)
}
run() { "$drive" stat "${root[$1]}" "$rounds"; }
after() {
    # Listing the names and closing the folder ask; the stats must not.
    [ "$1" != cove ] || [ "$(counter fuse_requests)" -lt $((requests + 100)) ] || fail "stat asked the daemon"
}
