internal import CoveCore
internal import Glibc

/// Copies a file, or a directory and all in it, between block and block of which it can be given up.
///
/// What is made is new: nothing that stands there is written to.
struct FileCopy {
    /// How deep a directory may be, and how much it may hold.
    private static let deepest = 64
    private static let mostItems = 100_000
    private static let block = 1 << 20

    private let interruption: Interruption
    private var items = 0

    /// A copy that ends with ECANCELED once the interruption comes.
    init(_ interruption: Interruption) { self.interruption = interruption }

    /// Copies what has a name in one open directory to that name in another one; a symbolic link is not followed.
    mutating func copy(_ from: Int32, _ name: [UInt8], into directory: Int32) throws(Errno) {
        try copy(from, name, into: directory, as: name, depth: 0)
    }

    /// Copies the bytes of an open file to another one.
    func copyBytes(from source: Int32, to target: Int32) throws(Errno) {
        var buffer = [UInt8](repeating: 0, count: Self.block)
        var offset: Int64 = 0
        while true {
            guard !interruption.isInterrupted else { throw .cancelled }
            let count = try System.pread(source, into: &buffer, count: buffer.count, offset)
            if count == 0 { return }
            try System.pwriteAll(target, Array(buffer.prefix(count)), offset)
            offset = offset.saturatingAdd(Int64(count))
        }
    }

    private mutating func copy(
        _ from: Int32,
        _ path: [UInt8],
        into directory: Int32,
        as name: [UInt8],
        depth: Int
    ) throws(Errno) {
        items += 1
        guard depth < Self.deepest, items <= Self.mostItems else { throw .fileTooLarge }
        let status = try System.status(from, path)
        switch status.kind {
        case .file: try copyFile(from, path, into: directory, as: name, status.permissions)
        case .directory:
            let source = try System.openat(from, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
            defer { System.close(source) }
            try System.mkdirat(directory, name, 0o700)
            let target = try System.openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
            defer { System.close(target) }
            for inner in try System.rawNames(in: Array("/proc/self/fd/\(source)".utf8)) {
                try copy(source, inner, into: target, as: inner, depth: depth + 1)
            }
        case .symbolicLink:
            // One that leads out would show the program something else than what was picked.
            let link = try System.readlinkat(from, path)
            let leadsOut = link.first == 0x2F || link.split(separator: 0x2F).contains([0x2E, 0x2E])
            guard !leadsOut else { throw .notPermitted }
            try System.symlinkat(link, directory, name)
        case .fifo, .socket, .characterDevice, .blockDevice: throw .notSupported
        }
    }

    private func copyFile(
        _ from: Int32,
        _ path: [UInt8],
        into directory: Int32,
        as name: [UInt8],
        _ permissions: UInt16
    ) throws(Errno) {
        let source = try System.openat(from, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
        defer { System.close(source) }
        let target = try System.openat(directory, name, O_WRONLY | O_CREAT | O_EXCL, 0o600)
        defer { System.close(target) }
        try copyBytes(from: source, to: target)
        try System.fchmod(target, permissions & 0o700 | 0o600)
    }

    /// Removes an item and all in it, as far as it can be.
    static func remove(_ directory: Int32, _ name: [UInt8], depth: Int = 0) {
        guard depth < deepest, (try? System.unlinkat(directory, name)) == nil else { return }
        guard let inner = try? System.openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW) else { return }
        defer { System.close(inner) }
        for entry in (try? System.rawNames(in: Array("/proc/self/fd/\(inner)".utf8))) ?? [] {
            remove(inner, entry, depth: depth + 1)
        }
        try? System.unlinkat(directory, name, directory: true)
    }
}
