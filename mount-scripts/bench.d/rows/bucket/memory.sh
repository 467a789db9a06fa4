# shellcheck shell=bash disable=SC2034,SC2154
# shellcheck source=mount-scripts/bench.d/bucket.sh
. "$here/bucket.sh"
line=VmRSS moment='after the listing'
if [ "${words[1]:-}" = peak ]; then line=VmHWM moment='at most'; fi
title="memory of the daemon $moment of $items keys in one folder, and of 1000"
peers='small'
goal='+<= 16384'
amount='memory'
prepare() { find "${root[$1]}" >/dev/null; }
run() { awk "/^$line/ { print \$2 }" "/proc/$(counter daemon_pid "$1")/status"; }
