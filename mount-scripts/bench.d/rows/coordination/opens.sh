# shellcheck shell=bash disable=SC2034,SC2154
count=$(scaled 50000)
title="$count times open and close while a program presents another file, and while none does"
peers='alone'
goal='>= 0.95'
amount="each $count"
own_source=1
fill() { echo x >"$1/file" && echo x >"$1/other"; }
prepare() {
    [ "$1" = cove ] || return 0
    "$drive" present "${root[$1]}" other >"$work/presenting" &
    until grep -qs ready "$work/presenting"; do sleep 0.02; done
}
run() { "$drive" opens "${root[$1]}/file" "$count"; }
