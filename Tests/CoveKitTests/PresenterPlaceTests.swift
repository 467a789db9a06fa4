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
}
