# shellcheck shell=bash disable=SC2034,SC2154
count=$(scaled 100000)
title="first ls -l of a folder of $count files, listed before, the kernel's caches of names empty"
# warm is the native folder whose names the kernel knows: the least there can be.
peers='native warm rclone'
goal='<= 4'
amount='whole'

fill() {
    mkdir "$1/folder"
    "$drive" create "$1/folder" "$count" 0 >/dev/null
}
prepare() { env ls "${root[$1]}/folder" >/dev/null; }
before() {
    forget_names "$1"
    [ "$1" != warm ] || env ls -l "${root[$1]}/folder" >/dev/null
    [ "$1" != cove ] || requests=$(counter fuse_requests)
}
run() { "$drive" run ls -l "${root[$1]}/folder"; }
after() {
    [ "$1" != cove ] || [ "$(counter fuse_requests)" -gt $((requests + count / 1000)) ] || fail "the kernel still knew"
}
