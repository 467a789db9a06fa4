# shellcheck shell=bash disable=SC2034,SC2154
clients=4
count=$(scaled 20000)
title="$count claims and their ends through the socket, $clients clients at once, and as many locks of one file"
peers='native'
goal="<= $(awk "BEGIN { print $count / 20000 }") s"
amount="each $count"
fill() { for ((n = 0; n < clients; n++)); do echo x >"$1/file$n"; done; }
run() {
    if [ "$1" = native ]; then
        "$drive" locks "${root[$1]}/file0" "$count"
    else
        "$drive" claims "${root[$1]}" file $clients "$count"
    fi
}
