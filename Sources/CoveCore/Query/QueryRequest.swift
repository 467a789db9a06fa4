/// Which part of an account a query looks at.
public enum QueryScope: String, Sendable, CaseIterable, Codable {
    /// All below a folder `Documents` at the top, or at the top of a container.
    case documents
    /// All else that belongs to the account.
    case data
    /// Documents of other apps to which there are references.
    case external
}

/// An order of results.
public struct QuerySort: Sendable, Equatable {
    /// By which values.
    public var key: QueryKey
    /// The largest first.
    public var isDescending: Bool

    /// Makes an order.
    public init(_ key: QueryKey, isDescending: Bool = false) {
        self.key = key
        self.isDescending = isDescending
    }

    /// Reads a key's name, which a `-` before it turns around.
    public init?(_ text: String) {
        isDescending = text.hasPrefix("-")
        guard let key = QueryKey(named: String(isDescending ? text.dropFirst() : Substring(text))) else { return nil }
        self.key = key
    }

    /// True where an item with one value comes before one with the other; missing values come first.
    func precedes(_ first: QueryValue?, _ second: QueryValue?) -> Bool? {
        if first == second { return nil }
        let isBefore: Bool
        switch (first, second) {
        case (nil, _): isBefore = true
        case (_, nil): isBefore = false
        case (.string(let one)?, .string(let other)?):
            if one == other { return nil }
            isBefore = one < other
        case (let one?, let other?):
            guard let left = one.number, let right = other.number, left != right else { return nil }
            isBefore = left < right
        }
        return isBefore != isDescending
    }
}

extension [QuerySort] {
    /// True where an item with these values, one of each key, comes before one with those.
    public func precedes(_ first: [QueryValue?], _ second: [QueryValue?]) -> Bool {
        for (index, sort) in enumerated() {
            if let precedes = sort.precedes(first[index], second[index]) { return precedes }
        }
        return false
    }
}

/// What a query asks.
public struct QueryRequest: Sendable {
    /// What holds of the results.
    public var predicate: QueryPredicate
    /// The parts of the account that are looked at; none for documents and data.
    public var scopes: Set<QueryScope>
    /// The app whose references are looked at; nil for those of all.
    public var app: AppIdentifier?
    /// The folder that they are below, or that is one of them; the root for all.
    public var folder: RemotePath
    /// Which values are told of each.
    public var attributes: [QueryKey]
    /// In which order they come; empty for as they are found.
    public var order: [QuerySort]
    /// Folders that nobody has opened yet are left as they are: what is in them is not found.
    public var listedOnly: Bool

    /// Makes a request.
    public init(
        _ predicate: QueryPredicate,
        scopes: Set<QueryScope> = [],
        folder: RemotePath = .root,
        attributes: [QueryKey] = [],
        order: [QuerySort] = [],
        listedOnly: Bool = false
    ) {
        self.predicate = predicate
        self.scopes = scopes
        self.folder = folder
        self.attributes = attributes
        self.order = order
        self.listedOnly = listedOnly
    }
}

/// An item that a query has found.
public struct QueryResult: Sendable, Equatable {
    /// Names the result among those of the account, as long as it is one; another name of the same item is another result.
    public var id: Int64
    /// Where it is, below the mount point.
    public var path: RemotePath
    /// Names the item.
    public var item: ItemID
    /// Names the document.
    public var document: DocumentID
    /// The values that were asked for, without those that it has not.
    public var values: [QueryKey: QueryValue]

    /// Makes a result.
    public init(id: Int64, path: RemotePath, item: ItemID, document: DocumentID, values: [QueryKey: QueryValue]) {
        self.id = id
        self.path = path
        self.item = item
        self.document = document
        self.values = values
    }
}

/// What a query that goes on tells.
public enum QueryEvent: Sendable {
    /// Results that are new, while the query gathers.
    case found([QueryResult])
    /// All is gathered; so many folders were not looked into, and are tried again.
    case gathered(unlisted: Int)
    /// What has become of the results.
    case changed(QueryChanges)
}

/// What has become of the results of a query that goes on.
public struct QueryChanges: Sendable {
    /// Results that are new.
    public var added: [QueryResult] = []
    /// Results of which a value, or the place, is another one now.
    public var changed: [QueryResult] = []
    /// What is none any more, by `QueryResult.id`.
    public var removed: [Int64] = []
    /// True where the next changes happened at the same time as these.
    public var isPart = false

    /// No changes.
    public init() {}

    /// True where nothing has changed.
    public var isEmpty: Bool { added.isEmpty && changed.isEmpty && removed.isEmpty }
}
