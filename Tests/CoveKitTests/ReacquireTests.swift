import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveKit

/// When presenters that let others in have their items again; the numbers are those of the acceptance checklist.
struct ReacquireTests {
    private let folder: Folder

    init() throws { folder = try Folder() }

    @Test func `a presenter that leaves the item gets it back from nobody, and goes on at once`() async throws {
        try await blocking {
            let file = try folder.make("f")
            let (early, late) = (DispatchSemaphore(value: 0), NotingPresenter(file))
            let slow = NotingPresenter(file, onRelinquish: { _ in await FileThreads.run { early.wait() } })
            try await late.present {
                try await slow.present {
                    let writer = Held(writing: file)
                    try waitUntil("both are asked") { slow.events.all == ["writer"] && late.events.all == ["writer"] }
                    for presenter in [slow, late] {
                        presenter.url.withLock { $0 = nil }
                        try await FileCoordinator.presentedItemURLDidChange(of: presenter)
                    }
                    try late.events.wait(for: "reacquired")
                    early.signal()
                    try slow.events.wait(for: "reacquired")
                    try writer.begun().end()
                }
            }
            #expect(late.events.all == ["writer", "reacquired"] && slow.events.all == ["writer", "reacquired"])
        }
    }

    @Test func `a presenter that is removed while a writer is let in goes on at once`() async throws {
        try await blocking {
            let file = try folder.make("f")
            let presenter = NotingPresenter(file)
            try await FileCoordinator.addFilePresenter(presenter)
            let writer = try Held(writing: file).begun()
            await FileCoordinator.removeFilePresenter(presenter)
            try presenter.events.wait(for: "reacquired")
            #expect(presenter.events.all == ["writer", "reacquired"])
            try writer.end()
        }
    }

    @Test func `1-8. presenters have their items again when the batch that was prepared is done`() async throws {
        try await blocking {
            let file = try folder.make("f")
            let presenter = NotingPresenter(file)
            try await presenter.present {
                let events = try await FileCoordinator().prepare(forReadingItemsAt: [], writingItemsAt: [file]) {
                    // Messages to one presenter come in order.
                    try await FileCoordinator().coordinate(readingItemAt: file) { _ in }
                    return presenter.events.all
                }
                #expect(!events.prefix { $0 != "reader" }.contains("reacquired"))
                try waitUntil("both have ended") { presenter.events.all.count { $0 == "reacquired" } == 2 }
            }
        }
    }

    @Test func `a question that has not come yet when the presenter leaves keeps it from nothing either`() async throws
    {
        try await blocking {
            let file = try folder.make("f")
            for number in 0..<50 {
                let presenter = NotingPresenter(file)
                let place = Location(outside: file.path)
                let mailbox = PresenterMailbox(presenter, at: place)
                mailbox.post(.init(kind: .relinquishToWriter, location: place, claim: "c\(number)"))
                mailbox.reacquire()
                try presenter.events.wait(for: "reacquired")
            }
        }
    }

    @Test func `who let others in has the file again, also when they were not granted it`() async throws {
        try await blocking {
            let file = try folder.make("f")
            let presenter = NotingPresenter(file, onSave: { _ in throw CoveError(.noSpace) })
            try await presenter.present {
                let reader = Held(reading: file)
                #expect(try reader.failure() == .noSpace)
                try presenter.events.wait(for: "reacquired")
                #expect(presenter.events.all == ["reader", "save", "reacquired"])
            }
        }
    }

    @Test func `one that lets go after the other has gone has the file again at once`() async throws {
        try await blocking {
            let file = try folder.make("f")
            let mayEnd = DispatchSemaphore(value: 0)
            let presenter = NotingPresenter(file, onRelinquish: { _ in await FileThreads.run { mayEnd.wait() } })
            try await presenter.present {
                let reader = Held(reading: file)
                try presenter.events.wait(for: "reader")
                reader.coordinator.cancel()
                #expect(try reader.failure() == .cancelled)
                #expect(presenter.events.all == ["reader"])
                mayEnd.signal()
                try presenter.events.wait(for: "reacquired")
            }
        }
    }

    @Test func `a claim of several items asks a presenter once, which has its item again once`() async throws {
        try await blocking {
            let file = try folder.make("d/f")
            let presenter = NotingPresenter(file)
            try await presenter.present {
                try await FileCoordinator().coordinate(
                    readingItemAt: file,
                    options: .withoutChanges,
                    writingItemAt: folder.url("d"),
                    options: .forMoving
                ) { _, _ in }
                try presenter.events.wait(for: "reacquired")
                // What comes after it would be before this.
                try await FileCoordinator().coordinate(readingItemAt: file, options: .withoutChanges) { _ in }
                try waitUntil("it has the file twice") {
                    presenter.events.all == ["writer", "reacquired", "reader", "reacquired"]
                }
            }
        }
    }

    @Test func `21. after a preparation presenters have their items again`() async throws {
        try await blocking {
            let file = try folder.make("f")
            let presenter = NotingPresenter(file)
            try await presenter.present {
                try await FileCoordinator().prepare(forReadingItemsAt: [file], writingItemsAt: []) {}
                try presenter.events.wait(for: "reacquired")
                #expect(presenter.events.all == ["reader", "save", "reacquired"])
            }
        }
    }
}
