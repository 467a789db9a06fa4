import CoveKit
import Foundation
import Glibc
import Synchronization

/// A presenter that prints what it is told.
final class SayingPresenter: FilePresenter {
    private struct State {
        var url: URL
        var unsaved: String?
        var refusal: String?
    }

    private let state: Mutex<State>
    let implementedMessages: Set<FilePresenterMessage>

    /// Presents an item; with words, it wants only these messages.
    init(_ url: URL, _ messages: Set<String>) {
        state = Mutex(State(url: url))
        implementedMessages = Set(
            FilePresenterMessage.allCases.filter { messages.isEmpty || messages.contains($0.rawValue) }
        )
    }

    /// The text that a reader makes it save.
    var unsaved: String? {
        get { state.withLock { $0.unsaved } }
        set { state.withLock { $0.unsaved = newValue } }
    }

    /// Why it can't save.
    var refusal: String? {
        get { state.withLock { $0.refusal } }
        set { state.withLock { $0.refusal = newValue } }
    }

    var presentedItemURL: URL? { state.withLock { $0.url } }

    func relinquishPresentedItemToReader() async -> Reacquirer? {
        say("> reader")
        return { say("> reacquired") }
    }
    func relinquishPresentedItemToWriter() async -> Reacquirer? {
        say("> writer")
        // One that is never asked to save does it now.
        if !implementedMessages.contains(.saveChanges) { try? await save() }
        return { say("> reacquired") }
    }
    func savePresentedItemChanges() async throws {
        say("> save")
        if let refusal { throw CoveError(.noSpace, refusal) }
        try await save()
    }
    private func save() async throws {
        guard let text = unsaved, let url = presentedItemURL else { return }
        unsaved = nil
        try await FileCoordinator(filePresenter: self).coordinate(writingItemAt: url) {
            try text.write(to: $0, atomically: true, encoding: .utf8)
        }
    }
    func accommodatePresentedItemDeletion() async throws {
        let isThere = presentedItemURL.map { FileManager.default.fileExists(atPath: $0.path) } ?? false
        say("> deletion\(isThere ? "" : " too late")")
    }
    func accommodatePresentedSubitemDeletion(at url: URL) async throws {
        say("> subitem deletion \(url.lastPathComponent)")
    }
    func accommodatePresentedItemEviction() async throws { say("> eviction") }
    func presentedItemDidMove(to newURL: URL) async {
        state.withLock { $0.url = newURL }
        say("> moved \(newURL.path)")
    }
    func presentedItemDidChange() async { say("> changed") }
    func presentedSubitemDidAppear(at url: URL) async { say("> appeared \(url.lastPathComponent)") }
    func presentedSubitem(at oldURL: URL, didMoveTo newURL: URL) async {
        say("> subitem moved \(oldURL.lastPathComponent) \(newURL.lastPathComponent)")
    }
    func presentedSubitemDidChange(at url: URL) async { say("> subitem changed \(url.lastPathComponent)") }
    func presentedItemDidGain(_ version: FileVersion?) async {
        say("> gained\(version?.isConflict == true ? " conflict" : "")")
    }
    func presentedItemDidChangeUbiquityAttributes(_ attributes: Set<String>) async {
        say("> attributes \(attributes.sorted().joined(separator: " "))")
    }
    func presentedSubitem(at url: URL, didGain version: FileVersion?) async {
        say("> subitem gained \(url.lastPathComponent)")
    }
    func presentedSubitem(at url: URL, didLose version: FileVersion?) async {
        say("> subitem lost \(url.lastPathComponent)")
    }
    func presentedSubitem(at url: URL, didResolve version: FileVersion?) async {
        say("> subitem resolved \(url.lastPathComponent)")
    }
    func presentedItemDidLose(_ version: FileVersion?) async { say("> lost") }
    func presentedItemDidResolveConflict(_ version: FileVersion?) async { say("> resolved") }
}

/// A document of text that can die in the middle of a save; a package has the text in its file `text`.
@MainActor final class SayingDocument: Document, @unchecked Sendable {
    nonisolated override class var packageTypes: Set<String> { ["folio"] }
    var text = ""
    /// What else the package has.
    var package: FileContents?
    /// True to end the process when the new contents are written and not in place.
    nonisolated let crashes = Mutex(false)

    override func contents(forType type: String) async throws -> FileContents {
        let own = FileContents.file(Data(text.utf8))
        guard package != nil else { return own }
        package?["text"] = own
        return package ?? own
    }

    override func load(fromContents contents: FileContents, ofType type: String) async throws {
        let file = contents.isPackage ? contents["text"] : contents
        guard let data = try await file?.read(), let loaded = String(data: data, encoding: .utf8) else {
            throw CocoaError(.fileReadInapplicableStringEncoding)
        }
        package = contents.isPackage ? contents : nil
        text = loaded
    }

    nonisolated override func writeContents(
        _ contents: FileContents,
        to url: URL,
        for operation: SaveOperation,
        originalContentsURL: URL?
    ) throws {
        try super.writeContents(contents, to: url, for: operation, originalContentsURL: originalContentsURL)
        if crashes.withLock({ $0 }) { raise(SIGKILL) }
    }
}
