# shellcheck shell=bash disable=SC2016,SC2034,SC2154
# shellcheck source=mount-scripts/bench.d/tree.sh
. "$here/tree.sh"
title="diff -r of two trees of $entries entries that were just written"
before() {
    unpack "$(place "$1")/a"
    unpack "$(place "$1")/b"
}
run() { "$drive" run diff -r "$(place "$1")/a" "$(place "$1")/b"; }
