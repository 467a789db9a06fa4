import CoveCore

/// Makes PNG files that any program can show.
public enum TestPicture {
    /// A picture of one colour, its bytes not compressed.
    public static func png(width: Int, height: Int, red: UInt8, texts: [(String, String)] = []) -> [UInt8] {
        let row = [UInt8(0)] + Array(repeating: [red, 60, 120] as [UInt8], count: width).joined()
        let pixels = Array(Array(repeating: row, count: height).joined())
        var bytes: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]
        bytes += chunk("IHDR", number(width) + number(height) + [8, 2, 0, 0, 0])
        for (key, text) in texts { bytes += chunk("tEXt", Array(key.utf8) + [0] + Array(text.utf8)) }
        return bytes + chunk("IDAT", stored(pixels)) + chunk("IEND", [])
    }

    /// One chunk of a PNG file.
    public static func chunk(_ name: String, _ content: [UInt8]) -> [UInt8] {
        let named = Array(name.utf8) + content
        return number(content.count) + named + CyclicCode.crc32.check(named)
    }

    private static func number(_ value: Int) -> [UInt8] {
        (0..<4).reversed().map { UInt8(truncatingIfNeeded: value >> ($0 * 8)) }
    }

    /// RFC 1950 without compression: blocks of at most 65,535 bytes, and a sum.
    private static func stored(_ bytes: [UInt8]) -> [UInt8] {
        var result: [UInt8] = [0x78, 0x01]
        var rest = bytes[...]
        repeat {
            let block = rest.prefix(65_535)
            rest = rest.dropFirst(block.count)
            let length = UInt16(block.count)
            result.append(rest.isEmpty ? 1 : 0)
            for part in [length, ~length] { result += [UInt8(part & 0xFF), UInt8(part >> 8)] }
            result += block
        } while !rest.isEmpty
        var (a, b): (UInt32, UInt32) = (1, 0)
        for byte in bytes {
            a = (a + UInt32(byte)) % 65_521
            b = (b + a) % 65_521
        }
        return result + number(Int(b << 16 | a))
    }
}
