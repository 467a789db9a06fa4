internal import CoveCore
public import Foundation
internal import Glibc
internal import Synchronization

extension Document {
    /// Writes the document, in one step: whatever happens, the old file or the new one is there.
    ///
    /// Throws ESTALE when another program changed the file since this document read or wrote it: revert, or save elsewhere.
    public func save(to url: URL, for operation: SaveOperation) async throws(CoveError) {
        await operations.begin()
        defer { operations.end() }
        try await saveNow(to: url, for: operation)
    }

    /// Saves what is unsaved, if anything is.
    public func autosave() async throws(CoveError) {
        // Who has nothing to save waits for nothing: the one who asks may be what a running operation waits for. A revert
        // gives up what is unsaved.
        guard hasUnsavedChanges, documentState.isDisjoint(with: [.closed, .editingDisabled]) else { return }
        await operations.begin()
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
                let token = changeCountToken(for: operation)
                let isOwn = url.path == fileURL.path
                var target = url
                if operation == .forOverwriting, isOwn, savingFileType != fileType {
                    target.deletePathExtension()
                    if !savingFileType.isEmpty { target.appendPathExtension(savingFileType) }
                }
                let written = try explaining(url) { [target] in try contents(forType: Self.type(of: target)) }
                let attributes = try explaining(url) { [target] in
                    try fileAttributesToWrite(to: target, for: operation)
                }
                try await writeCoordinated(
                    Saved(contents: written, attributes: attributes, url: url, target: target),
                    for: operation
                )
                // A copy elsewhere leaves the document's own file as it was.
                if isOwn || operation == .forCreating { updateChangeCount(withToken: token, for: operation) }
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
        /// Where the document is, or is to be.
        var url: URL
        /// The same, but for a document that gets another type.
        var target: URL
    }

    /// Asks for the file, anew when a presenter's message says so, and writes it.
    private func writeCoordinated(_ saved: Saved, for operation: SaveOperation) async throws(CoveError) {
        defer { waitingSave = nil }
        while true {
            asksAnew = false
            let coordinator = FileCoordinator(filePresenter: self)
            waitingSave = coordinator
            do throws(CoveError) {
                return try await write(saved, for: operation, by: coordinator)
            } catch {
                guard error.code == .cancelled, asksAnew, !Task.isCancelled else { throw error }
            }
        }
    }

    private func write(
        _ saved: Saved,
        for operation: SaveOperation,
        by coordinator: FileCoordinator
    ) async throws(CoveError) {
        let isCreating = operation == .forCreating
        let isOwn = saved.url.path == fileURL.path
        let isRetyped = saved.target != saved.url
        let options: FileCoordinator.WritingOptions = isCreating ? .forReplacing : isRetyped ? .forMoving : []
        var intents = [FileAccessIntent.writingIntent(with: saved.url, options: options)]
        if isRetyped { intents.append(.writingIntent(with: saved.target, options: .forReplacing)) }
        try await coordinator.coordinate(with: intents) { [self, intents] in
            let (url, target) = (intents[0].url, intents[intents.count - 1].url)
            try withFile {
                if isOwn, !isCreating, let found = Stamp(url), found != stamp {
                    throw CoveError(.stale, "another program has changed the file", url: url)
                }
                // Only this document writes now: what is there afterwards is what it wrote, or what was there before.
                defer { if isOwn { stamp = Stamp(fileURL) } }
                if isRetyped { try Self.rename(url, target) }
                do {
                    try writeContents(saved.contents, andAttributes: saved.attributes, safelyTo: target, for: operation)
                } catch {
                    if isRetyped { try? Self.rename(target, url) }
                    throw error
                }
                if isRetyped { try coordinator.item(at: url, didMoveTo: target) }
                guard isOwn || isCreating else { return }
                fileURL = target
                stamp = Stamp(target)
            }
            if isCreating { try FileCoordinator.addFilePresenter(self) }
        }
    }

    /// Throws EEXIST where the new name is taken.
    nonisolated private static func rename(_ url: URL, _ new: URL) throws {
        try System.renameat(AT_FDCWD, Array(url.path.utf8), AT_FDCWD, Array(new.path.utf8), .exclusive)
    }

    /// Has unsaved changes saved when they are old enough.
    func scheduleAutosave() {
        guard hasUnsavedChanges, !documentState.contains(.closed), autosaveTask == nil else { return }
        autosaveTask = Task { [weak self, clock, autosaveInterval] in
            try? await clock.sleep(for: autosaveInterval)
            guard !Task.isCancelled, let self else { return }
            self.autosaveTask = nil
            try? await self.autosave()
            // After a failure, such as a full disk, the next interval brings the next try.
            self.scheduleAutosave()
        }
    }
}
