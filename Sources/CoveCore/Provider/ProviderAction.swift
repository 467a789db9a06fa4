/// Something that a person can have a provider do with items, such as making a link for others.
public struct ProviderAction: Codable, Sendable, Equatable {
    /// Its name among those of the provider: printable ASCII without spaces.
    public var id: String
    /// What a menu calls it.
    public var name: String
    /// The kinds of items it is for: `file`, `directory`, `symlink`; nil for all.
    public var kinds: [String]?
    /// True for one that takes several items at a time.
    public var takesSeveral: Bool

    /// Makes an action.
    public init(id: String, name: String, kinds: [String]? = nil, takesSeveral: Bool = false) {
        self.id = id
        self.name = name
        self.kinds = kinds
        self.takesSeveral = takesSeveral
    }

    /// True for an item of a kind that it is for.
    public func isFor(_ kind: String) -> Bool { kinds?.contains(kind) ?? true }
}
