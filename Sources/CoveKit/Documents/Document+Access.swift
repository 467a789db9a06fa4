internal import Foundation
internal import Synchronization

/// How a document asks for its file, and what ends its waiting.
extension Document {
    /// Asks for access, and anew when others want what is unsaved.
    ///
    /// The body asks with the coordinator that it gets. Throws ENOENT when the file is about to be deleted.
    func coordinated<Value: Sendable>(
        isSave: Bool,
        _ body: (FileCoordinator) async throws -> Value
    ) async throws(CoveError) -> Value {
        defer { shared.withLock { $0.waiting = nil } }
        while true {
            let coordinator = FileCoordinator(filePresenter: self)
            let isGoing = shared.withLock { shared in
                shared.waiting = coordinator
                shared.isWaitingToSave = isSave
                shared.interruption = nil
                return shared.isGoing
            }
            if isGoing { throw deletion }
            do { return try await body(coordinator) } catch {
                let error = CoveError(error, url: fileURL)
                guard error.code == .cancelled, !Task.isCancelled else { throw error }
                switch shared.withLock({ $0.interruption }) {
                case .savesForOthers: continue
                case .goes: throw deletion
                case nil: throw error
                }
            }
        }
    }

    private var deletion: CoveError { CoveError(.noSuchFile, "the file is being deleted", url: fileURL) }

    /// Saves what is unsaved before others read it.
    func saveForOthers() async throws(CoveError) {
        // A save that waits may wait for the one who asks now; one that comes after the question does not.
        let waiting: FileCoordinator? = shared.withLock { shared in
            guard shared.isWaitingToSave, let waiting = shared.waiting, !shared.isGoing else { return nil }
            shared.interruption = .savesForOthers
            return waiting
        }
        waiting?.cancel()
        // The file that is being loaded may be what waits for the one who asks.
        guard !documentState.contains(.editingDisabled) else { return }
        do throws(CoveError) { try await autosaveForOthers() } catch {
            // What can't be saved because others wrote meanwhile keeps nobody from reading that.
            guard error.code == .stale || error.code == .noSuchFile else { throw error }
        }
    }

    /// Closes without saving: the file is about to be deleted.
    ///
    /// What waits for the file waits for the one who deletes it: it ends, or both would wait for each other, and what is saved
    /// after the deletion would bring the file back.
    func abandon() async {
        let waiting = shared.withLock { shared in
            shared.isGoing = true
            shared.interruption = .goes
            return shared.waiting
        }
        waiting?.cancel()
        await operations.begin()
        defer { operations.end() }
        await shut()
    }

    func shut() async {
        shared.withLock { shared in
            shared.autosave?.cancel()
            shared.closing?.cancel()
            shared.vacancy?.end.cancel()
            (shared.autosave, shared.closing, shared.vacancy) = (nil, nil, nil)
        }
        // The removal answers what was asked of the document: who deletes the file goes on then, and finds it closed.
        change { $0 = .closed }
        await FileCoordinator.removeFilePresenter(self)
        shared.withLock { $0.isGoing = false }
    }

    /// Catches up with a change that was told of; looks again for a while where nothing of it is to be seen.
    ///
    /// A mount's daemon tells of a change before the program's call has returned, and until then the kernel shows the name as
    /// it was. On a busy machine that takes a moment.
    /// Not awaited: the reading asks other presenters, who may be reading too and ask this one.
    func lookForChange() {
        let number = shared.withLock { shared in
            shared.notices += 1
            return shared.notices
        }
        Task { [weak self] in
            for pause in Self.pauses {
                guard await self?.catchUp() == false else { return }
                try? await Task.sleep(for: pause)
                // Who was told later looks now.
                guard self?.shared.withLock({ $0.notices }) == number else { return }
            }
            await self?.catchUp()
        }
    }

    /// How long is waited from one look to the next.
    private static let pauses: [Duration] = [10, 40, 160, 640, 2560].map { .milliseconds($0) }

    /// After others changed the file: loads it, or closes the document when the file is gone for good.
    ///
    /// Returns false where no change is to be seen.
    @discardableResult
    func catchUp() async -> Bool {
        await operations.begin()
        defer { operations.end() }
        guard !documentState.contains(.closed) else { return true }
        let (known, url) = (stamp, fileURL)
        let found = await FileThreads.run { DocumentStamp(url) }
        guard found != nil else {
            closeUnlessItReturns(to: url)
            return false
        }
        // Should it go again, it has the whole time once more.
        shared.withLock { shared in
            shared.closing?.cancel()
            shared.closing = nil
        }
        await lookForConflict()
        guard found != known else { return false }
        // What is unsaved stays; the next save says that the file has changed.
        guard !hasUnsavedChanges else { return true }
        // What other presenters have not saved comes with their own saves.
        do throws(CoveError) {
            try await revertNow(toContentsOf: url, options: .withoutChanges, keepsEdits: true)
        } catch { return error.code != .noSuchFile }
        return true
    }

    /// How long the name of a document that is saved by way of a backup may be away.
    private static let vacancy: Duration = .seconds(15)

    /// Goes with the file to another name, or back to the one that it had.
    ///
    /// A program that takes its time between a backup and the new file makes the document go there and come back. An autosave
    /// waits until it is known which of both it was; what somebody asks for is saved where the file is.
    func follow(to url: URL) {
        let wasMissed = shared.withLock { shared in
            // Moved once more, it may yet come back to the name that it had first.
            let former = shared.vacancy?.name ?? shared.url
            let isBack = shared.vacancy?.name == url
            shared.vacancy?.end.cancel()
            shared.vacancy = nil
            // It may have been missed at its old name before the move was told.
            let wasMissed = shared.closing != nil
            shared.closing?.cancel()
            shared.closing = nil
            // An autosave that waited for this goes on as soon as it can: to where the file is now.
            defer { shared.place(at: url) }
            guard !isBack, former != url, !shared.state.contains(.closed) else { return wasMissed }
            let end = Task { [weak self, clock] in
                try? await clock.sleep(for: Self.vacancy)
                self?.shared.withLock { if !Task.isCancelled { $0.vacancy = nil } }
            }
            shared.vacancy = (former, end)
            return wasMissed
        }
        // It may be gone from the new name, too.
        if wasMissed { lookForChange() }
    }

    private func closeUnlessItReturns(to url: URL) {
        shared.withLock { shared in
            // A document that has moved since then is not missed where it was.
            guard shared.closing == nil, shared.url == url else { return }
            shared.closing = Task { [weak self, clock] in
                try? await clock.sleep(for: Self.vacancy)
                guard !Task.isCancelled, let self else { return }
                await closeIfGone()
            }
        }
    }

    private func closeIfGone() async {
        await operations.begin()
        defer { operations.end() }
        guard !Task.isCancelled else { return }
        shared.withLock { $0.closing = nil }
        let url = fileURL
        guard !documentState.contains(.closed), await FileThreads.run({ DocumentStamp(url) }) == nil else { return }
        await shut()
    }
}
