# shellcheck shell=bash disable=SC2034,SC2154
# shellcheck source=mount-scripts/bench.d/queries.sh
. "$here/queries.sh"
title="a query by type that finds nothing among $items items, beside find"
# plocate fails where it finds nothing.
peers='native'
goal='<= 0.3 s'
run() { looked_for "$1" all "ContentType == 'image/png'" '*.png'; }
