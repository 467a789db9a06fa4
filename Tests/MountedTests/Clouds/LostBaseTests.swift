import CoveTestSupport
import Foundation
import Testing

extension MountedInCompany {
    /// Files whose bytes are only at a source, where another device puts others in their place.
    struct LostBaseTests {
        /// A change of the file `f`, which has 20000 bytes.
        struct Change: Sendable {
            let script: String
            /// The size after it.
            let size: Int
            /// What the file, or a copy of it, begins with at the end; one of these.
            var kept: [String] = []
            /// The kernel may have to read what is in the way of it.
            var needsBytes = false

            static let all = [
                Change(script: "truncate -s 5 f", size: 5),
                Change(script: "truncate -s 30000 f", size: 30000),
                Change(script: "fallocate -l 30000 f", size: 30000),
                Change(
                    script: "head -c 4096 /dev/zero | tr '\\0' b | dd of=f bs=4096 seek=1 conv=notrunc status=none",
                    size: 20000,
                    kept: [": b", ": ab"]
                ),
                Change(script: "echo more >> f", size: 20005, kept: [": more", ": amore"], needsBytes: true),
                Change(script: "echo other > g; mv g f", size: 6, kept: [": other"]),
                Change(script: "python3 -c 'import os; os.truncate(\"f\", 5)'", size: 5),
            ]
        }

        /// What keeps a device from hearing of another one's change, or from sending its own.
        enum Absence: CaseIterable, Sendable { case silence, pause }

        @Test(arguments: Absence.allCases)
        func `a change of a file whose bytes are gone at the source ends, and all that is left can be read`(
            absence: Absence
        ) async throws {
            // Each in a folder of its own, and all at once.
            let changes = Change.all.enumerated().map { (folder: "c\($0.offset)", change: $0.element) }
            let folders = changes.map(\.folder).joined(separator: " ")
            try await devices(.apache) { here, there, proxy in
                try here.shell("for c in \(folders); do mkdir $c; head -c 20000 /dev/zero | tr '\\0' a > $c/f; done")
                try here.settle()
                try there.settle()
                let seen = "for c in \(folders); do ls $c; stat -c '%s %b' $c/f; done"
                #expect(try there.shell(seen) == String(repeating: "f\n20000 1\n", count: changes.count))
                let rewriting = "for c in \(folders); do echo rewritten > $c/f; done"
                switch absence {
                case .silence:
                    proxy.set { $0.isSilent = true }
                    proxy.dropAll()
                    try here.shell(rewriting)
                    try here.settle()
                case .pause: try there.shell("$COVE pause --state $STATE")
                }
                let programs = try changes.map { try there.start("cd \($0.folder); \($0.change.script)") }
                var made: [Bool] = []
                for (program, (_, change)) in zip(programs, changes) {
                    let result = try program.wait(deadline: 60)
                    made.append(result.status == 0)
                    // The rest of a page that is not here can't be read from a server that is silent.
                    let mayFail = change.needsBytes && absence == .silence
                    #expect(result.status == 0 || mayFail, "\(change.script): \(result)")
                }
                for (isMade, (folder, change)) in zip(made, changes) where isMade {
                    #expect(try there.shell("stat -c %s \(folder)/f") == "\(change.size)\n", "\(change.script)")
                }
                switch absence {
                case .silence:
                    proxy.set { $0.isSilent = false }
                    proxy.dropAll()
                case .pause:
                    try here.shell(rewriting)
                    try here.settle()
                    try there.shell("$COVE resume --state $STATE")
                }
                try expectSame(here, there)
                for (isMade, (folder, change)) in zip(made, changes) {
                    let texts = try there.shell(
                        "cd \(folder); for f in *; do echo \"$f: $(tr -d '\\0' < \"$f\" | tr -s ab | head -c 9)\"; done"
                    )
                    #expect(texts.contains(": rewritten"), "\(change.script): \(texts)")
                    guard isMade, !change.kept.isEmpty else { continue }
                    #expect(change.kept.contains { texts.contains($0) }, "\(change.script): \(texts)")
                }
                let status = try there.shell("$COVE status --state $STATE")
                #expect(!status.contains("error"), "\(status)")
            }
        }

        @Test(arguments: SharedSource.all)
        func `a file that another device has just replaced is opened, cut and read as it is now`(
            source: SharedSource
        ) async throws {
            try await source.devices(options: "poll=1h,settle=50ms,log=debug") { here, there, _ in
                try here.shell("for f in a b c; do echo old > $f; done")
                try here.settle()
                try there.settle()
                #expect(try there.shell("stat -c %s a b c") == "4\n4\n4\n")
                try here.shell("for f in a b; do echo much newer > $f; done; rm c")
                try here.settle()
                #expect(try there.shell("cat a 2>&1 || true") == "much newer\n")
                try there.shell("truncate -s 4 b; ! cat c 2> $tmp/error")
                let error = try there.shell("cat $tmp/error")
                #expect(error.contains("No such file"), "\(error)")
                try expectSame(here, there)
                #expect(try here.shell("cat b; ls") == "mucha\nb\n")
            }
        }

        @Test(arguments: SharedSource.all)
        func `calls by name find what is there, whatever another device does with it`(
            source: SharedSource
        ) async throws {
            let seed = UInt64.random(in: 0..<1_000_000)
            print("calls by name, \(source): seed \(seed)")
            try await source.devices { here, there, _ in
                try here.shell("mkdir d; for f in a b c d/a d/b; do echo first > $f; done")
                try here.settle()
                try there.settle()
                let changing = try here.start("python3 -c '\(Self.randomly)' \(seed) forever || echo failed")
                let calls = try there.start("python3 -c '\(Self.randomly)' \(seed + 1) 400").wait(deadline: 120)
                try here.shell("touch $tmp/end")
                let changes = try changing.wait(deadline: 60)
                #expect(calls.status == 0 && calls.output == "done\n", "seed \(seed): \(calls)")
                #expect(changes.status == 0 && changes.output == "done\n", "seed \(seed): \(changes)")
            }
        }

        /// Calls by name at random, until there were so many, or somebody says that it is enough; prints which are `ESTALE`.
        private static let randomly = """
            import errno, os, random, sys
            r = random.Random(int(sys.argv[1]))
            names = ["a", "b", "c", "d/a", "d/b", "e/a", "e/b"]
            def write(f, flags):
                fd = os.open(f, os.O_WRONLY | flags, 0o644)
                try: os.write(fd, r.choice([b"x", b"longer text"]))
                except OSError as e:
                    if e.errno != errno.ESTALE: raise
                finally: os.close(fd)
            def read(f):
                fd = os.open(f, os.O_RDONLY)
                os.close(fd)
            def move(f):
                os.rename(f, r.choice(names))
            def save(f):
                write(f + ".new", os.O_CREAT | os.O_EXCL)
                os.rename(f + ".new", f)
            def rename(f):
                os.rename(*r.choice([("d", "e"), ("e", "d")]))
            calls = {"stat": os.stat, "read": read, "append": lambda f: write(f, os.O_APPEND), "create": lambda f:
                write(f, os.O_CREAT | os.O_TRUNC), "save": save, "unlink": os.unlink, "move": move, "rename": rename}
            count = 0
            while count != 400 if sys.argv[2] != "forever" else not os.path.exists(os.environ["tmp"] + "/end"):
                count += 1
                call, f = r.choice(sorted(calls)), r.choice(names)
                try: calls[call](f)
                except OSError as e:
                    if e.errno == errno.ESTALE: print("ESTALE", call, f)
            print("done")
            """
    }
}
