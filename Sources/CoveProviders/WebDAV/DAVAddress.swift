internal import CoveCore

/// Where a WebDAV source is, and which address each path below it has.
struct DAVAddress: Sendable {
    /// `https://host:port`.
    let origin: String
    /// The decoded path of the root, without a slash at either end.
    let root: [UInt8]
    /// Hidden names that somebody may have to find are written without their dot: the server lists none with one.
    var undots = false

    init(_ source: SourceAddress) {
        origin = source.origin(source.scheme == "webdavs" ? "https" : "http")
        root = source.path
    }

    /// The address of a path; that of a directory ends with a slash.
    func url(_ path: RemotePath, isDirectory: Bool = false) -> String {
        var bytes = root
        if !path.isRoot {
            if !bytes.isEmpty { bytes.append(0x2F) }
            bytes += undots ? Array(names(of: path).joined(separator: [0x2F])) : path.bytes
        }
        let slash = isDirectory && !bytes.isEmpty ? "/" : ""
        return "\(origin)/\(PercentEncoding.encode(bytes, keepingSlashes: true))\(slash)"
    }

    /// What an answer calls a resource: the directory that was asked for, one thing inside it, or something else.
    enum Place {
        case itself
        case inside([UInt8])
        case elsewhere
    }

    /// Finds the place of a `href`, which is an address or a path on the server.
    func place(of href: [UInt8], in directory: RemotePath) -> Place {
        var rest = href[...]
        if let colon = Self.index(of: "://", in: href) {
            rest = href[(colon + 3)...]
            guard let slash = rest.firstIndex(of: 0x2F) else { return .elsewhere }
            rest = rest[slash...]
        }
        if let end = rest.firstIndex(where: { $0 == 0x3F || $0 == 0x23 }) { rest = rest[..<end] }
        // Taken apart before it is decoded: an encoded slash does not part names.
        let names = rest.split(separator: 0x2F).map { PercentEncoding.decode($0) }
        let expected = root.split(separator: 0x2F).map { Array($0) } + self.names(of: directory)
        guard names.count >= expected.count, names.count <= expected.count + 1 else { return .elsewhere }
        for (name, wanted) in zip(names, expected) where name != wanted { return .elsewhere }
        guard names.count > expected.count else { return .itself }
        return names[expected.count].map { .inside(name(of: $0)) } ?? .elsewhere
    }

    /// What the server calls the parts of a path.
    private func names(of path: RemotePath) -> [[UInt8]] {
        path.names.map { undots && Self.isToBeFound($0) ? Array($0.bytes.dropFirst()) : $0.bytes }
    }

    /// The name of what the server calls so.
    private func name(of bytes: [UInt8]) -> [UInt8] {
        guard undots, bytes.first == 0x63 else { return bytes }
        let name = FileName(unchecked: [0x2E] + bytes)
        return Self.isToBeFound(name) ? name.bytes : bytes
    }

    /// True for a name that would be taken for a hidden one that is written without its dot.
    func isMistakable(_ name: FileName) -> Bool { undots && self.name(of: name.bytes) != name.bytes }

    /// True for the hidden names of items that are on their way, and of those about to be deleted.
    private static func isToBeFound(_ name: FileName) -> Bool {
        guard name.isReserved else { return false }
        if case .deleting = Leftover.kind(name) { return true }
        return PassingName(name).map { $0.document != nil && $0.since != nil } ?? false
    }

    private static func index(of text: String, in bytes: [UInt8]) -> Int? {
        let wanted = Array(text.utf8)
        guard bytes.count >= wanted.count else { return nil }
        // A scheme is short.
        return (0...min(bytes.count - wanted.count, 16)).first { bytes[$0..<$0 + wanted.count].elementsEqual(wanted) }
    }
}
