# shellcheck shell=bash disable=SC2016,SC2034,SC2154
# shellcheck source=mount-scripts/bench.d/tree.sh
. "$here/tree.sh"
title="rm -rf of two trees of $entries entries"
before() {
    unpack "$(place "$1")/a"
    unpack "$(place "$1")/b"
    settle "$1"
}
run() { "$drive" run rm -rf "$(place "$1")/a" "$(place "$1")/b"; }
after() { settle "$1"; }
