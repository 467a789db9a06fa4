# shellcheck shell=bash disable=SC2016,SC2034,SC2154
# shellcheck source=mount-scripts/bench.d/tree.sh
. "$here/tree.sh"
title="cp -al of a tree of $entries entries"
# rclone has no links.
peers='passthrough juicefs native'
before() {
    unpack "$(place "$1")"
    settle "$1"
}
run() { "$drive" run cp -al "$(place "$1")/tree" "$(place "$1")/copy"; }
