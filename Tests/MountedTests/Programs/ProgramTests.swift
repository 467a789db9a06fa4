import CoveTestSupport
import Testing

extension Mounted {
    /// Programs that ask much of a file system.
    struct ProgramTests {
        @Test func `git works on the mount, and what arrives at the source is a sound repository`() async throws {
            try await mounted { account in
                try account.shell(
                    """
                    export GIT_CONFIG_GLOBAL=$tmp/config
                    set_() { git config --global "$@"; }
                    set_ user.name a; set_ user.email a@b; set_ init.defaultBranch main; set_ safe.directory '*'
                    git init -q repository; cd repository
                    for n in {1..50}; do mkdir -p d$((n % 5)); echo $n > d$((n % 5))/$n; done
                    git add .; git commit -qm one
                    for n in {1..5}; do echo $n >> d1/1; git commit -qam "edit $n"; done
                    git mv d2 renamed; git commit -qm two
                    git checkout -qb branch HEAD~3; echo branch > b; git add b; git commit -qm three
                    git checkout -q main; git merge -q branch -m merge
                    git gc -q; git fsck --strict
                    [ -z "$(git status --porcelain)" ]; [ $(git rev-list --count HEAD) = 9 ]
                    cd ..; git clone -q repository clone; git -C clone fsck; [ $(cat clone/renamed/42) = 42 ]
                    """,
                    deadline: 120
                )
                // What was packed up had been sent, on a slow machine.
                _ = try account.cove("sync --accept-local-deletions")
                try account.expectSame()
                try account.shell(
                    """
                    export GIT_CONFIG_GLOBAL=$tmp/config
                    git -C $src/repository fsck; [ $(git -C $src/clone rev-list --count HEAD) = 9 ]
                    """
                )
            }
        }

        @Test(arguments: ["wal", "delete", "persist", "truncate"])
        func `a database is sound in each mode, here and at the source`(mode: String) async throws {
            try await mounted { account in
                try account.shell(
                    """
                    sqlite3 db 'PRAGMA journal_mode=\(mode)' 'CREATE TABLE t(n INTEGER PRIMARY KEY, x BLOB)'
                    insert='INSERT INTO t(x) VALUES(randomblob(3000))'
                    add() { for n in {1..30}; do sqlite3 -cmd '.timeout 20000' db "$insert"; done; }
                    add & one=$!; add & two=$!; wait $one; wait $two
                    sqlite3 db 'BEGIN; DELETE FROM t WHERE n > 50; ROLLBACK'
                    sqlite3 db 'SELECT count(*) FROM t; PRAGMA integrity_check' | diff - <(printf '60\\nok\\n')
                    sqlite3 db VACUUM
                    """
                )
                try account.settle()
                #expect(
                    try account.shell("sqlite3 $src/db 'SELECT count(*) FROM t; PRAGMA integrity_check'") == "60\nok\n"
                )
            }
        }

        @Test func `a shared mapping writes, and read(2) and the source see it`() async throws {
            try await mounted { source in
                try source.save("doc", [UInt8](repeating: 65, count: 1_000_000))
            } _: { account in
                try account.shell(
                    """
                    python3 - <<'END'
                    import mmap, os
                    f = open("doc", "r+b")
                    m = mmap.mmap(f.fileno(), 0)
                    assert m[999_999] == 65
                    m[500_000:500_005] = b"hello"
                    assert os.pread(f.fileno(), 5, 500_000) == b"hello"
                    os.pwrite(f.fileno(), b"again", 600_000)
                    assert m[600_000:600_005] == b"again"
                    f.truncate(1_500_000)
                    m.resize(1_500_000)
                    m[1_499_999] = 66
                    m.flush()
                    f.close()
                    m[0:5] = b"later"
                    m.close()
                    expected = bytearray(b"A" * 1_000_000 + bytes(499_999) + b"B")
                    for at, text in (0, b"later"), (500_000, b"hello"), (600_000, b"again"): expected[at:at + 5] = text
                    assert open("doc", "rb").read() == expected
                    END
                    """
                )
                try account.expectSame()
                #expect(try account.shell("stat -c %s $src/doc; head -c 5 $src/doc") == "1500000\nlater")
            }
        }

        @Test func `LibreOffice converts there and back`() async throws {
            try await mounted { source in
                try source.save("letter.txt", Array("Dear Ada,\nthe tea is ready.\n".utf8))
            } _: { account in
                try account.shell(
                    """
                    office="soffice -env:UserInstallation=file://$tmp/office --headless"
                    convert() { $office --convert-to "$@" >/dev/null; }
                    convert odt letter.txt; convert docx letter.odt; rm letter.txt
                    convert pdf letter.docx; convert txt:Text letter.docx
                    [ "$(head -c 5 letter.pdf)" = %PDF- ]; file letter.odt | grep -q OpenDocument
                    tr -d '\\357\\273\\277\\r' < letter.txt | diff - <(printf 'Dear Ada,\\nthe tea is ready.\\n')
                    [ "$(echo *)" = "letter.docx letter.odt letter.pdf letter.txt" ]
                    """,
                    deadline: 150
                )
                try account.expectSame()
            }
        }

        @Test func `a project is built by make and gcc and runs`() async throws {
            try await mounted { account in
                try account.shell(
                    """
                    for n in {1..12}; do echo "int f$n(void) { return $n; }" > f$n.c; done
                    for n in {1..12}; do echo "int f$n(void);"; done > main.c
                    echo 'int main(void) { return f1() + f12(); }' >> main.c
                    { printf 'program: main.o'; printf ' f%d.o' {1..12}; printf '\\n\\tgcc -o $@ $^\\n'; } > Makefile
                    printf '%%.o: %%.c\\n\\tgcc -c -o $@ $<\\n' >> Makefile
                    make -s -j4; ./program && exit 1 || [ $? = 13 ]
                    make -q; touch f3.c; make -q && exit 1; make -s; make -q
                    ar rcs library.a *.o; gcc -o other main.o library.a; ./other || [ $? = 13 ]
                    """
                )
                try account.expectSame()
            }
        }

        @Test(arguments: ["psync", "mmap", "libaio --direct=1"]) func `fio reads what it wrote`(engine: String)
            async throws
        {
            try await mounted { account in
                try account.shell(
                    """
                    fio --name=job --directory=. --rw=randrw --bsrange=512-64k --size=16M --numjobs=2 --randseed=7 \
                        --ioengine=\(engine) --verify=crc32c --verify_fatal=1 --do_verify=1 --end_fsync=1 \
                        --fallocate=none
                    """
                )
                try account.expectSame()
            }
        }

        @Test func `stress-ng finds nothing wrong`() async throws {
            try await mounted { account in
                try account.shell(
                    """
                    stressors=(
                        "dentry 2000" "rename 500" "link 1" "dir 200" "chmod 50" "chown 200" "fstat 500" "utime 200"
                        "fallocate 20" "flock 500" "fcntl 100" "open 200" "filename 100" "xattr 1" "seek 500"
                    )
                    arguments=(--fallocate-bytes 4M --dentries 200 --dir-dirs 100 --seek-size 2M)
                    for stressor in "${stressors[@]}"; do
                        read -r name count <<< "$stressor"
                        arguments+=("--$name" 1 "--$name-ops" "$count")
                    done
                    stress-ng --temp-path . --verify --timeout 40 "${arguments[@]}" 2>&1
                    stress-ng --temp-path . --verify --timeout 40 --copy-file 1 --copy-file-ops 20 2>&1
                    [ -z "$(ls -A)" ]
                    $COVE sync --wait --accept-local-deletions --state $STATE
                    """,
                    deadline: 200
                )
                try account.expectSame()
            }
        }
    }
}
