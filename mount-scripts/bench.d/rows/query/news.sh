# shellcheck shell=bash disable=SC2034,SC2154
# shellcheck source=mount-scripts/bench.d/queries.sh
. "$here/queries.sh"
count=50
title="$count files made and removed, each until a query over $items items has told, beside inotify"
peers='native'
goal="<= $((count / 5)) s"
amount="each $((2 * count))"
cove_option=''
run() {
    case "$1" in
    native) "$work/query" watch "${root[$1]}" "$count" ;;
    *) "$work/query" news "${root[$1]}" "${root[$1]}" "$count" ;;
    esac
}
