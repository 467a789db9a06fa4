/// How an account is mounted.
public struct MountOptions: Sendable, Hashable {
    /// Refuses every change.
    public var isReadOnly = false
    /// Lets other users in, as far as permissions and access control lists do.
    ///
    /// Needs user_allow_other in /etc/fuse.conf unless root mounts.
    public var allowsOtherUsers = false
    /// Has the kernel read and write local files by itself, where it can.
    public var passesThrough = false
    /// The source shown by mount(8), as `cove:ACCOUNT`.
    public var fileSystemName: String
    /// The file system type is `fuse.` and this.
    public var subtype = "cove"
    /// Further `-o` options for libfuse or the kernel, such as `nosuid` or `noexec`, one each.
    public var extra: [String] = []

    /// Plain options for a mount shown as `fileSystemName`.
    public init(fileSystemName: String) {
        self.fileSystemName = fileSystemName
    }

    /// Takes the comma-separated text after `-o`, as mount(8) hands it to a helper.
    public mutating func add(_ text: String) {
        for option in text.split(separator: ",").map(String.init) {
            switch option {
            case "ro": isReadOnly = true
            case "rw": isReadOnly = false
            case "allow_other": allowsOtherUsers = true
            case _ where Self.isForMount(option): break
            default: extra.append(option)
            }
        }
    }

    /// True for what only fstab(5), mount(8) and systemd read.
    private static func isForMount(_ option: String) -> Bool {
        let words = ["defaults", "auto", "noauto", "user", "nouser", "users", "group", "owner", "nofail", "_netdev"]
        return words.contains(option) || option.hasPrefix("x-") || option.hasPrefix("comment=")
    }

    /// The `-o` values for libfuse.
    var arguments: [String] {
        var result = ["default_permissions"]
        result.append("fsname=\(Self.escape(fileSystemName))")
        result.append("subtype=\(Self.escape(subtype))")
        if isReadOnly { result.append("ro") }
        if allowsOtherUsers { result.append("allow_other") }
        return result + extra
    }

    /// libfuse splits at commas; a backslash takes one literally.
    private static func escape(_ text: String) -> String {
        var result = ""
        for character in text {
            if character == "," || character == "\\" { result.append("\\") }
            result.append(character)
        }
        return result
    }
}
