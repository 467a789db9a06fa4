internal import Glibc

/// The pictures of files that programs of the desktop share: `thumbnails` in the user's cache folder.
///
/// See specifications.freedesktop.org/thumbnail-spec. A picture says of which change of the file it is.
public struct ThumbnailCache: Sendable {
    /// Folders of the cache and how many pixels their pictures have at most in a row or a column, the largest first.
    public static let sizes = [("xx-large", 1024), ("x-large", 512), ("large", 256), ("normal", 128)]

    private static let timeKey = "Thumb::MTime"
    private static let placeKey = "Thumb::URI"
    private static let program = "Cove"
    /// What a URI has as it is.
    private static let plain = Set(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~!$&'()*+,:=@/".utf8
    )
    private static let digits = Array("0123456789ABCDEF".utf8)

    /// The folder with a folder for each size in it.
    public let folder: String

    /// The one in a user's cache folder.
    public init(cacheFolder: String) { folder = cacheFolder + "/thumbnails" }

    /// The name of a file's pictures.
    public static func name(of path: [UInt8]) -> String { MD5.hex(Array(uri(of: path).utf8)) + ".png" }

    /// A path as a URI, as the desktop's libraries write it.
    public static func uri(of path: [UInt8]) -> String {
        var bytes = Array("file://".utf8)
        for byte in path {
            if Self.plain.contains(byte) {
                bytes.append(byte)
            } else {
                bytes += [0x25, Self.digits[Int(byte >> 4)], Self.digits[Int(byte & 15)]]
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// The largest picture of a file as it was at a time; nil when nobody has made one.
    ///
    /// Blocks.
    public func picture(of path: [UInt8], modified: Timestamp) -> Picture? {
        let name = Self.name(of: path)
        for (size, _) in Self.sizes {
            guard let picture = Self.read("\(folder)/\(size)/\(name)"),
                picture.texts[Self.timeKey]?.prefix(while: { $0 != "." }) == "\(modified.seconds)"
            else { continue }
            return picture
        }
        return nil
    }

    /// Reads a file that is a picture; nil for anything else.
    ///
    /// Blocks.
    public static func read(_ file: String) -> Picture? {
        guard let descriptor = try? System.open(file, O_RDONLY | O_NONBLOCK | O_NOFOLLOW) else { return nil }
        defer { System.close(descriptor) }
        guard let status = try? System.fstat(descriptor), status.st_mode & S_IFMT == S_IFREG,
            status.st_size <= Picture.greatestSize,
            let bytes = try? System.contents(descriptor, atMost: Int(status.st_size))
        else { return nil }
        return Picture(bytes)
    }

    /// Gives programs a picture of a file as it was at a time, under the size whose folder is named.
    ///
    /// Blocks.
    public func publish(_ picture: Picture, as size: String, of path: [UInt8], modified: Timestamp) throws(Errno) {
        for folder in [folder, "\(folder)/\(size)"] { try System.makeDirectories(folder) }
        // Tumbler wants the microseconds and takes the first time that it finds, Qt wants none and takes the last.
        let texts: KeyValuePairs = [
            Self.placeKey: Self.uri(of: path), Self.timeKey: modified.decimalSeconds, "Software": Self.program,
            Self.timeKey: "\(modified.seconds)",
        ]
        let file = "\(folder)/\(size)/\(Self.name(of: path))"
        try Self.write(picture.bytes(texts: texts), to: file)
    }

    /// True while what was published under a name has not been cleaned away.
    ///
    /// Blocks.
    public func holds(_ name: String) -> Bool {
        Self.sizes.contains { access("\(folder)/\($0.0)/\(name)", F_OK) == 0 }
    }

    /// Takes back what was published under a name; what other programs have made is theirs.
    ///
    /// Blocks.
    public func remove(_ name: String, sizes: [String] = ThumbnailCache.sizes.map(\.0)) {
        for size in sizes {
            let file = "\(folder)/\(size)/\(name)"
            if Self.read(file)?.texts["Software"] == Self.program { try? System.unlink(file) }
        }
    }

    /// Writes a file that only its owner can read, in one step.
    public static func write(_ bytes: [UInt8], to file: String) throws(Errno) {
        let scratch = "\(file).\(DocumentID.random())"
        do throws(Errno) {
            let descriptor = try System.open(scratch, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
            defer { System.close(descriptor) }
            try System.pwriteAll(descriptor, bytes, 0)
            try System.rename(scratch, file)
        } catch {
            try? System.unlink(scratch)
            throw error
        }
    }
}
