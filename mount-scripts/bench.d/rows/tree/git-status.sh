# shellcheck shell=bash disable=SC2016,SC2034,SC2154
# shellcheck source=mount-scripts/bench.d/tree.sh
. "$here/tree.sh"
title="git status of a tree of $entries entries that was added"
before() {
    unpack "$(place "$1")"
    (cd "$(place "$1")/tree" && git init -q && git add -A && git status >/dev/null)
    settle "$1"
}
run() { "$drive" run git -C "$(place "$1")/tree" status --short; }
