import CoveTestSupport
import Foundation
import Testing

@testable import CoveKit

/// What presenters of one process are told and asked; the numbers are those of the acceptance checklist.
struct PresenterTests {
    private let folder: Folder

    init() throws { folder = try Folder() }

    @Test func `11. a reader has presenters save, unless it takes the file as it is`() async throws {
        try await blocking {
            let file = try folder.make("f", "old")
            let presenter = NotingPresenter(
                file,
                onSave: { presenter in
                    try await FileCoordinator(filePresenter: presenter).coordinate(writingItemAt: file) {
                        try "saved".write(to: $0, atomically: true, encoding: .utf8)
                    }
                }
            )
            try await presenter.present {
                let read = try await FileCoordinator().coordinate(readingItemAt: file) { try text($0) }
                #expect(read == "saved")
                try presenter.events.wait(for: "reacquired")
                #expect(presenter.events.all == ["reader", "save", "reacquired"])
                try await FileCoordinator().coordinate(readingItemAt: file, options: .withoutChanges) { _ in }
                try waitUntil("it has the file again") { presenter.events.all.count == 5 }
                #expect(presenter.events.all.suffix(2) == ["reader", "reacquired"])
            }
        }
    }

    @Test func `12. a presenter hears nothing of its own writing`() async throws {
        try await blocking {
            let file = try folder.make("f")
            let (presenter, other) = (NotingPresenter(file), NotingPresenter(file))
            try await presenter.present {
                try await other.present {
                    try await FileCoordinator(filePresenter: presenter).coordinate(writingItemAt: file) { _ in }
                    try other.events.wait(for: "changed")
                }
            }
            #expect(presenter.events.all.isEmpty && other.events.all == ["writer", "reacquired", "changed"])
        }
    }

    @Test func `13. a presenter that saves does not wait for those who ask it to`() async throws {
        try await blocking {
            let file = try folder.make("f")
            let asked = DispatchSemaphore(value: 0)
            let presenter = NotingPresenter(
                file,
                onRelinquish: { _ in await FileThreads.run { asked.wait() } },
                onSave: { presenter in
                    try await FileCoordinator(filePresenter: presenter).coordinate(writingItemAt: file) { _ in }
                }
            )
            try await presenter.present {
                // Both have asked before it saves for the first.
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for _ in 0..<2 {
                        group.addTask { try await FileCoordinator().coordinate(readingItemAt: file) { _ in } }
                    }
                    try waitUntil("both have asked") { presenter.events.all == ["reader", "reader"] }
                    for _ in 0..<2 { asked.signal() }
                    try await group.waitForAll()
                }
            }
        }
    }

    @Test func `13. presenters that save for two readers do not wait for each other's`() async throws {
        try await blocking {
            let files = [try folder.make("e"), try folder.make("f")]
            let mayGoOn = DispatchSemaphore(value: 0)
            let events = Events()
            let presenters = files.map { file in
                NotingPresenter(
                    file,
                    events,
                    messages: [.saveChanges],
                    onSave: { presenter in
                        await FileThreads.run { mayGoOn.wait() }
                        try await FileCoordinator(filePresenter: presenter).coordinate(writingItemAt: file) { _ in }
                    }
                )
            }
            for presenter in presenters { try await FileCoordinator.addFilePresenter(presenter) }
            // Each reader has one of them save, and keeps the other from writing.
            try await withThrowingTaskGroup(of: Void.self) { group in
                for saved in files {
                    group.addTask {
                        let intents = files.map { file in
                            FileAccessIntent.readingIntent(with: file, options: file == saved ? [] : .withoutChanges)
                        }
                        try await FileCoordinator().coordinate(with: intents) {}
                    }
                }
                try waitUntil("both have asked") { events.all == ["save", "save"] }
                for _ in files { mayGoOn.signal() }
                try await group.waitForAll()
            }
            for presenter in presenters { await FileCoordinator.removeFilePresenter(presenter) }
        }
    }

    @Test func `13. a presenter that waits to save when it is asked to waits no longer`() async throws {
        try await blocking {
            let file = try folder.make("f")
            let holder = try Held(writing: file).begun()
            let saved = DispatchSemaphore(value: 0)
            let presenter = NotingPresenter(file, onSave: { _ in await FileThreads.run { saved.wait() } })
            try await presenter.present {
                let reader = try Held(reading: file).queued()
                let writer = try Held(writing: file).queued()
                let saving = FileCoordinator(filePresenter: presenter)
                let own = try Held([.writingIntent(with: file)], by: saving).queued()
                try holder.end()
                try own.begun().end()
                saved.signal()
                try reader.begun().end()
                try writer.begun().end()
            }
        }
    }

    @Test func `14. the error of a presenter's save is the reader's, whose accessor does not run`() async throws {
        try await blocking {
            let file = try folder.make("f")
            let presenter = NotingPresenter(file, onSave: { _ in throw CoveError(.noSpace, "no room for changes") })
            let events = Events()
            try await presenter.present {
                let error = await #expect(throws: CoveError.self) {
                    try await FileCoordinator().coordinate(readingItemAt: file) { _ in events.add("ran") }
                }
                #expect(error?.code == .noSpace && error?.message == "no room for changes")
            }
            #expect(events.all.isEmpty)
            // It holds up nobody afterwards.
            try await FileCoordinator().coordinate(writingItemAt: file) { _ in }
        }
    }

    @Test func `one that writes before it lets a writer in does so before that writer`() async throws {
        try await blocking {
            let file = try folder.make("f", "old")
            let presenter = NotingPresenter(
                file,
                onRelinquish: { presenter in
                    try? await FileCoordinator(filePresenter: presenter).coordinate(writingItemAt: file) {
                        presenter.events.add("own")
                        try "own".write(to: $0, atomically: true, encoding: .utf8)
                    }
                }
            )
            try await presenter.present {
                // Sooner than presenters that say nothing are passed over.
                try await FileCoordinator().coordinate(writingItemAt: file, timeout: .seconds(20)) {
                    #expect(try text($0) == "own")
                    try "new".write(to: $0, atomically: true, encoding: .utf8)
                }
                try presenter.events.wait(for: "changed")
            }
            #expect(try text(file) == "new" && presenter.events.all == ["writer", "own", "reacquired", "changed"])
        }
    }

    @Test func `a claim whose accessor never ran has changed nothing`() async throws {
        try await blocking {
            let file = try folder.make("f")
            try FileManager.default.createDirectory(at: folder.url("d"), withIntermediateDirectories: false)
            let presenter = NotingPresenter(file)
            try await presenter.present {
                let snapshot = FileAccessIntent.readingIntent(with: folder.url("d"), options: .forUploading)
                let error = await #expect(throws: CoveError.self) {
                    try await FileCoordinator().coordinate(with: [snapshot, .writingIntent(with: file)]) {}
                }
                #expect(error?.code == .notSupported)
                try await FileCoordinator().coordinate(readingItemAt: file, options: .withoutChanges) { _ in }
                try waitUntil("it has the file again") { presenter.events.all.count == 4 }
                #expect(presenter.events.all == ["writer", "reacquired", "reader", "reacquired"])
            }
        }
    }

    @Test func `15. presenters hear of a deletion before it`() async throws {
        try await blocking {
            let file = try folder.make("d/f")
            let (presenter, above) = (NotingPresenter(file), NotingPresenter(folder.url("d")))
            try await presenter.present {
                try await above.present {
                    try await FileCoordinator().coordinate(writingItemAt: file, options: .forDeleting) {
                        try FileManager.default.removeItem(at: $0)
                    }
                    try above.events.wait(for: "subitem changed f")
                }
            }
            #expect(presenter.events.all.prefix(2) == ["writer", "deletion true"])
            #expect(above.events.all == ["subitem deletion f", "subitem changed f"])
        }
    }

    @Test func `16. presenters follow a moved directory, and those above hear of it`() async throws {
        try await blocking {
            let file = try folder.make("top/old/f")
            let (old, new) = (folder.url("top/old"), folder.url("top/new"))
            let inside = NotingPresenter(file)
            let (presenter, above) = (NotingPresenter(old), NotingPresenter(folder.url("top")))
            try await inside.present {
                try await presenter.present {
                    try await above.present {
                        try await move(old, to: new)
                        try above.events.wait(for: "subitem moved old new")
                        try presenter.events.wait(for: "moved new")
                        try inside.events.wait(for: "moved f")
                        #expect(inside.presentedItemURL == new.appendingPathComponent("f"))
                        // It is found at its new place.
                        try await FileCoordinator().coordinate(writingItemAt: new.appendingPathComponent("f")) { _ in }
                        try inside.events.wait(for: "changed")
                        try above.events.wait(for: "subitem changed f")
                    }
                }
            }
            #expect(above.events.all == ["subitem moved old new", "subitem changed f"])
        }
    }

    @Test func `17. who let a writer in has the file again first, and then hears of the change`() async throws {
        try await blocking {
            let file = try folder.make("f")
            let (presenter, above) = (NotingPresenter(file), NotingPresenter(folder.url("")))
            try await presenter.present {
                try await above.present {
                    try await FileCoordinator().coordinate(writingItemAt: file) { _ in }
                    try presenter.events.wait(for: "changed")
                    #expect(presenter.events.all == ["writer", "reacquired", "changed"])
                    try await FileCoordinator().coordinate(writingItemAt: folder.url("new")) {
                        try "new".write(to: $0, atomically: false, encoding: .utf8)
                    }
                    try above.events.wait(for: "appeared new")
                    #expect(above.events.all == ["subitem changed f", "appeared new"])
                }
            }
        }
    }

    @Test func `21. prepare asks once for many files, and takes no claim`() async throws {
        try await blocking {
            let files = try (0..<100).map { try folder.make("d/\($0)") }
            let presenter = NotingPresenter(files[7])
            try await presenter.present {
                let reader = FileCoordinator(filePresenter: nil)
                try await reader.prepare(
                    forReadingItemsAt: [folder.url("d")],
                    writingItemsAt: []
                ) {
                    #expect(presenter.events.all == ["reader", "save"])
                    for file in files {
                        try FileCoordinator().perform([.writingIntent(with: file, options: .forMerging)]) {}
                    }
                }
                try presenter.events.wait(for: "reacquired")
            }
            let prepared = await #expect(throws: CoveError.self) {
                try await FileCoordinator().prepare(
                    forReadingItemsAt: [],
                    options: [],
                    writingItemsAt: files,
                    options: .forReplacing
                ) {}
            }
            #expect(prepared?.code == .invalidArgument)
        }
    }

    @Test func `a presenter is sent what it implements, and nothing once it is removed`() async throws {
        try await blocking {
            let file = try folder.make("f")
            let presenter = NotingPresenter(file, messages: [.didChange])
            try await presenter.present {
                try await FileCoordinator().coordinate(writingItemAt: file) { _ in }
                try presenter.events.wait(for: "changed")
                #expect(FileCoordinator.filePresenters.contains { $0 === presenter })
            }
            try await FileCoordinator().coordinate(writingItemAt: file) { _ in }
            #expect(presenter.events.all == ["changed"])
        }
    }

    @Test func `a presenter that is removed while it is asked holds up nobody`() async throws {
        try await blocking {
            let file = try folder.make("f")
            let mayEnd = DispatchSemaphore(value: 0)
            let presenter = NotingPresenter(file, onRelinquish: { _ in await FileThreads.run { mayEnd.wait() } })
            try await FileCoordinator.addFilePresenter(presenter)
            let reader = Held(reading: file)
            try presenter.events.wait(for: "reader")
            await FileCoordinator.removeFilePresenter(presenter)
            try reader.begun().end()
            mayEnd.signal()
        }
    }

    @Test func `a presenter at a symbolic link presents what that points at`() async throws {
        try await blocking {
            let file = try folder.make("f")
            let link = folder.url("link")
            try FileManager.default.createSymbolicLink(at: link, withDestinationURL: file)
            let presenter = NotingPresenter(link)
            try await presenter.present {
                try await FileCoordinator().coordinate(writingItemAt: file) { _ in }
                try presenter.events.wait(for: "changed")
                // A claim on the link is one on what it points at, and its URL stays.
                let holder = try Held(writing: link).begun()
                #expect(holder.urls == [link])
                let waiting = try Held(reading: file).queued()
                try holder.end()
                try waiting.begun().end()
                let change = ["writer", "reacquired", "changed"]
                let read = ["reader", "save", "reacquired"]
                try waitUntil("all is told") { presenter.events.all == change + change + read }
                // To delete the link is to delete the link.
                try await FileCoordinator().coordinate(writingItemAt: link, options: .forDeleting) {
                    try FileManager.default.removeItem(at: $0)
                }
                #expect(FileManager.default.fileExists(atPath: file.path))
                // Messages come in order: what is told of the deletion would be told before this.
                try await FileCoordinator().coordinate(readingItemAt: file) { _ in }
                try waitUntil("that is told") { presenter.events.all.count >= 12 }
                #expect(presenter.events.all == change + change + read + read)
            }
        }
    }

    @Test func `a presenter is sent what its type has methods for, and can't want more`() async throws {
        final class Saver: FilePresenter {
            let presentedItemURL: URL?
            let events = Events()
            init(_ url: URL) { presentedItemURL = url }
            func savePresentedItemChanges() async throws { events.add("save") }
            func presentedItemDidChange() async { events.add("changed") }
        }
        final class Bare: FilePresenter { var presentedItemURL: URL? { nil } }
        final class Greedy: FilePresenter {
            var presentedItemURL: URL? { nil }
            var implementedMessages: Set<FilePresenterMessage> { [.saveChanges, .didChange] }
            func presentedItemDidChange() async {}
        }
        try await blocking {
            let file = try folder.make("f")
            let saver = Saver(file)
            #expect(saver.implementedMessages == [.saveChanges, .didChange])
            #expect(Bare().implementedMessages.isEmpty)
            #expect(TextDocument.messagesWithMethods == Set(FilePresenterMessage.allCases))
            try await FileCoordinator.addFilePresenter(saver)
            try await FileCoordinator().coordinate(readingItemAt: file, writingItemAt: file) { _, _ in }
            try saver.events.wait(for: "changed")
            #expect(saver.events.all == ["save", "changed"])
            await FileCoordinator.removeFilePresenter(saver)
            let error = await #expect(throws: CoveError.self) { try await FileCoordinator.addFilePresenter(Greedy()) }
            #expect(error?.code == .invalidArgument && error?.message == "Greedy has no method for saveChanges")
        }
    }
}
