# shellcheck shell=bash disable=SC2034,SC2154
count=$(scaled 10000)
title="$count new files: create, write 4 KiB, close"
peers='passthrough native rclone'
goal='>= 0.5'
amount="each $count"
own_source=1
number=0

fill() { :; }
before() {
    # passthrough_ll searches a list of all names that the kernel knows.
    forget_names "$1"
    folder=${root[$1]}/folder-$((number += 1))
    mkdir "$folder"
}
run() { "$drive" create "$folder" "$count" 4096; }
after() { settle "$1"; }
