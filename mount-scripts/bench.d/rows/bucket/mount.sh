# shellcheck shell=bash disable=SC2034,SC2154
# shellcheck source=mount-scripts/bench.d/bucket.sh
. "$here/bucket.sh"
title="cove mount of a bucket with $items keys in one folder, and of one with 1000"
peers='small'
goal='<= 1 s'
amount='whole'
most_runs=7
run() {
    local start
    stop_peer "$1"
    start=$(date +%s%N)
    start_peer "$1" "$work/source"
    ls "${root[$1]}" >/dev/null
    echo $(($(date +%s%N) - start))
}
