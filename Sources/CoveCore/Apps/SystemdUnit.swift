/// The unit of systemd that a process runs in, as its control group tells it.
///
/// A manager puts each unit in a control group of its name, below the slices that the unit is in. Whatever the unit's programs
/// make below that is the unit's too: only the first name that is no slice counts.
public struct SystemdUnit: Sendable, Equatable {
    /// The unit's name, such as `notes.service` or `app-gnome-com.acme.notes-7.scope`.
    public let name: String

    /// Names a unit; nil for what is the name of no service and no scope.
    public init?(_ name: String) {
        guard Self.problem(withName: name) == nil else { return nil }
        self.name = name
    }

    /// Finds the unit in what `/proc/PID/cgroup` says (cgroups(7)); nil for a process in none of a service manager's.
    ///
    /// The managers are the system's, and that of the user with this number.
    public init?(controlGroups text: String, user: UInt32) {
        guard let path = Self.path(in: text) else { return nil }
        var names = path.split(separator: "/")[...]
        if names.first == "user.slice" {
            guard names.starts(with: ["user.slice", "user-\(user).slice", "user@\(user).service"]) else { return nil }
            names = names.dropFirst(3)
        } else if names.first?.hasSuffix(".slice") != true {
            // The slices at the top are the system's, whatever they are called.
            return nil
        }
        guard let unit = names.first(where: { !$0.hasSuffix(".slice") }) else { return nil }
        self.init(String(unit))
    }

    /// The path in the hierarchy that systemd keeps: its own one, or the only one.
    private static func path(in text: String) -> Substring? {
        var unified: Substring?
        for line in text.split(separator: "\n") {
            let parts = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
            guard parts.count == 3 else { continue }
            if parts[1] == "name=systemd" { return parts[2] }
            if parts[0] == "0", parts[1].isEmpty { unified = parts[2] }
        }
        return unified
    }

    /// What keeps a text from being a unit's name; nil where nothing does.
    public static func problem(withName name: String) -> String? {
        guard name.utf8.count <= 255 else { return "a name over 255 bytes" }
        guard let stem = [".service", ".scope"].first(where: { name.hasSuffix($0) }).map({ name.dropLast($0.count) }),
            !stem.isEmpty
        else { return "a name that ends with neither .service nor .scope" }
        let isPlain = stem.utf8.allSatisfy { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
            default: Array(":-_.\\@".utf8).contains(byte)
            }
        }
        return isPlain ? nil : "a name with other characters than a unit's"
    }

    /// The program that started the app, and the app, as desktops name units; both nil for any other name.
    ///
    /// `app[-LAUNCHER]-ID[@RANDOM].service` or `app[-LAUNCHER]-ID-RANDOM.scope`, with `-` in a part written `\x2d`: "Desktop
    /// Environments" on systemd.io.
    public var application: (launcher: String?, identifier: AppIdentifier)? {
        guard let dot = name.lastIndex(of: ".") else { return nil }
        let isScope = name.hasSuffix(".scope")
        let stem = isScope ? name[..<dot] : name[..<(name.firstIndex(of: "@") ?? dot)]
        var parts = stem.split(separator: "-", omittingEmptySubsequences: false).map { Self.unescaped($0) }
        guard parts.count > 1, parts.removeFirst() == "app" else { return nil }
        if isScope, parts.count > 1 { parts.removeLast() }
        for index in [1, 0] where index < parts.count {
            guard let identifier = AppIdentifier(parts[index]) else { continue }
            return (index == 1 ? parts[0] : nil, identifier)
        }
        return nil
    }

    /// True where the unit has this name, or is an instance of a template of this name.
    public func isCalled(_ wanted: String) -> Bool {
        if name == wanted { return true }
        guard let at = name.firstIndex(of: "@"), let dot = name.lastIndex(of: "."), at < dot else { return false }
        return wanted == "\(name[...at])\(name[dot...])"
    }

    /// A part in which some bytes are written as `\xHH`.
    private static func unescaped(_ part: Substring) -> String {
        var bytes: [UInt8] = []
        var rest = Array(part.utf8)[...]
        while let byte = rest.first {
            if rest.starts(with: Array("\\x".utf8)), rest.count >= 4,
                let value = UInt8(String(decoding: rest.dropFirst(2).prefix(2), as: UTF8.self), radix: 16)
            {
                bytes.append(value)
                rest = rest.dropFirst(4)
            } else {
                bytes.append(byte)
                rest = rest.dropFirst()
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
