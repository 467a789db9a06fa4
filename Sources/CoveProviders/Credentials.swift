/// Who uses a source.
public struct Credentials: Sendable, Equatable {
    /// The user, or the access key.
    public var user: String
    /// The password, or the secret key.
    public var password: String

    /// Makes credentials.
    public init(user: String, password: String) {
        self.user = user
        self.password = password
    }
}
