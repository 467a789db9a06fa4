import CoveTestSupport

/// One thing that a program, a person or another device does, as the log numbers it.
enum Step: Sendable {
    // Programs, each as one request of the kernel; handles have names of their own.
    case create(String, as: String)
    case open(String, as: String, truncating: Bool = false)
    case write(String, at: Int, Content)
    case fsync(String)
    case flush(String)
    case release(String)
    case truncate(String, to: Int)
    case rename(String, to: String)
    case exchange(String, with: String)
    case link(String, as: String)
    case unlink(String)
    case makeDirectory(String)
    case removeDirectory(String)
    case symlink(String, to: String)
    case setAttribute(String, String, Content)
    case chmod(String, UInt16)
    case read(String, from: Int = 0, count: Int = .max)

    // A person.
    case evict(String)
    case pause
    case resume
    case settle
    /// Waits until the source has something.
    case arrival(String)
    /// Looks out for a moment for a name of the source that begins so.
    case glimpse(String)

    // Another device, by what it leaves in the source.
    case remoteSave(String, Content)
    case remoteRemove(String)
    case remoteRename(String, to: String)
    case remoteMakeDirectory(String)

    /// What a program does to make or to replace a file.
    static func save(_ path: String, _ content: Content) -> [Step] {
        [.create(path, as: path), .write(path, at: 0, content), .flush(path), .release(path)]
    }

    static func rewrite(_ path: String, _ content: Content) -> [Step] {
        [.open(path, as: path, truncating: true), .write(path, at: 0, content), .flush(path), .release(path)]
    }

    static func change(_ path: String, at offset: Int, _ content: Content) -> [Step] {
        [.open(path, as: path), .write(path, at: offset, content), .flush(path), .release(path)]
    }
}

/// Bytes that no other content has; the same in every process.
struct Content: Sendable {
    let bytes: [UInt8]

    /// So many bytes out of a seed.
    init(_ seed: UInt64, _ count: Int) {
        var random = SeededGenerator(seed: seed)
        bytes = random.bytes(count)
    }
}
