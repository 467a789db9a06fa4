internal import CoveCore

/// The way through what a source tells part by part, as the pages of a listing, or changes.
///
/// A source may lead to where it was before, or on and on without anything new: both end it. Of each place a hash is kept.
struct Trail: Sendable {
    /// So many parts may follow each other that bring nothing new.
    static let idleLimit = 1000

    private let limit: Int
    private var places: Set<Int> = []
    private var idle = 0

    /// `limit`: no more parts are asked for.
    init(limit: Int) { self.limit = limit }

    /// Goes on to the next part; false where that leads nowhere.
    mutating func goOn(to place: [UInt8], hasNew: Bool) -> Bool {
        idle = hasNew ? 0 : idle + 1
        return places.insert(place.hashValue).inserted && idle < Self.idleLimit && places.count < limit
    }
}

/// The pages of one listing of a directory: each is another one, and there is an end to them.
struct ListedPages: Sendable {
    /// More than any directory has that can be used.
    private static let mostItems = 10_000_000

    /// The page that comes next; nil for the first one.
    private(set) var next: Page?
    private let name: String
    private var trail = Trail(limit: mostItems)
    /// The hashes of the first and the last name of each page: a new item has not begun or ended one.
    private var ends: Set<Int> = []
    private var items = 0
    /// The hashes of all ids, where these tell items that were moved.
    private var ids: Set<Int> = []
    private let hasIDs: Bool

    /// `source`: what the directory is listed of; `hasIDs`: an item is known by its id, whatever its name.
    init(of directory: RemotePath, at source: String, hasIDs: Bool = false) {
        self.hasIDs = hasIDs
        name = "\(source): list of \(directory.isRoot ? "its root" : "\(directory)")"
    }

    /// Takes a page in; false when it was the last one.
    ///
    /// Throws when the pages lead nowhere.
    mutating func advance(_ listing: Listing) throws(ProviderError) -> Bool {
        next = listing.next
        guard let next else { return false }
        items += listing.items.count
        var hasNew = false
        for item in [listing.items.first, listing.items.last].compactMap({ $0 }) {
            if ends.insert(item.name.hashValue).inserted { hasNew = true }
        }
        guard trail.goOn(to: next.bytes, hasNew: hasNew), items <= Self.mostItems else {
            throw .failed("\(name): its pages have no end", nil)
        }
        return true
    }

    /// Tells items of a page from those that have the id of one that came before.
    ///
    /// Both would be one document, which can't have both names: it would have them by turns.
    mutating func split(_ items: [RemoteItem]) -> (items: [RemoteItem], twins: [RemoteItem]) {
        guard hasIDs else { return (items, []) }
        var twins: [RemoteItem] = []
        let others = items.filter { item in
            // What is never shown takes nobody's place, and under a hidden name somebody may just be moving it.
            if FileName(unchecked: item.name).isReserved || FileName.problem(with: item.name) != nil { return true }
            if ids.insert(item.id.bytes.hashValue).inserted { return true }
            twins.append(item)
            return false
        }
        return (others, twins)
    }

    /// What is said of an item that has the id of another one.
    static let twinProblem = "the source gives it the id of another item"
}
