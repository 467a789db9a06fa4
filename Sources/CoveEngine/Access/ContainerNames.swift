internal import CoveCore
internal import Synchronization

/// What folders of the root are called here that have another name at the provider: those of containers.
///
/// A container's folder has its identifier there and its display name here. `NamingProvider` translates between both, so
/// that all else knows one name. A name that was given up means nothing any more: what was on its way is tried again.
final class ContainerNames: Sendable {
    private struct State {
        /// The names there, by those here.
        var there: [FileName: FileName] = [:]
        /// The names here, by those there.
        var here: [FileName: FileName] = [:]
    }

    private let catalog: Catalog
    private let state = EngineMutex(.containerNames, State())
    private let isTranslating = Atomic<Bool>(false)

    /// Reads what the catalog has.
    init(_ catalog: Catalog) throws(Errno) {
        self.catalog = catalog
        let rows = try catalog.read { database throws(Errno) in
            try database.all("SELECT id, alias FROM container_names") { row in
                (FileName(unchecked: Array(row.text(0).utf8)), FileName(unchecked: row.blob(1)))
            }
        }
        state.withLock { state in
            for (there, here) in rows { Self.set(here, for: there, &state) }
        }
        if !rows.isEmpty { isTranslating.store(true, ordering: .releasing) }
    }

    /// False where no folder has two names, and nothing is to be translated.
    var isEmpty: Bool { !isTranslating.load(ordering: .acquiring) }

    /// What a folder of the root is called at the provider.
    func there(_ name: FileName) -> FileName {
        state.withLock { $0.there[name] ?? name }
    }

    /// True where something else may not be called so: a container is, here or there.
    func isReserved(_ name: FileName) -> Bool { state.withLock { $0.there[name] != nil || $0.here[name] != nil } }

    /// What a folder of the provider's root is called here.
    func here(_ name: FileName) -> FileName { state.withLock { $0.here[name] ?? name } }

    /// True for a name here that belongs to a folder which is called otherwise there.
    func isTaken(_ name: FileName) -> Bool { state.withLock { $0.there[name].map { $0 != name } ?? false } }

    /// True for a container's folder, by its name at the provider.
    func isContainer(there name: FileName) -> Bool { state.withLock { $0.here[name] != nil } }

    /// Notes what a container's folder is called here, durably, before anybody relies on it.
    func rename(there: FileName, to here: FileName) throws(Errno) {
        let former = self.here(there)
        guard former != here || !isContainer(there: there) else { return }
        try catalog.write(durable: true) { database throws(Errno) in
            try database.run(
                """
                INSERT INTO container_names(id, alias) VALUES(?1, ?2) ON CONFLICT(id) DO UPDATE SET alias = ?2
                """,
                .text(there.description),
                .blob(here.bytes)
            )
            database.whenCommitted { [self] in
                state.withLock { state in
                    Self.set(here, for: there, &state)
                }
                isTranslating.store(true, ordering: .releasing)
            }
        }
    }

    private static func set(_ here: FileName, for there: FileName, _ state: inout State) {
        if let old = state.here[there] { state.there[old] = nil }
        state.here[there] = here
        state.there[here] = there
    }
}

extension ContainerNames {
    /// A path here as it is at the provider.
    func there(_ path: RemotePath) -> RemotePath { translate(path) { there($0) } }

    /// A path at the provider as it is here.
    func here(_ path: RemotePath) -> RemotePath { translate(path) { here($0) } }

    /// A reference as the provider knows it.
    func there(_ item: RemoteReference) -> RemoteReference {
        if isEmpty { return item }
        var translated = item
        translated.path = there(item.path)
        return translated
    }

    private func translate(_ path: RemotePath, _ name: (FileName) -> FileName) -> RemotePath {
        if isEmpty || path.isRoot { return path }
        let end = path.bytes.firstIndex(of: 0x2F) ?? path.bytes.endIndex
        let top = FileName(unchecked: Array(path.bytes[..<end]))
        let translated = name(top)
        if translated == top { return path }
        return RemotePath(unchecked: translated.bytes + path.bytes[end...])
    }
}
