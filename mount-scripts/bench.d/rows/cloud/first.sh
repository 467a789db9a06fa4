# shellcheck shell=bash disable=SC2034,SC2154
# shellcheck source=mount-scripts/bench.d/cloud.sh
. "$here/cloud.sh"
offset=0 place='the first byte'
if [[ ${words[*]} = *middle* ]]; then offset=$((1 << 29)) place='4 KiB in the middle'; fi
title="open of a dataless 1 GiB file and $place, round trip 20 ms; curl: a GET of as much, which is the round trip"
peers=$(beside curl rclone)
goal=$(goal_of '<= 1.1' '<= 1' '<= 1.1')
amount='whole'

fill() {
    truncate -s 1G "$1/file"
    echo warm >"$1/warm"
    serve "$1" 10
}
before() { make_dataless "$1" file; }
run() {
    if [ "$1" = curl ]; then
        # The second one, on the connection of the first.
        ask "${url}warm" -o /dev/null --next -sSf "${login[@]}" -o /dev/null \
            -r $offset-$((offset + 4095)) -w '%{time_total}' "${url}file" |
            awk '{ printf "%.0f\n", $1 * 1e9 }'
    else
        "$drive" first "${root[$1]}/file" $offset
    fi
}
after() { require_download 4096 "$1"; }
