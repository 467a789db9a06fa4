import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveKit

/// Random claims of many coordinators at once, against a plain list of who is inside.
struct RandomClaimTests {
    private struct Access {
        var path: String
        var isWriting: Bool
        var isExclusive: Bool

        /// True for two that must not be inside at one time, whichever came first.
        static func exclude(_ one: Access, _ other: Access) -> Bool {
            if one.path == other.path { return one.isWriting || other.isWriting }
            if one.path.hasPrefix(other.path + "/") { return other.isExclusive }
            if other.path.hasPrefix(one.path + "/") { return one.isExclusive }
            return false
        }
    }

    private static let paths = ["a", "a/b", "a/b/c", "a/d", "e", "e/f", "ab"]
    private static let options: [FileCoordinator.WritingOptions] = [
        [], .forMerging, .forDeleting, .forMoving, .forReplacing,
    ]

    /// Who is inside.
    private final class Ledger: Sendable {
        private let state = Mutex((inside: [(worker: Int, accesses: [Access])](), count: 0))

        var count: Int { state.withLock { $0.count } }

        /// Notes one who comes in; the others who should have kept it out.
        ///
        /// A presenter that saves for two readers at once is one party with itself.
        func enter(_ worker: Int, _ accesses: [Access]) -> [Int] {
            state.withLock { state in
                let wrong = state.inside.filter { inside in
                    inside.worker != worker
                        && inside.accesses.contains { other in accesses.contains { Access.exclude($0, other) } }
                }
                state.inside.append((worker, accesses))
                state.count += 1
                return wrong.map(\.worker)
            }
        }

        func leave(_ worker: Int) {
            state.withLock { state in
                guard let index = state.inside.firstIndex(where: { $0.worker == worker }) else { return }
                state.inside.remove(at: index)
            }
        }
    }

    @Test func `no two that exclude each other are inside, and all come in`() async throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        let folder = try Folder()
        for path in Self.paths {
            try FileManager.default.createDirectory(at: folder.url(path), withIntermediateDirectories: true)
        }
        let ledger = Ledger()
        // Presenters that let others in at once, or after a claim of their own.
        let presenters = ["a/b", "e"].enumerated().map { index, path in
            NotingPresenter(
                folder.url(path),
                messages: [.relinquishToWriter, .saveChanges],
                onSave: { presenter in
                    let access = Access(path: folder.url(path).path, isWriting: true, isExclusive: false)
                    let worker = 100 + index
                    try await FileCoordinator(filePresenter: presenter).coordinate(writingItemAt: folder.url(path)) {
                        _ in
                        #expect(ledger.enter(worker, [access]).isEmpty, "seed \(seed)")
                        ledger.leave(worker)
                    }
                }
            )
        }
        for presenter in presenters { try await FileCoordinator.addFilePresenter(presenter) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for worker in 0..<12 {
                group.addTask { try await Self.work(worker, seed, folder, ledger) }
            }
            try await group.waitForAll()
        }
        for presenter in presenters { await FileCoordinator.removeFilePresenter(presenter) }
        #expect(ledger.count >= 12 * 200)
    }

    private static func work(_ worker: Int, _ seed: UInt64, _ folder: Folder, _ ledger: Ledger) async throws {
        var generator = SeededGenerator(seed: seed &+ UInt64(worker))
        for _ in 0..<200 {
            let (intents, accesses) = wanted(folder, &generator)
            try await FileCoordinator().coordinate(with: intents, timeout: .seconds(60)) {
                #expect(ledger.enter(worker, accesses).isEmpty, "seed \(seed)")
                sched_yield()
                ledger.leave(worker)
            }
        }
    }

    /// One or two items for one claim.
    private static func wanted(_ folder: Folder, _ generator: inout SeededGenerator) -> ([FileAccessIntent], [Access]) {
        var (intents, accesses): ([FileAccessIntent], [Access]) = ([], [])
        for _ in 0...Int.random(in: 0...1, using: &generator) {
            let url = folder.url(paths[Int.random(in: paths.indices, using: &generator)])
            if generator.oneIn(2) {
                intents.append(.readingIntent(with: url, options: generator.oneIn(2) ? [] : .withoutChanges))
                accesses.append(Access(path: url.path, isWriting: false, isExclusive: false))
            } else {
                let option = options[Int.random(in: options.indices, using: &generator)]
                intents.append(.writingIntent(with: url, options: option))
                let isExclusive = !option.isEmpty && option != .forMerging
                accesses.append(Access(path: url.path, isWriting: true, isExclusive: isExclusive))
            }
        }
        return (intents, accesses)
    }
}
