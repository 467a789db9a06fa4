# Sourced by bench: measures one row and prints it.
# shellcheck shell=bash disable=SC2034,SC2154 # bench sets runs, quick, work; the row sets the rest

# measure_row FILE: a row is a file that sets
#
#   title      what is measured
#   peers      what Cove is compared with; the goal is against the first
#   goal       '>= R': Cove's speed is at least R times the peer's; '<= R': its time at most R times the peer's;
#              '+<= N': at most N more than the peer's; '<= N s': at most N seconds; empty where there is none
#   through_goal
#              the goal of ROW:through, which mounts Cove with -o passthrough
#   amount     how times are shown: 'bytes N' and 'rate N' as a rate, 'each N' per operation, 'whole' as they are; of what is no
#              time: 'memory' as KiB, 'count' as it is
#   most_runs  fewer rounds than asked for, where one takes long
#   own_source 1 where the runs write, so that each file system needs a source of its own
#
# and defines functions: fill FOLDER makes the source; prepare PEER runs once after mounting; before PEER and
# after PEER run around each run and are not timed; run PEER prints nanoseconds.
measure_row() {
    local name=$1
    local title peers goal through_goal='' amount own_source='' most_runs=$runs
    read_row "$2"
    [ "$runs" -lt "$most_runs" ] || local runs=$most_runs
    take_times
    report "$name"
    rm -rf "$work/times"
}

# compare_row NAME FILE: this Cove and the other one by turns, each time with a source, a state and a daemon of its own, so that neither
# has what the other has left; who begins changes with each round.
compare_row() {
    local name=$1 turn side sides
    local title peers goal through_goal='' amount own_source='' most_runs=$runs
    mkdir "$work/sides"
    for ((turn = 1; turn <= runs; turn++)); do
        sides=(cove other)
        ((turn % 2)) || sides=(other cove)
        for side in "${sides[@]}"; do
            progress "$name: round $turn of $runs, $side"
            # Not in a condition: there, bash would go on after a failed command.
            (measure_side "$side" "$2")
        done
    done
    # shellcheck source=/dev/null
    . "$work/sides/row"
    mv "$work/sides" "$work/times"
    peers=other goal=''
    title+="; other: $against"
    report "$name"
    rm -rf "$work/times"
}

# measure_side SIDE FILE: in a subshell, which ends what the row has started.
measure_side() {
    [ "$1" = cove ] || cove=$against
    read_row "$2"
    peers=''
    runs=1
    take_times
    cat "$work/times/cove" >>"$work/sides/$1"
    rm -rf "$work/times"
    declare -p title amount >"$work/sides/row"
}

# read_row FILE: sets the row's variables and functions.
read_row() {
    IFS=: read -ra words <<<"$name"
    prepare() { :; }
    before() { :; }
    after() { :; }
    # shellcheck source=/dev/null
    . "$1"
    if [ "${words[1]:-}" = through ]; then
        cove_option=-opassthrough
        title+=', passthrough'
        peers=native
        goal=$through_goal
    fi
}

# Runs the row that was read, into a file of times for Cove and one for each peer.
take_times() {
    local peer round source failed
    mkdir "$work/times"
    for peer in cove $peers; do
        source=$work/source${own_source:+-$peer}
        if [ ! -d "$source" ]; then
            mkdir "$source"
            fill "$source"
        fi
        start_peer "$peer" "$source"
        prepare "$peer"
    done
    sync
    # The first round warms up and does not count.
    for ((round = 0; round <= runs; round++)); do
        for peer in cove $peers; do
            [ "$round" = 0 ] || progress "$name: run $round of $runs, $peer"
            before "$peer"
            # In a condition, the shell would go on after a step of it that fails.
            set +e
            (
                set -e
                run "$peer"
            ) >"$work/time" 2>"$work/errors"
            failed=$?
            set -e
            if ((failed)); then
                leave_out "$peer"
                continue
            fi
            cat "$work/errors" >&2
            after "$peer"
            [ "$round" = 0 ] || cat "$work/time" >>"$work/times/$peer"
        done
    done
    progress ''
    for peer in cove $peers; do stop_peer "$peer"; done
    rm -rf --one-file-system "$work"/source*
}

# leave_out PEER: what another file system can't do says nothing against Cove, and is measured no further.
leave_out() {
    progress ''
    tail -n 3 "$work/errors" >&2
    [ "$1" != cove ] || fail "$name failed on Cove"
    echo "$name failed on $1 with $(wc -l <"$work/errors") lines of errors, and is measured without it" >&2
    # It is the first one that the goal is about.
    [ "${peers%% *}" != "$1" ] || goal=
    stop_peer "$1"
    rm -f "$work/times/$1"
    peers=$(tr ' ' '\n' <<<"$peers" | { grep -vx "$1" || true; } | paste -sd ' ')
}

# On a terminal, a line that the next one replaces.
progress() { [ ! -t 2 ] || printf '\r\033[K%s' "$1" >&2; }

# Prints the row and keeps it as JSON; ratios are those of each round, then their median, beside another Cove that of the medians.
report() {
    local peer files=("$work/times/cove")
    for peer in $peers; do files+=("$work/times/$peer"); done
    paste "${files[@]}" | LC_ALL=C awk -v row="$1" -v title="$title" -v peers="$peers" -v goal="$goal" \
        -v amount="$amount" -v json="$work/rows.json" -v kept="$( ((quick)) && echo /dev/null || echo "$history")" \
        -v now="$(date -u +%FT%TZ)" -v commit="$commit" '
        function sorted_middle(list, count,    i, j, held) {
            for (i = 2; i <= count; i++) {
                held = list[i]
                for (j = i - 1; j >= 1 && list[j] > held; j--) list[j + 1] = list[j]
                list[j + 1] = held
            }
            return count % 2 ? list[(count + 1) / 2] : (list[count / 2] + list[count / 2 + 1]) / 2
        }
        function shown(time) {
            if (unit[1] == "memory") return sprintf("%.1f MiB", time / 1024)
            if (unit[1] == "count") return sprintf("%.0f", time)
            if (unit[1] == "rate") return sprintf("%.0f/s", unit[2] / time * 1000000000)
            if (unit[1] == "bytes") return sprintf("%.0f MB/s", unit[2] / time * 1000)
            if (unit[1] == "each") time /= unit[2]
            if (time < 10000) return sprintf("%.0f ns", time)
            if (time < 10000000) return sprintf("%.1f µs", time / 1000)
            if (time < 10000000000) return sprintf("%.0f ms", time / 1000000)
            return sprintf("%.1f s", time / 1000000000)
        }
        # printf pads by bytes, and µ has two.
        function padded(text, width) { return sprintf("%" (width + (text ~ /µ/)) "s", text) }
        { for (i = 1; i <= NF; i++) times[i, NR] = $i }
        END {
            split(amount, unit, " ")
            split(goal, limit, " ")
            count = split(peers, name, " ")
            for (n = 1; n <= NR; n++) list[n] = times[1, n]
            own = sorted_middle(list, NR)
            printf "{\"row\":\"%s\",\"title\":\"%s\",\"goal\":\"%s\",\"runs\":%d,\"cove_ns\":%.0f,\"peers\":[", row, \
                title, goal, NR, own >>json
            printf "%-9s %s\n", row, title
            for (p = 1; p <= count; p++) {
                for (n = 1; n <= NR; n++) list[n] = times[p + 1, n]
                peer = sorted_middle(list, NR)
                for (n = 1; n <= NR; n++) {
                    list[n] = goal == "" || limit[1] ~ "<=" ? times[1, n] / times[p + 1, n] : times[p + 1, n] / times[1, n]
                }
                ratio = sorted_middle(list, NR)
                if (name[p] == "other") ratio = own / peer
                verdict = ""
                if (p == 1 && goal == "") reached = 1
                else if (p == 1 && limit[1] == "+<=") {
                    reached = own - peer <= limit[2]
                    verdict = sprintf("+ %s, <= %s %s", shown(own - peer), shown(limit[2]), reached ? "reached" : "MISSED")
                } else if (p == 1 && limit[3] == "s") {
                    reached = own <= limit[2] * 1000000000
                    verdict = sprintf("%s %s", goal, reached ? "reached" : "MISSED")
                } else if (p == 1) {
                    reached = limit[1] == "<=" ? ratio <= limit[2] : ratio >= limit[2]
                    verdict = sprintf("%s %-5s %s", limit[1], limit[2], reached ? "reached" : "MISSED")
                }
                printf "          %s  %-12s %s  %7.2f  %-13s %s\n", padded(shown(own), 11), name[p], \
                    padded(shown(peer), 11), ratio, sprintf("%.2f-%.2f", list[1], list[NR]), verdict
                printf "%s\t%s\t%s\t%.0f\t%s\t%s\t%.0f\t%s\t%.3f\t%s\n", now, commit, row, own, shown(own), name[p], peer, \
                    shown(peer), ratio, verdict >>kept
                printf "%s{\"name\":\"%s\",\"ns\":%.0f,\"ratio\":%.3f,\"least\":%.3f,\"most\":%.3f}", \
                    (p > 1 ? "," : ""), name[p], peer, ratio, list[1], list[NR] >>json
            }
            printf "],\"reached\":%s}\n", reached ? "true" : "false" >>json
        }' >&"$table"
}
