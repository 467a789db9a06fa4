internal import CoveCore
internal import Synchronization

/// A table that is empty nearly always: then asking it costs one atomic load, and no lock.
final class RareTable<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    private let table = EngineMutex<[Key: Value]>(.rareTable, [:])
    private let count = Atomic<Int>(0)

    var isEmpty: Bool { count.load(ordering: .acquiring) == 0 }

    subscript(key: Key) -> Value? { isEmpty ? nil : table.withLock { $0[key] } }

    func contains(where isWanted: (Key, Value) -> Bool) -> Bool {
        !isEmpty && table.withLock { $0.contains { isWanted($0.key, $0.value) } }
    }

    func insert(_ value: Value, for key: Key) { update { $0[key] = value } }

    @discardableResult
    func remove(_ key: Key) -> Value? { isEmpty ? nil : update { $0.removeValue(forKey: key) } }

    /// What is in it now.
    func contents() -> [Key: Value] { isEmpty ? [:] : table.withLock { $0 } }

    /// Changes it under its lock.
    @discardableResult
    func update<Result: Sendable>(_ body: (inout [Key: Value]) -> Result) -> Result {
        table.withLock { table in
            defer { count.store(table.count, ordering: .releasing) }
            return body(&table)
        }
    }
}
