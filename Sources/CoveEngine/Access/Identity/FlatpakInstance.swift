internal import CoveCore
internal import Glibc

/// What Flatpak says of a process in a sandbox.
///
/// A file `/.flatpak-info` in the sandbox is not enough: who makes a root of its own can have any file there. It counts where it
/// names an instance that Flatpak keeps outside of all sandboxes, in `$XDG_RUNTIME_DIR/.flatpak/INSTANCE`, with the same app, and
/// where the process is in that instance's PID namespace, which no program gets into that was not started in it.
struct FlatpakInstance: Sendable {
    let app: AppIdentifier

    private static let greatestFile = 64 << 10

    /// Why a process that says it is a Flatpak's is not believed.
    struct Refusal: Error, Sendable {
        let reason: String
    }

    /// The instance that a process is of; nil where it says nothing of one.
    ///
    /// `isInside` tells whether the process is in a PID namespace, or in one around its own.
    init?(
        process: Int32,
        runtimeDirectory: String?,
        isInside: (_ namespace: UInt64) -> Bool
    ) throws(Refusal) {
        guard let told = try Self.told(by: process) else { return nil }
        guard let app = told.app, let instance = told.instance else {
            throw Refusal(reason: "its .flatpak-info names no app")
        }
        guard let runtimeDirectory else {
            throw Refusal(reason: "there is no XDG_RUNTIME_DIR to look Flatpak's instances up in")
        }
        let folder = "\(runtimeDirectory)/.flatpak/\(instance)"
        guard let info = Self.contents("\(folder)/info").map(FlatpakInfo.init), info.app == app,
            info.instance == instance
        else { throw Refusal(reason: "Flatpak has no instance \(instance) of \(app)") }
        guard let bytes = Self.contents("\(folder)/bwrapinfo.json"), let sandbox = try? JSONValue(parsing: bytes),
            case .integer(let number)? = sandbox["child-pid"], let child = Int32(exactly: number), child > 0,
            let namespace = AppViews.namespace(of: "/proc/\(child)/ns/pid"),
            sandbox["pid-namespace"].map({ $0 == .integer(Int64(bitPattern: namespace)) }) ?? true,
            isInside(namespace)
        else { throw Refusal(reason: "it is not in the sandbox of Flatpak's instance \(instance)") }
        self.app = app
    }

    /// What the process's own root says; nil where there is nothing.
    private static func told(by process: Int32) throws(Refusal) -> FlatpakInfo? {
        do throws(Errno) {
            let root = try System.open("/proc/\(process)/root", O_RDONLY | O_DIRECTORY)
            defer { System.close(root) }
            let file = try System.openat(root, Array(".flatpak-info".utf8), O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
            defer { System.close(file) }
            guard try System.fstat(file).st_mode & S_IFMT == S_IFREG else { throw .invalidArgument }
            return FlatpakInfo(try System.contents(file, atMost: greatestFile))
        } catch .noSuchEntry {
            return nil
        } catch {
            throw Refusal(reason: "its .flatpak-info can't be read: \(error)")
        }
    }

    /// A file of this user's that others may not write; its group may by some umasks, but gets to no runtime directory.
    private static func contents(_ path: String) -> [UInt8]? {
        guard let file = try? System.open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK) else { return nil }
        defer { System.close(file) }
        guard let status = try? System.fstat(file), status.st_mode & S_IFMT == S_IFREG, status.st_uid == geteuid(),
            status.st_mode & 0o002 == 0
        else { return nil }
        return try? System.contents(file, atMost: greatestFile)
    }
}
