internal import CoveCore
public import Foundation
internal import Synchronization

/// A document that a program edits: subclass it and override `contents(forType:)` and `load(fromContents:ofType:)`.
///
/// All access to its file is coordinated. It presents the file while it is open: it saves before others read, loads what others
/// changed, follows a move, and closes when the file is deleted.
///
/// A document works on any thread. What a subclass overrides runs in the subclass's own isolation: a document of a user interface
/// is a `@MainActor final class Note: Document, @unchecked Sendable`, whose actor makes it safe; another one belongs to another
/// global actor, or keeps its text in a `Mutex`. To edit, change the text and call `updateChangeCount(_:)` without waiting in
/// between.
open class Document: FilePresenter, @unchecked Sendable {
    struct Shared: ~Copyable {
        var url: URL
        var stamp: DocumentStamp?
        var state: State = .closed
        var watchers: [UUID: AsyncStream<State>.Continuation] = [:]
        var edits = EditHistory()
        var savedEdits = 0
        /// Where the package is that the document's contents are read from as they are needed.
        var package: PackageLocation?
        /// The coordinator of an access that waits for others.
        var waiting: FileCoordinator?
        /// True where that access is a save.
        var isWaitingToSave = false
        /// What the save under way does to the document's own file.
        var replacement: Replacement?
        /// Why the wait was ended.
        var interruption: WaitEnd?
        /// True from the moment on at which the file is about to be deleted, until the document is closed.
        var isGoing = false
        var autosave: Task<Void, Never>?
        /// True while an autosave that is due waits for the end of `vacancy`.
        var isAutosaveHeld = false
        var closing: Task<Void, Never>?
        /// How often the document was told of a change.
        var notices = 0
        /// After a move: the former name, and the time in which whatever takes it is the document again.
        var vacancy: (name: URL, end: Task<Void, Never>)?
        /// Where the document is edited, as far as that is known.
        weak var isolation: (any Actor)?
    }

    /// How a save puts the document's own file in place.
    struct Replacement {
        /// Where.
        var url: URL
        /// True where it may only take the place of the file that the document knows.
        var isOverwriting: Bool
        /// True once it is there.
        var isDone = false
    }

    /// Why an access to the file waits no longer.
    enum WaitEnd {
        /// Others want what is unsaved: asked anew, the save does not wait for them.
        case savesForOthers
        /// The file is about to be deleted.
        case goes
    }

    let shared: Mutex<Shared>
    /// Where the program may use the file between a start and a stop: the document may for as long as it is there.
    private let scope: ScopeHold?
    /// Held by whoever touches the file.
    private let file = Mutex(())
    let operations = OperationOrder()
    let autosaveInterval: Duration
    let clock: any Clock<Duration>

    /// Makes a document of a file that is there or will be; `open` or `save(to:for:)` comes next.
    ///
    /// Unsaved changes are saved when they are as old as the interval, by the clock.
    public init(
        fileURL: URL,
        autosaveInterval: Duration = .seconds(10),
        clock: any Clock<Duration> = ContinuousClock()
    ) {
        shared = Mutex(Shared(url: fileURL))
        scope = ScopeUses.hold(fileURL)
        self.autosaveInterval = autosaveInterval
        self.clock = clock
    }

    // MARK: To be overridden

    /// What is to be written: a snapshot of the document.
    open func contents(forType type: String) async throws -> FileContents {
        throw CoveError(.notSupported, "contents(forType:) is not overridden")
    }

    /// Takes what was read; an error leaves the document closed, or as it was.
    ///
    /// The files of a package are read when their `read()` is called, here or later.
    open func load(fromContents contents: FileContents, ofType type: String) async throws {
        throw CoveError(.notSupported, "load(fromContents:ofType:) is not overridden")
    }

    /// What the file gets besides its contents.
    open func fileAttributesToWrite(
        to url: URL,
        for operation: SaveOperation
    ) async throws -> DocumentAttributes { DocumentAttributes() }

    /// What the next save makes of the file: another type than `fileType` gives it that one's extension.
    ///
    /// Of a document at a symbolic link what that points at gets the name, and the document is there then; the link stays.
    open var savingFileType: String { get async { fileType } }

    /// The extension that a file of a type has; types are extensions where this is not overridden.
    open func fileNameExtension(forType type: String, saveOperation: SaveOperation) -> String { type }

    /// The file's type: the extension of its name, in lower case; empty without one.
    open var fileType: String { Self.type(of: fileURL) }

    /// The types, in lower case, whose directories are packages of this document's, beside those that Cove knows by name.
    ///
    /// The document says so of a directory that it opens or saves, in the attribute `user.cove.package`, unless that says no.
    open class var packageTypes: Set<String> { [] }

    /// The name for a person: that of the file, without the extension.
    open var localizedName: String { fileURL.deletingPathExtension().lastPathComponent }

    /// Keeps the user from editing; called before a revert.
    open func disableEditing() async {}

    /// Lets the user edit again.
    open func enableEditing() async {}

    /// Told of every failure, also of those that no caller gets, such as that of an autosave.
    open func handleError(_ error: CoveError) async {}

    /// Reads the file, or finds what is in the package; runs where it may block.
    open func read(from url: URL) throws -> FileContents { try FileContents(contentsOf: url) }

    /// Puts the contents and the attributes in place in one step, by the other `writeContents`; runs where it may block.
    ///
    /// What is changed of the file after the call of `super` counts as another program's change.
    open func writeContents(
        _ contents: FileContents,
        andAttributes attributes: DocumentAttributes,
        safelyTo url: URL,
        for operation: SaveOperation
    ) throws {
        let own = fileURL
        let original = operation == .forOverwriting && (try? System.statFollowing(own.path)) != nil ? own : nil
        try SafeSave(url).run(
            isPackage: contents.isPackage,
            attributes,
            replacing: { try replaceOwn(url, by: $0) },
            { try writeContents(contents, to: $0, for: operation, originalContentsURL: original) }
        )
        // What is saved is saved, whatever becomes of its picture.
        if let picture = attributes.thumbnail, !contents.isPackage { try? ItemThumbnail.write(picture, url) }
    }

    /// Writes to an empty file, or into an empty directory for a package; runs where it may block.
    ///
    /// What the document had before, and has until all is written, is at `originalContentsURL`. What is the same there need not
    /// be written anew: `FileContents.write(to:originalContentsURL:)` gives it a second name.
    open func writeContents(
        _ contents: FileContents,
        to url: URL,
        for operation: SaveOperation,
        originalContentsURL: URL?
    ) throws {
        try contents.write(to: url, originalContentsURL: originalContentsURL)
    }

    // MARK: Changes

    /// True when there is something to save.
    open var hasUnsavedChanges: Bool { shared.withLock { $0.edits.state != $0.savedEdits } }

    /// Says that the document was edited, or that all is saved.
    open func updateChangeCount(_ change: ChangeKind) {
        shared.withLock { shared in
            shared.edits.note(change)
            if change == .cleared { shared.savedEdits = shared.edits.state }
        }
        scheduleAutosave()
    }

    /// How the document is now; to be taken before a save, for `updateChangeCount(withToken:for:)` after it.
    open func changeCountToken(for operation: SaveOperation) -> ChangeToken {
        ChangeToken(state: shared.withLock { $0.edits.state })
    }

    /// Says that what a token stands for is saved; what was edited since is not.
    open func updateChangeCount(withToken token: ChangeToken, for operation: SaveOperation) {
        shared.withLock { $0.savedEdits = token.state }
    }

    // MARK: Access to the file

    /// Runs the body where it may block, alone with the file as far as this document goes.
    public func performAsynchronousFileAccess<Value: Sendable>(
        _ body: @escaping @Sendable () throws -> Value
    ) async throws -> Value {
        let outcome = await FileThreads.run { [self] in Result { try withFile(body) } }
        return try outcome.get()
    }

    func withFile<Value>(_ body: () throws -> Value) throws -> Value { try file.withLock { _ in try body() } }

    // MARK: FilePresenter

    /// The document's file.
    public var presentedItemURL: URL? { fileURL }

    /// None; a subclass that names some overrides `presentedItemDidChangeUbiquityAttributes(_:)`.
    open var observedPresentedItemUbiquityAttributes: Set<String> { [] }

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
    open func savePresentedItemChanges() async throws { try await saveForOthers() }

    /// Closes without saving.
    open func accommodatePresentedItemDeletion() async throws { await abandon() }

    /// Lets it go.
    open func accommodatePresentedSubitemDeletion(at url: URL) async throws {}

    /// Refuses: what is open stays.
    open func accommodatePresentedItemEviction() async throws {
        throw CoveError(.busy, "the document is open", url: fileURL)
    }

    /// Goes along; for 15 s the document is not saved by itself, since the file may have become a backup of what takes its name.
    open func presentedItemDidMove(to newURL: URL) async { follow(to: newURL) }

    /// Loads what another program wrote, unless there is something unsaved.
    open func presentedItemDidChange() async { lookForChange() }

    /// Does nothing.
    open func presentedItemDidChangeUbiquityAttributes(_ attributes: Set<String>) async {}

    /// Looks whether there is a conflict now.
    open func presentedItemDidGain(_ version: FileVersion?) async { await lookForConflict() }

    /// Looks whether there still is a conflict.
    open func presentedItemDidLose(_ version: FileVersion?) async { await lookForConflict() }

    /// Looks whether there still is a conflict.
    open func presentedItemDidResolveConflict(_ version: FileVersion?) async { await lookForConflict() }

    /// What changes inside a package changes the document.
    open func presentedSubitemDidAppear(at url: URL) async { await presentedItemDidChange() }

    /// What changes inside a package changes the document.
    open func presentedSubitem(at oldURL: URL, didMoveTo newURL: URL) async { await presentedItemDidChange() }

    /// What changes inside a package changes the document.
    open func presentedSubitemDidChange(at url: URL) async { await presentedItemDidChange() }

    /// Does nothing: the versions of a part are none of the document.
    open func presentedSubitem(at url: URL, didGain version: FileVersion?) async {}

    /// Does nothing.
    open func presentedSubitem(at url: URL, didLose version: FileVersion?) async {}

    /// Does nothing.
    open func presentedSubitem(at url: URL, didResolve version: FileVersion?) async {}
}
