internal import CoveCore
internal import Glibc
internal import Synchronization

/// What is to be known of an upload in parts for it to go on after a crash.
struct UploadRecord: Sendable, Equatable {
    /// The object, or the path, that is to have the bytes.
    var key: [UInt8]
    /// The server's name of the upload.
    var upload: String
    /// Names the snapshot and the metadata that are sent.
    var identity: String
    var partSize: Int64
    /// When it began, in seconds since 1970; of a record that was read, when it was last known to go on.
    var started: Int64
}

extension UploadRecord {
    /// The numbers of the parts of an object of that size; there is one at least.
    func numbers(of size: Int64) -> ClosedRange<Int> {
        1...Int(max(1, size / partSize + (size % partSize > 0 ? 1 : 0)))
    }

    /// The bytes of a part, counted from 1, of an object of that size; empty behind its end.
    func range(_ number: Int, of size: Int64) -> Range<Int64> {
        let (before, isBeyond) = Int64(number - 1).multipliedReportingOverflow(by: partSize)
        let start = isBeyond ? size : min(size, max(0, before))
        return start..<(size - start > partSize ? start + partSize : size)
    }
}

/// Remembers uploads in parts, one file each in a folder of the account's state; without a folder, in memory.
///
/// A record is durable before the first part is sent, so that none is left on the server without anybody's knowledge.
final class UploadJournal: Sendable {
    private let folder: String?
    private let memory = Mutex<[[UInt8]: UploadRecord]>([:])
    /// The uploads that go on now, by key: how many, and when that was last noted.
    private let underway = Mutex<[[UInt8]: (count: Int, noted: Int64)]>([:])

    /// That an upload goes on is noted so often, in seconds.
    private static let noting: Int64 = 3600
    /// What nobody has gone on with for so long is nobody's.
    private static let age: Int64 = 86_400

    init(folder: String?) { self.folder = folder }

    /// A name for this device's account, which no other has; it lasts as long as the folder.
    func owner() -> String {
        let own = "\(DocumentID.random())"
        guard let folder else { return own }
        let path = folder + "/owner"
        if let known = Self.text(path)?.text, known.utf8.count == own.utf8.count { return known }
        // Where it can't be kept, the next start has another one.
        try? Self.write(own, path, in: folder)
        return own
    }

    func record(_ key: [UInt8]) -> UploadRecord? {
        guard let path = path(key) else { return memory.withLock { $0[key] } }
        return Self.read(path).flatMap { $0.key == key ? $0 : nil }
    }

    /// An upload goes on, until `end` is called as often: its record is nobody else's to drop.
    func begin(_ key: [UInt8]) { underway.withLock { $0[key, default: (0, .min)].count += 1 } }

    func end(_ key: [UInt8]) {
        underway.withLock { underway in
            guard let count = underway[key]?.count, count > 1 else { return underway[key] = nil }
            underway[key]?.count = count - 1
        }
    }

    /// True where it is to be noted that an upload goes on.
    func isDue(_ key: [UInt8], at now: Int64) -> Bool {
        underway.withLock { $0[key].map { now.saturatingSubtract($0.noted) >= Self.noting } ?? false }
    }

    /// Notes that an upload goes on, by the date of its file: a record that is gone by now does not come back so.
    func refresh(_ key: [UInt8], at now: Int64) {
        underway.withLock { $0[key]?.noted = now }
        guard let path = path(key) else { return memory.withLock { $0[key]?.started = now } }
        guard let file = try? System.open(path, O_RDONLY) else { return }
        defer { System.close(file) }
        try? System.setModificationTime(file, Timestamp(seconds: now, nanoseconds: 0))
    }

    /// True for an upload that goes on now.
    func isUnderway(_ key: [UInt8]) -> Bool { underway.withLock { $0[key] != nil } }

    /// The uploads that nobody goes on with, now or for a day.
    func abandoned(at now: Int64) -> [UploadRecord] {
        all().filter { now.saturatingSubtract($0.started) > Self.age && !isUnderway($0.key) }
    }

    func save(_ record: UploadRecord) throws(ProviderError) {
        guard let folder, let path = path(record.key) else { return memory.withLock { $0[record.key] = record } }
        let text = [
            record.key.hexadecimal, PercentEncoding.encode(record.upload.utf8), record.identity,
            "\(record.partSize)", "\(record.started)", "end",
        ].joined(separator: "\n")
        do throws(Errno) {
            try Self.write(text, path, in: folder)
        } catch {
            throw .failed("the upload can't be noted: \(error)", error)
        }
    }

    func remove(_ key: [UInt8]) {
        guard let path = path(key) else { return memory.withLock { $0[key] = nil } }
        try? System.unlink(path)
    }

    /// All uploads that have not ended.
    func all() -> [UploadRecord] {
        guard let folder else { return memory.withLock { Array($0.values) } }
        return ((try? System.names(in: folder)) ?? []).compactMap { Self.read("\(folder)/\($0)") }
    }

    private func path(_ key: [UInt8]) -> String? { folder.map { "\($0)/\(Digest.hash(key, .sha256).hexadecimal)" } }

    /// Makes a file of the folder durable.
    private static func write(_ text: String, _ path: String, in folder: String) throws(Errno) {
        try System.makeDirectories(folder)
        let file = try System.open(path, O_WRONLY | O_CREAT | O_TRUNC)
        defer { System.close(file) }
        let written = Array(text.utf8).withUnsafeBytes { bytes in
            Result { () throws(Errno) in try System.pwriteAll(file, bytes, 0) }
        }
        try written.get()
        try System.fsync(file)
        try System.syncDirectory(folder)
    }

    private static func text(_ path: String) -> (text: String, date: Timestamp)? {
        guard let file = try? System.open(path, O_RDONLY) else { return nil }
        defer { System.close(file) }
        var bytes = [UInt8](repeating: 0, count: 16 << 10)
        let count = bytes.withUnsafeMutableBytes { (try? System.pread(file, $0, 0)) ?? 0 }
        let date = (try? System.status(file))?.modificationTime ?? .epoch
        return (String(decoding: bytes[..<count], as: UTF8.self), date)
    }

    /// Reads a record; nil for one that was cut off.
    private static func read(_ path: String) -> UploadRecord? {
        guard let (text, date) = text(path) else { return nil }
        let lines = text.split(separator: "\n").map { String($0) }
        guard lines.count == 6, lines[5] == "end", let key = [UInt8](hexadecimal: lines[0]),
            let upload = PercentEncoding.decode(lines[1].utf8), let partSize = Int64(lines[3]), partSize > 0,
            let started = Int64(lines[4])
        else { return nil }
        return UploadRecord(
            key: key,
            upload: String(decoding: upload, as: UTF8.self),
            identity: lines[2],
            partSize: partSize,
            started: max(started, date.seconds)
        )
    }
}
