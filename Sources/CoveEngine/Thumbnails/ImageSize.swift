/// How large an image is, as the beginning of its file tells: programs of the desktop would make small ones larger.
enum ImageSize {
    /// How many of a file's first bytes are looked at.
    static let prefix = 64 << 10

    /// The larger of width and height, in pixels; nil for a file of another kind, or one that does not tell.
    static func largestSide(in bytes: [UInt8]) -> Int? {
        let (width, height): (Int?, Int?)
        if bytes.starts(with: [0x89, 0x50, 0x4E, 0x47]) {
            (width, height) = (big(bytes, 16, 4), big(bytes, 20, 4))
        } else if bytes.starts(with: Array("GIF8".utf8)) {
            (width, height) = (little(bytes, 6, 2), little(bytes, 8, 2))
        } else if bytes.starts(with: Array("BM".utf8)) {
            (width, height) = (little(bytes, 18, 4), little(bytes, 22, 4))
        } else if bytes.starts(with: [0xFF, 0xD8]) {
            (width, height) = frame(ofJPEG: bytes)
        } else {
            return nil
        }
        guard let width, let height, max(width, height) > 0 else { return nil }
        return max(width, height)
    }

    /// ISO/IEC 10918-1: segments of a mark and a length follow each other, one of which tells of the frame.
    private static func frame(ofJPEG bytes: [UInt8]) -> (Int?, Int?) {
        var index = 2
        while index + 4 <= bytes.count, bytes[index] == 0xFF {
            let mark = bytes[index + 1]
            if mark == 0xFF {
                index += 1
                continue
            }
            let isFrame = (0xC0...0xCF).contains(mark) && ![0xC4, 0xC8, 0xCC].contains(mark)
            if isFrame { return (big(bytes, index + 7, 2), big(bytes, index + 5, 2)) }
            guard mark != 0xDA, let length = big(bytes, index + 2, 2), length >= 2 else { break }
            index += 2 + length
        }
        return (nil, nil)
    }

    private static func big(_ bytes: [UInt8], _ start: Int, _ count: Int) -> Int? {
        guard start + count <= bytes.count else { return nil }
        return bytes[start..<start + count].reduce(0) { $0 << 8 | Int($1) }
    }

    private static func little(_ bytes: [UInt8], _ start: Int, _ count: Int) -> Int? {
        guard start + count <= bytes.count else { return nil }
        return bytes[start..<start + count].reversed().reduce(0) { $0 << 8 | Int($1) }
    }
}
