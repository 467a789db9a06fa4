# shellcheck shell=bash disable=SC2034,SC2154
# Listings through a provider's process, of a folder on this disk: what the process and the protocol cost.
count=$(scaled 50000)
title="first listing of a folder of $count entries through a provider's process"
peers=builtin
goal="<= $((count / 10000)) s"
amount="each $count"
most_runs=3

fill() {
    local number
    for ((number = 0; number <= runs && number <= most_runs; number++)); do
        mkdir "$1/folder-$number"
        "$drive" create "$1/folder-$number" "$count" 0 >/dev/null
    done
    printf '#!/bin/sh\nexec "%s" provider serve dir://%s\n' "$cove" "$1" >"$work/program"
    chmod 700 "$work/program"
    cove_source=exec:$work/program builtin_source=dir://$1
}
run() { "$drive" run ls -f "${root[$1]}/folder-$round"; }
