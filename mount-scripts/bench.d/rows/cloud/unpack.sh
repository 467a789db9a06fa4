# shellcheck shell=bash disable=SC2016,SC2034,SC2154
# shellcheck source=mount-scripts/bench.d/cloud.sh
. "$here/cloud.sh"
count=$(scaled 1000)
title="$count new files of 4 KiB until the server has all, round trip 20 ms; rclone copy, curl: 16 at a time"
peers='rclone curl'
goal='<= 5 s'
amount='whole'
most_runs=3

fill() {
    rm -rf "$work/new"
    mkdir "$work/new"
    "$drive" create "$work/new" "$count" 4096 >/dev/null
    serve "$1" 10
}
before() {
    turn=$1-$round
    case "$1:$kind" in
    # It makes no folders by itself.
    curl:webdav) ask -o /dev/null -X MKCOL "$url$turn/" ;;
    esac
}
run() {
    case "$1" in
    cove) "$drive" run bash -c 'cp -r "$1" "$2" && until "$3" stats --state "$4" --json | grep -q "\"queued_operations\":0[,}]"; do sleep 0.02; done' \
        bash "$work/new" "${root[cove]}/$turn" "$cove" "$work/cove/state" ;;
    rclone) "$drive" run rclone copy -q --config /dev/null --transfers 16 --s3-no-check-bucket "$work/new" "$rclone_source/$turn" ;;
    curl) "$drive" run bash -c 'cd "$1" && shift && printf "%s\n" * | sed "s|.*|upload-file = &\nurl = $1&|" | curl -sSf "${@:2}" --no-progress-meter --parallel --parallel-max 16 -o /dev/null -K -' \
        bash "$work/new" "$url$turn/" "${login[@]}" "${signing[@]}" ;;
    esac
}
after() { [ "$(rclone ls --config /dev/null "$rclone_source/$turn" | wc -l)" = "$count" ] || fail "$1: not all files arrived"; }
