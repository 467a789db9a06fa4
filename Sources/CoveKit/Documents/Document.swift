internal import CoveCore
public import Foundation
internal import Synchronization

/// A document that a program edits: subclass it and override `contents(forType:)` and `load(fromContents:ofType:)`.
///
/// All access to its file is coordinated. It presents the file while it is open: it saves before others read, loads what others
/// changed, follows a move, and closes when the file is deleted. It belongs to the main actor, and works on files elsewhere.
@MainActor open class Document: FilePresenter {
    private struct Shared {
        var url: URL
        var stamp: Stamp?
        var state: State = .closed
        var watchers: [UUID: AsyncStream<State>.Continuation] = [:]
    }

    private nonisolated let shared: Mutex<Shared>
    /// Held by whoever touches the file.
    private nonisolated let file = Mutex(())
    let operations = OperationOrder()
    /// The coordinator of a save that waits for others.
    var waitingSave: FileCoordinator?
    /// True when that save is to ask anew.
    var asksAnew = false
    private var edits = EditHistory()
    private var savedState = 0
    let autosaveInterval: Duration
    let clock: any Clock<Duration>
    var autosaveTask: Task<Void, Never>?

    /// Makes a document of a file that is there or will be; `open` or `save(to:for:)` comes next.
    ///
    /// Unsaved changes are saved when they are as old as the interval, by the clock.
    public init(
        fileURL: URL,
        autosaveInterval: Duration = .seconds(10),
        clock: any Clock<Duration> = ContinuousClock()
    ) {
        shared = Mutex(Shared(url: fileURL))
        self.autosaveInterval = autosaveInterval
        self.clock = clock
    }

    // MARK: To be overridden

    /// What is to be written: a snapshot of the document.
    open func contents(forType type: String) throws -> FileContents {
        throw CoveError(.notSupported, "contents(forType:) is not overridden")
    }

    /// Takes what was read; an error leaves the document closed, or as it was.
    open func load(fromContents contents: FileContents, ofType type: String) throws {
        throw CoveError(.notSupported, "load(fromContents:ofType:) is not overridden")
    }

    /// What the file gets besides its contents.
    open func fileAttributesToWrite(to url: URL, for operation: SaveOperation) throws -> DocumentAttributes {
        DocumentAttributes()
    }

    /// Keeps the user from editing; called before a revert.
    open func disableEditing() {}

    /// Lets the user edit again.
    open func enableEditing() {}

    /// Told of every failure, also of those that no caller gets, such as that of an autosave.
    open func handleError(_ error: CoveError) {}

    /// Reads the file; runs where it may block.
    nonisolated open func read(from url: URL) throws -> FileContents { try FileContents(contentsOf: url) }

    /// Puts the contents and the attributes in place in one step, by the other `writeContents`; runs where it may block.
    nonisolated open func writeContents(
        _ contents: FileContents,
        andAttributes attributes: DocumentAttributes,
        safelyTo url: URL,
        for operation: SaveOperation
    ) throws {
        let original = Stamp(url) == nil ? nil : url
        try SafeSave(url).run(isPackage: contents.isPackage, attributes) { temporary in
            try writeContents(contents, to: temporary, for: operation, originalContentsURL: original)
        }
    }

    /// Writes to an empty file, or into an empty directory for a package; runs where it may block.
    ///
    /// What is there already, and stays until all is written, is at `originalContentsURL`.
    nonisolated open func writeContents(
        _ contents: FileContents,
        to url: URL,
        for operation: SaveOperation,
        originalContentsURL: URL?
    ) throws {
        try contents.write(to: url)
    }

    // MARK: What is known of it, on any thread

    /// Where the file is.
    nonisolated public internal(set) var fileURL: URL {
        get { shared.withLock { $0.url } }
        set { shared.withLock { $0.url = newValue } }
    }

    /// The file's type: the extension of its name, in lower case; empty without one.
    nonisolated open var fileType: String { Self.type(of: fileURL) }

    /// What the next save makes of the file: another type than `fileType` gives it that one's extension.
    open var savingFileType: String { fileType }

    /// The name for a person: that of the file, without the extension.
    nonisolated open var localizedName: String { fileURL.deletingPathExtension().lastPathComponent }

    /// The file's last change that this document saw or made.
    nonisolated public var fileModificationDate: Date? { shared.withLock { $0.stamp?.date } }

    /// How the document is.
    nonisolated public var documentState: State { shared.withLock { $0.state } }

    /// The state after each of its changes from now on; ends only with the document.
    nonisolated public var stateChanges: AsyncStream<State> {
        let (stream, continuation) = AsyncStream.makeStream(of: State.self)
        let key = UUID()
        continuation.onTermination = { [weak self] _ in
            self?.shared.withLock { _ = $0.watchers.removeValue(forKey: key) }
        }
        shared.withLock { $0.watchers[key] = continuation }
        return stream
    }

    /// How much of the file is on this disk, from 0 to 1; nil when the document is at rest, or on an ordinary file system.
    nonisolated public func progress() async -> Double? {
        guard documentState.contains(.progressAvailable) else { return nil }
        return await attribute("percent-downloaded").flatMap(Double.init).map { $0 / 100 }
    }

    /// What a mount of Cove's knows of the file.
    nonisolated func attribute(_ name: String) async -> String? {
        let path = Array(fileURL.path.utf8)
        return await FileThreads.run {
            (try? System.attribute(path, Array("user.cove.\(name)".utf8))).map { String(decoding: $0, as: UTF8.self) }
        }
    }

    /// Runs the body where it may block, alone with the file as far as this document goes.
    nonisolated public func performAsynchronousFileAccess<Value: Sendable>(
        _ body: @escaping @Sendable () throws -> Value
    ) async throws(CoveError) -> Value {
        try await FileThreads.run { [self] () throws(CoveError) in
            try explaining(fileURL) { try withFile(body) }
        }
    }

    nonisolated func withFile<Value>(_ body: () throws -> Value) throws -> Value {
        try file.withLock { _ in try body() }
    }

    nonisolated var stamp: Stamp? {
        get { shared.withLock { $0.stamp } }
        set { shared.withLock { $0.stamp = newValue } }
    }

    nonisolated static func type(of url: URL) -> String { url.pathExtension.lowercased() }

    nonisolated func change(_ change: (inout State) -> Void) {
        let (state, watchers): (State, [AsyncStream<State>.Continuation]) = shared.withLock { shared in
            let before = shared.state
            change(&shared.state)
            return (shared.state, shared.state == before ? [] : Array(shared.watchers.values))
        }
        for watcher in watchers { watcher.yield(state) }
    }

    // MARK: Changes

    /// True when there is something to save.
    open var hasUnsavedChanges: Bool { edits.state != savedState }

    /// Says that the document was edited, or that all is saved.
    open func updateChangeCount(_ change: ChangeKind) {
        edits.note(change)
        if change == .cleared { savedState = edits.state }
        scheduleAutosave()
    }

    /// How the document is now; to be taken before a save, for `updateChangeCount(withToken:for:)` after it.
    open func changeCountToken(for operation: SaveOperation) -> ChangeToken { ChangeToken(state: edits.state) }

    /// Says that what a token stands for is saved; what was edited since is not.
    open func updateChangeCount(withToken token: ChangeToken, for operation: SaveOperation) { savedState = token.state }

    // MARK: FilePresenter

    /// The document's file.
    nonisolated public var presentedItemURL: URL? { fileURL }

    /// What a document hears; a subclass that adds methods adds their messages.
    nonisolated open var implementedMessages: Set<FilePresenterMessage> {
        [
            .relinquishToReader, .relinquishToWriter, .saveChanges, .accommodateDeletion, .didMove, .didChange,
            .didGainVersion, .didLoseVersion, .didResolveVersion,
        ]
    }

    /// Ends what the document does with its file just now.
    open func relinquishPresentedItemToReader() async -> Reacquirer? {
        try? await performAsynchronousFileAccess {}
        return nil
    }

    /// Ends what the document does with its file just now.
    open func relinquishPresentedItemToWriter() async -> Reacquirer? {
        try? await performAsynchronousFileAccess {}
        return nil
    }

    /// Saves what is unsaved.
    open func savePresentedItemChanges() async throws {
        // A save that waits may wait for the one who asks now; one that comes after the question does not.
        if let waitingSave {
            asksAnew = true
            waitingSave.cancel()
        }
        do throws(CoveError) { try await autosave() } catch {
            // What can't be saved because others wrote meanwhile keeps nobody from reading that.
            guard error.code == .stale else { throw error }
        }
    }

    /// Closes without saving.
    open func accommodatePresentedItemDeletion() async throws { await abandon() }

    /// Goes along.
    open func presentedItemDidMove(to newURL: URL) async { fileURL = newURL }

    /// Loads what another program wrote, unless there is something unsaved.
    open func presentedItemDidChange() async {
        // Not awaited: the reading asks other presenters, who may be reading too and ask this one.
        Task { await catchUp() }
    }

    /// Looks whether there is a conflict now.
    open func presentedItemDidGain(_ version: FileVersion?) async { await lookForConflict() }

    /// Looks whether there still is a conflict.
    open func presentedItemDidLose(_ version: FileVersion?) async { await lookForConflict() }

    /// Looks whether there still is a conflict.
    open func presentedItemDidResolveConflict(_ version: FileVersion?) async { await lookForConflict() }
}
