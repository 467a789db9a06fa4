internal import CoveCore
internal import Glibc

/// The pipe through which a daemon in the background tells the command that started its keeper how its start went.
enum ReadyPipe {
    /// The descriptor the daemon finds it at.
    static let descriptor = KeeperPacket.descriptor + 1

    /// The daemon's side: it is mounted, and what a person is to know of it.
    static func tellReady(_ notice: String?) { tell([UInt8(ascii: "R")] + "\(getpid())\n\(notice ?? "")".utf8) }

    /// The daemon's side: it can't start, for a reason that fits one line.
    static func tell(_ failure: Failure) { tell([failure.exitCode == 2 ? 0x32 : 0x31] + failure.line.utf8) }

    private static func tell(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { try? System.writeAll(descriptor, $0) }
        System.close(descriptor)
    }

    /// The command's side: waits for what the daemon tells, its process id and its notice if it has one.
    ///
    /// Throws the daemon's failure.
    static func wait(on descriptor: Int32, limit: Duration, log: String) throws(Failure) -> (
        daemon: pid_t, notice: String?
    ) {
        let remedy = "see \(log)"
        var told: [UInt8] = []
        let deadline = ContinuousClock().now + limit
        while true {
            let left = deadline - ContinuousClock().now
            let milliseconds = Int32(clamping: max(0, Int64(left / .milliseconds(1))))
            let bytes = try Failure.explaining(nil, "the daemon can't be heard", remedy: remedy) {
                () throws(Errno) -> ArraySlice<UInt8>? in
                var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
                guard try System.retry({ poll(&entry, 1, milliseconds) }) > 0 else { return nil }
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
            return (lines.first.flatMap { pid_t($0) } ?? 0, lines.count > 1 ? String(lines[1]) : nil)
        }
        guard let first = told.first else { throw Failure(nil, "the daemon ended before it was ready", remedy) }
        var failure = Failure(line: String(decoding: told.dropFirst(), as: UTF8.self))
        failure.exitCode = first == 0x32 ? 2 : 1
        throw failure
    }
}
