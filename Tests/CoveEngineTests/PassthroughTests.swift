import CoveCore
import CoveEngine
import CoveTestSupport
import Foundation
import Synchronization
import Testing

/// Files that are written to while no daemon sees it.
@Suite struct PassthroughTests {
    /// A kernel that takes every content file, up to a limit.
    private final class Kernel: BackingFiles {
        private let state = Mutex((next: UInt32(1), open: Set<UInt32>()))
        let error: Errno?

        init(error: Errno? = nil) { self.error = error }

        var open: Set<UInt32> { state.withLock { $0.open } }

        func register(_ descriptor: Int32) throws(Errno) -> UInt32 {
            if let error { throw error }
            return state.withLock { state in
                defer { state.next += 1 }
                state.open.insert(state.next)
                return state.next
            }
        }

        func unregister(_ number: UInt32) { state.withLock { _ = $0.open.remove(number) } }
    }

    /// The content file of an item, as the kernel opens it for a program.
    private func backing(_ id: ItemID, _ account: EngineAccount) throws -> Int32 {
        try System.open("\(account.state)/content/\(String(id.rawValue & 0xFF, radix: 16))/\(id.rawValue)", O_RDWR)
    }

    private func write(_ descriptor: Int32, _ text: String, at offset: Int64 = 0) throws {
        try Array(text.utf8).withUnsafeBytes { try System.pwriteAll(descriptor, $0, offset) }
    }

    /// RELEASE.
    private func close(_ id: ItemID, _ flags: Int32, _ account: EngineAccount) {
        account.engine.finish(id, flags: flags)
        account.engine.release(id, flags: flags)
    }

    private func sent(_ name: String, _ account: EngineAccount) -> String {
        (try? String(contentsOfFile: "\(account.source)/\(name)", encoding: .utf8)) ?? ""
    }

    @Test func `a file that is never closed is sent as a copy each time it rests`() async throws {
        try await blocking {
            let account = try EngineAccount { $0.openFileRest = .milliseconds(200) }
            let kernel = Kernel()
            account.engine.passThrough(by: kernel)
            let caller = account.tree.caller
            let made = try account.engine.create(.root, Array("log".utf8), mode: 0o100644, flags: O_RDWR, caller)
            #expect(account.engine.backingNumber(of: made.id) == 1 && made.mayChangeUnseen)
            let file = try backing(made.id, account)
            for text in ["one", "one, two", "one, two, three"] {
                try write(file, text)
                #expect(try account.engine.attributes(of: made.id).size == text.utf8.count)
                try waitUntil("\(text) is sent") { sent("log", account) == text }
            }
            System.close(file)
            close(made.id, O_RDWR, account)
            try waitUntil("the last handle is counted out") { kernel.open.isEmpty }
            #expect(try !account.engine.attributes(of: made.id).mayChangeUnseen)
            await account.stop()
        }
    }

    @Test func `a file whose mapping outlives its handle is not sent as it lies`() async throws {
        try await blocking {
            let account = try EngineAccount { $0.openFileRest = .seconds(3600) }
            let kernel = Kernel()
            account.engine.passThrough(by: kernel)
            let caller = account.tree.caller
            let made = try account.engine.create(.root, Array("doc".utf8), mode: 0o100644, flags: O_RDWR, caller)
            let mapping = try backing(made.id, account)
            try write(mapping, "half")
            close(made.id, O_RDWR, account)
            #expect(kernel.open == [1])
            await account.engine.sync(nil, acceptDeletions: true, acceptLocalDeletions: true)
            let early = await account.engine.waitUntilSettled(nil, timeout: .milliseconds(300))
            #expect(!early.isSettled && sent("doc", account) == "")
            try write(mapping, "whole")
            System.close(mapping)
            try waitUntil("it is sent") { sent("doc", account) == "whole" }
            #expect(kernel.open.isEmpty)
            await account.stop()
        }
    }

    @Test func `all handles of an item get the mode of the first, and a kernel that refuses is asked no more`()
        async throws
    {
        try await blocking {
            let account = try EngineAccount()
            try SourceFolder(account.source).save("a", Array("bytes".utf8))
            let tree = account.tree
            account.engine.passThrough(by: Kernel())
            // Without bytes at first.
            let id = try tree.open("a")
            #expect(account.engine.backingNumber(of: id) == nil)
            try await account.engine.waitForDownload(RemotePath(unchecked: Array("a".utf8))) { _ in }
            _ = try tree.open("a")
            #expect(account.engine.backingNumber(of: id) == nil)
            for _ in 0..<2 { close(id, O_RDWR, account) }
            for flags in [O_RDONLY, O_RDWR, O_RDONLY] {
                #expect(try tree.open("a", flags) == id)
                #expect(account.engine.backingNumber(of: id) == 1)
            }
            for flags in [O_RDONLY, O_RDWR, O_RDONLY] { close(id, flags, account) }
            // A process that is being started may hold the content file for a moment.
            try waitUntil("the last handle is counted out") { account.engine.backingNumber(of: id) == nil }
            // What is to be durable at once goes through the daemon.
            _ = try tree.open("a", O_RDWR | O_DSYNC)
            _ = try tree.open("a", O_RDWR)
            #expect(account.engine.backingNumber(of: id) == nil)
            for _ in 0..<2 { close(id, O_RDWR, account) }
            account.engine.passThrough(by: Kernel(error: Errno(ELOOP)))
            _ = try tree.open("a", O_RDWR)
            try tree.write(id, at: 0, Array("BYTES".utf8))
            try tree.close(id)
            #expect(await account.engine.diagnose().contains { $0.check == "passthrough" && $0.level == "warning" })
            try await account.settle()
            #expect(sent("a", account) == "BYTES")
            await account.stop()
        }
    }

    @Test func `what was written unseen before a power cut replaces nothing, and is kept`() async throws {
        try await blocking {
            var boot: UInt8 = 1
            let account = try EngineAccount { $0.bootIdentity = [boot] }
            try SourceFolder(account.source).save("doc", Array("base".utf8))
            #expect(try account.tree.list("") == ["doc": .file])
            try await account.engine.waitForDownload(RemotePath(unchecked: Array("doc".utf8))) { _ in }
            account.engine.passThrough(by: Kernel())
            let id = try account.tree.open("doc")
            let file = try backing(id, account)
            try write(file, "torn")
            System.close(file)
            boot = 2
            try await account.die()
            try await account.settle()
            let names = try account.tree.list("").keys.sorted()
            #expect(names.count == 2 && names.contains { $0.hasPrefix("doc (conflict from here ") })
            #expect(try account.tree.read("doc") == Array("base".utf8) && sent("doc", account) == "base")
            for name in names where name != "doc" { #expect(try account.tree.read(name) == Array("torn".utf8)) }
            await account.stop()
        }
    }
}
