# shellcheck shell=bash disable=SC2016,SC2034,SC2154
# shellcheck source=mount-scripts/bench.d/cloud.sh
. "$here/cloud.sh"
size=$(scaled $((1 << 30)))
title="a new file of $((size >> 20)) MiB until the server has it, no delay; curl: a PUT"
peers='curl rclone'
goal='>= 0.9'
amount="bytes $size"
most_runs=3

fill() {
    head -c "$size" /dev/urandom >"$work/new-file"
    serve "$1"
    # What is signed must be sent: this is not.
    expect=(-H Expect:)
    [ "$kind" != s3 ] || expect=()
}
before() { cat "$work/new-file" >/dev/null; }
run() {
    local name=$1-$round
    case "$1" in
    cove) "$drive" run bash -c 'cp "$1" "$2" && until "$3" stats --state "$4" --json | grep -q "\"queued_operations\":0[,}]"; do sleep 0.02; done' \
        bash "$work/new-file" "${root[cove]}/$name" "$cove" "$work/cove/state" ;;
    rclone) "$drive" run rclone copyto -q --config /dev/null --s3-no-check-bucket "$work/new-file" "$rclone_source/$name" ;;
    curl) "$drive" run curl -sSf "${login[@]}" "${signing[@]}" "${expect[@]}" -o /dev/null -T "$work/new-file" "$url$name" ;;
    esac
}
after() {
    [ "$(rclone lsf --format s --config /dev/null "$rclone_source/$1-$round")" = "$size" ] || fail "$1: the file did not arrive"
    ask "${signing[@]}" -X DELETE "$url$1-$round" >/dev/null
}
