internal import CoveCore
internal import Synchronization

/// That everything at the source is meant to go, as a note there says.
struct Erasure: Equatable {
    /// The catalog's entry for the last one that was heeded, and since when.
    static let key = "erasure"
    /// The catalog's entry for since when this device knows the account.
    static let firstKey = "first-start"
    /// The catalog's entry while this device erases everything, and for a note of its own that is to be taken back.
    static let openKey = "erasing"
    private static let leftKey = "erasure-left"
    /// An older note is heeded by nobody.
    static let lifetime = TimeSpan.seconds(30 * 86_400)
    private static let title = "cove-erased"

    let token: String
    let time: Timestamp

    init(token: String, time: Timestamp) { (self.token, self.time) = (token, time.wholeSecond) }

    /// Reads a note; nil for anything else.
    init?(note: [UInt8]) {
        let words = String(decoding: note, as: UTF8.self).split(separator: " ")
        guard words.count == 3, words[0] == Self.title, words[1].utf8.count <= 100, let seconds = Int64(words[2]) else {
            return nil
        }
        self.init(token: String(words[1]), time: Timestamp(seconds: seconds, nanoseconds: 0))
    }

    /// Remembers that this one begins; throws `EBUSY` while another does.
    func begin(_ database: Database) throws(Errno) {
        guard try database.meta(Self.openKey) == nil else { throw .busy }
        try database.setMeta(Self.openKey, note)
        try database.setMeta(Self.leftKey, nil)
    }

    /// Remembers that what was begun is given up, by whoever began it or by its death; false where nothing was.
    static func giveUp(_ database: Database) throws(Errno) -> Bool {
        guard let note = try database.meta(openKey) else { return false }
        try database.setMeta(openKey, nil)
        try database.setMeta(leftKey, note)
        return true
    }

    /// The note of this device that is to be taken back.
    static func left(_ database: Database) throws(Errno) -> [UInt8]? {
        if try database.meta(openKey) != nil { return nil }
        return try database.meta(leftKey)
    }

    /// A note was taken back; that of an erasure that was begun meanwhile, which is to be left again.
    static func noteWithdrawn(_ note: [UInt8], _ database: Database) throws(Errno) -> [UInt8]? {
        if try database.meta(leftKey) == note { try database.setMeta(leftKey, nil) }
        return try database.meta(openKey)
    }

    /// What is left at the source.
    var note: [UInt8] { Array("\(Self.title) \(token) \(time.seconds)".utf8) }

    /// What is remembered of having heeded it.
    func kept(since: Timestamp) -> [UInt8] { Array("\(token) \(since.seconds)".utf8) }

    /// Since when it is heeded, by what is remembered; nil for another one.
    func isKept(in bytes: [UInt8]) -> Timestamp? {
        let words = String(decoding: bytes, as: UTF8.self).split(separator: " ")
        guard words.count == 2, words[0] == token, let seconds = Int64(words[1]) else { return nil }
        return Timestamp(seconds: seconds, nanoseconds: 0)
    }
}

/// Heeding that.
extension SyncEngine {
    /// Takes the note back of an erasure that was given up, now or whenever the source can be reached.
    func withdrawErasure() async {
        let host = host
        let left = try? await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) in try Erasure.left(database) }
        }
        guard let left = left ?? nil else { return }
        // One of so long ago nobody heeds; it replaces the other.
        host.counters.providerRequests.add(1, ordering: .relaxed)
        do throws(ProviderError) {
            try await host.provider.noteErasure(Erasure(token: "\(DocumentID.random())", time: .epoch).note)
            let other = try await host.onContentQueue { () throws(Errno) in
                try host.catalog.write { database throws(Errno) in try Erasure.noteWithdrawn(left, database) }
            }
            if let other { try await host.provider.noteErasure(other) }
        } catch {
            host.log.notice("that everything was to be erased could not be taken back: \(error)")
        }
    }

    /// True where everything at the source was erased, on some device, since this one is there: nobody is asked about it.
    ///
    /// For ten minutes from when this is seen first; what is gone later was not meant by it.
    func isErased() async -> Bool {
        guard host.provider.capabilities.erases else { return false }
        host.counters.providerRequests.add(1, ordering: .relaxed)
        guard let note = (try? await host.provider.erasure()) ?? nil, let erasure = Erasure(note: note) else {
            return false
        }
        let (host, now) = (host, host.journalTime())
        guard (now - erasure.time).magnitude < Erasure.lifetime else { return false }
        let isHeeded = try? await host.onContentQueue { () throws(Errno) -> Bool in
            try host.catalog.write { database throws(Errno) in
                if let known = try database.meta(Erasure.key), let since = erasure.isKept(in: known) {
                    return (now - since).magnitude < SyncEngine.brakeTime
                }
                let first = try database.meta(Erasure.firstKey).flatMap { Int64(String(decoding: $0, as: UTF8.self)) }
                guard let first, erasure.time >= Timestamp(seconds: first, nanoseconds: 0) else { return false }
                try database.setMeta(Erasure.key, erasure.kept(since: now))
                return true
            }
        }
        guard isHeeded == true else { return false }
        host.log.notice("everything at the source was erased by another device")
        return true
    }

    /// Where nothing is left of what the source had, and that was erased, nothing of it is kept here either.
    func endErasure() async {
        let host = host
        let state = try? await host.onContentQueue { () throws(Errno) -> (hasDocuments: Bool, keeps: Bool) in
            try host.catalog.read { database throws(Errno) in
                (
                    try database.first("SELECT 1 FROM entries WHERE remote_id IS NOT NULL LIMIT 1") { $0.int(0) }
                        != nil,
                    try database.first(
                        "SELECT 1 WHERE EXISTS (SELECT 1 FROM trash) OR EXISTS (SELECT 1 FROM versions)"
                    ) { $0.int(0) } != nil
                )
            }
        }
        guard let state else { return }
        if state.hasDocuments { hasAskedForErasure = false }
        guard !state.hasDocuments, state.keeps, !hasAskedForErasure else { return }
        // Asked once: what is deleted later, of an account that is empty by then, is kept as ever.
        hasAskedForErasure = true
        if await isErased() { await dropKept() }
    }

    /// Nothing of what was erased stays here, in the trash or as a version.
    func dropKept() async {
        await expireTrash(olderThan: .zero)
        await dropAllVersions()
    }

    /// Deletes all versions that this device keeps.
    func dropAllVersions() async {
        let host = host
        try? await host.onContentQueue { () throws(Errno) in host.contents.dropAllVersions() }
    }
}
