/// What Flatpak says of a running app in `.flatpak-info`, a key file (flatpak-metadata(5)).
public struct FlatpakInfo: Sendable, Equatable {
    /// `name` of `[Application]`; nil where it has none, or no identifier.
    public private(set) var app: AppIdentifier?
    /// `instance-id` of `[Instance]`; nil where it has none, or what can't be the name of a folder.
    public private(set) var instance: String?

    /// Reads a key file; lines that are none say nothing.
    public init(_ bytes: [UInt8]) {
        var group: Substring = ""
        for line in String(decoding: bytes, as: UTF8.self).split(whereSeparator: \.isNewline) {
            if line.hasPrefix("["), line.hasSuffix("]") {
                group = line.dropFirst().dropLast()
            } else if let equals = line.firstIndex(of: "=") {
                let key = line[..<equals].trimming { $0 == " " }
                let value = line[line.index(after: equals)...].trimming { $0 == " " }
                switch (group, key) {
                case ("Application", "name"): app = AppIdentifier(value)
                case ("Instance", "instance-id"): instance = Self.isName(value) ? value : nil
                default: break
                }
            }
        }
    }

    private static func isName(_ text: String) -> Bool {
        (1...128).contains(text.utf8.count) && !text.hasPrefix(".")
            && text.utf8.allSatisfy { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F: true
                default: false
                }
            }
    }
}

extension Substring {
    /// The text without some characters at both of its ends.
    fileprivate func trimming(_ isOutside: (Character) -> Bool) -> String {
        var rest = drop(while: isOutside)
        while let last = rest.last, isOutside(last) { rest.removeLast() }
        return String(rest)
    }
}
