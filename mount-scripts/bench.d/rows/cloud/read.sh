# shellcheck shell=bash disable=SC2034,SC2154
# shellcheck source=mount-scripts/bench.d/cloud.sh
. "$here/cloud.sh"
size=$(scaled $((1 << 30)))
title="read of a dataless $((size >> 20)) MiB file, no delay"
peers=$(beside rclone curl)
goal=$(goal_of '>= 4' '>= 1' '>= 0.7')
amount="bytes $size"
most_runs=3

fill() {
    head -c "$size" /dev/urandom >"$1/file"
    echo warm >"$1/warm"
    serve "$1"
}
before() {
    make_dataless "$1" file
    # A virtual machine's host takes free memory back, and giving it again takes longer than the read.
    "$drive" touch $((size * 3))
}
run() {
    if [ "$1" = curl ]; then
        "$drive" run curl -sSf "${login[@]}" "${url}file"
    else
        "$drive" read "${root[$1]}/file"
    fi
}
after() { require_download "$size" "$1"; }
