# shellcheck shell=bash disable=SC2034,SC2154
# shellcheck source=mount-scripts/bench.d/large-tree.sh
. "$here/large-tree.sh"
title="memory of the daemon with $items items listed, and with 1000"
peers='small'
goal='+<= 65536'
amount='memory'
most_runs=1
prepare() { find "${root[$1]}" >/dev/null; }
run() { awk '/^VmRSS/ { print $2 }' "/proc/$(counter daemon_pid "$1")/status"; }
