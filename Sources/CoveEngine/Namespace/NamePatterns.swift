internal import CoveCore
internal import Glibc

/// Which names stay on this device: those of programs' scratch files, and those that a person's globs name.
struct NamePatterns: Sendable {
    /// Names of scratch files, no wider than what the programs write: a document that resembles one is sent.
    ///
    /// Extended globs, see fnmatch(3). Vim's trial file `4913` has a name that documents have too; it is empty and gone
    /// before anything is sent.
    private static let scratchFiles = [
        // Vim: swap files, of a text without a name too.
        ".*.sw[a-px]", ".*.swpx", ".sw[a-p]",
        // Emacs: the lock, a symbolic link, and what it saves by itself.
        ".#?*", "#?*#",
        // Backups of Emacs, Vim, GLib, nano, cp(1), mv(1).
        "?*~",
        // LibreOffice: the lock, and the file it writes first, after its process id.
        ".~lock.?*#", "lu+([0-9])+([0-9a-z]).tmp",
        // GLib's file beside the one that is saved.
        ".goutputstream-" + String(repeating: "[A-Z0-9]", count: 6),
        // What was removed while it was open: of NFS's client, of libfuse.
        ".nfs" + hexadecimal(24), ".fuse_hidden" + hexadecimal(16),
        savedByDocuments,
    ]

    /// What CoveKit's documents save first: a directory where the document is one.
    private static let savedByDocuments = ".?*.cove-save-[0-7]"

    /// FNM_EXTMATCH of <fnmatch.h>.
    private static let extended: Int32 = 1 << 5

    /// A person's globs.
    private let own: [String]

    /// Takes a person's globs, which hold for items of all kinds.
    init(_ own: [String]) { self.own = own }

    /// True when an item of that name and kind stays here.
    func matches(_ name: [UInt8], _ kind: ItemKind) -> Bool {
        var bytes = name
        bytes.append(0)
        return bytes.withUnsafeBytes { raw in
            guard let text = raw.baseAddress?.assumingMemoryBound(to: CChar.self) else { return false }
            let scratch = kind == .directory ? [Self.savedByDocuments] : Self.scratchFiles
            if scratch.contains(where: { fnmatch($0, text, Self.extended) == 0 }) { return true }
            return own.contains { fnmatch($0, text, 0) == 0 }
        }
    }

    /// True for a directory in which a document is saved.
    func isScratchDirectory(_ name: [UInt8]) -> Bool { NamePatterns([]).matches(name, .directory) }

    /// What tells one set of rules from another.
    var identity: [UInt8] { Array((Self.scratchFiles + [""] + own).joined(separator: "\n").utf8) }

    private static func hexadecimal(_ digits: Int) -> String { String(repeating: "[0-9a-f]", count: digits) }
}
