import CoveTestSupport

/// A piece of content that is written once in a storm: its name, and bytes that follow from the name.
struct StormRecord: Hashable, Sendable {
    /// Bytes of a record that come before those that follow from its name.
    static let headLength = 26
    private static let largest = 1 << 20

    let device: Int
    let number: Int

    /// As it is at the beginning of the record.
    var name: String { "\(device)-\(Self.padded(number, 8))" }

    /// The whole record, with so many bytes after its head.
    func bytes(_ count: Int) -> [UInt8] {
        Array("[\(padded)\(Self.padded(count, 12))]\n".utf8) + payload(count)
    }

    private var padded: String { "\(name) " }

    private func payload(_ count: Int) -> [UInt8] {
        var random = SeededGenerator(seed: UInt64(device) << 40 | UInt64(number))
        return random.bytes(count)
    }

    private static func padded(_ number: Int, _ length: Int) -> String {
        let digits = String(number)
        return String(repeating: "0", count: max(0, length - digits.count)) + digits
    }

    /// What a file holds.
    struct Contents: Sendable {
        /// The whole records at its beginning, and where each of them ends.
        var records: [(record: StormRecord, end: Int)] = []
        /// What comes after them and is none; nil in a file that is whole.
        var garbage: String?
        /// The record that begins there and is not whole, if its head is.
        var broken: StormRecord?
    }

    /// Reads a file's bytes.
    static func parse(_ bytes: [UInt8]) -> Contents {
        var contents = Contents()
        var offset = 0
        while offset < bytes.count {
            let rest = bytes[offset...]
            guard let (record, count) = head(rest.prefix(headLength)) else {
                let start = rest.prefix(headLength).map { (0x20..<0x7F).contains($0) ? $0 : 0x3F }
                contents.garbage = "\(rest.count) bytes at \(offset): \(String(decoding: start, as: UTF8.self))"
                return contents
            }
            let body = rest.dropFirst(headLength).prefix(count)
            guard body.elementsEqual(record.payload(count)) else {
                contents.garbage = "\(record.name) at \(offset): \(body.count) bytes of \(count), not all as written"
                contents.broken = record
                return contents
            }
            offset += headLength + count
            contents.records.append((record, offset))
        }
        return contents
    }

    /// Reads what comes before the bytes of a record.
    private static func head(_ bytes: ArraySlice<UInt8>) -> (StormRecord, Int)? {
        let text = String(decoding: bytes, as: UTF8.self)
        guard let match = text.wholeMatch(of: /\[(\d)-(\d{8}) (\d{12})\]\n/), let device = Int(match.1),
            let number = Int(match.2), let count = Int(match.3), count <= largest
        else { return nil }
        return (StormRecord(device: device, number: number), count)
    }
}
