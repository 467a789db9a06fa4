internal import CoveCore
public import Foundation

extension Document {
    /// Reads the file and loads it; the document is open then.
    public func open() async throws(CoveError) {
        await operations.begin()
        defer { operations.end() }
        guard documentState.contains(.closed) else {
            throw CoveError(.invalidArgument, "the document is open already", url: fileURL)
        }
        try await reporting { () async throws(CoveError) in
            do throws(CoveError) {
                try load(try await readCoordinated(fileURL, isOpening: true))
            } catch {
                await FileCoordinator.removeFilePresenter(self)
                throw error
            }
            updateChangeCount(.cleared)
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

    private func revertNow(
        toContentsOf url: URL,
        options: FileCoordinator.ReadingOptions = [],
        keepsEdits: Bool = false
    ) async throws(CoveError) {
        guard !documentState.contains(.closed) else {
            throw CoveError(.invalidArgument, "the document is closed", url: fileURL)
        }
        change { $0.insert(.editingDisabled) }
        disableEditing()
        let known = stamp
        var isLoaded = true
        do throws(CoveError) {
            try await reporting { () async throws(CoveError) in
                let contents = try await readCoordinated(url, options)
                isLoaded = !keepsEdits || !hasUnsavedChanges
                if isLoaded { try load(contents) } else { stamp = known }
            }
        } catch {
            // The next save is not to take for its own what could not be loaded.
            stamp = known
            change { $0.insert(.savingError) }
            throw error
        }
        guard isLoaded else {
            change { $0.remove(.editingDisabled) }
            return enableEditing()
        }
        updateChangeCount(.cleared)
        // Another file's contents are not yet those of the document's own.
        if url != fileURL { updateChangeCount(.done) }
        change { $0.subtract([.editingDisabled, .savingError]) }
        enableEditing()
    }

    /// After others changed the file: loads it, or closes the document when the file is gone.
    func catchUp() async {
        await operations.begin()
        defer { operations.end() }
        guard !documentState.contains(.closed) else { return }
        let (known, url) = (stamp, fileURL)
        let found = await FileThreads.run { Stamp(url) }
        if found == nil { return await shut() }
        await lookForConflict()
        // What is unsaved stays; the next save says that the file has changed.
        guard found != known, !hasUnsavedChanges else { return }
        // What other presenters have not saved comes with their own saves.
        try? await revertNow(toContentsOf: url, options: .withoutChanges, keepsEdits: true)
    }

    /// Closes without saving.
    func abandon() async {
        await operations.begin()
        defer { operations.end() }
        await shut()
    }

    private func shut() async {
        autosaveTask?.cancel()
        autosaveTask = nil
        await FileCoordinator.removeFilePresenter(self)
        change { $0 = .closed }
    }

    /// Looks how many other sides of conflicts the file has, where a mount of Cove's tells.
    func lookForConflict() async {
        let count = await attribute("conflicts").flatMap { Int($0) } ?? 0
        change { state in
            if count > 0, !state.contains(.closed) { state.insert(.inConflict) } else { state.remove(.inConflict) }
        }
    }

    private func load(_ contents: FileContents) throws(CoveError) {
        try explaining(fileURL) { try load(fromContents: contents, ofType: fileType) }
    }

    private func readCoordinated(
        _ url: URL,
        _ options: FileCoordinator.ReadingOptions = [],
        isOpening: Bool = false
    ) async throws(CoveError) -> FileContents {
        let isOwn = url.path == fileURL.path
        return try await FileCoordinator(filePresenter: self).coordinate(readingItemAt: url, options: options) {
            [self] url in
            // It may have moved while this waited.
            if isOwn { fileURL = url }
            if isOpening {
                SafeSave(url).removeLeftovers()
                // Inside the claim: nobody can change the file between the reading and the registration.
                try FileCoordinator.addFilePresenter(self)
            }
            return try withFile {
                let found = Stamp(url)
                let contents = try read(from: url)
                if isOwn { stamp = found }
                return contents
            }
        }
    }

    /// Shows progress while the body runs, and tells of its failure.
    func reporting(_ body: () async throws(CoveError) -> Void) async throws(CoveError) {
        change { $0.insert(.progressAvailable) }
        defer { change { $0.remove(.progressAvailable) } }
        do throws(CoveError) { try await body() } catch {
            handleError(error)
            throw error
        }
    }
}
