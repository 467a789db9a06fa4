internal import CoveCore
internal import CoveEngine
internal import CoveMount
internal import CoveProviders
internal import Glibc

/// What `cove doctor` looks at beside state directories and daemons: the kernel, FUSE, and mounts whose daemon has died.
enum SystemCheck {
    static func all(_ arguments: Arguments) -> [DoctorFinding] {
        [device(), helper(), kernel(), allowOther(), watches(), bubblewrap(), thumbnailer()] + mounts(arguments)
    }

    private static func device() -> DoctorFinding {
        do throws(Errno) {
            System.close(try System.open("/dev/fuse", O_RDWR))
            return .ok("fuse", "/dev/fuse can be opened")
        } catch .noSuchEntry {
            return .problem("fuse", "/dev/fuse is missing", "load it with `modprobe fuse`")
        } catch {
            return .problem("fuse", "/dev/fuse: \(error)", "ask your administrator for access to it")
        }
    }

    private static func helper() -> DoctorFinding {
        let folders = ["/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin", "/sbin"]
        guard let path = folders.map({ $0 + "/fusermount3" }).first(where: { access($0, X_OK) == 0 }) else {
            let message = "fusermount3 is missing"
            let remedy = "install it (Debian: apt install fuse3)"
            return geteuid() == 0 ? .warning("fusermount3", message, remedy) : .problem("fusermount3", message, remedy)
        }
        if geteuid() != 0, let status = try? System.statFollowing(path), status.st_mode & S_ISUID == 0 {
            return .problem("fusermount3", "\(path) is not set-user-id root", "install the package fuse3 again")
        }
        return .ok("fusermount3", path)
    }

    private static func bubblewrap() -> DoctorFinding {
        if let path = InstalledProviders.bubblewrap { return .ok("bubblewrap", path) }
        return .warning(
            "bubblewrap",
            "bwrap is missing, without which no provider that is to be confined is started, and no thumbnail made",
            "install it (Debian: apt install bubblewrap)"
        )
    }

    private static func thumbnailer() -> DoctorFinding {
        if let program = Engine.thumbnailer(ofType: "image/png") { return .ok("thumbnailer", program) }
        return .warning(
            "thumbnailer",
            "no program makes thumbnails of images, nor smaller ones of those that the source has",
            "install one (Debian: apt install libgdk-pixbuf2.0-bin)"
        )
    }

    private static func kernel() -> DoctorFinding {
        let release = Negotiation.kernelRelease
        guard !Negotiation.canResend(release: release) else { return .ok("kernel", "Linux \(release)") }
        return .warning(
            "kernel",
            "Linux \(release) does not send requests again: when a daemon dies, programs whose request was on its way wait "
                + "until the mount is detached, and `cove upgrade` is refused",
            "use Linux 6.9 or later"
        )
    }

    private static func allowOther() -> DoctorFinding {
        let text = StateCheck.text(of: "/etc/fuse.conf") ?? ""
        let isAllowed = text.split(separator: "\n").contains { $0.trimmed == "user_allow_other" }
        if geteuid() == 0 { return .ok("allow_other", "root may use it") }
        if isAllowed { return .ok("allow_other", "users may use it") }
        return .ok("allow_other", "for root only; write user_allow_other to /etc/fuse.conf where users need it")
    }

    private static func watches() -> DoctorFinding {
        func number(_ name: String) -> Int? {
            StateCheck.text(of: "/proc/sys/fs/inotify/\(name)").flatMap { Int($0.trimmed) }
        }
        guard let watches = number("max_user_watches"), let instances = number("max_user_instances") else {
            return .warning("inotify", "its limits can't be read", "mount /proc")
        }
        let message = "\(watches) watches, \(instances) instances"
        guard watches >= 65536, instances >= 64 else {
            return .warning(
                "inotify",
                "\(message): too few to follow a large dir: source at once",
                "raise fs.inotify.max_user_watches and fs.inotify.max_user_instances with sysctl"
            )
        }
        return .ok("inotify", message)
    }

    /// The mounts of the account that is named, all of this machine where none is.
    private static func mounts(_ arguments: Arguments) -> [DoctorFinding] {
        let mounts = ((try? MountTable.read()) ?? []).filter(isMeant(arguments))
        if mounts.isEmpty { return [.ok("mounts", "none")] }
        return mounts.map { mount in
            switch mount.standing() {
            case .serving: .ok("mounts", "\(mount.path): \(mount.source) is served")
            case .dead:
                .problem("mounts", "\(mount.path): its daemon has died", "run `cove unmount \(mount.path)`")
            case .silent:
                .problem(
                    "mounts",
                    "\(mount.path): its daemon does not answer",
                    "run `cove unmount --lazy \(mount.path)`"
                )
            }
        }
    }

    private static func isMeant(_ arguments: Arguments) -> (Mount) -> Bool {
        if let operand = arguments.operands.first {
            let path = LocalPath.absolute(String(decoding: operand, as: UTF8.self))
            let holder = (try? MountTable.coveMount(holding: path)) ?? nil
            return { $0 == holder }
        }
        let named = arguments.value("state").map(LocalPath.absolute)
        guard let state = named ?? arguments.value("account").map(StatePaths.state) else { return \.isCove }
        let path = StateLock.mountpoint(ofState: state)
        // Where nobody works on the account, what is served there is another one's.
        let isHeld = StateLock.isHeld(state)
        return { $0.isCove && $0.path == path && (isHeld || $0.state() == .dead) }
    }
}

extension StringProtocol {
    /// Without spaces and line ends around it.
    var trimmed: String {
        var rest = self[...]
        while let first = rest.first, first.isWhitespace { rest.removeFirst() }
        while let last = rest.last, last.isWhitespace { rest.removeLast() }
        return String(rest)
    }
}
