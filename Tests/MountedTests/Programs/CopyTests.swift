import CoveCore
import CoveTestSupport
import Testing

extension Mounted {
    /// Programs that copy and move trees.
    struct CopyTests {
        private static let makeTree = """
            look() { (cd $1; find . -type d -printf '%P %y %m %T@\\n' -o -printf '%P %y %m %T@ %s %l\\n' | sort); }
            mkdir -p $tmp/tree/{a/b/c,e}
            head -c 300000 /dev/urandom > $tmp/tree/a/big
            echo one > $tmp/tree/a/b/one; ln -s ../a/big $tmp/tree/e/link; : > "$tmp/tree/e/empty name é"
            chmod 751 $tmp/tree/a; chmod 640 $tmp/tree/a/b/one
            find $tmp/tree -depth -exec touch -h -d 2001-02-03T04:05:06.789012345 {} +

            """

        @Test(arguments: [
            "cp -a $tmp/tree copy", "rsync -a $tmp/tree/ copy",
            "tar -C $tmp --format=posix -cf - tree | tar -xf - && mv tree copy",
        ])
        func `a tree that is copied in has the same bytes, dates and modes`(script: String) async throws {
            try await mounted { account in
                try account.shell(
                    Self.makeTree + script + """

                        diff -r --no-dereference $tmp/tree copy
                        diff <(look $tmp/tree) <(look copy)
                        """
                )
                try account.expectSame()
                try account.shell(
                    """
                    look() { (cd $1; find . -type f -printf '%P %m %T@ %s\\n' | sort); }
                    diff <(look copy) <(look $src/copy)
                    """
                )
            }
        }

        @Test func `what moves is one move upstream, and comes from elsewhere whole`() async throws {
            try await mounted { account in
                try account.shell(Self.makeTree + "cp -a $tmp/tree one")
                try account.settle()
                let before = try account.statistics()
                let document = try account.info("one/a/big").documentID
                try account.shell("mv one two; mv two/a/big big; mkdir three; mv two three/; mv $tmp/tree four")
                try account.expectSame()
                try account.shell("[ ! -e one ]; [ ! -e $src/one ]; [ -e three/two/a/b/one ]; [ ! -e $tmp/tree ]")
                let after = try account.statistics()
                #expect(try account.info("big").documentID == document)
                #expect(after.deletions == before.deletions)
                #expect(after.bytesUploaded - before.bytesUploaded < 400_000)
            }
        }

        @Test(arguments: ["cp", "cp --sparse=always", "tar -S", "rsync -S"])
        func `what a program has just written is no hole for those who copy it`(copier: String) async throws {
            try await mounted { account in
                try account.shell(
                    """
                    python3 - \(copier) <<'END'
                    import os, subprocess, sys
                    file = os.open("doc", os.O_CREAT | os.O_RDWR)
                    os.write(file, b"x" * 3_000_000)
                    os.fsync(file)
                    os.write(file, b"y" * 1_000_000)
                    assert os.lseek(file, 3_500_000, os.SEEK_DATA) == 3_500_000
                    assert os.lseek(file, 0, os.SEEK_HOLE) == 4_000_000
                    os.write(file, b"z" * 1_000_000)
                    target = os.environ["tmp"] + "/copy"
                    if sys.argv[1] == "tar":
                        subprocess.run(f"tar -Scf - doc | tar -xOf - > {target}", shell=True, check=True)
                    else:
                        subprocess.run(sys.argv[1:] + ["doc", target], check=True)
                    assert open(target, "rb").read() == b"x" * 3_000_000 + b"y" * 1_000_000 + b"z" * 1_000_000
                    END
                    """
                )
                try account.expectSame()
            }
        }

        @Test func `rsync updates and backs up what changed`() async throws {
            try await mounted { account in
                try account.shell(
                    """
                    mkdir $tmp/tree; for n in 1 2 3 4; do echo $n > $tmp/tree/$n; done
                    rsync -a $tmp/tree/ .
                    """
                )
                try account.expectSame()
                try account.shell(
                    """
                    for n in 1 2; do echo changed $n > $tmp/tree/$n; done; rm $tmp/tree/3
                    rsync -ab --suffix=.bak --delete --exclude='*.bak' $tmp/tree/ .
                    [ "$(echo *)" = "1 1.bak 2 2.bak 3.bak 4" ]
                    [ "$(cat 1 1.bak 2 2.bak 3.bak 4)" = "$(printf 'changed 1\\n1\\nchanged 2\\n2\\n3\\n4')" ]
                    rsync -rci $tmp/tree/ . > $tmp/left; [ ! -s $tmp/left ]
                    """
                )
                try account.expectSame()
            }
        }
    }
}
