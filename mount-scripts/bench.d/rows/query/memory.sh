# shellcheck shell=bash disable=SC2034,SC2154
# shellcheck source=mount-scripts/bench.d/queries.sh
. "$here/queries.sh"
title="memory of the daemon after a query with some 10,000 results among $items items, and among 1000"
peers='small'
goal='+<= 65536'
amount='memory'
most_runs=1
prepare() { find "${root[$1]}" >/dev/null; }
run() {
    "$work/query" all "${root[$1]}" "FSName BEGINSWITH 'file-77'" >/dev/null
    awk '/^VmRSS/ { print $2 }' "/proc/$(counter daemon_pid "$1")/status"
}
