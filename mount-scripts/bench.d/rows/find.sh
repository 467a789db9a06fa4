# shellcheck shell=bash disable=SC2034,SC2154
# shellcheck source=mount-scripts/bench.d/large-tree.sh
. "$here/large-tree.sh"
title="first find over $items items, Cove's catalog empty"
prepare() { :; }
before() {
    if [ "$1" = cove ]; then
        stop_peer cove
        start_peer cove "$work/source"
    fi
    forget_names "$1"
}
run() { "$drive" run find "${root[$1]}"; }
