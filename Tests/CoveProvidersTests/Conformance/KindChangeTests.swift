import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveProviders

/// A name changes from a directory to a file, or from a file to a directory, at any moment of what another device does
/// with it: whatever comes of that, the bytes that are put there stay.
@Suite(.timeLimit(.minutes(30)))
struct KindChangeTests {
    /// An empty source on a real server, also behind another one.
    struct Place: Sendable {
        let server: TestServer
        /// Makes a device that reaches it through a port.
        let device: @Sendable (UInt16) throws -> any Provider
        /// Asks a bucket for something without looking, as what was on its way for long does.
        var ask: (@Sendable (_ method: String, _ path: String) async throws -> Void)?
    }

    struct Server: Sendable, CustomTestStringConvertible {
        let testDescription: String
        /// Of so many moments one is tried, another one in each run.
        ///
        /// In a bucket everything takes many requests, and two of the servers are of one family.
        var oneIn = 1
        let open: @Sendable () async throws -> Place
    }

    static let servers =
        [
            dav("Apache", Result { try TestServer.apache() }), dav("nginx", Result { try TestServer.nginx() }),
            dav("rclone's WebDAV", Result { try TestServer.rcloneWebDAV() }),
        ]
        + S3ServerKind.allCases.map { kind in
            Server(testDescription: kind.rawValue, oneIn: triesAllMoments ? 1 : kind == .juiceFS ? 5 : 2) {
                let server = try kind.server()
                let source = try S3Source(server)
                try await source.source.put("", S3Source.standing)
                return Place(
                    server: server,
                    device: { port in
                        try S3Provider(source.address.replacingOccurrences(of: ":\(server.port)", with: ":\(port)"))
                    },
                    ask: { method, path in
                        let key = source.client.address.prefix + Array(path.utf8)
                        _ = try await source.client.send(S3Call(method, key))
                    }
                )
            }
        }

    private static func dav(_ name: String, _ server: Result<TestServer, any Error>) -> Server {
        Server(testDescription: name) {
            let server = try server.get()
            let name = "\(DocumentID.random())"
            try server.makeCollection(name)
            return Place(server: server) {
                try ProviderFactory.make(source: "webdav://127.0.0.1:\($0)/\(name)", access: testAccess)
            }
        }
    }

    /// What one device does while another one changes the kind.
    struct Work: Sendable {
        let name: String
        /// What is there before: a directory, with a file `x` in it, or a file.
        let before: Before
        let run: @Sendable (any Provider, String) async throws -> Void

        enum Before { case empty, filled, file }
    }

    static let works = [
        Work(name: "delete an empty directory", before: .empty) { provider, path in
            try await provider.delete(provider.reference(path), base: .directory)
        },
        Work(name: "move an empty directory", before: .empty) { provider, path in
            try await provider.rename(path, to: "\(path) moved")
        },
        Work(name: "move a directory", before: .filled) { provider, path in
            try await provider.rename(path, to: "\(path) moved")
        },
        Work(name: "delete the last file of a directory", before: .filled) { provider, path in
            let file = "\(path)/x"
            let item = try await provider.find(file)
            try await provider.delete(provider.reference(file, item), base: item.contentVersion)
        },
        Work(name: "move the last file of a directory", before: .filled) { provider, path in
            try await provider.rename("\(path)/x", to: "\(path) moved")
        },
        Work(name: "make a file in a directory", before: .filled) { provider, path in
            _ = try await provider.make("\(path)/y", "new")
        },
        Work(name: "make a directory in a directory", before: .empty) { provider, path in
            try await provider.makeDirectory("\(path)/y")
        },
        Work(name: "delete a file", before: .file) { provider, path in
            let item = try await provider.file(path)
            try await provider.delete(provider.reference(path, item), base: item.contentVersion)
        },
        Work(name: "trash a file", before: .file) { provider, path in
            let item = try await provider.file(path)
            _ = try await provider.trash(
                provider.reference(path, item),
                base: item.contentVersion,
                as: "\(DocumentID.random())"
            )
        },
        Work(name: "change a file", before: .file) { provider, path in
            let item = try await provider.file(path)
            _ = try await provider.modify(
                provider.reference(path, item),
                base: item.contentVersion,
                metadata: ItemMetadata(),
                content: MemorySource("changed")
            )
        },
        Work(name: "move a file", before: .file) { provider, path in
            try await provider.rename(path, to: "\(path) moved")
        },
    ]

    /// The request before which the other device is let loose, and how many there were.
    private final class Moment: Sendable {
        private let state = Mutex<(at: Int, count: Int, action: (@Sendable () async -> Void)?)>((0, 0, nil))
        private let task = Mutex<Task<Void, Never>?>(nil)

        func begin(at number: Int, _ action: @escaping @Sendable () async -> Void) {
            state.withLock { $0 = (number, 0, action) }
            task.withLock { $0 = nil }
        }

        /// Waits a little for the other device, which may itself wait for what goes on here.
        func pass() {
            let action = state.withLock { state in
                state.count += 1
                return state.count == state.at ? state.action.take() : nil
            }
            guard let action else { return }
            let done = DispatchSemaphore(value: 0)
            let running = Task {
                await action()
                done.signal()
            }
            task.withLock { $0 = running }
            _ = done.wait(timeout: .now() + .milliseconds(300))
        }

        /// Waits for the other device; false when it was never let loose.
        func end() async -> Bool {
            state.withLock { $0.action = nil }
            guard let running = task.withLock({ $0 }) else { return false }
            await running.value
            return true
        }
    }

    @Test(arguments: servers)
    func `what is put in the place of another kind stays, at whatever moment it comes`(server: Server) async throws {
        try await run(on: server) { _, path, new, isFile, there in
            // The name becomes free, or is free by now.
            try? await there.rename(path, to: "\(path) away")
            if !isFile { try await there.makeDirectory(path) }
            _ = try await there.make(isFile ? path : "\(path)/in", new)
            return new
        }
        let moves = Self.works.filter { $0.name.hasPrefix("move") }
        try await run(on: server, moves, untilDone: true) { _, path, new, _, there in
            _ = try await there.make("\(path) moved", new)
            return new
        }
        guard try await server.open().ask != nil else { return }
        for isEmpty in [false, true] {
            try await run(on: server, Self.works.filter { $0.before != .file }) { place, path, new, _, there in
                for name in ["x", ".cove-directory", ""] { try? await place.ask?("DELETE", "\(path)/\(name)") }
                let text = isEmpty ? "" : new
                _ = try await there.make(path, text)
                // What was on its way below the former directory; some servers keep it beside the file that has the name.
                if !isEmpty { try? await place.ask?("PUT", "\(path)/late") }
                return text
            }
        }
    }

    /// Changes the kind of what has a path; returns the text of the file that is there then, or in the directory.
    typealias Change =
        @Sendable (_ place: Place, _ path: String, _ new: String, _ isFile: Bool, _ there: any Provider) async throws ->
        String

    /// Does all works, some at a time, each at a source that no other one uses meanwhile: most of the time the devices wait
    /// for each other.
    private func run(
        on server: Server,
        _ works: [Work] = works,
        untilDone: Bool = false,
        _ change: @escaping Change
    ) async throws {
        let lanes = 4
        let count = try await withThrowingTaskGroup(of: Int.self) { group in
            for lane in 0..<lanes {
                group.addTask {
                    let devices = try await Scene(try await server.open())
                    var count = 0
                    for index in stride(from: lane, to: works.count, by: lanes) {
                        count += try await run(works[index], devices, server.oneIn, untilDone, change)
                    }
                    await devices.stop()
                    return count
                }
            }
            return try await group.reduce(0, +)
        }
        print("another kind, on \(server.testDescription): \(count) moments of \(works.count) works")
        #expect(count * server.oneIn > works.count)
    }

    /// A source, the device that works there, behind a server that lets the other one loose, and that one.
    private struct Scene: Sendable {
        let place: Place
        let moment = Moment()
        let front: ScriptedServer
        let here: any Provider
        let there: any Provider

        init(_ place: Place) async throws {
            let (moment, port) = (moment, place.server.port)
            self.place = place
            front = try ScriptedServer { _ in
                moment.pass()
                return .handOn(port)
            }
            (here, there) = (try place.device(front.port), try place.device(port))
            try await here.start()
            try await there.start()
        }

        func stop() async { for device in [here, there] { await device.stop() } }
    }

    /// Does a work once for every request that it asks for, or one of some, with another kind put in place before that; returns
    /// how often.
    private func run(
        _ work: Work,
        _ devices: Scene,
        _ oneIn: Int,
        _ untilDone: Bool,
        _ change: @escaping Change
    ) async throws -> Int {
        let (place, moment, here, there) = (devices.place, devices.moment, devices.here, devices.there)
        let folder = "\(DocumentID.random())"
        var outcomes: [(path: String, text: String, outcome: String)] = []
        let first = Int.random(in: 1...oneIn)
        for number in sequence(first: first, next: { $0 + oneIn }) {
            let (path, new) = ("\(folder) \(number)", "new \(number)")
            try await prepare(work.before, path, there)
            let placed = Mutex<String?>(nil)
            moment.begin(at: number) {
                let text = try? await change(place, path, new, work.before != .file, there)
                placed.withLock { $0 = text }
            }
            var outcome = "done"
            for _ in 0..<(untilDone ? 10 : 1) {
                outcome = "done"
                do { try await work.run(here, path) } catch { outcome = "\(error)" }
                if outcome != "\(ProviderError.busy)" { break }
            }
            if untilDone { #expect(outcome != "\(ProviderError.busy)", "\(work.name): never done") }
            guard await moment.end() else { break }
            if let text = placed.withLock({ $0 }) { outcomes.append((path, text, outcome)) }
        }
        let seen = try await restingTree(inNamesOf: folder, there)
        for (path, text, outcome) in outcomes {
            let places = [path, "\(path)/in", "\(path) moved", "\(path) moved/in"]
            #expect(
                places.contains { seen[$0] == text },
                "\(work.name): \(path), \(text) is gone (\(outcome)): \(seen)"
            )
        }
        return outcomes.count
    }

    /// The tree, once nothing that its listing names goes away while it is read: rclone shows for a moment what is gone.
    private func restingTree(inNamesOf folder: String, _ device: any Provider) async throws -> [String: String] {
        let deadline = System.monotonic() + .seconds(10)
        while true {
            do {
                return try await device.tree(inNamesOf: folder)
            } catch ProviderError.noSuchItem where System.monotonic() < deadline {}
        }
    }

    private func prepare(_ before: Work.Before, _ path: String, _ device: any Provider) async throws {
        if before == .file {
            _ = try await device.make(path, "old")
            return
        }
        try await device.makeDirectory(path)
        guard before == .filled else { return }
        // rclone does not show for a moment what was just made.
        let deadline = System.monotonic() + .seconds(10)
        while true {
            do {
                _ = try await device.make("\(path)/x", "old")
                return
            } catch ProviderError.noSuchItem where System.monotonic() < deadline {}
        }
    }
}

extension Provider {
    /// What has a path, if that is a file yet.
    fileprivate func file(_ path: String) async throws -> RemoteItem {
        let item = try await find(path)
        if item.kind != .file { throw ProviderError.noSuchItem }
        return item
    }

    /// Renames what a path has now.
    fileprivate func rename(_ path: String, to other: String) async throws {
        let item = try await find(path)
        let target = reference(other).path
        _ = try await move(
            reference(path, item),
            base: item.contentVersion,
            to: RemoteReference(id: nil, path: target.parent),
            name: #require(target.name)
        )
    }

    /// The texts of all files, by their paths; of the root's items those whose names begin so.
    fileprivate func tree(_ path: String = "", inNamesOf start: String = "") async throws -> [String: String] {
        var found: [String: String] = [:]
        for item in try await everything(path) where item.name.starts(with: Array(start.utf8)) {
            let name = (path.isEmpty ? "" : path + "/") + String(decoding: item.name, as: UTF8.self)
            if item.kind == .directory {
                if name.hasSuffix("/") { continue }
                found.merge(try await tree(name)) { first, _ in first }
            } else {
                found[name] = try await text(name)
            }
        }
        return found
    }
}
