import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveProviders

/// That a folder tells what other programs do to it.
@Suite(.serialized, .timeLimit(.minutes(30)))
struct FolderWatchTests {
    @Test func `a listing of thousands comes in pages, each token good for one`() async throws {
        let device = try await FolderDevice()
        try shell("seq 2500 | xargs touch", in: device.path)
        var names: Set<[UInt8]> = []
        var page: Page?
        var sizes: [Int] = []
        var used: [Page] = []
        repeat {
            let listing = try await device.provider.list(.root, page: page)
            sizes.append(listing.items.count)
            names.formUnion(listing.items.map(\.name))
            page = listing.next
            if let page { used.append(page) }
        } while page != nil
        #expect(names.count == 2500)
        #expect(sizes == [1000, 1000, 500])
        for page in used {
            await #expect(throws: ProviderError.pageExpired) { try await device.provider.list(.root, page: page) }
        }
    }

    @Test(
        arguments: [
            ("printf x > new", ["new"], []),
            ("cp old new", ["new"], []),
            ("cp -p old new", ["new"], []),
            ("mv old new", ["new"], ["old"]),
            ("sed -i s/o/x/ old", ["old"], []),
            ("printf y >> old", ["old"], []),
            ("chmod 600 old", ["old"], []),
            ("touch old", ["old"], []),
            ("ln old new", ["new"], []),
            ("ln -s nowhere new", ["new"], []),
            ("mkdir new", ["new"], []),
            ("rm old", [], ["old"]),
            ("mv old sub/new", ["sub/new"], ["old"]),
            ("mv sub renamed", ["renamed"], ["sub"]),
            ("rmdir sub", [], ["sub"]),
            ("truncate -s 100 old", ["old"], []),
            ("setfattr -n user.test -v x old || touch old", ["old"], []),
            ("mv old .hidden", [".hidden"], ["old"]),
        ] as [(String, [String], [String])]
    )
    func `what a program does is told`(command: String, updated: [String], removed: [String]) async throws {
        let device = try await FolderDevice()
        try shell("printf old > old && mkdir sub", in: device.path)
        _ = try await device.provider.names()
        _ = try await device.provider.names("sub")
        let follower = try await Follower(device.provider)
        try shell(command, in: device.path)
        try await follower.wait { events in
            Set(events.updates).isSuperset(of: updated) && Set(events.removals).isSuperset(of: removed)
        }
        let last = follower.events.lastIndex { if case .updated = $0 { true } else { false } } ?? -1
        let first = follower.events.firstIndex { if case .removed = $0 { true } else { false } } ?? .max
        #expect(last < first, "updates come before removals")
    }

    @Test func `both names of a rename come together, with one id`() async throws {
        let device = try await FolderDevice()
        let item = try await device.provider.make("old", "x")
        _ = try await device.provider.names()
        let follower = try await Follower(device.provider)
        try shell("mv old new", in: device.path)
        try await follower.wait(forUpdate: "new")
        #expect(follower.events.removals.contains("old"))
        #expect(try await device.provider.find("new").id == item.id)
    }

    @Test func `a renamed directory is still watched, under its new path`() async throws {
        let device = try await FolderDevice()
        try shell("mkdir -p a/b/c other", in: device.path)
        for path in ["", "a", "a/b", "a/b/c", "other"] { _ = try await device.provider.names(path) }
        let follower = try await Follower(device.provider)
        try shell("mv a/b other/moved", in: device.path)
        try await follower.wait { $0.updates.contains("other/moved") && $0.removals.contains("a/b") }
        try shell("touch other/moved/c/file", in: device.path)
        try await follower.wait(forUpdate: "other/moved/c/file")
        try shell("mv other/moved/c other/moved/d && mv other/moved a/back && touch a/back/d/last", in: device.path)
        try await follower.wait(forUpdate: "a/back/d/last")
    }

    @Test func `two directories that trade names are each watched where they are`() async throws {
        let device = try await FolderDevice()
        try shell("mkdir -p a/inside b", in: device.path)
        for path in ["", "a", "a/inside", "b"] { _ = try await device.provider.names(path) }
        let follower = try await Follower(device.provider)
        let root = try System.open(device.path, O_RDONLY)
        defer { System.close(root) }
        try System.renameat(root, [0x61], root, [0x62], .exchange)
        try await follower.wait { Set($0.updates).isSuperset(of: ["a", "b"]) }
        try shell("touch a/one && touch b/inside/two", in: device.path)
        try await follower.wait(forUpdate: "b/inside/two")
        if !follower.events.updates.contains("a/one") { try await follower.wait(forUpdate: "a/one") }
    }

    @Test func `a directory moved out of the source is not heard of again`() async throws {
        let device = try await FolderDevice()
        let outside = try TemporaryDirectory()
        try shell("mkdir -p a/b", in: device.path)
        for path in ["", "a", "a/b"] { _ = try await device.provider.names(path) }
        let follower = try await Follower(device.provider)
        try shell("mv a '\(outside.path)/a'", in: device.path)
        try await follower.wait(forRemoval: "a")
        try shell("touch '\(outside.path)/a/b/unseen' && touch seen", in: device.path)
        try await follower.wait(forUpdate: "seen")
        #expect(follower.events.updates == ["seen"])
        let watcher = try device.provider.watcher()
        #expect(watcher.state.withLock { state in state.tree.nodes.keys.filter { state.tree.path($0) != nil } } == [0])
        try shell("rm -r '\(outside.path)/a'", in: device.path)
        try waitUntil("nothing of it is watched") { watcher.state.withLock { $0.tree.nodes.count } == 1 }
    }

    @Test func `a directory that comes back to its place is still watched, with all below`() async throws {
        let device = try await FolderDevice()
        let outside = try TemporaryDirectory()
        try shell("mkdir -p a/b", in: device.path)
        for path in ["", "a", "a/b"] { _ = try await device.provider.names(path) }
        let follower = try await Follower(device.provider)
        for place in ["\(outside.path)/a", "\(device.path)/.cove-moving-\(String(repeating: "1", count: 32))"] {
            try shell("mv a '\(place)'", in: device.path)
            try await follower.wait(forRemoval: "a")
            try shell("touch '\(place)/b/meanwhile'; mv '\(place)' a", in: device.path)
            try await follower.wait { $0.relisted.contains("a/b") || $0.updates.contains("a/b/meanwhile") }
            try shell("touch a/b/\(stableHash(Array(place.utf8)))", in: device.path)
            try await follower.wait { events in
                events.updates.contains("a/b/\(stableHash(Array(place.utf8)))") || events.relisted.contains("a/b")
            }
        }
    }

    @Test func `what was told under a path that a directory had for a moment is told again`() async throws {
        let device = try await FolderDevice()
        try shell("mkdir -p a/b && touch a/file a/b/file", in: device.path)
        for path in ["", "a", "a/b"] { _ = try await device.provider.names(path) }
        let follower = try await Follower(device.provider)
        try shell("mv a z && rm z/file z/b/file", in: device.path)
        try await follower.wait { Set($0.removals).isSuperset(of: ["z/file", "z/b/file"]) }
        // Who looks for `z` from now on finds nothing.
        try shell("mv z a", in: device.path)
        try await follower.wait { Set($0.relisted).isSuperset(of: ["a", "a/b"]) }
    }

    @Test func `a directory moved into one that has a hidden name is watched where both come up`() async throws {
        let device = try await FolderDevice()
        let hidden = ".cove-moving-\(String(repeating: "1", count: 32))"
        try shell("mkdir a b", in: device.path)
        for path in ["", "a", "b"] { _ = try await device.provider.names(path) }
        let follower = try await Follower(device.provider)
        try shell("mv a \(hidden)", in: device.path)
        try await follower.wait(forRemoval: "a")
        try shell("mv b \(hidden)", in: device.path)
        try await follower.wait(forRemoval: "b")
        try shell("mv \(hidden) a", in: device.path)
        try await follower.wait(forUpdate: "a")
        try shell("touch a/b/file", in: device.path)
        try await follower.wait(forUpdate: "a/b/file")
    }

    @Test(arguments: [false, true])
    func `a late look does not put a directory back where it was`(isHidden: Bool) async throws {
        let device = try await FolderDevice()
        try shell("mkdir a", in: device.path)
        for path in ["", "a"] { _ = try await device.provider.names(path) }
        let watcher = try device.provider.watcher()
        let tree = try device.provider.tree()
        let path = RemotePath(unchecked: Array("a".utf8))
        let opened = try tree.directory(path)
        let follower = try await Follower(device.provider)
        if isHidden {
            try shell("mv a .cove-moving-x", in: device.path)
            try await follower.wait(forRemoval: "a")
            watcher.adopt(try System.status(opened.raw), at: path)
            try shell("mv .cove-moving-x b", in: device.path)
            try await follower.wait(forUpdate: "b")
        } else {
            try shell("mv a b", in: device.path)
            try await follower.wait(forUpdate: "b")
            #expect(try !watcher.watch(path, opened.raw, in: tree))
        }
        try shell("touch b/file", in: device.path)
        try await follower.wait(forUpdate: "b/file")
    }

    @Test func `a directory that was replaced unnoticed is watched under the path it has`() async throws {
        let device = try await FolderDevice()
        try shell("mkdir -p a/b c", in: device.path)
        for path in ["", "a", "a/b"] { _ = try await device.provider.names(path) }
        let watcher = try device.provider.watcher()
        let tree = try device.provider.tree()
        let opened = try tree.directory(RemotePath(unchecked: Array("c".utf8)))
        // It moves between being opened and being watched.
        try shell("mv c d; mv a e; mkdir -p a/b", in: device.path)
        #expect(try !watcher.watch(RemotePath(unchecked: Array("c".utf8)), opened.raw, in: tree))
        let follower = try await Follower(device.provider)
        // The watching may still have the old `a` there.
        for path in ["a/b", "d"] { _ = try await device.provider.names(path) }
        try shell("touch a/b/one d/two e/b/three", in: device.path)
        try await follower.wait { events in
            [("a/b", "one"), ("d", "two"), ("e/b", "three")].allSatisfy { directory, name in
                events.updates.contains("\(directory)/\(name)") || events.relisted.contains(directory)
            }
        }
    }

    @Test func `a directory listed deep down is watched with those above it`() async throws {
        let device = try await FolderDevice()
        try shell("mkdir -p a/b/c", in: device.path)
        _ = try await device.provider.names("a/b/c")
        let follower = try await Follower(device.provider)
        try shell("mv a z && touch z/b/c/file", in: device.path)
        try await follower.wait(forUpdate: "z/b/c/file")
    }

    @Test func `a file that is written and not closed is told all the same`() async throws {
        var timing = WatchTiming()
        timing.unfinished = .milliseconds(100)
        let device = try await FolderDevice(timing: timing)
        _ = try await device.provider.names()
        let follower = try await Follower(device.provider)
        let writer = try System.open(device.folder.appending("log"), O_WRONLY | O_CREAT, 0o644)
        defer { System.close(writer) }
        try Array("line".utf8).withUnsafeBytes { bytes in try System.writeAll(writer, bytes) }
        try await follower.wait(forUpdate: "log")
        #expect(try await device.provider.find("log").size == 4)
    }

    @Test func `Cove's own names are never told`() async throws {
        let device = try await FolderDevice()
        let item = try await device.provider.make("file", "x")
        _ = try await device.provider.names()
        let follower = try await Follower(device.provider)
        let changed = try await device.provider.modify(
            device.provider.reference("file", item),
            base: item.contentVersion,
            metadata: ItemMetadata(),
            content: MemorySource("y")
        )
        _ = try await device.provider.trash(
            device.provider.reference("file", changed),
            base: changed.contentVersion,
            as: "token"
        )
        try shell("touch .cove-upload-x last", in: device.path)
        try await follower.wait(forUpdate: "last")
        #expect((follower.events.updates + follower.events.removals).allSatisfy { !$0.hasPrefix(".cove") })
    }

    @Test func `directories for which no watch is left are polled, and the diagnostics say so`() async throws {
        var timing = WatchTiming()
        timing.poll = .milliseconds(20)
        let device = try await FolderDevice(timing: timing, maximumWatches: 1)
        try shell("mkdir sub", in: device.path)
        _ = try await device.provider.names("sub")
        #expect(device.provider.diagnostics().count == 1)
        let follower = try await Follower(device.provider)
        try shell("touch sub/file", in: device.path)
        try await follower.wait { $0.relisted.contains("sub") }
        #expect(try await device.provider.names("sub") == ["file"])
    }

    @Test func `a rescan reports what changed unseen, and nothing else`() async throws {
        let device = try await FolderDevice()
        try shell("mkdir -p quiet noisy", in: device.path)
        for path in ["", "quiet", "noisy"] { _ = try await device.provider.names(path) }
        let follower = try await Follower(device.provider)
        let watcher = try device.provider.watcher()
        watcher.state.withLock { state in
            for number in state.tree.nodes.keys where state.tree.path(number) != RemotePath.root {
                let name = state.tree.path(number)?.description
                let status = try? System.lstat(device.folder.appending(name ?? ""))
                let seen = status.map { Timestamp($0.st_mtim) } ?? Timestamp(0)
                state.tree.setModified(number, name == "noisy" ? Timestamp(1) : seen)
            }
            let status = try? System.lstat(device.path)
            state.tree.setModified(WatchTree.root, status.map { Timestamp($0.st_mtim) } ?? Timestamp(0))
        }
        watcher.rescan(all: true)
        try await follower.wait { !$0.relisted.isEmpty }
        #expect(follower.events.relisted == ["noisy"])
    }

    @Test func `after lost events everything is listed again, and a directory that moved is found`() async throws {
        let device = try await FolderDevice()
        let follower = try await Follower(device.provider)
        try shell("mkdir -p a/inside b", in: device.path)
        for path in ["", "a", "a/inside", "b"] { _ = try await device.provider.names(path) }
        try await follower.wait(forUpdate: "b")
        let watcher = try device.provider.watcher()
        // As if the rename's events had been lost: the tree says that `a` is somewhere else.
        watcher.state.withLock { state in
            if let number = state.tree.node(at: RemotePath(unchecked: [0x61])) {
                state.tree.attach(number, at: WatchedEntry(directory: WatchTree.root, name: Array("was".utf8)))
            }
        }
        watcher.verify(try device.provider.tree())
        try await follower.wait { Set($0.relisted) == ["/", "b"] }
        _ = try await device.provider.names()
        try await follower.wait { Set($0.relisted).isSuperset(of: ["a", "a/inside"]) }
        try shell("touch a/inside/file", in: device.path)
        try await follower.wait(forUpdate: "a/inside/file")
    }

    @Test func `a burst of changes ends in the true tree`() async throws {
        let device = try await FolderDevice()
        _ = try await device.provider.names()
        let follower = try await Follower(device.provider)
        try shell(
            "for i in $(seq 300); do mkdir d$i; touch f$i; mv f$i g$i; rmdir d$i; done; touch end",
            in: device.path
        )
        var known: Set<String> = []
        try await follower.wait { events in
            for change in events {
                switch change {
                case .updated(let item, let directory):
                    known.insert(directory.appending(FileName(unchecked: item.name)).description)
                case .removed(let path): known.remove(path.description)
                case .directoryChanged: known = Set(try await device.provider.names())
                }
            }
            return known == Set((1...300).map { "g\($0)" } + ["end"])
        }
    }

    @Test func `a stopped provider starts again, and its old anchors have expired`() async throws {
        let device = try await FolderDevice()
        let anchor = try await device.provider.changes(since: nil).anchor
        await device.provider.stop()
        await #expect(throws: ProviderError.self) { try await device.provider.changes(since: anchor) }
        try await device.provider.start()
        await #expect(throws: ProviderError.anchorExpired) { try await device.provider.changes(since: anchor) }
        _ = try await device.provider.names()
        let follower = try await Follower(device.provider)
        try shell("touch file", in: device.path)
        try await follower.wait(forUpdate: "file")
    }
}
