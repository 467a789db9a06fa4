public import CoveCore

/// A tree of files as a test drives it: an engine without FUSE, or a real mount.
///
/// Paths are relative to the root, without a leading slash.
public protocol FileTree: AnyObject {
    /// Names a file that is open.
    associatedtype Handle

    /// The names in a directory, with what they are.
    func list(_ path: String) throws(Errno) -> [String: ItemKind]
    /// Size of a file.
    func size(_ path: String) throws(Errno) -> Int64
    /// All bytes of a file.
    func read(_ path: String) throws(Errno) -> [UInt8]
    /// Makes or replaces a file in place, as `>` does.
    func write(_ path: String, _ bytes: [UInt8]) throws(Errno)
    /// Writes at an offset of a file that is there, through a mapping where the tree has one.
    func overwrite(_ path: String, at offset: Int64, _ bytes: [UInt8], mapped: Bool) throws(Errno)
    /// Writes at the end, as `>>` does.
    func append(_ path: String, _ bytes: [UInt8]) throws(Errno)
    /// Cuts or grows.
    func truncate(_ path: String, to size: Int64) throws(Errno)
    /// rename(2)
    func rename(_ from: String, _ to: String) throws(Errno)
    /// renameat2(2) with RENAME_EXCHANGE
    func exchange(_ first: String, _ second: String) throws(Errno)
    /// unlink(2)
    func unlink(_ path: String) throws(Errno)
    /// mkdir(2)
    func makeDirectory(_ path: String) throws(Errno)
    /// rmdir(2)
    func removeDirectory(_ path: String) throws(Errno)
    /// Opens for reading and writing.
    func open(_ path: String) throws(Errno) -> Handle
    /// Reads all bytes of an open file.
    func read(_ handle: Handle) throws(Errno) -> [UInt8]
    /// Appends to an open file.
    func append(_ handle: Handle, _ bytes: [UInt8]) throws(Errno)
    /// close(2)
    func close(_ handle: Handle) throws(Errno)
}

/// What a model test can do to an account beside using its files.
public protocol AccountUnderTest: AnyObject {
    associatedtype Tree: FileTree

    /// The tree; another one after `crash`.
    var tree: Tree { get }
    /// The folder that is the cloud.
    var source: String { get }
    /// Waits until source and tree have nothing to tell each other; throws after a deadline.
    func settle() async throws
    /// Drops local bytes; false when refused.
    func evict(_ path: String) async -> Bool
    /// Fetches all bytes.
    func download(_ path: String) async throws
    /// Cuts the source off, or brings it back.
    func setOffline(_ offline: Bool) async throws
    /// Kills everything without warning and starts again.
    func crash() async throws
    /// Deletes a file and puts it back from the trash; its path then, nil where the trash has not got it.
    func deleteAndRestore(_ path: String) async throws -> String?
}

extension AccountUnderTest {
    /// Deletes it and leaves it in the trash.
    public func deleteAndRestore(_ path: String) async throws -> String? {
        try tree.unlink(path)
        return nil
    }
}
