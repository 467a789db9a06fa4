internal import CoveCore
internal import Synchronization

/// Where this device has changed something at the source that no other one has been told of yet.
final class NewsOutbox: Sendable {
    /// With more directories than these it is not told any more which.
    private static let mostPlaces = 512
    private static let mostNames = 32

    private let places = EngineMutex<[RemotePath: Set<FileName>?]>(.newsOutbox, [:])
    private let count = Atomic<Int>(0)

    private let silent = Atomic<Bool>(false)

    /// True while everything is being erased: nobody is to be told, and nothing is to be left at the source.
    var isSilent: Bool { silent.load(ordering: .acquiring) }

    /// Begins to tell nobody, or ends that; what was not told until then is forgotten.
    func setSilent(_ isSilent: Bool) {
        _ = take()
        silent.store(isSilent, ordering: .releasing)
    }

    var isEmpty: Bool { count.load(ordering: .relaxed) == 0 }

    /// Notes a place at which something was changed.
    func note(_ path: RemotePath) {
        guard let name = path.name, !path.names.contains(where: \.isReserved) else { return }
        add([path.parent: [name]])
    }

    /// Adds what could not be told.
    func add(_ changes: [RemotePath: Set<FileName>?]) {
        places.withLock { places in
            for (directory, names) in changes {
                var all: Set<FileName>?
                if let former = places[directory] {
                    if let former, let names { all = former.union(names) }
                } else {
                    guard places.count < Self.mostPlaces else { continue }
                    all = names
                }
                if let found = all?.count, found > Self.mostNames { all = nil }
                places.updateValue(all, forKey: directory)
            }
            count.store(places.count, ordering: .relaxed)
        }
    }

    /// Takes all of it out.
    func take() -> [RemotePath: Set<FileName>?] {
        places.withLock { places in
            defer { places = [:] }
            count.store(0, ordering: .relaxed)
            return places
        }
    }
}
