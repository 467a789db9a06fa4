internal import CoveCore
public import Foundation
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
                let token = changeCountToken()
                let written = try explaining(url) { try contents(forType: Self.type(of: url)) }
                let attributes = try explaining(url) { try fileAttributesToWrite(to: url, for: operation) }
                try await writeCoordinated(written, attributes, to: url, for: operation)
                updateChangeCount(withToken: token)
            }
        } catch {
            change { $0.insert(.savingError) }
            throw error
        }
        change { $0.subtract(operation == .forCreating ? [.savingError, .closed] : .savingError) }
        scheduleAutosave()
    }

    /// Asks for the file, anew when a presenter's message says so, and writes it.
    private func writeCoordinated(
        _ contents: FileContents,
        _ attributes: DocumentAttributes,
        to url: URL,
        for operation: SaveOperation
    ) async throws(CoveError) {
        defer { waitingSave = nil }
        while true {
            asksAnew = false
            let coordinator = FileCoordinator(filePresenter: self)
            waitingSave = coordinator
            do throws(CoveError) {
                return try await write(contents, attributes, to: url, for: operation, by: coordinator)
            } catch {
                guard error.code == .cancelled, asksAnew, !Task.isCancelled else { throw error }
            }
        }
    }

    private func write(
        _ contents: FileContents,
        _ attributes: DocumentAttributes,
        to url: URL,
        for operation: SaveOperation,
        by coordinator: FileCoordinator
    ) async throws(CoveError) {
        let isCreating = operation == .forCreating
        try await coordinator.coordinate(writingItemAt: url, options: isCreating ? .forReplacing : []) { [self] url in
            try withFile {
                if !isCreating, url.path == fileURL.path, let found = Stamp(url), found != stamp {
                    throw CoveError(.stale, "another program has changed the file", url: url)
                }
                let original = Stamp(url) == nil ? nil : url
                // Only this document writes now: what is there afterwards is what it wrote, or what was there before.
                defer { if !isCreating || fileURL == url { stamp = Stamp(url) } }
                try SafeSave(url).run(isPackage: contents.data == nil, attributes) { temporary in
                    try writeContents(contents, to: temporary, for: operation, originalContentsURL: original)
                }
                guard isCreating else { return }
                fileURL = url
                stamp = Stamp(url)
            }
            if isCreating { try FileCoordinator.addFilePresenter(self) }
        }
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

    /// Saves all open documents when the process is asked to end by SIGTERM, then ends it.
    public static func autosaveOnTermination() {
        guard termination == nil else { return }
        signal(SIGTERM, SIG_IGN)
        let source = DispatchSource.makeSignalSource(signal: SIGTERM, queue: .main)
        source.setEventHandler {
            Task { @MainActor in
                for case let document as Document in FileCoordinator.filePresenters { try? await document.autosave() }
                signal(SIGTERM, SIG_DFL)
                // Dispatch's threads block signals.
                var signals = sigset_t()
                sigemptyset(&signals)
                sigaddset(&signals, SIGTERM)
                pthread_sigmask(SIG_UNBLOCK, &signals, nil)
                raise(SIGTERM)
            }
        }
        source.resume()
        termination = source
    }

    private static var termination: (any DispatchSourceSignal)?
}
