internal import CoveCore
internal import Glibc

/// Writes a zip archive without compression (APPNOTE 6.3): what it holds is mostly compressed already.
struct ZipWriter {
    private struct Member {
        var name: [UInt8]
        /// What an archive can tell of it.
        var nameLength: UInt16
        var checksum: UInt32 = 0
        var size: UInt64 = 0
        var offset: UInt64
        /// The upper half of the external attributes: `st_mode`.
        var mode: UInt16
        var time: UInt32
    }

    private static let large: UInt64 = 0xFFFF_FFFF

    private let file: Int32
    private var members: [Member] = []
    private var position: UInt64 = 0

    /// The date of what has none.
    private let now: Timestamp

    init(_ file: Int32, now: Timestamp) {
        self.file = file
        self.now = now
    }

    mutating func addDirectory(_ path: String) throws(Errno) {
        try add(path, mode: 0o040755, modified: now) { _, _ throws(Errno) in 0 }
    }

    mutating func addLink(_ path: String, to target: [UInt8]) throws(Errno) {
        try add(path, mode: 0o120777, modified: now) { file, offset throws(Errno) in
            try System.pwriteAll(file, target, offset)
            return Int64(target.count)
        }
    }

    /// Adds a file whose bytes the body puts at an offset; it returns how many they are.
    mutating func addFile(
        _ path: String,
        permissions: UInt16,
        modified: Timestamp,
        _ body: (Int32, Int64) throws(Errno) -> Int64
    ) throws(Errno) {
        try add(path, mode: 0o100000 | permissions & 0o777, modified: modified, body)
    }

    private mutating func add(
        _ path: String,
        mode: UInt16,
        modified: Timestamp,
        _ body: (Int32, Int64) throws(Errno) -> Int64
    ) throws(Errno) {
        guard let length = UInt16(exactly: path.utf8.count) else { throw .nameTooLong }
        var member = Member(
            name: Array(path.utf8),
            nameLength: length,
            offset: position,
            mode: mode,
            time: Self.time(modified)
        )
        // The header always has room for sizes beyond 4 GiB.
        let header = 30 + member.name.count + 20
        let start = position + UInt64(header)
        let size = try body(file, Int64(start))
        member.size = UInt64(size)
        member.checksum = try checksum(from: start, count: size)
        try write(localHeader(member), at: position)
        position = start + member.size
        members.append(member)
    }

    private func localHeader(_ member: Member) -> [UInt8] {
        var bytes = Bytes()
        bytes.add(UInt32(0x0403_4B50))
        bytes.add(UInt16(45))
        bytes.add(UInt16(0x0800))
        bytes.add(UInt16(0))
        bytes.add(member.time)
        bytes.add(member.checksum)
        bytes.add(UInt32(Self.large))
        bytes.add(UInt32(Self.large))
        bytes.add(member.nameLength)
        bytes.add(UInt16(20))
        bytes.all += member.name
        bytes.add(UInt16(1))
        bytes.add(UInt16(16))
        bytes.add(member.size)
        bytes.add(member.size)
        return bytes.all
    }

    private func centralHeader(_ member: Member) -> [UInt8] {
        var bytes = Bytes()
        bytes.add(UInt32(0x0201_4B50))
        // Made on Unix.
        bytes.add(UInt16(0x0300 | 45))
        bytes.add(UInt16(45))
        bytes.add(UInt16(0x0800))
        bytes.add(UInt16(0))
        bytes.add(member.time)
        bytes.add(member.checksum)
        bytes.add(UInt32(Self.large))
        bytes.add(UInt32(Self.large))
        bytes.add(member.nameLength)
        bytes.add(UInt16(28))
        bytes.add(UInt16(0))
        bytes.add(UInt16(0))
        bytes.add(UInt16(0))
        bytes.add(UInt32(member.mode) << 16 | (member.mode & 0o170000 == 0o040000 ? 0x10 : 0))
        bytes.add(UInt32(Self.large))
        bytes.all += member.name
        bytes.add(UInt16(1))
        bytes.add(UInt16(24))
        bytes.add(member.size)
        bytes.add(member.size)
        bytes.add(member.offset)
        return bytes.all
    }

    /// Writes the directory of the archive.
    mutating func finish() throws(Errno) {
        let start = position
        for member in members {
            let header = centralHeader(member)
            try write(header, at: position)
            position += UInt64(header.count)
        }
        let (size, end) = (position - start, position)
        var bytes = Bytes()
        bytes.add(UInt32(0x0606_4B50))
        bytes.add(UInt64(44))
        bytes.add(UInt16(0x0300 | 45))
        bytes.add(UInt16(45))
        bytes.add(UInt32(0))
        bytes.add(UInt32(0))
        bytes.add(UInt64(members.count))
        bytes.add(UInt64(members.count))
        bytes.add(size)
        bytes.add(start)
        bytes.add(UInt32(0x0706_4B50))
        bytes.add(UInt32(0))
        bytes.add(end)
        bytes.add(UInt32(1))
        bytes.add(UInt32(0x0605_4B50))
        bytes.add(UInt16(0))
        bytes.add(UInt16(0))
        bytes.add(UInt16(clamping: members.count))
        bytes.add(UInt16(clamping: members.count))
        bytes.add(UInt32(clamping: size))
        bytes.add(UInt32(clamping: start))
        bytes.add(UInt16(0))
        try write(bytes.all, at: position)
    }

    private func write(_ bytes: [UInt8], at offset: UInt64) throws(Errno) {
        try System.pwriteAll(file, bytes, Int64(offset))
    }

    private func checksum(from start: UInt64, count: Int64) throws(Errno) -> UInt32 {
        var sum = CyclicCode.Running(.crc32)
        var buffer = [UInt8](repeating: 0, count: 256 << 10)
        var done: Int64 = 0
        while done < count {
            let wanted = Int(min(Int64(buffer.count), count - done))
            let length = try System.pread(file, into: &buffer, count: wanted, Int64(start) + done)
            if length == 0 { throw .inputOutput }
            buffer.withUnsafeBytes { sum.add(UnsafeRawBufferPointer(rebasing: $0[..<length])) }
            done += Int64(length)
        }
        return UInt32(truncatingIfNeeded: sum.value)
    }

    /// The time in the format of MS-DOS, in UTC: seconds by two, from 1980 on.
    private static func time(_ timestamp: Timestamp) -> UInt32 {
        var seconds = time_t(timestamp.seconds)
        var parts = tm()
        gmtime_r(&seconds, &parts)
        let year = max(0, Int(parts.tm_year) - 80)
        let date = UInt32(min(year, 127)) << 25 | UInt32(parts.tm_mon + 1) << 21 | UInt32(parts.tm_mday) << 16
        return date | UInt32(parts.tm_hour) << 11 | UInt32(parts.tm_min) << 5 | UInt32(parts.tm_sec / 2)
    }

    /// Bytes put together, little-endian.
    private struct Bytes {
        var all: [UInt8] = []

        mutating func add(_ value: some FixedWidthInteger) {
            withUnsafeBytes(of: value.littleEndian) { all.append(contentsOf: $0) }
        }
    }
}
