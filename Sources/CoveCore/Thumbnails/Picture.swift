/// A PNG picture, checked piece by piece, without anything that is neither the picture nor a text about it.
///
/// What is compressed in it is not looked at: that is for who shows it.
public struct Picture: Sendable, Equatable {
    /// No longer file is taken for a picture.
    public static let greatestSize = 4_000_000
    /// The most pixels in a row or a column that a document's picture has.
    public static let greatestSide = 1024

    private static let signature: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]
    /// What is kept besides texts; what has another name is left out, and no picture where it may not be.
    private static let kept: Set<String> = ["IHDR", "PLTE", "tRNS", "gAMA", "sRGB", "IDAT", "IEND"]
    private static let mostTexts = 32

    /// Pixels in a row.
    public let width: Int
    /// Pixels in a column.
    public let height: Int
    /// What it says of itself, such as `Thumb::MTime`.
    public private(set) var texts: [String: String] = [:]
    /// The header chunk, and all others that are kept.
    private let header: [UInt8]
    private let body: [UInt8]

    /// Reads a PNG file; nil for what is none, is damaged, or has more pixels than that in a row or a column.
    public init?(_ bytes: [UInt8], side: Int = greatestSide) {
        guard bytes.count <= Self.greatestSize, bytes.starts(with: Self.signature) else { return nil }
        var rest = bytes[Self.signature.count...]
        var (header, body): ([UInt8], [UInt8]) = ([], [])
        var size: (width: Int, height: Int)?
        var (hasPixels, isEnded) = (false, false)
        while !isEnded {
            // Length, name, the bytes, and a checksum.
            guard rest.count >= 12 else { return nil }
            let length = Self.number(rest.prefix(4))
            guard length <= rest.count - 12 else { return nil }
            let chunk = rest.prefix(length + 12)
            let name = String(decoding: chunk.dropFirst(4).prefix(4), as: UTF8.self)
            let content = chunk.dropFirst(8).prefix(length)
            guard CyclicCode.crc32.check(Array(chunk.dropFirst(4).dropLast(4))).elementsEqual(chunk.suffix(4)) else {
                return nil
            }
            rest = rest.dropFirst(chunk.count)
            switch name {
            case "IHDR":
                guard size == nil, let found = Self.size(content, most: side) else { return nil }
                size = found
                header = Array(chunk)
            case _ where size == nil: return nil
            case "tEXt":
                guard let end = content.firstIndex(of: 0), texts.count < Self.mostTexts, length <= 4096 else { break }
                let key = String(decoding: content[..<end], as: UTF8.self)
                texts[key] = String(decoding: content[(end + 1)...], as: UTF8.self)
            case _ where Self.kept.contains(name):
                hasPixels = hasPixels || name == "IDAT"
                isEnded = name == "IEND"
                body += chunk
            default:
                // A capital letter means that it can't be left out.
                guard let first = name.utf8.first, first & 0x20 != 0 else { return nil }
            }
        }
        guard let size, hasPixels else { return nil }
        (width, height) = size
        self.header = header
        self.body = body
    }

    private static func number(_ bytes: ArraySlice<UInt8>) -> Int { bytes.reduce(0) { $0 << 8 | Int($1) } }

    private static func size(_ header: ArraySlice<UInt8>, most side: Int) -> (width: Int, height: Int)? {
        guard header.count == 13 else { return nil }
        let (width, height) = (number(header.prefix(4)), number(header.dropFirst(4).prefix(4)))
        let format = Array(header.suffix(5))
        guard (1...side).contains(width), (1...side).contains(height), [1, 2, 4, 8, 16].contains(format[0]),
            [0, 2, 3, 4, 6].contains(format[1]), format[2] == 0, format[3] == 0, format[4] <= 1
        else { return nil }
        return (width, height)
    }

    /// The file, with these texts in it and no others, in their order.
    public func bytes(texts: KeyValuePairs<String, String>) -> [UInt8] {
        var bytes = Self.signature + header
        for (key, value) in texts {
            let content = Array("tEXt".utf8) + Array(key.utf8) + [0] + Array(value.utf8)
            let length = UInt32(clamping: content.count - 4)
            bytes += (0..<4).reversed().map { UInt8(truncatingIfNeeded: length >> ($0 * 8)) }
            bytes += content + CyclicCode.crc32.check(content)
        }
        return bytes + body
    }

}
