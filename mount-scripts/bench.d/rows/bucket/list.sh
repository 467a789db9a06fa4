# shellcheck shell=bash disable=SC2034,SC2154
# shellcheck source=mount-scripts/bench.d/bucket.sh
. "$here/bucket.sh"
command=(ls -f)
[ "${words[1]:-}" != find ] || command=(find)
title="names a second of the first ${command[*]} of $items keys in one folder; curl: only reads the pages"
peers='curl'
goal="<= $(awk -v items="$items" 'BEGIN { print items / 50000 }') s"
amount="rate $items"
most_runs=3
before() {
    [ "$1" != cove ] || start_empty cove
}
run() {
    if [ "$1" = curl ]; then read_pages; else "$drive" run "${command[@]}" "${root[cove]}/many"; fi
}
