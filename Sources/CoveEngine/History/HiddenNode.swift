public import CoveCore

/// A node of the hidden tree in which versions are files: `.cove/versions/DOCUMENT/VERSION`, at the mount's root.
///
/// Its numbers are beyond those of items, and tell all that is to be known, also to a daemon that takes the mount over.
public enum HiddenNode: Hashable, Sendable {
    /// `.cove`.
    case top
    /// `.cove/versions`.
    case versions
    /// All versions of the document of an entry, by the entry's row.
    case document(Int64)
    /// One version, by its row.
    case version(Int64)
    /// A reference whose document is not there, by its row; it is where its app has it, and can't be opened.
    case reference(Int64)

    private static let mark: UInt64 = 1 << 62
    private static let kindShift: UInt64 = 60
    private static let rowMask: UInt64 = 1 << 60 - 1

    /// The name under which the tree is found in the root, and in no listing.
    public static let name = Array(".cove".utf8)
    static let versionsName = Array("versions".utf8)

    /// True for a number of the tree.
    @inlinable
    public static func contains(_ id: ItemID) -> Bool { id.rawValue >> 62 == 1 }

    /// The node of a number; nil for an item's.
    public init?(_ id: ItemID) {
        guard Self.contains(id) else { return nil }
        let row = Int64(id.rawValue & Self.rowMask)
        switch (id.rawValue & ~Self.mark) >> Self.kindShift {
        case 0: self = row == 0 ? .top : .versions
        case 1: self = .document(row)
        case 2: self = .version(row)
        case 3: self = .reference(row)
        default: return nil
        }
    }

    /// The node's number.
    public var id: ItemID {
        let (kind, row): (UInt64, UInt64) =
            switch self {
            case .top: (0, 0)
            case .versions: (0, 1)
            case .document(let row): (1, UInt64(truncatingIfNeeded: row) & Self.rowMask)
            case .version(let row): (2, UInt64(truncatingIfNeeded: row) & Self.rowMask)
            case .reference(let row): (3, UInt64(truncatingIfNeeded: row) & Self.rowMask)
            }
        return ItemID(Self.mark | kind << Self.kindShift | row)
    }
}
