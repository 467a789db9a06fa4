internal import CoveCore

/// Apps and containers as people and apps ask for them.
extension Access {
    /// Reads the account's documents where they have changed, so that an answer is of now.
    func refresh() async {
        let found = try? await onQueue { [self] () throws(Errno) in try fingerprint() }
        if found == nil || state.withLock({ $0.fingerprint != found }) { await read() }
    }

    /// Makes an app known, or heeds its manifest again where the manifest's version is another one.
    ///
    /// True where anything was heeded. Containers that it declares and owns are told to others as it says.
    func register(_ manifest: AppManifest) async throws(AccessError) -> Bool {
        await refresh()
        let registry = registry
        for container in manifest.containers {
            guard let known = registry.containers[container], known.app != manifest.identifier else { continue }
            throw AccessError(
                .accessDenied,
                "container \(container) belongs to \(known.app); take it out of the manifest"
            )
        }
        if let known = registry.apps[manifest.identifier], known.version == manifest.version { return false }
        guard registry.apps.count < DriveFolder.mostRecords else {
            throw AccessError(.noSpace, "the account has too many apps; remove some")
        }
        try await failing("the app can't be registered") { () throws(Errno) in
            try await change(app: manifest.identifier) { _ in AppRecord(manifest) }
            _ = try await mark()
            for container in manifest.containers where registry.containers[container] != nil {
                let told = manifest.description(of: container)
                let time = journalTime().secondsSinceEpoch
                try await change(container: container) { known throws(Errno) in
                    guard var record = known, record.app == manifest.identifier else { throw .accessDenied }
                    record.setPublic(told.isPublic, at: time)
                    record.folderLevels = told.folderLevels
                    if let name = told.name { record.name = name }
                    return record
                }
            }
            await read()
        }
        return true
    }

    /// Forgets an app; its containers stay.
    func removeApp(_ identifier: AppIdentifier) async throws(AccessError) {
        await refresh()
        guard registry.apps[identifier] != nil else {
            throw AccessError(.noSuchEntry, "no such app; see `cove app ls`")
        }
        try await failing("the app can't be removed") { () throws(Errno) in
            try await turns.take { () throws(Errno) in
                try await remove(identifier.recordName, in: DriveFolder.apps)
            }
            await read()
        }
    }

    /// Makes a container with its `Documents`, or finds the app's own one of that identifier.
    func createContainer(
        _ identifier: AppIdentifier,
        for app: AppIdentifier,
        name: String?,
        isPublic: Bool?
    ) async throws(AccessError) -> ContainerRecord {
        await refresh()
        let registry = registry
        if let known = registry.containers[identifier], known.app != app {
            throw AccessError(.accessDenied, "it belongs to \(known.app); choose another identifier")
        }
        if registry.containers[identifier] == nil, try await isTaken(identifier.folderName) {
            throw AccessError(.exists, "something of that name is there already; choose another identifier")
        }
        if let name, let problem = AppManifest.problem(withName: name) {
            throw AccessError(.invalidArgument, "the container can't have \(problem); choose another name")
        }
        guard registry.containers.count < DriveFolder.mostRecords else {
            throw AccessError(.noSpace, "the account has too many containers")
        }
        let declared = registry.apps[app]
        let isDeclaredPublic =
            declared?.publicContainers?.contains(identifier) == true || declared?.isPublicThroughout == true
        let fresh = ContainerRecord(
            identifier: identifier,
            name: name ?? declared?.name ?? identifier.text,
            app: app,
            isPublic: isDeclaredPublic
        )
        let time = journalTime().secondsSinceEpoch
        let made = try await failing("the container can't be made") { () throws(Errno) -> ContainerRecord in
            // Whose it is comes first, so that no app declares what another one has got meanwhile.
            let made = try await change(container: identifier) { known throws(Errno) in
                var record = known ?? fresh
                guard record.app == app else { throw .accessDenied }
                if let name { record.name = name }
                if let isPublic { record.setPublic(isPublic, at: time) }
                return record
            }
            try await declare(identifier, of: app)
            _ = try await mark()
            await read()
            let place = try await onQueue { [self] () throws(Errno) -> RemotePath in
                let entry = try catalog.read { database throws(Errno) in
                    try self.entry(ofContainer: identifier, database)
                }
                return RemotePath([entry.map { FileName(unchecked: $0.name) } ?? names.here(identifier.folderName)])
            }
            _ = try await makeShownFolder(place)
            _ = try await makeShownFolder(place.appending(DriveFolder.documents))
            await read()
            return made
        }
        return self.registry.containers[identifier] ?? made
    }

    /// Has an app declare a container.
    func declare(_ container: AppIdentifier, of app: AppIdentifier) async throws(Errno) {
        try await change(app: app) { known in
            var owner = known ?? AppRecord(AppManifest(identifier: app, version: AppRecord.unknownVersion))
            if !owner.containers.contains(container) { owner.containers.append(container) }
            return owner
        }
    }

    /// True where a folder of the root, or a container, has a name here or at the source.
    private func isTaken(_ name: FileName) async throws(AccessError) -> Bool {
        if names.isReserved(name) { return true }
        return try await failing("the container can't be made") { () throws(Errno) in
            try await find(name, in: .root) != nil
        }
    }

    /// Shows a container to people and other apps, or hides it from them.
    func setPublic(_ isPublic: Bool, _ identifier: AppIdentifier) async throws(AccessError) -> ContainerRecord {
        await refresh()
        guard registry.containers[identifier] != nil else { throw Self.noContainer }
        let time = journalTime().secondsSinceEpoch
        return try await failing("the container can't be changed") { () throws(Errno) in
            let changed = try await change(container: identifier) { known throws(Errno) in
                guard var record = known else { throw .noSuchEntry }
                record.setPublic(isPublic, at: time)
                return record
            }
            await read()
            return changed
        }
    }

    /// The folder of a container, from the root; without an identifier that of the first one the app declares.
    ///
    /// Nil where there is none that the app may have.
    func place(ofContainer identifier: AppIdentifier?, for app: AppIdentifier?) async -> RemotePath? {
        await refresh()
        let registry = registry
        guard let wanted = identifier ?? app.flatMap({ registry.apps[$0]?.containers.first }),
            let record = registry.containers[wanted]
        else { return nil }
        if let app, record.app != app { return nil }
        return try? await onQueue { [self] () throws(Errno) -> RemotePath? in
            try catalog.read { database throws(Errno) in
                try self.entry(ofContainer: wanted, database).map { RemotePath([FileName(unchecked: $0.name)]) }
            }
        }
    }

    private static var noContainer: AccessError {
        AccessError(.noSuchEntry, "no such container; see `cove container ls`")
    }

    /// Changes what is known of an app, here and in its document.
    private func change(
        app identifier: AppIdentifier,
        _ body: @Sendable (AppRecord?) throws(Errno) -> AppRecord
    ) async throws(Errno) {
        let made = try await change(
            identifier.recordName,
            in: DriveFolder.apps,
            known: { registry.apps[identifier] },
            body
        )
        state.withLock { state in
            state.changes += 1
            state.registry.apps[identifier] = made
        }
        try await onQueue { [self] () throws(Errno) in try keep() }
    }

    /// Changes what is known of a container, here and in its document.
    @discardableResult
    func change(
        container identifier: AppIdentifier,
        _ body: @Sendable (ContainerRecord?) throws(Errno) -> ContainerRecord
    ) async throws(Errno) -> ContainerRecord {
        let made = try await change(
            identifier.recordName,
            in: DriveFolder.containers,
            known: { registry.containers[identifier] },
            body
        )
        state.withLock { state in
            state.changes += 1
            state.registry.containers[identifier] = made
        }
        try await onQueue { [self] () throws(Errno) in try keep() }
        return made
    }

    /// Carries something out whose errors are told to people.
    func failing<Value: Sendable>(
        _ what: String,
        _ body: () async throws(Errno) -> Value
    ) async throws(AccessError) -> Value {
        do throws(Errno) { return try await body() } catch { throw .failed(error, what) }
    }
}
