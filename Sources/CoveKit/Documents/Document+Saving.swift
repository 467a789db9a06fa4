internal import CoveCore
public import Foundation
internal import Glibc
internal import Synchronization

extension Document {
    /// Writes the document, in one step: whatever happens, the old file or the new one is there.
    ///
    /// Throws ESTALE when another program changed the file since this document read or wrote it, and ENOENT when it is gone:
    /// revert, or save elsewhere, or with `forCreating`. Whoever calls belongs to the actor that edits the document, as in `open`.
    ///
    /// A save to a symbolic link claims and replaces what that points at; only a link that points at nothing gives way to a new
    /// file. The document keeps the link's URL, unless it gets another type: then it has that of the renamed file, and the link
    /// stays as it is, pointing at the old name.
    public func save(
        to url: URL,
        for operation: SaveOperation,
        isolation: (any Actor)? = #isolation
    ) async throws(CoveError) {
        noteIsolation(isolation)
        await operations.begin()
        defer { operations.end() }
        try await saveNow(to: url, for: operation)
    }

    /// Saves what is unsaved, if anything is.
    ///
    /// Where the document is loading its file anew, that ends before; what a revert has given up is not saved.
    public func autosave() async throws(CoveError) {
        // Who has nothing to save waits for nothing: the one who asks may be what a running operation waits for.
        guard hasUnsavedChanges, !documentState.contains(.closed) else { return }
        await operations.begin()
        try await autosaveNow()
    }

    /// The same for others, who wait for it.
    func autosaveForOthers() async throws(CoveError) {
        guard hasUnsavedChanges, !documentState.contains(.closed), await operations.beginForOthers() else { return }
        try await autosaveNow()
    }

    /// Saves in an operation that has begun, and ends it.
    private func autosaveNow() async throws(CoveError) {
        defer { operations.end() }
        guard hasUnsavedChanges, documentState.isDisjoint(with: [.closed, .editingDisabled]) else { return }
        try await saveNow(to: fileURL, for: .forOverwriting)
    }

    func saveNow(to url: URL, for operation: SaveOperation) async throws(CoveError) {
        guard operation == .forCreating || !documentState.contains(.closed) else {
            throw CoveError(.invalidArgument, "the document is closed", url: url)
        }
        do throws(CoveError) {
            try await reporting { () async throws(CoveError) in
                let isOwn = url.hasPath(of: fileURL)
                let place = await place(of: url, for: operation)
                let isolation = shared.withLock { $0.isolation }
                let saved = try await snapshot(place, operation, isolation: isolation)
                try await write(saved, for: operation)
                // A copy elsewhere leaves the document's own file as it was.
                if isOwn || operation == .forCreating { updateChangeCount(withToken: saved.token, for: operation) }
            }
        } catch {
            change { $0.insert(.savingError) }
            throw error
        }
        change { $0.subtract(operation == .forCreating ? [.savingError, .closed] : .savingError) }
        scheduleAutosave()
    }

    /// What a save writes.
    private struct Saved: Sendable {
        var contents: FileContents
        var attributes: DocumentAttributes
        var token: ChangeToken
        var place: Place
    }

    /// Where a save finds the file, and where it leaves it.
    private struct Place: Sendable {
        /// What the save was asked for.
        var url: URL
        /// The file that is claimed: where the claim is one that concerns a link itself, what a link at `url` points at.
        var file: URL
        /// Where the file is to be: where it is, but for a document that gets another name.
        var target: URL
        /// True for a document that gets another type; the name of what a link points at may be right for that already.
        var isRetyped: Bool

        var isRenamed: Bool { !target.hasPath(of: file) }
        /// What the document's URL is to be.
        var name: URL { isRetyped ? target : url }
    }

    /// Where a save puts the document: a document that gets another type gets another name.
    private func place(of url: URL, for operation: SaveOperation) async -> Place {
        let (type, savingType) = (fileType, await savingFileType)
        let isRetyped = operation == .forOverwriting && url.hasPath(of: fileURL) && savingType != type
        var place = Place(url: url, file: url, target: url, isRetyped: isRetyped)
        // Any other claim is by itself on what a symbolic link points at.
        guard isRetyped || operation == .forCreating else { return place }
        let file = await FileThreads.run { SafeSave(url).targetURL }
        if !file.hasPath(of: url) { (place.file, place.target) = (file, file) }
        guard isRetyped else { return place }
        // What a symbolic link points at gets the name, not the link.
        let ending = fileNameExtension(forType: savingType, saveOperation: operation)
        place.target.deletePathExtension()
        if !ending.isEmpty { place.target.appendPathExtension(ending) }
        return place
    }

    /// Between the token and the contents nothing else runs in the subclass's isolation.
    private func snapshot(
        _ place: Place,
        _ operation: SaveOperation,
        isolation: isolated (any Actor)?
    ) async throws(CoveError) -> Saved {
        let token = changeCountToken(for: operation)
        do {
            let contents = try await contents(forType: Self.type(of: place.name))
            let attributes = try await fileAttributesToWrite(to: place.name, for: operation)
            return Saved(contents: contents, attributes: attributes, token: token, place: place)
        } catch {
            throw CoveError(error, url: place.url)
        }
    }

    private func write(_ saved: Saved, for operation: SaveOperation) async throws(CoveError) {
        let isCreating = operation == .forCreating
        let place = saved.place
        let isOwn = place.url.hasPath(of: fileURL)
        let isRenamed = place.isRenamed
        let options: FileCoordinator.WritingOptions = isCreating ? .forReplacing : isRenamed ? .forMoving : []
        let intent = FileAccessIntent.writingIntent(with: place.file, options: options)
        let target = isRenamed ? FileAccessIntent.writingIntent(with: place.target, options: .forReplacing) : intent
        var intents = isRenamed ? [intent, target] : [intent]
        // What was never read of a package is taken from where it is.
        if !isOwn, saved.contents.packageLocation != nil {
            intents.append(.readingIntent(with: fileURL, options: .withoutChanges))
        }
        try await coordinated(isSave: true) { [intents] coordinator in
            try await coordinator.coordinate(with: intents) { [self] in
                let (file, target) = (intent.url, target.url)
                try withFile {
                    if isOwn, !isCreating { try checkUnchanged(file) }
                    shared.withLock { shared in
                        shared.replacement =
                            isOwn || isCreating ? Replacement(url: target, isOverwriting: isOwn && !isCreating) : nil
                    }
                    defer { shared.withLock { $0.replacement = nil } }
                    // What the file is after a save that failed is not taken for what this document wrote.
                    defer { if isOwn || isCreating { noteSecondNames(in: fileURL) } }
                    if isRenamed { try Self.rename(file, target) }
                    do {
                        try writeContents(
                            saved.contents,
                            andAttributes: saved.attributes,
                            safelyTo: target,
                            for: operation
                        )
                    } catch {
                        if isRenamed { try? Self.rename(target, file) }
                        throw error
                    }
                    if isRenamed { try coordinator.item(at: file, didMoveTo: target) }
                    guard isOwn || isCreating else { return }
                    // It may have moved while this waited; else a link's URL stays.
                    let hasMoved = file != place.file
                    noteSaved(saved.contents, at: place.isRetyped || hasMoved ? target : place.url)
                }
                if isCreating { try await FileCoordinator.addFilePresenter(self) }
            }
        }
    }

    /// Puts the new file in place, as part of a save, and keeps in mind what it looks like.
    ///
    /// A program that asks nobody may have changed the old file while the new one was written: then it throws, and that program's
    /// file stays.
    func replaceOwn(_ url: URL, by replace: () throws -> Void) throws {
        guard let replacement = shared.withLock({ $0.replacement }), replacement.url.hasPath(of: url) else {
            return try replace()
        }
        if replacement.isOverwriting {
            noteSecondNames(in: url)
            try checkUnchanged(url)
        }
        try replace()
        let found = DocumentStamp(url)
        shared.withLock { shared in
            shared.stamp = found
            shared.replacement?.isDone = true
        }
    }

    /// Throws unless the file is the one that this document read or wrote last.
    private func checkUnchanged(_ url: URL) throws(CoveError) {
        guard let found = DocumentStamp(url) else {
            throw CoveError(.noSuchFile, "the file is gone", url: url)
        }
        guard found == stamp else { throw CoveError(.stale, "another program has changed the file", url: url) }
    }

    /// Files of the package may have got second names for a save, which is no change of theirs.
    private func noteSecondNames(in url: URL) {
        guard let known = stamp, let found = DocumentStamp(url), found.hasSameBytes(as: known) else { return }
        stamp = found
    }

    private func noteSaved(_ contents: FileContents, at url: URL) {
        if let package = contents.packageLocation { shared.withLock { $0.package = package } }
        fileURL = url
        contents.noteSaved(at: url)
        // A subclass may have put the file in place by itself.
        if shared.withLock({ $0.replacement?.isDone != true }) { stamp = DocumentStamp(url) }
    }

    /// Throws EEXIST where the new name is taken.
    private static func rename(_ url: URL, _ new: URL) throws {
        try System.renameat(AT_FDCWD, Array(url.path.utf8), AT_FDCWD, Array(new.path.utf8), .exclusive)
    }

    /// What an autosave that is due waits for; nil where it need not.
    private func endOfVacancy() -> Task<Void, Never>? {
        shared.withLock { shared in
            shared.isAutosaveHeld = shared.vacancy != nil
            return shared.vacancy?.end
        }
    }

    /// Has unsaved changes saved when they are old enough.
    func scheduleAutosave() {
        guard hasUnsavedChanges else { return }
        shared.withLock { shared in
            guard !shared.state.contains(.closed), shared.autosave == nil else { return }
            shared.autosave = Task { [weak self, clock, autosaveInterval] in
                try? await clock.sleep(for: autosaveInterval)
                // Another move begins the time anew.
                while let end = self?.endOfVacancy() { await end.value }
                guard !Task.isCancelled, let self else { return }
                self.shared.withLock { $0.autosave = nil }
                try? await self.autosave()
                // After a failure, such as a full disk, the next interval brings the next try.
                self.scheduleAutosave()
            }
        }
    }
}
