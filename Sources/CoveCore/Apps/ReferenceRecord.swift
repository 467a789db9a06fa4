/// A reference, as its document in the account describes it: a name under which an app has a document that is not its own.
public struct ReferenceRecord: Codable, Sendable, Equatable {
    /// The container that has it.
    public var container: AppIdentifier
    /// The folder in the container, where the reference is.
    public var folder: PathParameter
    /// Its name there.
    public var name: PathParameter
    /// Where the document is at the source, from the account's root.
    public var target: PathParameter
    /// True where the app may not change it.
    public var isReadOnly: Bool?
    /// When it was made, in seconds since 1970.
    public var made: Double?

    /// Describes a reference.
    public init(
        container: AppIdentifier,
        folder: RemotePath,
        name: FileName,
        target: RemotePath,
        isReadOnly: Bool,
        made: Double?
    ) {
        self.container = container
        self.folder = PathParameter(folder)
        self.name = PathParameter(RemotePath([name]))
        self.target = PathParameter(target)
        self.isReadOnly = isReadOnly ? true : nil
        self.made = made
    }
}
