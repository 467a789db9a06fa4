# shellcheck shell=bash disable=SC2034,SC2154
# shellcheck source=mount-scripts/bench.d/cloud.sh
. "$here/cloud.sh"
title="a save on one device until the other has its size, both idle for 65 s before; native: the same on one machine"
peers=native
goal='<= 3 s'
amount='whole'

fill() {
    mkdir "$1/d"
    echo 1 >"$1/d/file"
    serve "$1"
}
prepare() {
    if [ "$1" = native ]; then
        # What the server has is not to be changed behind its back.
        root[native]=$work/apart
        mkdir -p "$work/apart/d"
        echo 1 >"$work/apart/d/file"
        return 0
    fi
    ls -lR "${root[cove]}" >/dev/null
    # The device on which it is seen.
    mkdir "$work/second"
    "$cove" mount --state "$work/second-state" "$cove_source" "$work/second" >&2
    trap '"$cove" unmount "$work/second" >&2 || true; stop_servers' EXIT
    ls -lR "$work/second" >/dev/null
}
before() { [ "$1" != cove ] || sleep 65; }
run() {
    local file=${root[$1]}/d/file seen=${root[$1]}/d/file start size
    [ "$1" != cove ] || seen=$work/second/d/file
    size=$(stat -c %s "$file")
    start=$(date +%s%N)
    echo more >>"$file"
    until [ "$(stat -c %s "$seen")" -gt "$size" ]; do sleep 0.01; done
    echo $(($(date +%s%N) - start))
}
