# shellcheck shell=bash disable=SC2034,SC2154
# shellcheck source=mount-scripts/bench.d/queries.sh
. "$here/queries.sh"
title="results of a query by a part of names, whatever their case, among $items items, beside find and plocate"
goal='<= 0.3 s'
run() { looked_for "$1" all "FSName CONTAINS[c] '7777'" '*7777*'; }
