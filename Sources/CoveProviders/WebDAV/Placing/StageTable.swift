internal import CoveCore
internal import Glibc
internal import Synchronization

/// Where hidden names stand, and which of them were seen.
final class StageTable: Sendable {
    /// Of more folders than these the first are forgotten, and found out again.
    private static let most = 1000
    /// What has stood there so long since it was first seen is nobody's any more.
    private let patience: TimeSpan
    /// Stands for this device.
    private let owner: String
    /// Stands for this table, among all that the device has had.
    private let life = String(DocumentID.random().description.prefix(4))
    private let began = Int64(Glibc.time(nil))

    private struct State {
        /// Folders with a stage of their own, and those stages that are there.
        var large: Set<RemotePath> = []
        var made: Set<RemotePath> = []
        /// What of this device stands somewhere and is still needed.
        var own: Set<FileName> = []
        /// When those of other devices were first seen.
        var seen: [FileName: MonotonicTime] = [:]
    }

    private let state = Mutex(State())

    init(owner: String, patience: TimeSpan) {
        self.owner = owner
        self.patience = patience
    }

    /// A new hidden name for something that is to come to a name.
    func name(for name: FileName, isInside: Bool) -> StagedName {
        StagedName(for: name, owner: owner, life: life, isInside: isInside)
    }

    /// True for a name that this device made in an earlier life: what stands there is on its way no more.
    ///
    /// Not for one that another device makes which goes on with a copy of this one's state.
    func isLeft(_ name: StagedName) -> Bool {
        name.owner == owner && !name.token.hasPrefix(life) && name.began <= began
    }

    /// True for a folder that has too many items to be listed for each new one.
    func isLarge(_ folder: RemotePath) -> Bool { state.withLock { $0.large.contains(folder) } }

    func noteLarge(_ folder: RemotePath) {
        state.withLock { state in
            if state.large.count >= Self.most { state.large.removeAll() }
            state.large.insert(folder)
        }
    }

    /// True for the folder of hidden names that is known to be there.
    func isMade(_ stage: RemotePath) -> Bool { state.withLock { $0.made.contains(stage) } }

    func setMade(_ stage: RemotePath, _ isMade: Bool) {
        state.withLock { state in
            if state.made.count >= Self.most { state.made.removeAll() }
            if isMade { state.made.insert(stage) } else { state.made.remove(stage) }
        }
    }

    func begin(_ name: FileName) { state.withLock { _ = $0.own.insert(name) } }
    func end(_ name: FileName) { state.withLock { _ = $0.own.remove(name) } }

    /// True when somebody else is about to put something to the name that one of this device is for.
    func isContested(_ own: StagedName, by others: [StagedName]) -> Bool {
        let now = System.monotonic()
        return state.withLock { state in
            var isContested = false
            for other in others where other.mark == own.mark && other.name != own.name {
                // What this device has left in an earlier life is nobody's.
                if other.owner == own.owner, !state.own.contains(other.name) { continue }
                if state.seen.count >= Self.most { state.seen.removeAll() }
                let first = state.seen[other.name, default: now]
                state.seen[other.name] = first
                if now - first < patience { isContested = true }
            }
            return isContested
        }
    }
}
