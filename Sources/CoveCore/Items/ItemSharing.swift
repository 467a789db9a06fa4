/// With whom an item is shared, as its provider tells.
public struct ItemSharing: Codable, Sendable, Equatable {
    /// What the account's user is to a shared item.
    public enum Role: String, Codable, Sendable {
        /// It is the user's own.
        case owner
        /// Somebody else lets the user have it.
        case participant
    }

    /// What the account's user may do with it.
    public enum Permissions: String, Codable, Sendable {
        /// Read it.
        case readOnly
        /// Change it too.
        case readWrite
    }

    /// What the account's user is to it.
    public var role: Role
    /// What the account's user may do with it.
    public var permissions: Permissions
    /// The owner's name as people know it; nil for what is the user's own.
    public var owner: String?

    /// It with a name of a length that can be shown, as it is kept.
    public var shown: ItemSharing {
        ItemSharing(role: role, permissions: permissions, owner: owner?.shownName)
    }

    /// Tells of sharing.
    public init(role: Role, permissions: Permissions, owner: String? = nil) {
        self.role = role
        self.permissions = permissions
        self.owner = owner
    }
}

extension String {
    /// A name that somebody else gave, of a length that can be shown and without control characters.
    public var shownName: String { shown(100) }

    /// What somebody else says, of at most so many Unicode scalars and without control characters.
    public func shown(_ count: Int) -> String {
        // One character may have any number of marks.
        String(String.UnicodeScalarView(unicodeScalars.prefix(count))).escapingControls
    }
}
