internal import Glibc

/// Globs of names that stay on this device.
struct NamePatterns: Sendable {
    /// Scratch names of editors and office programs.
    static let builtIn = [
        ".~lock.*#", "*.sw?", "4913", ".#*", "#*#", "*~", "lu*.tmp", ".goutputstream-*", ".nfs*", ".fuse_hidden*",
        ".*.cove-save-*",
    ]

    private let patterns: [String]

    init(_ patterns: [String]) { self.patterns = patterns }

    /// True when a name matches one of the globs; see fnmatch(3).
    func matches(_ name: [UInt8]) -> Bool {
        var bytes = name
        bytes.append(0)
        return bytes.withUnsafeBytes { raw in
            guard let text = raw.baseAddress?.assumingMemoryBound(to: CChar.self) else { return false }
            return patterns.contains { fnmatch($0, text, 0) == 0 }
        }
    }
}
