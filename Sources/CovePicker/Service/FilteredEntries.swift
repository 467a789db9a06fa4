internal import CoveCore

/// An item with what it is found and ordered by, which is made once.
public struct ListedEntry: Sendable, Equatable {
    /// The item.
    public let entry: PickerEntry
    /// The name as it may be shown.
    public let shownName: String
    /// The name without regard to case and accents.
    let folded: [UInt8]

    /// Takes an item of a listing.
    public init(_ entry: PickerEntry) {
        self.entry = entry
        shownName = entry.shownName
        folded = Self.folded(shownName)
    }

    /// True for a name that people see only if they ask for it.
    var isHidden: Bool { entry.name.first == UInt8(ascii: ".") }

    static func < (left: ListedEntry, right: ListedEntry) -> Bool {
        let (isFirst, isSecond) = (left.entry.kind == .folder, right.entry.kind == .folder)
        if isFirst != isSecond { return isFirst }
        if left.folded != right.folded { return left.folded.lexicographicallyPrecedes(right.folded) }
        return left.entry.name.lexicographicallyPrecedes(right.entry.name)
    }

    /// A text for comparing: small letters without their marks.
    static func folded(_ text: String) -> [UInt8] {
        if text.utf8.allSatisfy({ $0 < 0x80 }) {
            return text.utf8.map { (0x41...0x5A).contains($0) ? $0 + 0x20 : $0 }
        }
        return Array(text.lowercased().withoutMarks.utf8)
    }
}

/// The items of a folder that a filter leaves, in order.
///
/// The filter is a part of the name, in any case and without regard to accents. Names that begin with a dot are left out unless
/// the filter begins with one.
public struct FilteredEntries: Sendable {
    /// All items.
    public let all: [ListedEntry]
    /// What names must have.
    public private(set) var filter: String
    /// The places, in `all`, of those that are left.
    public private(set) var places: [Int]

    /// Filters items.
    public init(_ all: [ListedEntry] = [], filter: String = "") {
        self.all = all
        self.filter = filter
        places = Self.places(all, Array(all.indices), filter)
    }

    /// How many are left.
    public var count: Int { places.count }

    /// One of those that are left; nil for a place where there is none.
    public subscript(index: Int) -> ListedEntry? {
        places.indices.contains(index) ? all[places[index]] : nil
    }

    /// Filters anew; a longer filter looks only at what the shorter one left.
    public mutating func set(filter new: String) {
        let extends = !filter.isEmpty && new.hasPrefix(filter) && filter.hasPrefix(".") == new.hasPrefix(".")
        places = Self.places(all, extends ? places : Array(all.indices), new)
        filter = new
    }

    /// The first place at or after another one whose item has a name; nil for none.
    public func index(ofName name: [UInt8]) -> Int? { places.firstIndex { all[$0].entry.name == name } }

    private static func places(_ all: [ListedEntry], _ candidates: [Int], _ filter: String) -> [Int] {
        let wanted = ListedEntry.folded(filter)
        let showsHidden = filter.hasPrefix(".")
        return candidates.filter { index in
            let entry = all[index]
            if entry.isHidden, !showsHidden { return false }
            return wanted.isEmpty || contains(entry.folded, wanted)
        }
    }

    private static func contains(_ text: [UInt8], _ part: [UInt8]) -> Bool {
        guard text.count >= part.count else { return false }
        return text.withUnsafeBufferPointer { text in
            part.withUnsafeBufferPointer { part in
                for start in 0...(text.count - part.count) where text[start] == part[0] {
                    var length = 1
                    while length < part.count, text[start + length] == part[length] { length += 1 }
                    if length == part.count { return true }
                }
                return false
            }
        }
    }
}
