internal import CoveCore
internal import Glibc

/// A folder of this user's alone, held by its descriptor: what was judged is what is used, wherever its name leads later.
struct PrivateFolder: ~Copyable {
    /// The folder's path, for messages.
    let path: String
    private let descriptor: Int32

    private init(path: String, descriptor: Int32) {
        self.path = path
        self.descriptor = descriptor
    }

    deinit { System.close(descriptor) }

    /// Opens a folder of this user's; a symbolic link is not followed.
    static func open(_ path: String, remedy: String) throws(Failure) -> PrivateFolder {
        let descriptor: Int32
        do throws(Errno) {
            descriptor = try System.open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
        } catch {
            guard let mode = (try? System.lstat(path))?.st_mode, mode & S_IFMT == S_IFLNK else {
                throw Failure(path, "can't be used: \(error)", remedy)
            }
            throw Failure(path, "is a symbolic link", "name the directory that it leads to")
        }
        let folder = PrivateFolder(path: path, descriptor: descriptor)
        guard try folder.status(remedy).user == geteuid() else {
            throw Failure(path, "belongs to another user", remedy)
        }
        return folder
    }

    /// Makes a folder that only its owner may enter, or makes sure that an existing one is such.
    @discardableResult
    static func make(_ path: String, remedy: String) throws(Failure) -> PrivateFolder {
        try Failure.explaining(path, "can't be made", remedy: remedy) { () throws(Errno) in
            try System.makeDirectories(path, 0o700)
        }
        let folder = try open(path, remedy: remedy)
        try folder.close(remedy)
        return folder
    }

    /// True when others can make something in the folder.
    func isWritableByOthers(_ remedy: String) throws(Failure) -> Bool { try status(remedy).permissions & 0o022 != 0 }

    /// Closes the folder to everybody else.
    func close(_ remedy: String) throws(Failure) {
        guard try status(remedy).permissions & 0o077 != 0 else { return }
        try Failure.explaining(path, "can't be closed to others", remedy: remedy) { () throws(Errno) in
            try System.fchmod(descriptor, 0o700)
        }
    }

    /// The names in the folder.
    func names() throws(Errno) -> [String] { try System.names(in: "/proc/self/fd/\(descriptor)").sorted() }

    /// What stands under a name in the folder; a symbolic link is not followed.
    func status(of name: String) throws(Errno) -> FileStatus { try System.status(descriptor, Array(name.utf8)) }

    /// Opens a plain file of this user's in the folder; nothing that a link leads to, nor one that would be waited for.
    func open(_ name: String, _ flags: Int32) throws(Errno) -> Int32 {
        try System.openPlain(descriptor, Array(name.utf8), flags)
    }

    /// Gives a file of the folder another name there.
    func rename(_ name: String, _ newName: String) throws(Errno) {
        try System.renameat(descriptor, Array(name.utf8), descriptor, Array(newName.utf8), .replace)
    }

    /// Removes a file of the folder.
    func unlink(_ name: String) throws(Errno) { try System.unlinkat(descriptor, Array(name.utf8)) }

    private func status(_ remedy: String) throws(Failure) -> FileStatus {
        try Failure.explaining(path, remedy: remedy) { () throws(Errno) in try System.status(descriptor) }
    }
}
