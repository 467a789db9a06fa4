import CoveCore
import CoveTestSupport
import Foundation
import Testing

extension Mounted {
    /// Moves into an account and out of it by the command; the numbers are those of the acceptance checklist.
    struct UbiquitousTests {
        private struct Moved: Decodable {
            var items: Int
            var bytes: Int
        }

        /// Makes a tree at a place.
        private static let tree = """
            make() { mkdir -p "$1/d"; printf one > "$1/f"; head -c 2000000 /dev/zero > "$1/d/big"; ln -s ../f "$1/d/l"; }
            same() { [ "$(cd "$1"; find . | LC_ALL=C sort)" = "$(printf '.\\n./d\\n./d/big\\n./d/l\\n./f')" ] \\
                && [ "$(cat "$1/f")" = one ] && [ $(stat -c %s "$1/d/big") = 2000000 ] && [ $(readlink "$1/d/l") = ../f ]; }
            """

        @Test func `67. on moves a local file in, and off moves it out with its contents`() async throws {
            try await mounted(options: "settle=50ms") { account in
                try account.shell(
                    "echo text > $tmp/local; touch -d '2020-01-02 03:04:05' $tmp/local; chmod 640 $tmp/local"
                )
                let moved = try account.cove("ubiquitous on $tmp/local $mnt/letter", as: Moved.self)
                #expect(moved.items == 1 && moved.bytes == 5)
                #expect(try account.shell("cat letter; ls $tmp | grep -c local || true") == "text\n0\n")
                #expect(try account.shell("stat -c '%a %Y' letter") == "640 1577934245\n")
                #expect(try account.shell("getfattr --only-values -n user.cove.is-ubiquitous letter") == "1")
                try account.expectSame()
                // What is in the cloud alone is fetched first.
                try account.shell("$COVE evict letter")
                #expect(try account.info("letter").state == "dataless")
                try account.shell("$COVE ubiquitous off letter $tmp/back")
                #expect(try account.shell("cat $tmp/back; stat -c '%a %Y' $tmp/back; ls") == "text\n640 1577934245\n")
                try account.expectSame()
                // Folders, too.
                try account.shell(
                    """
                    \(Self.tree)
                    make $tmp/t; $COVE ubiquitous on $tmp/t t; same t; [ ! -e $tmp/t ]; $COVE sync --wait; $COVE evict t
                    $COVE ubiquitous off t $tmp/u; same $tmp/u; [ ! -e t ]
                    """
                )
                try account.expectSame()
            }
        }

        @Test func `67. a destination that is there is refused, and a wrong side`() async throws {
            try await mounted { account in
                try account.shell("echo own > here; echo other > $tmp/local; echo out > $tmp/out")
                try account.expectRefusal(
                    "$COVE ubiquitous on $tmp/local here",
                    "here: something is there already; choose another name"
                )
                try account.expectRefusal(
                    "$COVE ubiquitous off here $tmp/out",
                    "$tmp/out: something is there already; choose another name"
                )
                try account.expectRefusal(
                    "$COVE ubiquitous on here there",
                    "here: it is in an account already; move it with mv, or name something outside of Cove's mounts"
                )
                try account.expectRefusal(
                    "$COVE ubiquitous on $tmp/local $tmp/new",
                    "$tmp/new: it is in no account; name a place inside a Cove mount"
                )
                try account.expectRefusal(
                    "$COVE ubiquitous off $tmp/local $tmp/new",
                    "$tmp/local: it is in no account; name something inside a Cove mount"
                )
                try account.expectRefusal(
                    "$COVE ubiquitous off here there",
                    "there: it is in an account; name a place outside of Cove's mounts"
                )
                try account.expectRefusal(
                    "$COVE ubiquitous on $tmp/none there",
                    "$tmp/none: no such item; check the name"
                )
                #expect(try account.shell("cat here $tmp/local $tmp/out; ls") == "own\nother\nout\nhere\n")
            }
        }

        @Test func `67. nothing is lost when it is killed, wherever that is`() async throws {
            try await mounted(options: "settle=50ms") { account in
                let source = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent(
                    "cut.c"
                )
                let library = account.scratch.appending("cut.so")
                try Command.run("gcc", ["-O1", "-shared", "-fPIC", "-o", library, source.path, "-ldl"])
                var ends: [Int] = []
                for into in [true, false] {
                    let (from, to, word) = into ? ("$tmp/t", "$mnt/t", "on") : ("$mnt/t", "$tmp/t", "off")
                    try account.shell("\(Self.tree)\nmake \(from)")
                    for number in 1..<200 {
                        let outcome = try account.shell(
                            """
                            \(Self.tree)
                            status=0
                            LD_PRELOAD=\(library) COVE_CUT_AT=\(number) $COVE ubiquitous \(word) \(from) \(to) || status=$?
                            if same \(to); then
                                # At its new place it is whole, and what is left of the old one is a part of that.
                                rm -rf \(from); echo "done $status"
                            else
                                [ ! -e \(to) ]; same \(from); echo "kept $status"
                            fi
                            """
                        )
                        if outcome.hasPrefix("kept") {
                            #expect(outcome == "kept 137\n")
                            continue
                        }
                        if outcome == "done 0\n" {
                            ends.append(number)
                            break
                        }
                        #expect(outcome == "done 137\n")
                        // Once more, from the start.
                        try account.shell("\(Self.tree)\nrm -rf \(to); make \(from)")
                    }
                    try account.shell("rm -rf \(to)")
                }
                // Many different moments were tried, and the last one was none.
                #expect(ends.count == 2 && ends.allSatisfy { $0 > 15 }, "\(ends)")
                #expect(
                    try account.shell(
                        "$COVE sync --wait --accept-local-deletions; ls -A; ls -A $src | grep -v ^.cove || true"
                    ) == ""
                )
            }
        }

        @Test func `what is not here and can't be fetched stays`() async throws {
            try await blocking {
                let server = try TestServer.seaweedFS()
                let line = try FaultProxy(to: server.port)
                let account = try MountedAccount(
                    options: "settle=50ms,stall-limit=1s",
                    address: Cloud.s3Address(line.port)
                )
                try account.start()
                try account.shell("echo text > f")
                try account.settle()
                try account.shell("ls; $COVE evict f")
                line.set { $0.refuses = true }
                line.dropAll()
                let result = try account.start("$COVE ubiquitous off f $tmp/f").wait(deadline: 60)
                #expect(
                    result.status == 1 && result.error.contains("f: the source can't be reached"),
                    "\(result.error)"
                )
                #expect(try account.shell("ls; ls $tmp | grep -c ^f || true") == "f\n0\n")
                line.set { $0.refuses = false }
                try waitUntil("it is fetched again") {
                    try account.start("$COVE ubiquitous off f $tmp/f").wait(deadline: 60).status == 0
                }
                #expect(try account.shell("cat $tmp/f; ls") == "text\n")
                try account.end()
            }
        }
    }
}
