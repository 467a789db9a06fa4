import CoveCore
import CoveEngine
import CoveProviders
import CoveTestSupport
import Foundation
import Testing

/// The disk of the state is full, read-only, or fails.
@Suite struct DiskTests {
    private static let reserve: Int64 = 12 << 20

    /// An account whose state is on a small disk; its source has one file of 3 MB.
    private func account(options: String = "") throws -> (LoopDisk, EngineAccount, TemporaryDirectory) {
        let place = try TemporaryDirectory("cove-disk")
        let disk = try LoopDisk(in: place.path, megabytes: 96, options: options)
        let account = try EngineAccount(states: disk.path) {
            $0.reserve = Self.reserve
            $0.openFileRest = .milliseconds(200)
        }
        try SourceFolder(account.source).save("there", Self.bytes(3 << 20, seed: 1))
        #expect(try account.tree.list("") == ["there": .file])
        return (disk, account, place)
    }

    private static func bytes(_ count: Int, seed: UInt64) -> [UInt8] {
        var random = SeededGenerator(seed: seed)
        return random.bytes(count)
    }

    /// Takes all room of a disk but so many bytes.
    private func fill(_ disk: LoopDisk, leaving rest: Int64) throws {
        let file = try System.open("\(disk.path)/filler", O_RDWR | O_CREAT)
        defer { System.close(file) }
        let status = try System.fileSystem(file)
        let free = Int64(status.f_bavail) * Int64(status.f_frsize)
        try System.fallocate(file, mode: 0, offset: 0, length: free - rest)
    }

    private func free(_ disk: LoopDisk) throws { try System.unlink("\(disk.path)/filler") }

    private func hasProblem(_ account: EngineAccount, _ text: String) async -> Bool {
        let isShown = account.engine.accountStatus().errors.contains { $0.path == "/" && $0.message.contains(text) }
        let findings = await account.engine.diagnose()
        return isShown && findings.contains { $0.check == "state disk" && $0.level == "problem" }
    }

    private func close(_ disk: LoopDisk, _ account: EngineAccount) async throws {
        try await account.settle()
        #expect(try SourceFolder(account.source).snapshot().keys.sorted() == account.tree.list("").keys.sorted())
        await account.stop()
        #expect(try account.repair().findings == [])
        #expect((try? System.lstat("\(account.state)/reserve")) == nil)
    }

    @Test func `a full disk takes what was accepted from its reserve, and nothing else begins`() async throws {
        try await blocking {
            let (disk, account, place) = try account()
            #expect(try System.lstat("\(account.state)/reserve").st_blocks * 512 >= Self.reserve)
            try account.tree.write("before", Self.bytes(1000, seed: 2))
            try await account.settle()
            try account.engine.setPinned(RemotePath(unchecked: Array("before".utf8)), true)
            let open = try account.engine.create(
                .root,
                Array("open".utf8),
                mode: 0o100644,
                flags: O_RDWR,
                account.tree.caller
            ).id
            try fill(disk, leaving: 7 << 20)
            // What the kernel holds back by now is no more than the reserve.
            let bytes = Self.bytes(9 << 20, seed: 3)
            for start in stride(from: 0, to: bytes.count, by: 1 << 17) {
                try account.tree.write(open, at: Int64(start), Array(bytes[start..<(start + 1 << 17)]))
            }
            #expect(throws: Errno.noSpace) { try account.tree.write("new", [1]) }
            #expect(throws: Errno.noSpace) { try account.tree.open("before") }
            #expect(throws: Errno.noSpace) { try account.tree.read("there") }
            #expect(try account.tree.read("before") == Self.bytes(1000, seed: 2))
            #expect(await hasProblem(account, "is full"))
            try account.tree.rename("before", "after")
            try account.tree.close(open)
            #expect(try account.tree.read("open") == bytes)
            try free(disk)
            try waitUntil("files can be written again") { (try? account.tree.write("new", [1])) != nil }
            #expect(try System.lstat("\(account.state)/reserve").st_blocks * 512 >= Self.reserve)
            // What could not be sent meanwhile is tried again.
            try waitUntil("no error is left") { account.engine.accountStatus().errors.isEmpty }
            #expect(try account.tree.read("there") == Self.bytes(3 << 20, seed: 1))
            try await close(disk, account)
            #expect(try SourceFolder(account.source).snapshot()["open"] == bytes)
            withExtendedLifetime(place) {}
        }
    }

    @Test func `on a disk with no room at all a write is refused whole, and what was accepted is kept`() async throws {
        try await blocking {
            let (disk, account, place) = try account()
            let open = try account.engine.create(
                .root,
                Array("open".utf8),
                mode: 0o100644,
                flags: O_RDWR,
                account.tree.caller
            ).id
            // What was sent would be evicted.
            await account.engine.pause()
            try fill(disk, leaving: 1 << 20)
            let bytes = Self.bytes(40 << 20, seed: 3)
            var accepted = 0
            var refusal: Errno?
            while accepted < bytes.count, refusal == nil {
                do throws(Errno) {
                    try account.tree.write(open, at: Int64(accepted), Array(bytes[accepted..<(accepted + 1 << 17)]))
                    accepted += 1 << 17
                } catch {
                    refusal = error
                }
            }
            #expect(refusal == .noSpace)
            #expect(accepted > 6 << 20)
            // Names and sizes have room yet.
            try account.engine.fsync(open, dataOnly: false)
            try account.tree.close(open)
            try account.tree.makeDirectory("d")
            try account.tree.rename("open", "d/renamed")
            #expect(try account.tree.read("d/renamed") == Array(bytes[..<accepted]))
            try account.tree.unlink("there")
            // A restart needs no room either.
            await account.stop()
            try account.reopen()
            #expect(try account.tree.size("d/renamed") == Int64(accepted))
            try free(disk)
            try waitUntil("files can be written again") { (try? account.tree.write("new", [1])) != nil }
            #expect(try account.tree.read("d/renamed") == Array(bytes[..<accepted]))
            try await account.settle()
            #expect(try SourceFolder(account.source).snapshot()["d/renamed"] == Array(bytes[..<accepted]))
            await account.stop()
            withExtendedLifetime(place) {}
        }
    }

    @Test func `clean content makes room for what is written`() async throws {
        try await blocking {
            let (disk, account, place) = try account()
            try account.tree.write("sent", Self.bytes(20 << 20, seed: 4))
            try await account.settle()
            try fill(disk, leaving: 5 << 20)
            try waitUntil("there is room") { (try? account.tree.write("new", Self.bytes(1 << 20, seed: 5))) != nil }
            try waitUntil("the content goes") {
                try account.engine.item(at: RemotePath(unchecked: Array("sent".utf8))).state == "dataless"
            }
            try free(disk)
            try waitUntil("it can be read again") { (try? account.tree.read("sent")) == Self.bytes(20 << 20, seed: 4) }
            try await close(disk, account)
            withExtendedLifetime(place) {}
        }
    }

    @Test func `a disk that became read-only is read, and told of`() async throws {
        try await blocking {
            let (disk, account, place) = try account(options: "errors=remount-ro")
            try account.tree.write("here", Self.bytes(100_000, seed: 6))
            try account.engine.fsync(try account.tree.resolve("here"), dataOnly: false)
            try disk.becomeReadOnly()
            #expect(throws: Errno.readOnly) { try account.tree.write("new", [1]) }
            #expect(throws: Errno.readOnly) { try account.tree.rename("here", "elsewhere") }
            #expect(try account.tree.read("here") == Self.bytes(100_000, seed: 6))
            #expect(try account.tree.list("") == ["there": .file, "here": .file])
            #expect(await hasProblem(account, "can't be written to"))
            let requests = account.engine.statistics().providerRequests
            #expect(throws: (any Error).self) { try account.tree.write("here", [1]) }
            #expect(account.engine.statistics().providerRequests - requests < 5)
            await account.stop()
            withExtendedLifetime(place) {}
        }
    }

    @Test func `a disk that fails takes nothing more and sends nothing more`() async throws {
        try await blocking {
            let (disk, account, place) = try account()
            try account.tree.write("here", Self.bytes(100_000, seed: 6))
            try await account.settle()
            await account.engine.pause()
            let id = try account.tree.open("here")
            try account.tree.write(id, at: 0, [1, 2, 3])
            try disk.fail()
            #expect(throws: Errno.inputOutput) { try account.engine.fsync(id, dataOnly: false) }
            #expect(throws: Errno.inputOutput) { try account.tree.write(id, at: 0, [4]) }
            #expect(throws: Errno.inputOutput) { try account.tree.write("new", [1]) }
            await account.engine.resume()
            // A second sync is no better than the first.
            #expect(throws: Errno.inputOutput) { try account.engine.fsync(id, dataOnly: false) }
            let problems = await account.engine.diagnose().filter { $0.level == "problem" }
            #expect(problems.contains { $0.check == "state disk" && $0.message.contains("fails") })
            account.engine.release(id, flags: O_RDWR)
            await account.stop()
            #expect(try SourceFolder(account.source).snapshot()["here"] == Self.bytes(100_000, seed: 6))
            withExtendedLifetime(place) {}
        }
    }

    @Test func `the state disk was mounted anew in one boot: what was not durable is not trusted`() async throws {
        try await blocking {
            let place = try TemporaryDirectory("cove-disk")
            let state = place.appending("state")
            let source = place.appending("source")
            for path in [state, source] {
                try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
            }
            try SourceFolder(source).save("doc", Self.bytes(1000, seed: 7))
            func open() throws -> EngineTree {
                var configuration = EngineConfiguration(
                    account: "test",
                    source: source,
                    mountpoint: "/nowhere",
                    stateDirectory: state,
                    hostName: "here"
                )
                configuration.reserve = 0
                let provider = FolderProvider(root: source)
                let log = Log(path: nil, echoToStandardError: false)
                let engine = try Engine(configuration: configuration, provider: provider, log: log)
                engine.start(kernel: nil, announcer: nil)
                return EngineTree(engine)
            }
            func isHere(_ tree: EngineTree) throws -> Bool {
                try tree.engine.item(at: RemotePath(unchecked: Array("doc".utf8))).state == "materialized"
            }
            let first = try open()
            #expect(try first.read("doc").count == 1000)
            try waitUntil("that is committed") {
                let question = "SELECT count(*) FROM items WHERE kind = 0 AND resident = 1000"
                return try Command.run("sqlite3", [state + "/catalog.db", question]).output == "1\n"
            }
            // The first ends without a word, as by kill -9: another engine begins on what it left.
            let second = try open()
            #expect(try isHere(second))
            try Command.run("mount", ["--bind", state, state])
            defer { _ = try? Command.run("umount", ["-l", state], mayFail: true) }
            let third = try open()
            #expect(try !isHere(third))
            #expect(try third.read("doc") == Self.bytes(1000, seed: 7))
            await third.engine.stop()
            let fourth = try open()
            #expect(try isHere(fourth))
            await fourth.engine.stop()
        }
    }
}
