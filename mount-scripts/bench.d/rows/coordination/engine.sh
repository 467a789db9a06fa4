# shellcheck shell=bash disable=SC2034,SC2154
count=1000000
title="$count claims and their ends in the engine, and as many locks of one file"
peers='native'
goal='<= 1 s'
amount="each $count"
fill() { echo x >"$1/file"; }
run() {
    if [ "$1" = native ]; then "$drive" locks "${root[$1]}/file" $count; else "$cove" claim-speed $count; fi
}
