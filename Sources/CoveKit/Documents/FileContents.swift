internal import CoveCore
public import Foundation
internal import Glibc

/// What a document has on disk: the bytes of a file, or the files of a package by their names.
///
/// The files of a package are read when they are needed. Those that are saved as they were found are neither read nor written.
public indirect enum FileContents: Sendable, Equatable {
    /// A file.
    case file(Data)
    /// A file inside a package, on the disk.
    case stored(StoredFile)
    /// A package: a directory that is one document.
    case package([String: FileContents])
    /// A symbolic link inside a package.
    case symbolicLink(to: String)

    /// How deep packages may be nested: what is deeper is an error, where it would else exhaust a thread's stack.
    private static let greatestDepth = 100

    /// The bytes of a file that is in memory; nil for a package, and for a file inside one that `read` is to be called for.
    public var data: Data? {
        if case .file(let data) = self { data } else { nil }
    }

    /// True for a package.
    public var isPackage: Bool {
        if case .package = self { true } else { false }
    }

    /// What is in a package under a name; nil when there is no such thing, or this is no package.
    ///
    /// To set it makes, replaces or, with nil, removes it; in what is no package it changes nothing.
    public subscript(name: String) -> FileContents? {
        get {
            if case .package(let members) = self { members[name] } else { nil }
        }
        set {
            guard case .package(var members) = self else { return }
            members[name] = newValue
            self = .package(members)
        }
    }

    /// The bytes of a file, read from the disk where they are not in memory.
    ///
    /// Throws EISDIR for a package, and ESTALE when another program has changed the file since the package was read.
    public func read() async throws(CoveError) -> Data {
        switch self {
        case .file(let data): return data
        case .stored(let file): return try await file.read()
        case .package, .symbolicLink: throw CoveError(.init(rawValue: EISDIR), "is no file")
        }
    }

    /// Reads a file, or finds what is in a package; throws ENOTSUP for what has no contents, such as a fifo.
    ///
    /// Blocks. With `reading` all files of a package are read at once, too.
    public init(contentsOf url: URL, reading: Bool = false) throws {
        switch try System.statFollowing(url.path).st_mode & S_IFMT {
        case S_IFDIR:
            let package = PackageLocation(url)
            self = .package(try Self.members("", package, reading, depth: 0))
        case S_IFREG: self = .file(try Data(contentsOf: url))
        default: throw CoveError(.notSupported, "is neither a file nor a directory", url: url)
        }
    }

    private static func members(
        _ directory: String,
        _ package: PackageLocation,
        _ reading: Bool,
        depth: Int
    ) throws -> [String: FileContents] {
        let root = package.url.path
        guard depth < greatestDepth else {
            throw CoveError(.init(rawValue: ELOOP), "folders are nested too deep", url: package.url)
        }
        var members: [String: FileContents] = [:]
        for name in try System.names(in: directory.isEmpty ? root : "\(root)/\(directory)") {
            let path = directory.isEmpty ? name : "\(directory)/\(name)"
            let stamp = try FileStamp("\(root)/\(path)")
            // Swift takes them for one key: a save would drop the other one.
            guard members[name] == nil else {
                let words = "two names here differ only in how their accents are written; rename one"
                throw CoveError(.notSupported, words, url: package.url.appendingPathComponent(path))
            }
            members[name] =
                switch stamp.kind {
                case .directory: .package(try self.members(path, package, reading, depth: depth + 1))
                case .symbolicLink: .symbolicLink(to: try target(of: "\(root)/\(path)"))
                case .file:
                    try stored(StoredFile(path, stamp, in: package), reading)
                case .fifo, .socket, .characterDevice, .blockDevice:
                    throw CoveError(
                        .notSupported,
                        "is neither a file nor a directory",
                        url: package.url.appendingPathComponent(path)
                    )
                }
        }
        return members
    }

    private static func stored(_ file: StoredFile, _ reading: Bool) throws -> FileContents {
        reading ? .file(try file.bytes()) : .stored(file)
    }

    private static func target(of link: String) throws -> String {
        String(decoding: try System.readlinkat(AT_FDCWD, Array(link.utf8)), as: UTF8.self)
    }

    // MARK: Writing

    /// Writes to a place that is empty, an empty file or, for a package, an empty directory.
    ///
    /// Blocks. Of a package whose last saved contents are at `originalContentsURL` the files that are the same are not written
    /// but get a second name, which takes no room.
    public func write(to url: URL, originalContentsURL: URL? = nil) throws {
        try write(to: url.path, original: originalContentsURL?.path, depth: 0)
    }

    private func write(to path: String, original: String?, depth: Int) throws {
        switch self {
        case .file(let data):
            if depth > 0, let original, Self.isSame(data, original),
                (try? System.linkat(AT_FDCWD, Array(original.utf8), AT_FDCWD, Array(path.utf8))) != nil
            {
                return
            }
            let file = try System.open(path, O_WRONLY | O_CREAT | O_TRUNC, 0o666)
            defer { System.close(file) }
            let written = data.withUnsafeBytes { bytes in
                Result { () throws(Errno) in try System.writeAll(file, bytes) }
            }
            try written.get()
        case .stored(let file):
            // The empty file that a save begins with.
            if depth == 0 { try? System.unlink(path) }
            try file.takeOver(to: path)
        case .package(let members):
            guard depth < Self.greatestDepth else {
                throw CoveError(.init(rawValue: ELOOP), "folders are nested too deep", url: URL(fileURLWithPath: path))
            }
            try System.makeDirectories(path, 0o777)
            for (name, contents) in members {
                guard FileName(name) != nil else { throw Errno.invalidArgument }
                try contents.write(
                    to: "\(path)/\(name)",
                    original: original.map { "\($0)/\(name)" },
                    depth: depth + 1
                )
            }
        case .symbolicLink(let target): try System.symlinkat(Array(target.utf8), AT_FDCWD, Array(path.utf8))
        }
    }

    /// True where a file has the same bytes, and has them on this disk.
    private static func isSame(_ data: Data, _ path: String) -> Bool {
        guard let status = try? System.lstat(path), status.st_mode & S_IFMT == S_IFREG,
            Int64(status.st_size) == Int64(data.count), Int64(status.st_blocks) * 512 >= Int64(data.count),
            let file = try? System.open(path, O_RDONLY | O_NOFOLLOW)
        else { return false }
        defer { System.close(file) }
        var buffer = [UInt8](repeating: 0, count: 1 << 18)
        return data.withUnsafeBytes { bytes in
            var left = bytes[...]
            while !left.isEmpty {
                let offset = Int64(left.startIndex)
                guard let count = try? System.pread(file, into: &buffer, count: buffer.count, offset), count > 0,
                    count <= left.count, let start = UnsafeRawBufferPointer(rebasing: left).baseAddress,
                    memcmp(start, buffer, count) == 0
                else { return false }
                left = left.dropFirst(count)
            }
            return true
        }
    }

    /// After a save: the files that it took over are in the package at a URL, under the names that they have here.
    ///
    /// Blocks.
    func noteSaved(at url: URL) {
        var left: [(path: String, contents: FileContents)] = [("", self)]
        while let (path, contents) = left.popLast() {
            switch contents {
            case .file, .symbolicLink: continue
            case .package(let members):
                left += members.map { (path.isEmpty ? $0.key : "\(path)/\($0.key)", $0.value) }
            case .stored(let file):
                if let stamp = try? FileStamp("\(url.path)/\(path)") { file.note(path, savedAs: stamp) }
            }
        }
    }

    /// Where the package is that files here are read from; nil when none is.
    var packageLocation: PackageLocation? {
        switch self {
        case .file, .symbolicLink: return nil
        case .stored(let file): return file.package
        case .package(let members):
            for member in members.values {
                if let found = member.packageLocation { return found }
            }
            return nil
        }
    }
}
