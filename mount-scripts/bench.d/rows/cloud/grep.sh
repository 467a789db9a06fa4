# shellcheck shell=bash disable=SC2016,SC2034,SC2154
# shellcheck source=mount-scripts/bench.d/cloud.sh
. "$here/cloud.sh"
count=$(scaled 1000)
title="grep -r over $count dataless files of 4 KiB, round trip 20 ms; curl: 16 at a time"
peers=$(beside rclone curl)
goal=$(goal_of '<= 2 s' '<= 1' '<= 2 s')
amount='whole'
most_runs=3

fill() {
    mkdir "$1/folder"
    "$drive" create "$1/folder" "$count" 4096 >/dev/null
    echo warm >"$1/warm"
    serve "$1" 10
}
before() { make_dataless "$1" folder; }
run() {
    if [ "$1" = curl ]; then
        "$drive" run curl -f --no-progress-meter "${login[@]}" --parallel --parallel-max 16 -o /dev/null \
            "${url}folder/file-[000000-$(printf %06d $((count - 1)))].txt"
    else
        # No match, status 1: at the first one it would end, as nobody sees its output.
        "$drive" run sh -c 'grep -r needle "$1"; [ $? = 1 ]' sh "${root[$1]}/folder"
    fi
}
after() { require_download $((count * 4096)) "$1"; }
