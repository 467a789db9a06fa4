/// Which directories people see as one file.
public enum PackageTypes {
    /// The ends of names that make a directory a package, in lower case and without the dot.
    public static let extensions: Set<String> = [
        "band", "bundle", "fcpbundle", "graffle", "key", "logicx", "numbers", "pages", "photoslibrary", "playground",
        "rtfd", "sparsebundle", "xcodeproj",
    ]

    /// The extended attribute that makes any other directory one, where its value is `1`.
    public static let attribute = Array("user.cove.package".utf8)

    /// True for the end of a package's name, in any case.
    public static func contains(_ ending: some StringProtocol) -> Bool {
        !ending.isEmpty && extensions.contains(ending.lowercased())
    }
}
