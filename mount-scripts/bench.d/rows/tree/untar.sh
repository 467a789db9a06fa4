# shellcheck shell=bash disable=SC2016,SC2034,SC2154
# shellcheck source=mount-scripts/bench.d/tree.sh
. "$here/tree.sh"
title="untar of a tree of $entries entries"
before() { mkdir "$(place "$1")"; }
run() { "$drive" run tar -xf "$archive" -C "$(place "$1")"; }
