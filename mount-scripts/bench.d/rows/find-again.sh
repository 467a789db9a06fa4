# shellcheck shell=bash disable=SC2034,SC2154
# shellcheck source=mount-scripts/bench.d/large-tree.sh
. "$here/large-tree.sh"
title="find over $items items, listed before, the kernel's caches of names empty"
run() { "$drive" run find "${root[$1]}"; }
