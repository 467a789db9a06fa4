# Sourced by bench: the file systems that are compared. Each shows a source folder, or a server's, at a path.
# shellcheck shell=bash disable=SC2154 # bench sets cove, drive, work

# What a peer shows, once it is started: ${root[PEER]}.
declare -A root=() peer_process=()

# Some are only a number: the least there can be, or a budget.
has_mount() { case "$1" in native | warm | curl | plocate | least | budget) return 1 ;; esac; }

# start_peer PEER SOURCE: Cove and rclone keep everything else below $work.
start_peer() {
    local peer=$1 source=$2 mount=$work/$1/mount program
    root[$peer]=$mount
    ! has_mount "$peer" || mkdir -p "$mount"
    case "$peer" in
    native | warm) root[$peer]=$source ;;
    curl | plocate | least | budget) ;;
    cove) "$cove" mount "${cove_source:-dir://$source}" "$mount" --state "$work/cove/state" ${cove_option:+"$cove_option"} ;;
    builtin) "$cove" mount "$builtin_source" "$mount" --state "$work/builtin/state" ;;
    alone) "$cove" mount "dir://$source" "$mount" --state "$work/alone/state" ;;
    small) "$cove" mount "${small_source:-simulated://?items=1000}" "$mount" --state "$work/small/state" --read-only ;;
    passthrough)
        # Names and attributes stay cached, as with Cove.
        program=$(passthrough_ll)
        "$program" -f -o "source=$source,cache=always" "$mount" >"$work/$peer/log" 2>&1 &
        peer_process[$peer]=$!
        ;;
    rclone)
        rclone mount "${rclone_source:-$source}" "$mount" --config /dev/null --cache-dir "$work/$peer/cache" --vfs-cache-mode full \
            --dir-cache-time 24h --attr-timeout 24h >"$work/$peer/log" 2>&1 &
        peer_process[$peer]=$!
        ;;
    juicefs)
        "$juicefs" format --storage file --bucket "$source/" "sqlite3://$work/juicefs/names.db" bench >"$work/juicefs/log" 2>&1
        "$juicefs" mount --no-usage-report --no-bgjob --cache-dir "$work/juicefs/cache" "sqlite3://$work/juicefs/names.db" "$mount" \
            >>"$work/juicefs/log" 2>&1 &
        peer_process[$peer]=$!
        ;;
    s3fs)
        (umask 077 && echo "ada:$COVE_PASSWORD" >"$work/$peer/login")
        s3fs bench "$mount" -f -o "url=$endpoint,use_path_request_style,endpoint=us-east-1,passwd_file=$work/$peer/login" \
            >"$work/$peer/log" 2>&1 &
        peer_process[$peer]=$!
        ;;
    *) fail "no file system is called $peer" ;;
    esac
    ! has_mount "$peer" || wait_for_mount "$peer" "$mount"
}

stop_peer() {
    local peer=$1 mount=$work/$1/mount
    case "$peer" in
    native | warm | curl | plocate | least | budget) ;;
    cove | builtin | alone | small) "$cove" unmount "$mount" ;;
    *)
        umount "$mount" 2>/dev/null || fusermount3 -u "$mount"
        wait "${peer_process[$peer]}" || true
        ;;
    esac
    ! has_mount "$peer" || rm -rf --one-file-system "${work:?}/$peer"
}

wait_for_mount() {
    local deadline=$((SECONDS + 20))
    until mountpoint -q "$2"; do
        if [ "$SECONDS" -ge "$deadline" ]; then
            cat "$work/$1/log" >&2 || true
            fail "$1 was not mounted within 20 s"
        fi
        sleep 0.05
    done
}

# One of Cove's counters: counter NAME [PEER]
counter() { "$cove" stats --state "$work/${2:-cove}/state" --json | sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"; }

# Waits until a peer has written everything and sent everything.
settle() {
    if [ "$1" = cove ]; then
        "$cove" sync --state "$work/cove/state" --wait --timeout 300 --accept-local-deletions >/dev/null
    elif [ -n "${peer_process[$1]:-}" ]; then
        # It begins to upload five seconds after a file was closed.
        [ "$1" != rclone ] || sleep 6
        await_rest "${peer_process[$1]}"
    fi
    sync -f "${root[$1]}"
    sync -f "$work"
}

# used_ticks PROCESS: what it and its children have taken of the processors, in hundredths of a second.
used_ticks() {
    local process sum=0 fields
    for process in "$1" $(cat "/proc/$1/task/"*/children); do
        # One may end just now.
        read -ra fields <<<"$(sed 's/.*) //' "/proc/$process/stat" 2>/dev/null)" || true
        ((${#fields[@]} > 12)) || continue
        sum=$((sum + fields[11] + fields[12]))
    done
    echo "$sum"
}

# await_rest PROCESS: what another file system still does is not to be measured with the next one, for two minutes at most.
await_rest() {
    local before now end=$((SECONDS + 120))
    now=$(used_ticks "$1")
    while
        before=$now
        sleep 0.5
        now=$(used_ticks "$1")
        ((now - before > 2 && SECONDS < end))
    do :; done
}

# forget_pages PEER: no content of a large file is in memory, neither the peer's nor the disk's. Only those files' pages
# go: a virtual machine whose whole page cache is dropped gives the memory back to its host, and then the host is measured.
forget_pages() { find "${root[$1]}" "$work" -xdev -type f -size +1M -exec "$drive" forget {} +; }

# forget_names PEER: the kernel knows no name and no attributes.
forget_names() {
    if [ -w /proc/sys/vm/drop_caches ]; then
        sync
        echo 2 >/proc/sys/vm/drop_caches
    elif has_mount "$1"; then
        fail "only root can empty the kernel's caches"
    fi
}

# Prints the path of libfuse's example passthrough_ll, built from Debian's source of the installed library.
passthrough_ll() {
    local version cache
    # shellcheck disable=SC2016 # dpkg-query expands it
    version=$(dpkg-query -W -f '${source:Version}' libfuse3-dev)
    cache=${XDG_CACHE_HOME:-$HOME/.cache}/cove-bench/fuse3-$version
    if [ ! -x "$cache/passthrough_ll" ]; then
        mkdir -p "$cache"
        build_passthrough_ll "$version" "$cache" >"$cache/log" 2>&1 || {
            tail -n 20 "$cache/log" >&2
            fail "passthrough_ll could not be built; the log is $cache/log"
        }
    fi
    echo "$cache/passthrough_ll"
}

# build_passthrough_ll VERSION FOLDER: with a source list of our own, made from the machine's.
build_passthrough_ll() (
    set -e
    cd "$2"
    mkdir -p apt/sources apt/lists/partial apt/archives/partial
    for list in /etc/apt/sources.list.d/*.sources; do
        [ -e "$list" ] || continue
        sed 's/^Types:.*/Types: deb-src/' "$list" >"apt/sources/$(basename "$list")"
    done
    for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ -e "$list" ] || continue
        sed -n 's/^deb /deb-src /p' "$list" >"apt/sources/$(basename "$list" .list)-src.list"
    done
    private_apt=(
        -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$PWD/apt/sources"
        -o "Dir::State::Lists=$PWD/apt/lists" -o "Dir::Cache=$PWD/apt" -o APT::Sandbox::User=root
    )
    apt-get "${private_apt[@]}" update || true
    apt-get "${private_apt[@]}" source --download-only "fuse3=$1" ||
        apt-get "${private_apt[@]}" source --download-only fuse3
    mkdir -p source
    tar -xf fuse3_*.orig.tar.* --strip-components=1 -C source "$(tar -tf fuse3_*.orig.tar.?z | head -n 1)example"
    # shellcheck disable=SC2046 # options, separated by spaces
    gcc -O2 source/example/passthrough_ll.c -o passthrough_ll.new $(pkg-config --cflags --libs fuse3) -lpthread
    mv passthrough_ll.new passthrough_ll
    rm -rf apt source fuse3_*
)
