import Foundation
import Synchronization

/// A real server on loopback, in a process of its own that ends with the last reference.
public final class TestServer: @unchecked Sendable {
    /// Who may use it.
    public static let user = "ada"
    /// The password, or the secret key.
    public static let password = "lovelace"

    /// Where it listens.
    public let port: UInt16
    /// Its configuration, its log and what it serves, below `files`.
    public let folder: TemporaryDirectory
    private let command: Command

    /// Starts a server on a free port and waits until it answers; another port is tried when somebody was quicker.
    ///
    /// The body prepares the folder, and gives the program and its arguments.
    public init(
        _ name: String,
        answers: (UInt16) -> Bool,
        _ prepare: (TemporaryDirectory, UInt16) throws -> (
            program: String, arguments: [String], environment: [String: String]
        )
    ) throws {
        folder = try TemporaryDirectory(name)
        try FileManager.default.createDirectory(atPath: folder.appending("files"), withIntermediateDirectories: true)
        var problem = ""
        for _ in 0..<5 {
            let port = try Self.freePort()
            let start = try prepare(folder, port)
            let command = try Command(start.program, start.arguments, environment: start.environment)
            do {
                try waitUntil("\(name) answers", deadline: 60) { answers(port) || command.hasEnded(within: 0) }
            } catch {
                throw CommandFailure("\(error)\n\(command.error)\(command.output)")
            }
            if !command.hasEnded(within: 0) {
                self.port = port
                self.command = command
                Self.running.withLock { _ = $0.insert(command.process) }
                return
            }
            problem = command.error + command.output
        }
        throw CommandFailure("\(name) does not start: \(problem)")
    }

    deinit { Self.running.withLock { _ = $0.remove(command.process) } }

    /// Those that a suite keeps to its end have no last reference: they end with the tests.
    private static let running: Mutex<Set<Int32>> = {
        atexit { TestServer.endAll() }
        return Mutex([])
    }()

    private static func endAll() { running.withLock { $0.forEach { kill(-$0, SIGKILL) } } }

    /// What it serves.
    public var files: String { folder.appending("files") }

    /// What it complained of.
    public var log: String { command.error + command.output }

    /// A loopback port nobody listens on, below those that clients are given.
    public static func freePort() throws -> UInt16 {
        for _ in 0..<1000 {
            let port = UInt16.random(in: 20000..<32000)
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            defer { close(descriptor) }
            if withLoopback(port, { bind(descriptor, $0, $1) }) == 0 { return port }
        }
        throw CommandFailure("no free port")
    }

    /// A socket that listens on a loopback port; whoever has it closes it.
    public static func listen() throws -> (descriptor: Int32, port: UInt16) {
        let port = try freePort()
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        guard withLoopback(port, { bind(descriptor, $0, $1) }) == 0, Glibc.listen(descriptor, 16) == 0 else {
            close(descriptor)
            throw CommandFailure("nothing listens on port \(port)")
        }
        return (descriptor, port)
    }

    /// True when somebody listens.
    public static func isListening(_ port: UInt16) -> Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        return withLoopback(port) { connect(descriptor, $0, $1) } == 0
    }

    static func withLoopback(_ port: UInt16, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32) -> Int32 {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }
}
