/// Whether devices use an account's apps and references, or only its documents.
public enum AccountGeneration: String, Codable, Sendable {
    /// Documents only, as devices have it that know of no apps.
    case legacy
    /// Apps, containers and references too.
    case drive
}

/// What an account's own document says of it, for all its devices.
public struct AccountRecord: Codable, Sendable, Equatable {
    /// What its devices are to know.
    public var generation: AccountGeneration

    /// Describes an account.
    public init(generation: AccountGeneration) { self.generation = generation }
}
