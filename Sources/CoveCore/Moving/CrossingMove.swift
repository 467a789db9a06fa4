internal import Glibc

/// Moves a file, a link or a directory with all in it to another file system.
///
/// It is copied to a hidden name beside its new place, `.NAME.cove-save-N`, made durable there, put in place in one step, and
/// only then removed where it was: whenever this is cut off, all of it is in one of the two places. What somebody changes
/// meanwhile is noticed, and stays. The hidden name is locked as long as its maker lives; one that a crash left behind goes
/// when the same is tried again.
public struct CrossingMove {
    /// Why something was not moved, or not all of it.
    public struct Failure: Error, Sendable, CustomStringConvertible {
        /// `EEXIST` where something is there already, `EBUSY` where somebody changes it just then, `ESTALE` where something changed
        /// after all was copied and is in both places now, `ENOTSUP` for what can't be copied.
        public let errno: Errno
        /// What it is about.
        public let path: [UInt8]
        /// What happened, where there is more to say than the errno does.
        public let message: String

        init(_ errno: Errno, _ path: [UInt8], _ message: String? = nil) {
            (self.errno, self.path) = (errno, path)
            self.message = message ?? errno.description
        }

        /// One line for a person.
        public var description: String { "\(String(decoding: path, as: UTF8.self)): \(message)" }
    }

    /// What was moved.
    public struct Amount: Sendable, Equatable {
        /// Files, links and directories.
        public var items: Int64 = 0
        /// Bytes of files.
        public var bytes: Int64 = 0
    }

    private static let attempts = 8
    private let source: [UInt8]
    private let target: [UInt8]
    private let folder: [UInt8]
    private let name: [UInt8]
    private let progress: (Amount) -> Void
    private let isCancelled: () -> Bool
    private let keepsSource: Bool
    private let replaces: Bool

    /// A move between two absolute paths; the progress is told after each part of a file, on the same thread.
    ///
    /// With `keepsSource` it is a copy: nothing is removed. A file may take the place of another one where it `replaces` that.
    public init(
        from source: [UInt8],
        to target: [UInt8],
        keepsSource: Bool = false,
        replaces: Bool = false,
        progress: @escaping (Amount) -> Void = { _ in },
        isCancelled: @escaping () -> Bool = { false }
    ) {
        self.source = Self.trimmed(source)
        self.target = Self.trimmed(target)
        (folder, name) = Self.split(self.target)
        self.progress = progress
        self.isCancelled = isCancelled
        self.keepsSource = keepsSource
        self.replaces = replaces
    }

    /// Moves; blocks until all is durable in its new place and gone from its old one.
    @discardableResult
    public func run() throws(Failure) -> Amount {
        let (from, last) = Self.split(source)
        let sourceFolder = try at(from) { () throws(Errno) in try Self.openFolder(from) }
        defer { System.close(sourceFolder) }
        guard try TreeCopy.status(sourceFolder, last, source) != nil else { throw Failure(.noSuchEntry, source) }
        let targetFolder = try at(folder) { () throws(Errno) in try Self.openFolder(folder) }
        defer { System.close(targetFolder) }
        if !replaces, try TreeCopy.status(targetFolder, name, target) != nil { throw Failure(.exists, target) }
        guard let final = FileName(validating: name), !final.isReserved else {
            throw Failure(.invalidArgument, target, "no such name can be given")
        }
        removeLeftovers(targetFolder)
        var copy = TreeCopy(source: source, target: target, progress: progress, isCancelled: isCancelled)
        let (hidden, lock) = try begin(targetFolder, isDirectory: copy.isDirectory(sourceFolder, last))
        defer { System.close(lock) }
        do throws(Failure) {
            try copy.make(sourceFolder, last, targetFolder, hidden)
            guard try copy.isUnchanged(sourceFolder, last) else {
                throw Failure(.busy, source, "it is being changed, and was not moved; try again when that is over")
            }
            try at(target) { () throws(Errno) in
                try System.renameat(targetFolder, hidden, targetFolder, name, replaces ? .replace : .exclusive)
                try System.fsync(targetFolder)
            }
        } catch {
            System.removeTree(targetFolder, hidden)
            throw error
        }
        if keepsSource { return copy.amount }
        guard try copy.removeSource(sourceFolder, last) else {
            throw Failure(
                .stale,
                source,
                "something in it was changed while it was moved: that stays here, and all else is at its new place"
            )
        }
        // Whoever looks after a power cut finds it in both places at worst.
        try? System.fsync(sourceFolder)
        return copy.amount
    }

    /// Makes an empty file or directory of a hidden name that only this move uses.
    private func begin(_ parent: Int32, isDirectory: Bool) throws(Failure) -> (name: [UInt8], lock: Int32) {
        for number in 0..<Self.attempts {
            let hidden = hiddenName(number)
            do throws(Errno) {
                if isDirectory { try System.mkdirat(parent, hidden, 0o700) }
                let flags = isDirectory ? O_RDONLY | O_DIRECTORY : O_RDWR | O_CREAT | O_EXCL
                let file = try System.openat(parent, hidden, flags | O_NOFOLLOW, 0o600)
                if flock(file, LOCK_EX | LOCK_NB) == 0 { return (hidden, file) }
                System.close(file)
            } catch {
                guard error == .exists else { throw Failure(error, target) }
            }
        }
        throw Failure(.busy, target, "others move or save something of this name; try again")
    }

    private func removeLeftovers(_ parent: Int32) {
        for number in 0..<Self.attempts {
            let hidden = hiddenName(number)
            guard let lock = try? System.openat(parent, hidden, O_RDONLY | O_NOFOLLOW | O_NONBLOCK) else { continue }
            defer { System.close(lock) }
            if flock(lock, LOCK_EX | LOCK_NB) == 0 { System.removeTree(parent, hidden) }
        }
    }

    /// The names that documents are saved by first: on a mount of Cove's they are not sent.
    private func hiddenName(_ number: Int) -> [UInt8] {
        let suffix = Array(".cove-save-\(number)".utf8)
        var stem = name[...]
        while stem.count + suffix.count + 1 > FileName.maximumLength {
            // A character goes as a whole.
            repeat { stem.removeLast() } while stem.last.map { $0 & 0xC0 == 0x80 } == true
        }
        return [0x2E] + stem + suffix
    }

    private func at<Value>(_ path: [UInt8], _ body: () throws(Errno) -> Value) throws(Failure) -> Value {
        do throws(Errno) { return try body() } catch { throw Failure(error, path) }
    }

    private static func openFolder(_ path: [UInt8]) throws(Errno) -> Int32 {
        try System.openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY)
    }

    private static func trimmed(_ path: [UInt8]) -> [UInt8] {
        var path = path[...]
        while path.count > 1, path.last == 0x2F { path.removeLast() }
        return Array(path)
    }

    private static func split(_ path: [UInt8]) -> (folder: [UInt8], name: [UInt8]) {
        guard let slash = path.lastIndex(of: 0x2F) else { return ([0x2E], path) }
        return (slash == 0 ? [0x2F] : Array(path[..<slash]), Array(path[(slash + 1)...]))
    }
}
