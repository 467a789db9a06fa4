internal import CoveCore

/// What contents ask, whoever knows it.
extension Engine: ContentsDelegate {
    var mayAdoptIdentities: Bool { !namespace.tombstones.isEmpty }

    func adoptIdentities(of id: ItemID, _ database: Database) throws(Errno) {
        try namespace.adoptIdentities(of: id, database)
    }

    func rescue(_ id: ItemID, home: Place, _ database: Database) throws(Errno) -> RescuedEntry {
        try namespace.rescue(id, home: home, database)
    }

    func showRescued(_ entry: RescuedEntry) { namespace.showRescued(entry) }

    func askForEviction(_ id: ItemID) -> Bool { coordinator.askForEviction(id) }

    func isPresented(_ id: ItemID) -> Bool { coordinator.isPresented(id) }
}
