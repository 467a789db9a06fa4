internal import CLinux
internal import CSodium
internal import CoveCore
internal import Glibc

/// A file whose programs are an app's: where it is, and what it has in it.
///
/// A process is known by the file that it runs, as the kernel has it, and not by a name: it must be the file that is at the
/// path now, and have the bytes that it had when it was registered.
struct RegisteredExecutable: Codable, Sendable, Equatable {
    /// Where the user said that it is, absolute; symbolic links in it are followed at each look.
    var path: String
    /// The file that this was when it was registered.
    var resolved: String
    /// BLAKE2b of its bytes.
    var digest: String

    private static let greatestSize: off_t = 1 << 30
    private static let fuse: Int64 = 0x6573_5546
    /// Programs that run what they are told to: who they are says nothing of whose they are.
    private static let interpreters: Set<String> = [
        "ash", "awk", "bash", "bun", "busybox", "bwrap", "csh", "dash", "deno", "dotnet", "electron", "env", "erl",
        "fish",
        "flatpak", "gawk", "gdb", "gjs", "guile", "java", "ksh", "ld-linux", "ld-musl", "lua", "luajit", "mawk", "mksh",
        "mono", "node", "nodejs", "perl", "php", "pypy", "python", "qemu", "ruby", "sh", "strace", "sudo", "tclsh",
        "tcsh",
        "toybox", "unshare", "wine", "wish", "xargs", "zsh",
    ]

    /// Looks at a file that is to be registered.
    init(vetting path: String) throws(AccessError) {
        let look = { () throws(Errno) -> (RegisteredExecutable?, String?) in
            let file = try System.open(path, O_RDONLY | O_NONBLOCK)
            defer { System.close(file) }
            let target = try System.readlinkat(AT_FDCWD, Array("/proc/self/fd/\(file)".utf8))
            let resolved = String(decoding: target, as: UTF8.self)
            if let problem = try Self.problem(file, resolved) { return (nil, problem) }
            return (RegisteredExecutable(path: path, resolved: resolved, digest: try Self.digest(of: file)), nil)
        }
        let found: RegisteredExecutable?
        let problem: String?
        do throws(Errno) { (found, problem) = try look() } catch {
            throw AccessError(error, "\(path): \(error); name an executable that can be read")
        }
        guard let found else { throw AccessError(.invalidArgument, "\(path): \(problem ?? "it can't be registered")") }
        self = found
    }

    private init(path: String, resolved: String, digest: String) {
        self.path = path
        self.resolved = resolved
        self.digest = digest
    }

    /// What keeps a file from being registered, and what to do; nil where nothing does.
    private static func problem(_ file: Int32, _ resolved: String) throws(Errno) -> String? {
        let status = try System.fstat(file)
        guard status.st_mode & S_IFMT == S_IFREG, status.st_mode & 0o111 != 0 else {
            return "it is no executable file; name the file that runs"
        }
        guard status.st_size <= greatestSize else { return "it is over 1 GiB; name a smaller file that starts it" }
        // Whoever serves it could say anything, and this account's own mount would wait for itself.
        guard cove_filesystem_type(file) != fuse else { return "it is on a FUSE mount; install it on a disk" }
        let magic = try System.contents(file, atMost: 4)
        if magic.starts(with: Array("#!".utf8)) {
            return "it is a script, and its interpreter runs other ones too; run it by `cove run --app`"
        }
        guard magic == [0x7F, 0x45, 0x4C, 0x46] else {
            return "it is no program of the machine's own format; run it by `cove run --app`"
        }
        guard !isInterpreter(resolved.split(separator: "/").last.map(String.init) ?? "") else {
            return "it is \(resolved), which runs programs of all kinds; run the app by `cove run --app`"
        }
        if let own = try? System.statFollowing("/proc/self/exe"), FileMark(own).isSameFile(as: FileMark(status)) {
            return "it is Cove itself, which is the user's; name the app's own"
        }
        return nil
    }

    /// What has become of the file since it was registered, and what to do; nil where nothing has.
    func problem(_ programs: AppPrograms) -> String? {
        do throws(Errno) {
            let file = try System.open(path, O_RDONLY | O_NONBLOCK)
            defer { System.close(file) }
            return try programs.digest(of: file) == digest ? nil : "it has changed since it was registered"
        } catch .noSuchEntry {
            return "it is gone"
        } catch {
            return "it can't be read: \(error)"
        }
    }

    /// The name of an interpreter without its version: `python3.11`, `qemu-x86_64-static` and `ld-linux-x86-64.so.2` too.
    private static func isInterpreter(_ name: String) -> Bool {
        if interpreters.contains(name) { return true }
        let stem = name.prefix { !"0123456789.".contains($0) }
        let short = stem.hasSuffix("-") ? stem.dropLast() : stem
        return interpreters.contains { short == $0 || name.hasPrefix($0 + "-") }
    }

    /// BLAKE2b of a file's bytes, as hexadecimal digits.
    static func digest(of file: Int32) throws(Errno) -> String {
        guard sodium_init() >= 0 else { throw .notSupported }
        let room = UnsafeMutableRawPointer.allocate(byteCount: crypto_generichash_statebytes(), alignment: 64)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 64)
        defer {
            room.deallocate()
            buffer.deallocate()
        }
        let state = OpaquePointer(room)
        crypto_generichash_init(state, nil, 0, 32)
        var offset: off_t = 0
        while offset <= greatestSize {
            let count = try System.retry { Glibc.pread(file, buffer.baseAddress, buffer.count, offset) }
            if count == 0 { break }
            crypto_generichash_update(state, buffer.baseAddress?.assumingMemoryBound(to: UInt8.self), UInt64(count))
            offset += off_t(count)
        }
        var digest = [UInt8](repeating: 0, count: 32)
        crypto_generichash_final(state, &digest, digest.count)
        return digest.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}
