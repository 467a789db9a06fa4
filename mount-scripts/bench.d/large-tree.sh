# Sourced by the rows over a large tree, which is computed for Cove and made once for the native file system.
# shellcheck shell=bash disable=SC2034,SC2154
items=$(scaled "$items")
cove_source="simulated://?items=$items&fanout=1000"
cove_option=--read-only
peers='native'
goal=''
amount='whole'
most_runs=3

fill() { "$drive" tree "$1" "$items" 1000; }
prepare() { [ "$1" != cove ] || find "${root[$1]}" >/dev/null; }
before() { forget_names "$1"; }
