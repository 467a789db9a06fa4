internal import CoveCore
internal import Glibc

/// The pipe through which a daemon in the background tells the command that started its keeper how its start went.
enum ReadyPipe {
    /// The descriptor the daemon finds it at.
    static let descriptor = KeeperPacket.descriptor + 1

    /// What a daemon that is ready tells: its process, and what a person is to know.
    struct Report {
        var daemon: pid_t
        var notice: String?
    }

    /// How long a start may take: the end of another daemon, the first connection, and the mount itself.
    static let limit = FirstConnection.longest + .seconds(90)

    /// The daemon's side: it is mounted, and what a person is to know of it.
    static func tellReady(_ notice: String?) { tell([UInt8(ascii: "R")] + "\(getpid())\n\(notice ?? "")".utf8) }

    /// The daemon's side: it can't start, for a reason that fits one line.
    static func tell(_ failure: Failure) { tell([failure.exitCode == 2 ? 0x32 : 0x31] + failure.line.utf8) }

    private static func tell(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { try? System.writeAll(descriptor, $0) }
        System.close(descriptor)
    }

    /// The daemon's side: true when nobody waits any more for what it tells.
    static var isAbandoned: Bool {
        var entry = pollfd(fd: descriptor, events: 0, revents: 0)
        return poll(&entry, 1, 0) > 0 && entry.revents & Int16(POLLERR) != 0
    }

    /// The command's side: waits for what the daemon tells.
    ///
    /// Throws the daemon's failure.
    static func wait(on descriptor: Int32, log: String) throws(Failure) -> Report {
        let remedy = "see \(log)"
        var told: [UInt8] = []
        let deadline = System.monotonic() + limit
        while true {
            let left = deadline - System.monotonic()
            let bytes = try Failure.explaining(nil, "the daemon can't be heard", remedy: remedy) {
                () throws(Errno) -> ArraySlice<UInt8>? in
                var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
                guard try System.retry({ poll(&entry, 1, left.pollMilliseconds) }) > 0 else { return nil }
                var buffer = [UInt8](repeating: 0, count: 4096)
                let count = try System.retry { read(descriptor, &buffer, 4096) }
                return buffer[..<count]
            }
            guard let bytes else { throw Failure(nil, "the daemon did not get ready in time", remedy) }
            if bytes.isEmpty { break }
            told += bytes
        }
        if told.first == UInt8(ascii: "R") {
            let lines = String(decoding: told.dropFirst(), as: UTF8.self).split(separator: "\n", maxSplits: 1)
            return Report(
                daemon: lines.first.flatMap { pid_t($0) } ?? 0,
                notice: lines.count > 1 ? String(lines[1]) : nil
            )
        }
        guard let first = told.first else { throw Failure(nil, "the daemon ended before it was ready", remedy) }
        var failure = Failure(line: String(decoding: told.dropFirst(), as: UTF8.self))
        failure.exitCode = first == 0x32 ? 2 : 1
        throw failure
    }
}
