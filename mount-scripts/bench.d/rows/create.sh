# shellcheck shell=bash disable=SC2034,SC2154
count=$(scaled 10000)
title="$count new files: create, write 4 KiB, close"
peers='passthrough native rclone'
goal='>= 0.5'
amount="each $count"
own_source=1

fill() { :; }
before() { mkdir "${root[$1]}/folder"; }
run() { "$drive" create "${root[$1]}/folder" "$count" 4096; }
after() {
    settle "$1"
    rm -r "${root[$1]}/folder"
    settle "$1"
}
