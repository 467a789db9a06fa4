import CoveTestSupport
import Foundation
import Testing

@testable import CoveCore

/// Moves by copies, in one file system: which one the other side is in makes no difference to them.
@Suite struct CrossingMoveTests {
    /// A folder with two others.
    private struct Places {
        let folder: TemporaryDirectory
        let source: String
        let target: String

        init() throws {
            folder = try TemporaryDirectory("crossing")
            (source, target) = (folder.appending("from/thing"), folder.appending("to/moved"))
            for name in ["from", "to"] {
                try FileManager.default.createDirectory(
                    atPath: folder.appending(name),
                    withIntermediateDirectories: false
                )
            }
        }

        /// A tree of all that can be moved.
        func fill() throws {
            let script = """
                mkdir -p "$1/d/e" && cd "$1" && printf text > f && head -c 3000000 /dev/zero > d/big && : > d/e/empty
                ln -s ../f d/link && chmod 640 f && chmod 750 d && touch -d '2001-02-03 04:05:06.5' f d/e/empty d
                printf x > $'odd\\xffname'
                """
            try Command.run("bash", ["-c", script, "-", source])
        }

        /// Everything below a path that can be compared.
        func listing(_ path: String) throws -> String {
            let script = """
                cd "$1" && find . -printf '%p %y %m %l %TY-%Tm-%Td-%TT\\n' | LC_ALL=C sort | grep -v '^\\. ' \\
                    && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum
                """
            return try Command.run("bash", ["-c", script, "-", path]).output
        }

        var names: [String] { (try? FileManager.default.contentsOfDirectory(atPath: folder.appending("to"))) ?? [] }

        func move(_ isCancelled: @escaping () -> Bool = { false }) throws(CrossingMove.Failure) -> CrossingMove.Amount {
            try CrossingMove(from: Array(source.utf8), to: Array(target.utf8), isCancelled: isCancelled).run()
        }
    }

    @Test func `a tree is the same at its new place, and gone at its old one`() async throws {
        try await blocking {
            let places = try Places()
            try places.fill()
            let before = try places.listing(places.source)
            let amount = try places.move()
            #expect(amount == CrossingMove.Amount(items: 8, bytes: 3_000_005))
            #expect(try places.listing(places.target) == before)
            #expect(!FileManager.default.fileExists(atPath: places.source))
            #expect(places.names == ["moved"])
        }
    }

    @Test(arguments: ["printf text > thing", ": > thing", "ln -s nowhere thing", "mkdir thing"])
    func `a single thing is moved`(script: String) async throws {
        try await blocking {
            let places = try Places()
            try Command.run("bash", ["-c", "cd '\(places.folder.path)/from'; \(script)"])
            let before = try System.lstat(places.source)
            #expect(try places.move().items == 1)
            let after = try System.lstat(places.target)
            #expect(after.st_mode == before.st_mode && after.st_mtim.tv_nsec == before.st_mtim.tv_nsec)
            #expect(throws: Errno.noSuchEntry) { _ = try System.lstat(places.source) }
            #expect(places.names == ["moved"])
        }
    }

    @Test(arguments: [true, false])
    func `an access control list goes along, or nobody gets more than before`(keepsLists: Bool) async throws {
        try await blocking {
            let places = try Places()
            let target = places.folder.appending("to")
            // A ramfs has no lists.
            if !keepsLists { try Command.run("mount", ["-t", "ramfs", "none", target]) }
            defer { if !keepsLists { _ = try? Command.run("umount", [target]) } }
            let script = "printf text > thing; chmod 640 thing; setfacl -m u:65534:rw,g::- thing"
            try Command.run("bash", ["-ec", "cd '\(places.folder.path)/from'; \(script)"])
            func list(_ path: String) throws -> String { try Command.run("getfacl", ["-cnpE", path]).output }
            let before = try list(places.source)
            _ = try places.move()
            #expect(try list(places.target) == (keepsLists ? before : "user::rw-\ngroup::---\nother::---\n\n"))
        }
    }

    @Test func `called off anywhere it leaves everything where it was`() async throws {
        try await blocking {
            let places = try Places()
            try places.fill()
            let before = try places.listing(places.source)
            for limit in 0..<1000 {
                var checks = 0
                do {
                    _ = try places.move {
                        checks += 1
                        return checks > limit
                    }
                    #expect(limit > 10 && !FileManager.default.fileExists(atPath: places.source))
                    #expect(try places.listing(places.target) == before)
                    return
                } catch let error as CrossingMove.Failure {
                    #expect(error.errno == .interrupted)
                    #expect(try places.listing(places.source) == before && places.names.isEmpty)
                }
            }
            Issue.record("it never ends")
        }
    }

    @Test func `what is there, what is not, and what can't be moved stays`() async throws {
        try await blocking {
            let places = try Places()
            #expect(throws: CrossingMove.Failure.self) { _ = try places.move() }
            try places.fill()
            try Command.run("mkfifo", [places.source + "/d/fifo"])
            let before = try places.listing(places.source.replacingOccurrences(of: "/thing", with: ""))
            do {
                _ = try places.move()
                Issue.record("it was moved")
            } catch let error as CrossingMove.Failure {
                #expect(
                    error.errno == .notSupported
                        && "\(error)".hasSuffix("d/fifo: only files, folders and links can be moved")
                )
            }
            try Data("other".utf8).write(to: URL(fileURLWithPath: places.target))
            do {
                _ = try places.move()
                Issue.record("it was moved")
            } catch let error as CrossingMove.Failure {
                #expect(error.errno == .exists)
            }
            #expect(try String(contentsOfFile: places.target, encoding: .utf8) == "other")
            #expect(try places.listing(places.source.replacingOccurrences(of: "/thing", with: "")) == before)
            #expect(places.names == ["moved"])
        }
    }

    @Test func `what changes while it is copied is not moved, and a leftover of a crash goes`() async throws {
        try await blocking {
            let places = try Places()
            try places.fill()
            try Command.run("mkdir", ["-p", places.folder.appending("to/.moved.cove-save-0/d")])
            var checks = 0
            do {
                _ = try places.move {
                    checks += 1
                    // Everything has been begun by then.
                    if checks == 12 { try? Data("new".utf8).write(to: URL(fileURLWithPath: places.source + "/d/new")) }
                    return false
                }
                Issue.record("it was moved")
            } catch let error as CrossingMove.Failure {
                #expect(error.errno == .busy)
            }
            #expect(FileManager.default.fileExists(atPath: places.source + "/d/new") && places.names.isEmpty)
            _ = try places.move()
            #expect(FileManager.default.fileExists(atPath: places.target + "/d/new"))
        }
    }
}
