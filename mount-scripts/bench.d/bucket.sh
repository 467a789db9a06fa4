# Sourced by the rows in rows/bucket: a made-up bucket on this host with so many keys in one folder, many/, and a thousand in few/.
# shellcheck shell=bash disable=SC2034,SC2154
install_packages curl >&2
items=$(scaled "$items")
pages=$(((items + 999) / 1000))
export COVE_PASSWORD=lovelace
most_runs=1

stop_server() {
    if [ -n "${server:-}" ]; then
        kill "$server" 2>/dev/null || true
        # Not for others: after a failure, mounts are there still.
        wait "$server" 2>/dev/null || true
    fi
    rm -f "$work/bucket-port"
}
trap stop_server EXIT

fill() {
    [ -x "$work/bucket" ] || gcc -O2 -Wall "$here/bucket.c" -o "$work/bucket" -lpthread
    mkfifo "$work/bucket-port"
    "$work/bucket" "$items" >"$work/bucket-port" &
    server=$!
    read -r port <"$work/bucket-port"
    cove_source="s3://ada@bench/?endpoint=http://127.0.0.1:$port&region=us-east-1"
    small_source="s3://ada@bench/few/?endpoint=http://127.0.0.1:$port&region=us-east-1"
}

# counted NUMBER: how often many/ was listed (1), how many requests there were (2).
counted() { curl -sSf "http://127.0.0.1:$port/counts" | awk -v column="$1" '{ print $column }'; }

# start_empty PEER: mounts it with nothing listed.
start_empty() {
    stop_peer "$1"
    start_peer "$1" "$work/source"
}

# What curl needs for all pages of many/, one after the other on one connection.
read_pages() {
    local page
    for ((page = 0; page < pages; page++)); do
        echo "url = http://127.0.0.1:$port/bench/?list-type=2&prefix=many/&delimiter=/&continuation-token=$((page * 1000))"
        echo 'output = /dev/null'
    done >"$work/urls"
    "$drive" run curl -sSf --no-progress-meter -K "$work/urls"
}
