internal import CoveCore
internal import Glibc

/// Whose a process is that has connected to a socket.
///
/// A view decides alone. Outside of views there are three signs: Flatpak's instance, the unit of systemd, and the executable.
/// All that are there must be of one app; a process with none of them is the user's.
extension Access {
    /// What was found of a process: whose it is said to be, and by what.
    private struct Sign {
        var app: AppIdentifier
        var what: String
    }

    /// Why nobody can tell whose a process is: what happened; what to do.
    private struct Doubt: Error {
        var words: String
    }

    /// On whose behalf a process of a user calls.
    func standing(of process: Int32, user: UInt32) -> PeerStanding {
        // Who is outside of this PID namespace has no number here.
        guard process > 0 else { return .user }
        do throws(Errno) {
            if let app = try views.app(of: process) { return .app(app) }
        } catch {
            return .unknown("it can't be told in which view the program is; try again")
        }
        if context.generation.isLegacy { return .user }
        do throws(Doubt) {
            let signs = try signs(of: process, user)
            guard let first = signs.first else { return .user }
            if let other = signs.first(where: { $0.app != first.app }) {
                throw Doubt(
                    words: "by \(first.what) it is \(first.app), by \(other.what) \(other.app); end what is wrong"
                )
            }
            return .app(first.app)
        } catch {
            return .unknown(error.words)
        }
    }

    private func signs(of process: Int32, _ user: UInt32) throws(Doubt) -> [Sign] {
        guard let namespace = AppViews.namespace(of: "/proc/\(process)/ns/pid") else {
            return try signs(ofHidden: process, user)
        }
        let isOutside = namespace == views.own
        var signs: [Sign] = []
        if !isOutside {
            do throws(FlatpakInstance.Refusal) {
                let instance = try FlatpakInstance(
                    process: process,
                    runtimeDirectory: BaseDirectories.runtime,
                    isInside: { views.isInside($0, process) }
                )
                if let instance { signs.append(Sign(app: instance.app, what: "Flatpak")) }
            } catch {
                throw Doubt(words: "\(error.reason); start it by Flatpak or by `cove run --app`")
            }
        }
        let isFlatpak = !signs.isEmpty
        let isPlain = isOutside && Self.sharesUsers(process)
        // By this program the user acts, whoever has started it: an app has a document picked by it.
        if isPlain, Self.isOwn(process) { return [] }
        signs += try unitSigns(of: process, isFlatpak: isFlatpak)
        if !programs.all.isEmpty {
            signs += try executableSigns(of: process, isPlain: isPlain, signs)
        }
        return signs
    }

    /// Of a process that lets nobody look at it only the unit can be told.
    private func signs(ofHidden process: Int32, _ user: UInt32) throws(Doubt) -> [Sign] {
        let hidden = "the program lets nobody see what it is (PR_SET_DUMPABLE); start it another way"
        guard AppViews.depth(of: process) == 1 else { throw Doubt(words: hidden) }
        // Another user's is root's, who may do everything.
        let isRoot = user == 0 && geteuid() != 0
        guard isRoot || programs.all.isEmpty else { throw Doubt(words: hidden) }
        return isRoot ? [] : try unitSigns(of: process, isFlatpak: false)
    }

    // MARK: Units

    private func unitSigns(of process: Int32, isFlatpak: Bool) throws(Doubt) -> [Sign] {
        guard let text = Self.text("/proc/\(process)/cgroup"),
            let unit = SystemdUnit(controlGroups: text, user: geteuid())
        else { return [] }
        let apps = registry.apps
        var signs: [Sign] = []
        for (app, programs) in programs.all.sorted(by: { $0.key < $1.key })
        where apps[app] != nil && programs.units.contains(where: { unit.isCalled($0) }) {
            signs.append(Sign(app: app, what: "its unit \(unit.name)"))
        }
        if let (launcher, identifier) = unit.application {
            if launcher == "flatpak", !isFlatpak {
                throw Doubt(
                    words: "its unit \(unit.name) is Flatpak's, and it is in no sandbox of Flatpak's; start it again"
                )
            }
            // Shells and whatever else a person starts are in such units too: only an app that is known counts.
            if apps[identifier] != nil || isFlatpak {
                signs.append(Sign(app: identifier, what: "its unit \(unit.name)"))
            }
        }
        return signs
    }

    // MARK: Executables

    private func executableSigns(of process: Int32, isPlain: Bool, _ others: [Sign]) throws(Doubt) -> [Sign] {
        let link = "/proc/\(process)/exe"
        guard let target = try? System.readlinkat(AT_FDCWD, Array(link.utf8)) else {
            throw Doubt(words: "the program has ended, or lets nobody see what it is; start it again")
        }
        var name = String(decoding: target, as: UTF8.self)
        // What the kernel adds to the name of a file that has none any more.
        let end = " (deleted)"
        if name.hasSuffix(end) { name.removeLast(end.count) }
        let apps = registry.apps
        var signs: [Sign] = []
        for (app, programs) in programs.all.sorted(by: { $0.key < $1.key }) where apps[app] != nil {
            for executable in programs.executables {
                guard try isRunning(link, name, executable, of: app) else { continue }
                guard isPlain || others.contains(where: { $0.app == app }) else {
                    let words =
                        "\(executable.path) runs in a sandbox that may have altered it; run it by `cove run --app`"
                    throw Doubt(words: words)
                }
                signs.append(Sign(app: app, what: executable.path))
            }
        }
        return signs
    }

    /// Whether a process runs a registered file, by its `/proc/PID/exe`.
    private func isRunning(
        _ link: String,
        _ name: String,
        _ executable: RegisteredExecutable,
        of app: AppIdentifier
    ) throws(Doubt) -> Bool {
        guard let running = try? System.statFollowing(link) else {
            throw Doubt(words: "the program has ended; start it again")
        }
        guard let present = try? System.statFollowing(executable.path),
            FileMark(present).isSameFile(as: FileMark(running))
        else {
            // By its name alone nothing is anybody's; but what was an app's a moment ago is not the user's either.
            guard [executable.path, executable.resolved].contains(where: { LocalPath.isSame($0, name) }) else {
                return false
            }
            throw Doubt(words: "\(executable.path) was replaced or removed since the program began; start it again")
        }
        do throws(Errno) {
            let file = try System.open(link, O_RDONLY)
            defer { System.close(file) }
            if try programs.digest(of: file) == executable.digest { return true }
        } catch {
            throw Doubt(words: "\(executable.path) can't be read: \(error); try again")
        }
        throw Doubt(
            words: "\(executable.path) has changed since it was registered; "
                + "run `cove app register \(app) --executable \(executable.path)` again"
        )
    }

    // MARK: The process

    /// True for a process in this one's user namespace, whose files nobody but their owner has altered.
    private static func sharesUsers(_ process: Int32) -> Bool {
        guard let theirs = AppViews.namespace(of: "/proc/\(process)/ns/user") else { return false }
        return theirs == AppViews.namespace(of: "/proc/self/ns/user")
    }

    /// True for a process that runs the same file as this one.
    private static func isOwn(_ process: Int32) -> Bool {
        guard let theirs = try? System.statFollowing("/proc/\(process)/exe"),
            let own = try? System.statFollowing("/proc/self/exe")
        else { return false }
        return FileMark(theirs).isSameFile(as: FileMark(own))
    }

    private static func text(_ path: String) -> String? {
        guard let file = try? System.open(path, O_RDONLY) else { return nil }
        defer { System.close(file) }
        return (try? System.contents(file, atMost: 16 << 10)).map { String(decoding: $0, as: UTF8.self) }
    }
}
