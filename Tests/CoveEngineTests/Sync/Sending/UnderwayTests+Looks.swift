import CoveCore
import CoveProviders
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveEngine

/// How what was sent is told from another device's, and looks that fail.
extension UnderwayTests {
    @Test func `another device's empty file is not deleted with the one that was sent`() async throws {
        try await blocking {
            let account = try await account(Sent(isNew: true, keepsDate: false), content: "")
            try account.tree.unlink("f")
            try await expect(account, ["f": ""])
        }
    }

    @Test(arguments: [true, false])
    func `a move that got no answer is not taken for another device's`(isFolder: Bool) async throws {
        try await blocking {
            let held = HeldAnswer(of: "f~")
            let account = try EngineAccount(wrap: held.wrap) { $0.settleTime = .zero }
            let tree = account.tree
            if isFolder {
                try tree.makeDirectory("f")
                try tree.write("f/doc", text("what is in it"))
            } else {
                try tree.write("f", text("before"))
            }
            try await account.settle()
            held.arm()
            try tree.rename("f", "f~")
            try waitUntil("the source has moved it") { held.hasArrived }
            if isFolder {
                try tree.rename("f~", "f")
            } else {
                try tree.write("f", text("after"))
                try tree.unlink("f~")
            }
            let wanted = try Set(tree.list("").keys)
            try waitUntil("the source has told of it") {
                account.engine.syncEngine?.shared.withLock { $0.isPolling } == true
            }
            held.answer(isLost: true)
            try waitUntil("the account goes on", deadline: 60) {
                let names = try Set(tree.list("").keys)
                guard names == wanted else { throw CommandFailure("the tree shows \(names)") }
                return account.engine.accountStatus().queuedOperations == 0
            }
            if !isFolder { return try await expect(account, ["f": "after"]) }
            try await account.settle()
            #expect(try SourceFolder(account.source).snapshot().keys.sorted() == ["f", "f/doc"])
            #expect(try tree.read("f/doc") == text("what is in it"))
            await account.stop()
        }
    }

    @Test func `what was sent into a folder whose move got no answer is looked for where that is`() async throws {
        try await blocking {
            let isLost = Atomic<Bool>(false)
            let lost = Atomic<Int>(0)
            let wrap = { (base: any Provider) in
                MeddledProvider(
                    base,
                    beforeAnswer: { _ throws(ProviderError) in
                        guard isLost.load(ordering: .acquiring) else { return }
                        lost.add(1, ordering: .acquiringAndReleasing)
                        throw .timedOut
                    }
                )
            }
            let account = try EngineAccount(wrap: wrap) { $0.settleTime = .zero }
            let (tree, source) = (account.tree, SourceFolder(account.source))
            let names = (0..<6).map { "f\($0)" }
            try tree.makeDirectory("d")
            for name in names { try tree.write("d/\(name)", text("one \(name)")) }
            try await account.settle()
            isLost.store(true, ordering: .releasing)
            for name in names { try tree.write("d/\(name)", text("two \(name)")) }
            try waitUntil("all have arrived") { lost.load(ordering: .acquiring) >= names.count }
            try tree.rename("d", "e")
            try waitUntil("the folder has moved") { try source.snapshot().keys.contains("e") }
            let (deleted, kept) = (names.prefix(3), names.dropFirst(3))
            for name in kept { try tree.write("e/\(name)", text("six \(name)")) }
            for name in deleted { try tree.unlink("e/\(name)") }
            isLost.store(false, ordering: .releasing)
            try await account.settle()
            let wanted = Set(kept.map { "e/\($0)" } + ["e"])
            #expect(try Set(source.snapshot().keys) == wanted)
            for name in kept { #expect(try source.snapshot()["e/\(name)"] == text("six \(name)")) }
            #expect(try tree.list("").count == 1 && tree.list("e").count == kept.count)
            await account.stop()
        }
    }

    @Test(arguments: [true, false], [true, false])
    func `a date that got no answer makes a file no other one`(isDeleted: Bool, isHere: Bool) async throws {
        try await blocking {
            let held = HeldAnswer(of: "f")
            let account = try EngineAccount(wrap: held.wrap) { $0.settleTime = .zero }
            let tree = account.tree
            try tree.write("f", text("the bytes"))
            try await account.settle()
            if !isHere { #expect(await account.evict("f")) }
            held.arm()
            var change = AttributeChange()
            change.modificationTime = .at(Timestamp(seconds: 1_000_000_000, nanoseconds: 7))
            _ = try account.engine.setAttributes(of: tree.resolve("f"), change, hasHandle: false, tree.caller)
            try waitUntil("the source has the date") { held.hasArrived }
            let open = isDeleted ? nil : try tree.open("f")
            if isDeleted { try tree.unlink("f") }
            held.answer(isLost: true)
            try await account.settle()
            if let open {
                #expect(try tree.read(open) == text("the bytes"))
                try tree.close(open)
            }
            try await expect(account, isDeleted ? [:] : ["f": "the bytes"])
        }
    }

    @Test func `where ids are paths, a folder that was sent is not taken for another device's`() async throws {
        try await blocking {
            let account = try EngineAccount(
                wrap: { MeddledProvider($0, alter: { $0.stableIDs = false }) },
                configure: { _ in }
            )
            try account.tree.makeDirectory("f")
            try await account.settle()
            let sync = try #require(account.engine.syncEngine)
            let found = try await account.engine.provider.lookup(FileName(unchecked: text("f")), in: .root)
            func newcomers() throws -> [[UInt8]] {
                try account.engine.catalog.write { database throws(Errno) -> [[UInt8]] in
                    var other = found
                    other.name = self.text("f~")
                    return try sync.split([other], in: .root, upTo: 10, database).newcomers.map(\.name)
                }
            }
            #expect(try newcomers() == [text("f~")])
            try account.engine.catalog.write { database throws(Errno) in
                guard let entry = try database.entry(ItemID.root, self.text("f")) else { throw .noSuchEntry }
                let row = try database.existingItem(entry.item)
                try database.beginUnderway(UnderwayRow(entry, to: Place(.root, self.text("f~")), row))
            }
            #expect(try newcomers() == [])
            await account.stop()
        }
    }

    @Test func `a name that a file was sent to is no other file's in a folder that was never listed`() async throws {
        try await blocking {
            let account = try EngineAccount(wrap: { MeddledProvider($0, isSilent: true) }, configure: { _ in })
            let (source, engine) = (SourceFolder(account.source), account.engine)
            try source.makeDirectory("d")
            try source.save("d/f", text("f"))
            #expect(try account.tree.size("d/f") == 1)
            try engine.catalog.write { database throws(Errno) in
                guard let entry = try database.entry(atPath: RemotePath(unchecked: self.text("d/f"))) else {
                    throw .noSuchEntry
                }
                let row = try database.existingItem(entry.item)
                try database.beginUnderway(UnderwayRow(entry, to: Place(entry.parent, self.text("f~")), row))
            }
            try source.rename("d/f", "d/f~")
            #expect(throws: Errno.noSuchEntry) { try account.tree.size("d/f~") }
            try engine.catalog.write { database throws(Errno) in
                try database.run("DELETE FROM underway")
            }
            #expect(try account.tree.size("d/f~") == 1)
            await account.stop()
        }
    }

    @Test(arguments: [0, 9 << 20, 17 << 20])
    func `a large file is told from another one of its size by its begin and its end`(offset: Int) throws {
        let size = 18 << 20
        var bytes = [UInt8](repeating: 7, count: size)
        func sum() throws -> Int64? {
            let sink = SummingSink(size: Int64(size))
            for range in SentBytes.ranges(of: Int64(size)) {
                // A provider gives pieces, in any order.
                for start in stride(from: Int(range.lowerBound), to: Int(range.upperBound), by: 1 << 20).reversed() {
                    try bytes[start..<min(start + 1 << 20, Int(range.upperBound))].withUnsafeBytes {
                        try sink.write($0, at: Int64(start))
                    }
                }
            }
            return sink.sum
        }
        let before = try #require(try sum())
        bytes[offset] = 8
        // What is in the middle is not looked at.
        #expect((try sum() == before) == (offset == 9 << 20))
    }

    /// An account whose source is read through an obstacle; a new file has arrived without an answer, and is deleted here.
    private func deleted(
        refusing refuse: @escaping @Sendable () -> ProviderError?,
        _ body: @escaping @Sendable (Engine, SourceFolder) async throws -> Void
    ) async throws {
        try await blocking { [self] in
            let (folder, state) = (try TemporaryDirectory("underway"), try TemporaryDirectory("underway-state"))
            let configuration = EngineConfiguration.ofTest("dir://\(folder.path)", state: state.path) {
                $0.pollInterval = .seconds(3600)
            }
            let engine = try Engine(
                configuration: configuration,
                provider: MeddledProvider(FolderProvider(root: folder.path), refuseFetch: { _ in refuse() }),
                log: Log(path: nil, echoToStandardError: false)
            )
            let tree = EngineTree(engine)
            engine.start(kernel: nil, announcer: nil)
            await engine.connected.pass()
            await engine.pause()
            try tree.write("f", text("sent"))
            try engine.catalog.write { database throws(Errno) in
                guard let entry = try database.entry(.root, text("f")) else { throw .noSuchEntry }
                var sent = UnderwayRow(entry, to: entry.place, try database.existingItem(entry.item))
                (sent.item, sent.sum) = (entry.item, SentBytes.sum(text("sent")))
                try database.beginUnderway(sent)
            }
            let source = SourceFolder(folder.path)
            try source.save("f", text("sent"))
            // Not of the moment at which it was written here: that alone would tell.
            let date = [FileAttributeKey.modificationDate: Date(timeIntervalSince1970: 1_000_000_000)]
            try FileManager.default.setAttributes(date, ofItemAtPath: folder.appending("f"))
            try tree.unlink("f")
            await engine.resume()
            do { try await body(engine, source) } catch {
                await engine.stop()
                throw error
            }
            await engine.stop()
        }
    }

    @Test func `what was sent is looked at again where the first look fails, and deleted then`() async throws {
        let looks = Mutex(0)
        try await deleted { () -> ProviderError? in
            looks.withLock { count in
                count += 1
                return count == 1 ? .throttled(retryAfter: nil) : nil
            }
        } _: { engine, source in
            try waitUntil("it is deleted there", deadline: 60) { try source.snapshot()["f"] == nil }
            #expect(looks.withLock { $0 } == 2)
        }
    }

    @Test(arguments: [true, false])
    func `a change in the moment in which an arrived one is compared makes no conflict`(isNew: Bool) async throws {
        try await blocking {
            let change = Mutex<(@Sendable () -> Void)?>(nil)
            let account = try EngineAccount(
                wrap: { base in
                    MeddledProvider(
                        base,
                        refuseFetch: { _ in
                            change.withLock { $0.take() }?()
                            return nil
                        },
                        isSilent: true
                    )
                },
                configure: { $0.settleTime = .zero }
            )
            let (tree, engine) = (account.tree, account.engine)
            if !isNew { try tree.write("f", text("base")) }
            try await account.settle()
            await engine.pause()
            try tree.write("f", text("sent"))
            try engine.catalog.write { database throws(Errno) in
                guard let entry = try database.entry(ItemID.root, self.text("f")) else { throw .noSuchEntry }
                var sent = UnderwayRow(entry, to: entry.place, try database.existingItem(entry.item))
                (sent.item, sent.sum) = (entry.item, self.text("sent").withUnsafeBytes { SentBytes.sum($0) })
                try database.beginUnderway(sent)
            }
            try SourceFolder(account.source).save("f", text("sent"))
            change.withLock { $0 = { try? EngineTree(engine).write("f", Array("after".utf8)) } }
            try await expect(account, ["f": "after"])
            #expect(change.withLock { $0 == nil })
        }
    }

    @Test func `what is not to be read is another device's, and nobody waits for it`() async throws {
        try await deleted {
            .notPermitted("it is another one's")
        } _: { engine, source in
            try waitUntil("nobody waits", deadline: 60) {
                try engine.catalog.read { database throws(Errno) in try database.underway().isEmpty }
            }
            #expect(try source.snapshot()["f"] == text("sent"))
        }
    }

    @Test func `what can't be read again and again is given up, but not for the server's being busy`() {
        var looks = UnansweredLooks()
        let document = DocumentID.random()
        func isUnreadable(_ error: ProviderError) -> Bool { looks.isUnreadable(document, after: error) }
        func pause(_ error: ProviderError) -> TimeSpan? { looks.pause(of: document, after: error) }
        for _ in 0..<100 {
            for error: ProviderError in [.throttled(retryAfter: nil), .busy, .serverUnreachable("away")] {
                #expect(!isUnreadable(error))
            }
        }
        let answers = (0..<8).map { _ in isUnreadable(.failed("400", nil)) }
        #expect(answers == [false, false, false, false, false, false, true, true])
        // One wait at a time, each longer, and as long as the server says.
        #expect(pause(.timedOut) == .seconds(2))
        #expect(pause(.timedOut) == nil)
        looks.begin(document)
        #expect(pause(.timedOut) == .seconds(4))
        looks.begin(document)
        #expect(pause(.throttled(retryAfter: .seconds(90))) == .seconds(90))
        looks.forget(document)
        #expect(!isUnreadable(.failed("400", nil)))
        #expect(pause(.timedOut) == .seconds(2))
    }

    @Test(arguments: [0, 3])
    func `another device's change in the middle of a large file is not deleted with the one that was sent`(
        seconds: Int64
    ) async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            var bytes = [UInt8](repeating: 7, count: 17 << 20)
            try await account.settle()
            await account.engine.pause()
            try account.tree.write("f", bytes)
            let date = try account.engine.catalog.write { database throws(Errno) in
                guard let entry = try database.entry(.root, text("f")) else { throw .noSuchEntry }
                let row = try database.existingItem(entry.item)
                var sent = UnderwayRow(entry, to: entry.place, row)
                let ends = Array(bytes.prefix(8 << 20) + bytes.suffix(8 << 20))
                (sent.item, sent.sum) = (entry.item, SentBytes.sum(ends))
                try database.beginUnderway(sent)
                return row.modificationTime
            }
            bytes[8 << 20 | 1 << 19] = 8
            try source.save("f", seconds == 0 ? [UInt8](repeating: 7, count: bytes.count) : bytes)
            let time = Date(timeIntervalSince1970: Double(date.seconds + seconds) + 0.5)
            try FileManager.default.setAttributes([.modificationDate: time], ofItemAtPath: "\(source.path)/f")
            try account.tree.unlink("f")
            await account.engine.resume()
            try await account.settle()
            #expect(try source.snapshot().keys.sorted() == (seconds == 0 ? [] : ["f"]))
            await account.stop()
        }
    }
}
