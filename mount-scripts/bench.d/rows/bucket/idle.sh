# shellcheck shell=bash disable=SC2034,SC2154
# shellcheck source=mount-scripts/bench.d/bucket.sh
. "$here/bucket.sh"
seconds=$(scaled 600)
title="requests in an idle hour after the listing of $items keys in one folder, from those in $seconds s"
peers='budget'
goal='<= 1'
amount='count'
prepare() {
    [ "$1" = cove ] || return 0
    find "${root[cove]}" >/dev/null
    local listed
    listed=$(counted 1)
    # Somebody who has just listed may do so again: only two minutes later nobody is at work.
    sleep 125
    again=$(($(counted 1) - listed))
}
run() {
    local known
    case "$1:$round" in
    budget:*) echo 1200 ;;
    cove:0) echo 0 ;;
    cove:*)
        known=$(counted 2)
        sleep "$seconds"
        # Listing the folder again in those two minutes counts once, and not for each part of the hour.
        echo $((again + ($(counted 2) - known) * 3600 / seconds))
        ;;
    esac
}
