# shellcheck shell=bash disable=SC2034,SC2154
verb=${words[1]:-create} clients=${words[2]:-1}
case "$verb" in lookup | getattr | open | read | write | create | unlink) ;; *) fail "no operation is called $verb" ;; esac
count=$(scaled 16000)
title="$count times $verb, $clients clients at once"
peers='passthrough'
goal=''
amount="each $count"
own_source=1
number=0

fill() { :; }
before() {
    folder=${root[$1]}/folder-$((number += 1))
    mkdir "$folder"
    "$drive" clients fill "$folder" "$clients" "$count" >/dev/null
    settle "$1"
    forget_names "$1"
}
run() { "$drive" clients "$verb" "$folder" "$clients" "$count"; }
after() { settle "$1"; }
