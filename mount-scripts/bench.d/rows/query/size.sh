# shellcheck shell=bash disable=SC2034,SC2154
# shellcheck source=mount-scripts/bench.d/queries.sh
. "$here/queries.sh"
title="a query by size that finds nothing among $items items, beside find"
peers='native'
goal='<= 0.3 s'
run() {
    case "$1" in
    native) "$drive" run find "${root[$1]}" -size +1000000000c ;;
    *) "$work/query" all "${root[$1]}" 'FSSize > 1000000000' ;;
    esac
}
