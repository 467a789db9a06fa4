internal import CoveCore
public import Foundation
internal import Glibc

/// What a document has on disk: the bytes of a file, or the files of a package by their names.
public indirect enum FileContents: Sendable, Equatable {
    /// A file.
    case file(Data)
    /// A package: a directory that is one document.
    case package([String: FileContents])
    /// A symbolic link inside a package.
    case symbolicLink(to: String)

    /// The bytes of a file; nil for a package.
    public var data: Data? {
        if case .file(let data) = self { data } else { nil }
    }

    /// True for a package.
    public var isPackage: Bool {
        if case .package = self { true } else { false }
    }

    /// Reads a file or a package; throws ENOTSUP for what has no contents, such as a fifo.
    public init(contentsOf url: URL) throws {
        switch try System.statFollowing(url.path).st_mode & S_IFMT {
        case S_IFDIR: self = .package(try Self.members(of: url))
        case S_IFREG: self = .file(try Data(contentsOf: url))
        default: throw CoveError(.notSupported, "is neither a file nor a directory", url: url)
        }
    }

    private static func members(of url: URL) throws -> [String: FileContents] {
        var members: [String: FileContents] = [:]
        for name in try System.names(in: url.path) {
            let member = url.appendingPathComponent(name)
            let isLink = try System.lstat(member.path).st_mode & S_IFMT == S_IFLNK
            members[name] =
                isLink ? .symbolicLink(to: try Self.target(of: member)) : try FileContents(contentsOf: member)
        }
        return members
    }

    private static func target(of link: URL) throws -> String {
        String(decoding: try System.readlinkat(AT_FDCWD, Array(link.path.utf8)), as: UTF8.self)
    }

    /// Writes to a place that is empty, an empty file or, for a package, an empty directory.
    public func write(to url: URL) throws {
        switch self {
        case .file(let data):
            let file = try System.open(url.path, O_WRONLY | O_CREAT | O_TRUNC, 0o666)
            defer { System.close(file) }
            let written = data.withUnsafeBytes { bytes in
                Result { () throws(Errno) in try System.writeAll(file, bytes) }
            }
            try written.get()
        case .package(let members):
            try System.makeDirectories(url.path, 0o777)
            for (name, contents) in members {
                guard FileName(name) != nil else { throw Errno.invalidArgument }
                try contents.write(to: url.appendingPathComponent(name))
            }
        case .symbolicLink(let target): try System.symlinkat(Array(target.utf8), AT_FDCWD, Array(url.path.utf8))
        }
    }
}
