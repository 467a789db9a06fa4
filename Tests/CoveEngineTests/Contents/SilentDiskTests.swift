import CoveCore
import CoveProviders
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveEngine

/// A source on a disk that answers no more, as a server's that is gone.
@Suite(.timeLimit(.minutes(2))) struct SilentDiskTests {
    /// A disk that can be stopped; whatever becomes of the test, it goes on when that is gone.
    private final class StoppedDisk: Sendable {
        private let path: String
        private let guardian: Process
        private let line = Pipe()
        private let wasStopped = Mutex(false)

        init(_ path: String) throws {
            self.path = path
            guardian = Process()
            guardian.executableURL = URL(fileURLWithPath: "/bin/sh")
            guardian.arguments = ["-c", "read line; exec fsfreeze -u \"$0\"", path]
            guardian.standardInput = line
            try guardian.run()
        }

        /// Once: what comes after it goes on is let through.
        func stop() throws {
            let isFirst = wasStopped.withLock { stopped in
                defer { stopped = true }
                return !stopped
            }
            if isFirst { try Command.run("fsfreeze", ["-f", path]) }
        }

        func goOn() {
            try? line.fileHandleForWriting.close()
            guardian.waitUntilExit()
        }
    }

    /// Sends what another has, and calls a body before the first byte goes.
    private struct Watched: ContentSource {
        let base: any ContentSource
        let before: @Sendable () -> Void

        var size: Int64 { base.size }
        var identity: [UInt8]? { base.identity }

        func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) throws(ProviderError) -> Int {
            try base.read(at: offset, into: buffer)
        }

        func copy(to descriptor: Int32, at offset: Int64, count: Int) throws(ProviderError) -> Int {
            if offset == 0 { before() }
            return try base.copy(to: descriptor, at: offset, count: count)
        }

        func note(arrived bytes: Int64) { base.note(arrived: bytes) }
    }

    @Test func `a file that is being sent can be used while the source's disk does not answer`() async throws {
        try await blocking {
            let (place, state) = (try TemporaryDirectory("cove-silent"), try TemporaryDirectory("cove-silent-state"))
            let disk = try LoopDisk(in: place.path, megabytes: 64)
            let stopped = try StoppedDisk(disk.path)
            defer { stopped.goOn() }
            let hasStopped = Flag()
            let provider = MeddledProvider(
                FolderProvider(root: disk.path),
                watch: { source in
                    Watched(base: source) { if (try? stopped.stop()) != nil { hasStopped.raise() } }
                }
            )
            let engine = try Engine(
                configuration: EngineConfiguration.ofTest("dir://\(disk.path)", state: state.path),
                provider: provider,
                log: Log(path: nil, echoToStandardError: false)
            )
            let tree = EngineTree(engine)
            engine.start(kernel: nil, announcer: nil)
            await engine.connected.pass()
            let bytes = [UInt8](repeating: 7, count: 6 << 20)
            try tree.write("f", bytes)
            try waitUntil("the file is being sent") { hasStopped.isRaised }
            let (isRead, isLooked, isWritten) = (Flag(), Flag(), Flag())
            Thread.detachNewThread {
                let tree = EngineTree(engine)
                if (try? tree.size("f")) == Int64(bytes.count), (try? tree.read("f")) == bytes { isRead.raise() }
                engine.contents.look(engine.clock.monotonic())
                isLooked.raise()
                if (try? tree.append("f", [1])) != nil { isWritten.raise() }
            }
            // Of the upload, the disk takes nothing meanwhile.
            try waitUntil("the file is read", deadline: 10) { isRead.isRaised }
            try waitUntil("the clock goes on", deadline: 10) { isLooked.isRaised }
            try waitUntil("the file is written to", deadline: 10) { isWritten.isRaised }
            stopped.goOn()
            await engine.sync(nil, acceptDeletions: false, acceptLocalDeletions: false)
            #expect(await engine.waitUntilSettled(nil, timeout: .seconds(60)).isSettled)
            #expect(try SourceFolder(disk.path).snapshot()["f"] == bytes + [1])
            await engine.stop()
        }
    }
}

/// Something that has happened.
private final class Flag: Sendable {
    private let state = Mutex(false)

    var isRaised: Bool { state.withLock { $0 } }

    func raise() { state.withLock { $0 = true } }
}
