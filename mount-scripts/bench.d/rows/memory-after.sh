# shellcheck shell=bash disable=SC2034,SC2154
count=$(scaled 20000)
title="memory of the daemon after an untar of $count files and their removal, and of one that did nothing"
peers='small'
goal='+<= 65536'
amount='memory'
own_source=1
most_runs=1

fill() { :; }
prepare() {
    [ "$1" = cove ] || return 0
    mkdir "$work/tree"
    "$drive" create "$work/tree" "$count" 4096 >/dev/null
    for name in one two; do
        mkdir "${root[$1]}/$name"
        tar -C "$work" -c tree | tar -C "${root[$1]}/$name" -x
    done
    settle "$1"
    rm -r "${root[$1]}/one" "$work/tree"
    settle "$1"
    # Memory is given back once there has been nothing to do for some seconds.
    sleep 20
}
run() { awk '/^VmRSS/ { print $2 }' "/proc/$(counter daemon_pid "$1")/status"; }
