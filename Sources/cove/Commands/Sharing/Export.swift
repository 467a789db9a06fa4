internal import CoveCore
internal import Glibc

/// What `cove account export` says at its end.
struct ExportReport: Encodable {
    /// Files and links that were written.
    var exported = 0
    /// Bytes of these.
    var bytes: Int64 = 0
    /// What an earlier run had written.
    var present = 0
    /// Items that were removed or moved meanwhile, before they were read.
    var vanished = 0
    /// What could not be had, and why.
    var failures: [String: String] = [:]
}

/// What a disk calls the names of one folder: one that folds case or spelling has one file for several of them.
private struct FolderNames {
    private struct Identity: Hashable {
        var device: UInt64
        var inode: UInt64

        init(_ status: stat) { (device, inode) = (UInt64(status.st_dev), UInt64(status.st_ino)) }
    }

    private var owners: [Identity: [UInt8]] = [:]
    /// The names that were there before, and that were written: as texts, for some disks spell letters with accents otherwise.
    private var known: Set<String>

    /// For a folder of the disk that has these names.
    init(_ names: [[UInt8]]) { known = Set(names.map { String(decoding: $0, as: UTF8.self) }) }

    /// Remembers that a file on the disk is the one of a name.
    mutating func note(_ status: stat?, _ name: [UInt8]) {
        if let status { owners[Identity(status)] = name }
        known.insert(String(decoding: name, as: UTF8.self))
    }

    /// The other name whose file a name leads to; nil where it has one of its own, or none yet.
    func other(than name: [UInt8], at there: stat?) -> String? {
        guard let there else { return nil }
        if let owner = owners[Identity(there)], owner != name { return String(decoding: owner, as: UTF8.self) }
        // A disk without numbers of its own may have given the file a new one.
        return known.contains(String(decoding: name, as: UTF8.self)) ? nil : "another name"
    }
}

/// Writes all that an account shows to a folder.
struct Export {
    private static let depthLimit = 200

    private let connection: AccountConnection
    /// The root of the mount, held open: what is mounted or unmounted meanwhile changes nothing.
    private let root: AccountRoot
    private let target: [UInt8]
    private let progress = ProgressBar()

    init(_ connection: AccountConnection, _ status: AccountStatus, to folder: [UInt8]) throws(Failure) {
        self.connection = connection
        root = try AccountRoot(connection, status)
        let shown = String(decoding: folder, as: UTF8.self)
        target = try Failure.explaining(shown, remedy: "name a folder that can be written to") { () throws(Errno) in
            try System.makeDirectories(shown, 0o777)
            return try ItemLocation.resolve(folder + [0x2F])
        }
        if (try? ItemLocation.find(target + [0x2F])) != nil {
            throw Failure(shown, "it is in an account itself", "name a folder outside of Cove's mounts")
        }
        // What somebody else has made there is not to be replaced.
        let names = try Failure.explaining(shown, remedy: "name another folder") { () throws(Errno) in
            try System.rawNames(in: target)
        }
        guard names.isEmpty || names.contains(Self.marker) else {
            throw Failure(shown, "it is not empty, and no export has written it", "name a new folder")
        }
        try Failure.explaining(shown, remedy: "name a folder that can be written to") { () throws(Errno) in
            let file = try System.openat(
                AT_FDCWD,
                target + [0x2F] + Self.marker,
                O_WRONLY | O_CREAT | O_NOFOLLOW,
                0o644
            )
            System.close(file)
        }
    }

    /// What tells a folder that an export has written.
    private static let marker = Array(".cove-export".utf8)

    /// Writes everything.
    ///
    /// What an earlier run has written, and nobody has changed since, stays as it is.
    func run() -> ExportReport {
        var report = ExportReport()
        write([], &report)
        progress.clear()
        return report
    }

    private func write(_ names: [[UInt8]], _ report: inout ExportReport) {
        let shown = names.isEmpty ? "/" : String(decoding: Array(names.joined(separator: [0x2F])), as: UTF8.self)
        do throws(Failure) {
            guard names.count < Self.depthLimit else { throw Failure(shown, "folders too deep to be exported") }
            let items = try list(names)
            // Read by this process: the kernel knows who may.
            let folder = Self.join(root.path, names)
            var children = try Failure.explaining(shown, remedy: "") { () throws(Errno) in
                try System.rawNames(in: folder)
            }
            if names.isEmpty { children = Array(Set(children).union(try containers())) }
            let to = Self.join(target, names)
            let before = try Failure.explaining(shown, remedy: "") { () throws(Errno) in try System.rawNames(in: to) }
            var known = FolderNames(before)
            if names.isEmpty {
                let marker = try? System.statat(AT_FDCWD, target + [0x2F] + Self.marker)
                known.note(marker, Self.marker)
            }
            for name in children.sorted(by: { $0.lexicographicallyPrecedes($1) }) {
                write(names + [name], items[name], &known, &report)
            }
        } catch {
            report.failures[shown] = error.what
        }
    }

    /// Writes one item, with all in it.
    private func write(
        _ names: [[UInt8]],
        _ item: ItemStatus?,
        _ known: inout FolderNames,
        _ report: inout ExportReport
    ) {
        let name = names.last ?? []
        let shown = String(decoding: Array(names.joined(separator: [0x2F])), as: UTF8.self)
        let (from, to) = (Self.join(root.path, names), Self.join(target, names))
        let status: stat
        do throws(Errno) { status = try System.statat(AT_FDCWD, from) } catch {
            if error == .noSuchEntry, isGone(names) {
                report.vanished += 1
            } else {
                report.failures[shown] = error.explanation
            }
            return
        }
        let there = try? System.statat(AT_FDCWD, to)
        if let other = known.other(than: name, at: there) {
            report.failures[shown] = "the disk takes it for \(other), which is there already"
            return
        }
        defer { known.note(try? System.statat(AT_FDCWD, to), name) }
        switch status.st_mode & S_IFMT {
        case S_IFDIR:
            let isNew = there.map { $0.st_mode & S_IFMT != S_IFDIR } ?? true
            do throws(Errno) { if isNew { try System.mkdirat(AT_FDCWD, to, 0o700) } } catch {
                report.failures[shown] = "its folder can't be made: \(error)"
                return
            }
            write(names, &report)
            describe(to, status)
        case S_IFREG, S_IFLNK:
            if let there, Self.isSame(there, status) {
                report.present += 1
                return
            }
            copy(names, shown, item, &report)
        // What is only of this machine: fifos, sockets and devices.
        default: break
        }
    }

    private func copy(_ names: [[UInt8]], _ shown: String, _ item: ItemStatus?, _ report: inout ExportReport) {
        do throws(CrossingMove.Failure) {
            let amount = try CrossingMove(
                from: Self.join(root.path, names),
                to: Self.join(target, names),
                keepsSource: true,
                replaces: true,
                progress: { progress.show("\(shown): \(Units.size($0.bytes)) written") }
            ).run()
            report.exported += 1
            report.bytes = report.bytes.saturatingAdd(amount.bytes)
        } catch {
            report.failures[shown] = error.errno.explanation
        }
        // What was fetched for this alone does not stay; what somebody uses now, does.
        guard item?.state == "dataless" else { return }
        let path = PathParameter(RemotePath(names.map { FileName(unchecked: $0) }))
        let _: ItemInterface.EvictReply? = try? connection.call(
            "\(ItemInterface.name).Evict",
            ItemInterface.Request(path: path),
            timeout: nil
        )
    }

    /// True where the daemon knows nothing of an item any more, rather than that the mount shows it no longer.
    private func isGone(_ names: [[UInt8]]) -> Bool {
        do throws(Failure) {
            let path = PathParameter(RemotePath(names.map { FileName(unchecked: $0) }))
            let _: ItemInterface.InfoReply = try connection.call(
                "\(ItemInterface.name).Info",
                ItemInterface.Request(path: path)
            )
            return false
        } catch {
            return error.errno == .noSuchEntry
        }
    }

    /// The folders of all containers: those that are not public no listing of the root shows.
    private func containers() throws(Failure) -> [[UInt8]] {
        let reply: AccessInterface.ContainersReply = try connection.call("\(AccessInterface.name).Containers")
        return reply.containers.compactMap {
            $0.path.flatMap { RemotePath(unchecked: Array($0.utf8)).names.first?.bytes }
        }
    }

    private func describe(_ path: [UInt8], _ status: stat) {
        guard let folder = try? System.openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY) else { return }
        defer { System.close(folder) }
        try? System.fchown(folder, user: status.st_uid, group: status.st_gid)
        try? System.fchmod(folder, UInt16(status.st_mode & 0o7777))
        try? System.setModificationTime(folder, Timestamp(status.st_mtim))
    }

    private func list(_ names: [[UInt8]]) throws(Failure) -> [[UInt8]: ItemStatus] {
        var items: [[UInt8]: ItemStatus] = [:]
        func take(_ reply: ItemInterface.ListReply) { for item in reply.items { items[item.rawName] = item } }
        take(
            try connection.stream(
                "\(ItemInterface.name).List",
                ItemInterface.Request(path: PathParameter(RemotePath(names.map { FileName(unchecked: $0) }))),
                take
            )
        )
        return items
    }

    private static func isSame(_ left: stat, _ right: stat) -> Bool {
        left.st_mode == right.st_mode && left.st_size == right.st_size
            && Timestamp(left.st_mtim) == Timestamp(right.st_mtim)
    }

    private static func join(_ base: [UInt8], _ names: [[UInt8]]) -> [UInt8] {
        names.reduce(base == [0x2F] ? [] : base) { $0 + [0x2F] + $1 }
    }
}
