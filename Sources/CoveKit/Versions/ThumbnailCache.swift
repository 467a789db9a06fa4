internal import CoveCore
internal import Foundation

/// The pictures of files that programs of the desktop share: `thumbnails` in the user's cache folder.
///
/// See specifications.freedesktop.org/thumbnail-spec. A picture says of which change of the file it is.
enum ThumbnailCache {
    /// Folders of the cache, the largest pictures first.
    private static let sizes = ["xx-large", "x-large", "large", "normal"]

    /// Larger ones are no thumbnails.
    private static let greatestSize = 16 << 20

    /// The PNG picture of a file as it was at a time; nil when nobody has made one.
    ///
    /// Blocks.
    static func picture(of path: String, modified: Timestamp, in folder: String = folder) -> Data? {
        let name = MD5.hex(Array(uri(of: path).utf8)) + ".png"
        for size in sizes {
            let file = "\(folder)/thumbnails/\(size)/\(name)"
            guard let status = try? System.statFollowing(file), status.st_size <= greatestSize,
                let data = FileManager.default.contents(atPath: file),
                text("Thumb::MTime", in: [UInt8](data)) == "\(modified.seconds)"
            else { continue }
            return data
        }
        return nil
    }

    /// The user's cache folder.
    static var folder: String {
        let variable = ProcessInfo.processInfo.environment["XDG_CACHE_HOME"] ?? ""
        return variable.hasPrefix("/") ? variable : NSHomeDirectory() + "/.cache"
    }

    /// A path as a URI, as the desktop's libraries write it.
    static func uri(of path: String) -> String {
        let plain = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~!$&'()*+,:=@/".utf8)
        let digits = Array("0123456789ABCDEF".utf8)
        var bytes = Array("file://".utf8)
        for byte in path.utf8 {
            if plain.contains(byte) {
                bytes.append(byte)
            } else {
                bytes += [0x25, digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// A text that a PNG picture carries under a key; nil without one, and for what is no such picture.
    static func text(_ key: String, in picture: [UInt8]) -> String? {
        guard picture.starts(with: [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]) else { return nil }
        let wanted = Array(key.utf8) + [0]
        var rest = picture[8...]
        // Length, kind, the bytes, and a checksum.
        while rest.count >= 12 {
            let length = rest.prefix(4).reduce(0) { $0 << 8 | Int($1) }
            guard length <= rest.count - 12 else { return nil }
            let kind = rest.dropFirst(4).prefix(4)
            let bytes = rest.dropFirst(8).prefix(length)
            if kind.elementsEqual("tEXt".utf8), bytes.starts(with: wanted) {
                return String(decoding: bytes.dropFirst(wanted.count), as: UTF8.self)
            }
            rest = rest.dropFirst(length + 12)
        }
        return nil
    }
}
