import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveKit

/// Where a presenter's item is, while the presenter does not know it yet.
struct PresenterPlaceTests {
    private let folder: Folder

    init() throws { folder = try Folder() }

    /// Hears of moves late: what it was told before keeps it busy.
    private final class BusyPresenter: FilePresenter {
        let url: Mutex<URL?>
        let events = Events()
        let mayGoOn = DispatchSemaphore(value: 0)

        init(_ url: URL) { self.url = Mutex(url) }

        var presentedItemURL: URL? { url.withLock { $0 } }

        func presentedItemDidChange() async {
            events.add("changed")
            await FileThreads.run { self.mayGoOn.wait() }
        }
        func presentedItemDidMove(to newURL: URL) async {
            url.withLock { $0 = newURL }
            events.add("moved \(newURL.lastPathComponent)")
        }
    }

    private func move(_ file: URL, to new: URL) async throws {
        let coordinator = FileCoordinator()
        try await coordinator.coordinate(writingItemAt: file, options: .forMoving, writingItemAt: new) { from, to in
            try FileManager.default.moveItem(at: from, to: to)
            try coordinator.item(at: from, didMoveTo: to)
        }
    }

    @Test func `a presenter that has not heard of a move yet is not taken back to where its item was`() async throws {
        try await blocking {
            let (file, new) = (try folder.make("f"), folder.url("g"))
            let presenter = BusyPresenter(file)
            try await FileCoordinator.addFilePresenter(presenter)
            try await FileCoordinator().coordinate(writingItemAt: file) { _ in }
            try presenter.events.wait(for: "changed")
            try await move(file, to: new)
            // A coordinator of the presenter's looks where that says that it is.
            #expect(presenter.presentedItemURL == file)
            _ = FileCoordinator(filePresenter: presenter)
            for _ in 0..<2 { presenter.mayGoOn.signal() }
            try presenter.events.wait(for: "moved g")
            try await FileCoordinator().coordinate(writingItemAt: new) { _ in }
            try waitUntil("it hears of that") { presenter.events.all == ["changed", "moved g", "changed"] }
            await FileCoordinator.removeFilePresenter(presenter)
        }
    }

    @Test func `a presenter that goes elsewhere does not hear where its former item has moved`() async throws {
        try await blocking {
            let (file, other) = (try folder.make("f"), try folder.make("other"))
            let presenter = BusyPresenter(file)
            try await FileCoordinator.addFilePresenter(presenter)
            try await FileCoordinator().coordinate(writingItemAt: file) { _ in }
            try presenter.events.wait(for: "changed")
            try await move(file, to: folder.url("g"))
            presenter.url.withLock { $0 = other }
            try await FileCoordinator.presentedItemURLDidChange(of: presenter)
            for _ in 0..<2 { presenter.mayGoOn.signal() }
            try await FileCoordinator().coordinate(writingItemAt: other) { _ in }
            try waitUntil("it hears of that") { presenter.events.all == ["changed", "changed"] }
            #expect(presenter.presentedItemURL == other)
            await FileCoordinator.removeFilePresenter(presenter)
        }
    }

    /// One name for a person, and two for a file system.
    private static let (composed, decomposed) = ("caf\u{E9}", "cafe\u{301}")

    /// The bytes of an item's name.
    private static func name(_ url: URL?) -> [UInt8]? { url.map { Array($0.lastPathComponent.utf8) } }

    @Test func `whoever waits for an item finds it where only the accents of its name have changed`() async throws {
        try await blocking {
            let (file, new) = (try folder.make(Self.composed), folder.url(Self.decomposed))
            let coordinator = FileCoordinator()
            let mover = try Held([.writingIntent(with: file, options: .forMoving)], by: coordinator) { urls in
                try FileManager.default.moveItem(at: urls[0], to: new)
            }.begun()
            let writer = try Held(writing: file).queued()
            try coordinator.item(at: file, didMoveTo: new)
            try mover.end()
            #expect(Self.name(try writer.begun().urls[0]) == Array(Self.decomposed.utf8))
            try writer.end()
        }
    }

    @Test func `a presenter says that only the accents of its item's name have changed`() async throws {
        try await blocking {
            let (file, new) = (try folder.make(Self.composed), folder.url(Self.decomposed))
            let presenter = NotingPresenter(file)
            try await presenter.present {
                try FileManager.default.moveItem(at: file, to: new)
                presenter.url.withLock { $0 = new }
                try await FileCoordinator.presentedItemURLDidChange(of: presenter)
                try await FileCoordinator().coordinate(writingItemAt: new) { _ in }
                try presenter.events.wait(for: "writer")
            }
        }
    }

    @Test func `a copy whose name differs in its accents alone is not the document`() async throws {
        let document = TextDocument(fileURL: folder.url(Self.composed), clock: ManualClock())
        try await document.save(to: document.fileURL, for: .forCreating)
        await document.edit("newer")
        let copy = folder.url(Self.decomposed)
        try await document.save(to: copy, for: .forOverwriting)
        #expect(try text(copy) == "newer" && text(folder.url(Self.composed)) == "new")
        #expect(document.hasUnsavedChanges && Self.name(document.fileURL) == Array(Self.composed.utf8))
        try await document.close()
        #expect(try text(folder.url(Self.composed)) == "newer")
    }

    @Test func `a package with two names that differ in their accents alone is not opened with one of them`() throws {
        for name in [Self.composed, Self.decomposed] { _ = try folder.make("p.pkg/\(name)", name) }
        let error = #expect(throws: CoveError.self) { try FileContents(contentsOf: folder.url("p.pkg")) }
        #expect(error?.code == .notSupported)
    }
}
