# shellcheck shell=bash disable=SC2034,SC2154
# shellcheck source=mount-scripts/bench.d/bucket.sh
. "$here/bucket.sh"
title="requests of the first listing of $items keys in one folder, and the least that tell them"
peers='least'
goal='<= 1'
amount='count'
before() {
    [ "$1" != cove ] || start_empty cove
}
run() {
    local known
    if [ "$1" = least ]; then
        echo "$pages"
        return
    fi
    # Who looks a name up in a folder that is not listed asks for that one.
    ls "${root[cove]}" >/dev/null
    known=$(counted 1)
    find "${root[cove]}/many" >/dev/null
    echo $(($(counted 1) - known))
}
