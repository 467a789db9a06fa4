# shellcheck shell=bash disable=SC2034,SC2154
# shellcheck source=mount-scripts/bench.d/queries.sh
. "$here/queries.sh"
title="some 10,000 results of a query by the beginning of names among $items items, beside find and plocate"
goal='<= 0.3 s'
run() { looked_for "$1" all "FSName BEGINSWITH 'file-77'" 'file-77*'; }
