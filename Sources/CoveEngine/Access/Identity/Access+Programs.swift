internal import CoveCore

/// What the user has said about apps' programs on this device.
extension Access {
    /// Looks at what a manifest says of the app's programs; nil where it says nothing.
    func vet(_ manifest: AppManifest) async throws(AccessError) -> AppPrograms.Programs? {
        if manifest.executables == nil, manifest.units == nil { return nil }
        let app = manifest.identifier
        var wanted = programs[app]
        if let units = manifest.units { wanted.units = units }
        if let paths = manifest.executables {
            // Reading them may take a while.
            let found = await OffPool.run {
                Result { () throws(AccessError) in
                    try paths.map { path throws(AccessError) in try RegisteredExecutable(vetting: path) }
                }
            }
            wanted.executables = try found.get()
        }
        for (other, known) in programs.all where other != app && registry.apps[other] != nil {
            let isTaken = wanted.executables.contains { mine in
                known.executables.contains {
                    LocalPath.isSame($0.path, mine.path) || LocalPath.isSame($0.resolved, mine.resolved)
                }
            }
            if isTaken || known.units.contains(where: { wanted.units.contains($0) }) {
                throw AccessError(.exists, "what it names is known as a program of \(other); remove it there first")
            }
        }
        return wanted
    }

    /// Keeps what was looked at; true where that is something else than before.
    func keep(_ wanted: AppPrograms.Programs?, of app: AppIdentifier) async throws(AccessError) -> Bool {
        guard let wanted else { return false }
        return try await failing("the app's programs can't be kept") { () throws(Errno) in
            try await onQueue { [programs] () throws(Errno) in try programs.set(wanted, of: app) }
        }
    }

    /// Nothing is a program of an app any more.
    func forgetPrograms(of app: AppIdentifier) async throws(AccessError) {
        _ = try await keep(AppPrograms.Programs(), of: app)
    }

    /// What each app's programs are known by, and what has become of that.
    func knownPrograms() async -> [AppIdentifier: KnownPrograms] {
        await OffPool.run { [programs, registry] in
            var known: [AppIdentifier: KnownPrograms] = [:]
            for (app, found) in programs.all where registry.apps[app] != nil {
                known[app] = KnownPrograms(
                    executables: found.executables.map { ($0.path, $0.problem(programs)) },
                    units: found.units
                )
            }
            return known
        }
    }
}

/// What the programs of an app are known by on this device.
public struct KnownPrograms: Sendable {
    /// Files, each with what has become of it since it was registered, where anything has.
    public let executables: [(path: String, problem: String?)]
    /// Units of systemd.
    public let units: [String]
}

extension Engine {
    /// Warns of files that no program can be known by any more.
    func programFindings() async -> [DoctorFinding] {
        var room = MessageRoom()
        var findings: [DoctorFinding] = []
        for (app, known) in await access.knownPrograms().sorted(by: { $0.key < $1.key }) {
            for (path, problem) in known.executables {
                guard let problem, room.take([path, app.text]) else { continue }
                findings.append(
                    DoctorFinding(
                        check: "apps",
                        level: "warning",
                        message: "programs of \(app) are known by \(path): \(problem)",
                        remedy: "run `cove app register \(app) --executable PATH` again, or `cove app remove \(app)`"
                    )
                )
            }
        }
        return findings
    }
}
