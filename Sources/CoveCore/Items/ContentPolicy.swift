/// When an item's bytes come to this disk, and when they may leave it.
public enum ContentPolicy: String, Codable, Sendable, CaseIterable {
    /// As the directory that has the item.
    case inherited
    /// On the first use; once here, what another device makes of it comes by itself.
    case lazily
    /// On the first use; what another device makes of it is fetched when it is used again. The policy of a new account.
    case lazilyAndEvict = "lazily-and-evict"
    /// At once, and stays; also all that comes into a directory later.
    case eagerly
}
