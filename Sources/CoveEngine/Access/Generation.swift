internal import CoveCore
internal import Synchronization

/// Whether this device uses the account's apps, and whether it may exchange changes with those that do.
///
/// A device that does not stays as it is until it is migrated: once another one has made it an account of apps, it neither sends nor
/// takes in changes.
final class Generation: Sendable {
    private static let key = "generation"
    private static let heldKey = "generation-held"
    private let legacy = Atomic<Bool>(false)
    private let held = Atomic<Bool>(false)
    private let migrating = Atomic<Bool>(false)

    /// True for a device that knows documents only.
    var isLegacy: Bool { legacy.load(ordering: .acquiring) }

    /// True for one that waits for its migration, since another device has migrated the account.
    var isHeld: Bool { held.load(ordering: .acquiring) && isLegacy }

    /// True where what the account says of apps is heeded: by a device that uses them, or is about to.
    var heedsApps: Bool { !isLegacy || migrating.load(ordering: .acquiring) }

    /// Refuses to ask for names while nothing is exchanged.
    func requireExchange() throws(ProviderError) {
        if isHeld, !migrating.load(ordering: .acquiring) {
            throw .serverUnreachable("this device is not migrated; run `cove account migrate`")
        }
    }

    /// Reads what this device is; what the configuration says counts at its first start.
    func recall(_ catalog: Catalog, _ wanted: AccountGeneration, isFirst: Bool) throws(Errno) {
        let kept = try catalog.read { database throws(Errno) in try database.meta(Self.key) }
        let generation =
            kept.flatMap { AccountGeneration(rawValue: String(decoding: $0, as: UTF8.self)) }
            ?? (isFirst ? wanted : .drive)
        if kept == nil { try keep(generation, catalog) }
        let isHeld = try catalog.read { database throws(Errno) in try database.meta(Self.heldKey) != nil }
        held.store(isHeld, ordering: .releasing)
        legacy.store(generation == .legacy, ordering: .releasing)
    }

    /// Another device has migrated the account, which the next daemon knows before it has asked.
    ///
    /// True the first time.
    func hold(_ catalog: Catalog) throws(Errno) -> Bool {
        guard !held.exchange(true, ordering: .acquiringAndReleasing) else { return false }
        try catalog.write(durable: true) { database throws(Errno) in try database.setMeta(Self.heldKey, [1]) }
        return true
    }

    /// The device is being migrated, or that has ended, well or badly.
    func setMigrating(_ isMigrating: Bool) { migrating.store(isMigrating, ordering: .releasing) }

    /// From now on this device uses apps, durably.
    func migrate(_ catalog: Catalog) throws(Errno) {
        try keep(.drive, catalog)
        legacy.store(false, ordering: .releasing)
        held.store(false, ordering: .releasing)
    }

    private func keep(_ generation: AccountGeneration, _ catalog: Catalog) throws(Errno) {
        try catalog.write(durable: true) { database throws(Errno) in
            try database.setMeta(Self.key, Array(generation.rawValue.utf8))
        }
    }
}
