# Sourced by the rows of queries, over the large tree; find and plocate look at the same on the native file system.
# shellcheck shell=bash disable=SC2034,SC2154
# shellcheck source=mount-scripts/bench.d/large-tree.sh
. "$here/large-tree.sh"
peers='native plocate'
most_runs=7
install_packages plocate >&2
[ -x "$work/query" ] || gcc -O2 -Wall "$here/query.c" -o "$work/query"

prepare() {
    case "$1" in
    cove) find "${root[$1]}" >/dev/null ;;
    plocate)
        updatedb -l 0 -U "$work/source" -o "$work/plocate.db" --prunepaths '' --prunefs '' --prune-bind-mounts no
        ;;
    esac
}
before() { :; }

# looked_for PEER KIND PREDICATE GLOB
looked_for() {
    case "$1" in
    native) "$drive" run find "${root[$1]}" -name "$4" ;;
    plocate) "$drive" run plocate -d "$work/plocate.db" -b "$4" ;;
    *) "$work/query" "$2" "${root[$1]}" "$3" ;;
    esac
}
