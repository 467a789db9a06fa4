# shellcheck shell=bash disable=SC2016,SC2034,SC2154
# shellcheck source=mount-scripts/bench.d/tree.sh
. "$here/tree.sh"
title="git init and git add -A of a tree of $entries entries"
before() {
    unpack "$(place "$1")"
    settle "$1"
}
run() { "$drive" run bash -c 'cd "$1" && git init -q && git add -A' bash "$(place "$1")/tree"; }
