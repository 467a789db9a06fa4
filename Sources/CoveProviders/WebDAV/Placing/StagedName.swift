internal import CoveCore
internal import Glibc

/// The hidden name of something that is about to come to a name of the same folder.
///
/// It is bytes on their way, or an empty file that says that a move is. Whoever sees one of another device for a name keeps
/// off that name until it is gone: of two devices that put such a name there first and list the folder then, at least one
/// sees the other's.
struct StagedName: Sendable, Hashable {
    /// What all such names begin with, behind the dot that hides them where they stand among others.
    static let prefix = "cove-upload-"

    let name: FileName
    /// Stands for the name that it is to come to.
    let mark: String
    /// Stands for the device.
    let owner: String
    /// Stands for the life of the daemon that made it; then it is random.
    let token: String
    /// When it was made, in seconds since 1970.
    let began: Int64

    /// A new one; it tells when it began, for its bytes may be dated long before.
    ///
    /// In a hidden folder of their own they need no dot, which some servers list nothing with.
    init(for name: FileName, owner: String, life: String = "", isInside: Bool = false) {
        mark = Self.mark(of: name)
        self.owner = owner
        began = Int64(Glibc.time(nil))
        token = String((life + DocumentID.random().description).prefix(12))
        let time = String(UInt64(bitPattern: began), radix: 16)
        let dot = isInside ? "" : "."
        self.name = FileName(unchecked: Array("\(dot)\(Self.prefix)\(time)-\(mark)-\(owner)-\(token)".utf8))
    }

    /// Reads a name; nil for any other.
    init?(_ name: FileName) {
        let bytes = name.bytes.first == 0x2E ? name.bytes.dropFirst() : name.bytes[...]
        guard bytes.starts(with: Self.prefix.utf8) else { return nil }
        let parts = bytes.dropFirst(Self.prefix.utf8.count).split(separator: 0x2D)
        guard parts.count == 4 else { return nil }
        self.name = name
        began = Int64(String(decoding: parts[0], as: UTF8.self), radix: 16) ?? .max
        mark = String(decoding: parts[1], as: UTF8.self)
        owner = String(decoding: parts[2], as: UTF8.self)
        token = String(decoding: parts[3], as: UTF8.self)
    }

    static func mark(of name: FileName) -> String {
        String(Digest.hash(name.bytes, .sha256).hexadecimal.prefix(16))
    }

    /// A device, as names tell of it.
    static func owner(_ id: String) -> String { String(Digest.hash(Array(id.utf8), .sha256).hexadecimal.prefix(8)) }
}
