internal import CoveCore
public import Foundation
internal import Synchronization

extension Document {
    /// How often a package is read that others change meanwhile.
    private static let attempts = 5

    /// Reads the file and loads it; the document is open then.
    ///
    /// Whoever calls belongs to the actor that edits the document: there what belongs together, such as a look at whether there
    /// are edits and the loading over them, happens without a pause.
    public func open(isolation: (any Actor)? = #isolation) async throws(CoveError) {
        noteIsolation(isolation)
        await operations.begin()
        defer { operations.end() }
        guard documentState.contains(.closed) else {
            throw CoveError(.invalidArgument, "the document is open already", url: fileURL)
        }
        try await reporting { () async throws(CoveError) in
            do throws(CoveError) {
                _ = try await readAndLoad(fileURL, isOpening: true)
            } catch {
                await FileCoordinator.removeFilePresenter(self)
                throw error
            }
            change { $0.subtract([.closed, .savingError, .editingDisabled]) }
        }
        await lookForConflict()
    }

    /// Saves what is unsaved, and ends the document's work with the file.
    ///
    /// When that fails it throws, and the document stays open.
    public func close() async throws(CoveError) {
        await operations.begin()
        defer { operations.end() }
        guard !documentState.contains(.closed) else { return }
        if hasUnsavedChanges { try await saveNow(to: fileURL, for: .forOverwriting) }
        await shut()
    }

    /// Loads the document anew from its file, or from another such as a version's; what is unsaved is lost.
    ///
    /// When that fails the document stays as it was, with editing disabled.
    public func revert(toContentsOf url: URL? = nil) async throws(CoveError) {
        await operations.begin()
        defer { operations.end() }
        try await revertNow(toContentsOf: url ?? fileURL)
    }

    func revertNow(
        toContentsOf url: URL,
        options: FileCoordinator.ReadingOptions = [],
        keepsEdits: Bool = false
    ) async throws(CoveError) {
        guard !documentState.contains(.closed) else {
            throw CoveError(.invalidArgument, "the document is closed", url: fileURL)
        }
        change { $0.insert(.editingDisabled) }
        operations.giveUp()
        await disableEditing()
        let known = stamp
        let isLoaded: Bool
        do throws(CoveError) {
            isLoaded = try await reporting { () async throws(CoveError) in
                try await readAndLoad(url, options, keepsEdits: keepsEdits)
            }
        } catch {
            // The next save is not to take for its own what could not be loaded.
            stamp = known
            change { $0.insert(.savingError) }
            throw error
        }
        operations.hasGivenUp()
        if isLoaded {
            // Another file's contents are not yet those of the document's own.
            if url != fileURL { updateChangeCount(.done) }
            change { $0.subtract([.editingDisabled, .savingError]) }
        } else {
            stamp = known
            change { $0.remove(.editingDisabled) }
        }
        await enableEditing()
    }

    /// Reads and loads; false where edits are to be kept and there are some.
    private func readAndLoad(
        _ url: URL,
        _ options: FileCoordinator.ReadingOptions = [],
        isOpening: Bool = false,
        keepsEdits: Bool = false
    ) async throws(CoveError) -> Bool {
        var attempt = 1
        while true {
            do throws(CoveError) {
                let contents = try await readCoordinated(url, options, isOpening: isOpening)
                let isolation = shared.withLock { $0.isolation }
                return try await load(contents, keepsEdits: keepsEdits, isolation: isolation)
            } catch {
                // Of a package that others change while it is loaded a part may be gone.
                guard error.code == .stale, attempt < Self.attempts else { throw error }
                attempt += 1
            }
        }
    }

    /// Between the look at the edits and the loading over them nothing else runs in the subclass's isolation.
    private func load(
        _ contents: FileContents,
        keepsEdits: Bool,
        isolation: isolated (any Actor)?
    ) async throws(CoveError) -> Bool {
        if keepsEdits, hasUnsavedChanges { return false }
        do { try await load(fromContents: contents, ofType: fileType) } catch {
            throw CoveError(error, url: fileURL)
        }
        updateChangeCount(.cleared)
        return true
    }

    /// Says of a directory of a type of this document's that it is a package, so that others take it for one too.
    private func declarePackage(_ url: URL) {
        let type = Self.type(of: url)
        guard Self.packageTypes.contains(type), !PackageTypes.contains(type),
            let directory = try? System.open(url.path, O_RDONLY | O_DIRECTORY)
        else { return }
        defer { System.close(directory) }
        guard (try? System.attribute(directory, PackageTypes.attribute)) == nil else { return }
        // Where it can't be said, nobody else asks.
        try? System.setAttribute(directory, PackageTypes.attribute, [0x31])
    }

    private func readCoordinated(
        _ url: URL,
        _ options: FileCoordinator.ReadingOptions,
        isOpening: Bool
    ) async throws(CoveError) -> FileContents {
        let isOwn = url.hasPath(of: fileURL)
        return try await coordinated(isSave: false) { coordinator in
            try await coordinator.coordinate(readingItemAt: url, options: options) { [self] url in
                // It may have moved while this waited.
                if isOwn { fileURL = url }
                if isOpening {
                    SafeSave(url).removeLeftovers()
                    declarePackage(url)
                    // Inside the claim: nobody can change the file between the reading and the registration.
                    try await FileCoordinator.addFilePresenter(self)
                }
                return try withFile {
                    let found = DocumentStamp(url)
                    let contents = try read(from: url)
                    guard isOwn else { return contents }
                    shared.withLock { shared in
                        shared.stamp = found
                        shared.package = contents.packageLocation
                    }
                    return contents
                }
            }
        }
    }
}
