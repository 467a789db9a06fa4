internal import CoveCore

/// A POSIX access control list as its extended attribute holds it; see acl(5) and <linux/posix_acl_xattr.h>.
///
/// Layout: the version, 2, in 32 bits, then for each entry tag and permissions in 16 bits and an id in 32, little endian.
struct AccessList: Equatable {
    /// Which of an item's two lists.
    enum Kind: CaseIterable {
        /// Who may use the item.
        case access
        /// What items that are made in the directory begin with.
        case inherited

        /// The attribute that holds it.
        var name: [UInt8] {
            switch self {
            case .access: Self.accessName
            case .inherited: Self.inheritedName
            }
        }

        private static let accessName = Array("system.posix_acl_access".utf8)
        private static let inheritedName = Array("system.posix_acl_default".utf8)

        init?(_ name: [UInt8]) {
            guard let kind = Self.allCases.first(where: { $0.name == name }) else { return nil }
            self = kind
        }
    }

    /// Whom an entry is of.
    private enum Tag: UInt16 {
        case owner = 0x01
        case user = 0x02
        case group = 0x04
        case namedGroup = 0x08
        case mask = 0x10
        case others = 0x20

        var hasID: Bool { self == .user || self == .namedGroup }
    }

    private struct Entry: Equatable {
        var tag: Tag
        var permissions: UInt16
        var id: UInt32
    }

    private static let version: UInt32 = 2
    private static let headerSize = 4
    private static let entrySize = 8
    private static let noID = UInt32.max
    /// The kernel reads a list into one page of memory.
    private static let maximumSize = 4096

    private var entries: [Entry]

    /// Reads an attribute; nil for an empty list, which is none.
    ///
    /// Throws what the kernel says of the same bytes: EINVAL for a list that acl_valid(3) refuses, EOPNOTSUPP for another
    /// version, E2BIG for one that is too long.
    init?(attribute bytes: [UInt8]) throws(Errno) {
        if bytes.isEmpty { return nil }
        guard bytes.count <= Self.maximumSize else { throw .argumentListTooLong }
        func number(at offset: Int, _ count: Int) -> UInt32 {
            (0..<count).reduce(0) { $0 | UInt32(bytes[offset + $1]) << UInt32($1 * 8) }
        }
        guard bytes.count >= Self.headerSize else { throw .invalidArgument }
        guard number(at: 0, 4) == Self.version else { throw .notSupported }
        guard (bytes.count - Self.headerSize) % Self.entrySize == 0 else { throw .invalidArgument }
        entries = []
        for offset in stride(from: Self.headerSize, to: bytes.count, by: Self.entrySize) {
            guard let tag = Tag(rawValue: UInt16(truncatingIfNeeded: number(at: offset, 2))) else {
                throw .invalidArgument
            }
            let permissions = UInt16(truncatingIfNeeded: number(at: offset + 2, 2))
            let id = tag.hasID ? number(at: offset + 4, 4) : Self.noID
            guard permissions <= 7, !tag.hasID || id != Self.noID else { throw .invalidArgument }
            entries.append(Entry(tag: tag, permissions: permissions, id: id))
        }
        if entries.isEmpty { return nil }
        guard isValid else { throw .invalidArgument }
    }

    /// True when the entries come in the order of their tags, those of owner, group and others once, and a mask where
    /// anybody is named.
    private var isValid: Bool {
        for (entry, next) in zip(entries, entries.dropFirst()) {
            guard entry.tag.rawValue < next.tag.rawValue || entry.tag == next.tag && entry.tag.hasID else {
                return false
            }
        }
        let tags = entries.map(\.tag)
        guard tags.contains(.owner), tags.contains(.group), tags.contains(.others) else { return false }
        return tags.contains(.mask) || !tags.contains { $0.hasID }
    }

    /// The bytes of the attribute.
    var attribute: [UInt8] {
        func bytes(_ number: UInt32, _ count: Int) -> [UInt8] {
            (0..<count).map { UInt8(truncatingIfNeeded: number >> UInt32($0 * 8)) }
        }
        return bytes(Self.version, 4)
            + entries.flatMap { bytes(UInt32($0.tag.rawValue), 2) + bytes(UInt32($0.permissions), 2) + bytes($0.id, 4) }
    }

    /// True when it says more than nine bits of a mode can.
    var isExtended: Bool { entries.contains { $0.tag == .mask || $0.tag.hasID } }

    /// The entry that the mode's bits of the group are: the mask, where there is one.
    private var groupTag: Tag { entries.contains { $0.tag == .mask } ? .mask : .group }

    /// What it makes of the lower nine bits of a mode, and they of it.
    var permissions: UInt16 {
        get {
            let groupTag = groupTag
            return entries.reduce(0) { bits, entry in
                switch entry.tag {
                case .owner: bits | entry.permissions << 6
                case groupTag: bits | entry.permissions << 3
                case .others: bits | entry.permissions
                default: bits
                }
            }
        }
        set {
            let groupTag = groupTag
            for index in entries.indices {
                switch entries[index].tag {
                case .owner: entries[index].permissions = newValue >> 6 & 7
                case groupTag: entries[index].permissions = newValue >> 3 & 7
                case .others: entries[index].permissions = newValue & 7
                default: break
                }
            }
        }
    }
}
