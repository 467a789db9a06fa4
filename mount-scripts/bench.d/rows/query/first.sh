# shellcheck shell=bash disable=SC2034,SC2154
# shellcheck source=mount-scripts/bench.d/queries.sh
. "$here/queries.sh"
title="the first result of a query by name among $items items, beside find and plocate"
goal='<= 0.01 s'
run() { looked_for "$1" first "FSName == 'file-$((items * 7 / 9))'" "file-$((items * 7 / 9))"; }
