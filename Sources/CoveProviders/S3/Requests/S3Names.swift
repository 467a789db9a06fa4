internal import CoveCore

/// How paths become keys and back.
struct S3Names: Sendable, Equatable {
    /// False where the server takes a backslash for a slash.
    var keepsBackslashes = true
    /// False where the server loses objects whose key ends with a slash.
    var keepsSlashes = true

    /// Stands for a backslash, as other programs have it too, and before itself where it is meant as such.
    private static let backslash: [UInt8] = [0xEF, 0xBC, 0xBC]
    private static let quote: [UInt8] = [0xE2, 0x80, 0x9B]
    private static let ownName = Array(".cove-directory".utf8)

    /// The name that a directory's own object has inside it; empty, so that its key is that of the directory.
    var marker: [UInt8] { keepsSlashes ? [] : Self.ownName }

    /// True for the key of an object that stands for a directory.
    static func isMarker(_ key: [UInt8]) -> Bool {
        key.last == 0x2F || key.suffix(ownName.count + 1).elementsEqual([0x2F] + ownName)
    }

    /// What the keys of a directory's items begin with, by the key of an object that stands for it.
    static func directory(of marker: [UInt8]) -> [UInt8] {
        marker.last == 0x2F ? marker : Array(marker.dropLast(ownName.count))
    }

    /// The keys of the objects that may stand for a directory, by the key that its items begin with: programs differ in which
    /// they write.
    static func markers(of directory: [UInt8]) -> [[UInt8]] { [directory, directory + ownName] }

    func encode(_ path: [UInt8]) -> [UInt8] {
        if keepsBackslashes || !path.contains(where: { $0 == 0x5C || $0 == 0xEF }) { return path }
        var key: [UInt8] = []
        var rest = path[...]
        while let byte = rest.first {
            if byte == 0x5C {
                key += Self.backslash
                rest = rest.dropFirst()
            } else if rest.starts(with: Self.backslash) {
                key += Self.quote + Self.backslash
                rest = rest.dropFirst(3)
            } else {
                key.append(byte)
                rest = rest.dropFirst()
            }
        }
        return key
    }

    func decode(_ key: [UInt8]) -> [UInt8] {
        if keepsBackslashes || !key.contains(0xEF) { return key }
        var path: [UInt8] = []
        var rest = key[...]
        while let byte = rest.first {
            if rest.starts(with: Self.quote + Self.backslash) {
                path += Self.backslash
                rest = rest.dropFirst(6)
            } else if rest.starts(with: Self.backslash) {
                path.append(0x5C)
                rest = rest.dropFirst(3)
            } else {
                path.append(byte)
                rest = rest.dropFirst()
            }
        }
        return path
    }
}
