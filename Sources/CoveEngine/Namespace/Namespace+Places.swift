internal import CoveClaims
internal import CoveCore
internal import Glibc
internal import Synchronization

/// Where paths are in the catalog, for claims.
extension Namespace {
    /// What is at a path as far as it is known here; names that are not there are part of it too.
    func place(at path: RemotePath) throws(ClaimFailure) -> CatalogPlace {
        do throws(Errno) {
            return try catalog.glance { database throws(Errno) in try self.walk(path.names, database).place }
        } catch {
            throw ClaimFailure(error, path: path)
        }
    }

    /// The same, where links on the way are followed, and, if it is said so, one at the end.
    func place(at path: RemotePath, following: Bool) throws(ClaimFailure) -> CatalogPlace {
        var names = path.names
        for _ in 0..<Self.longestChain {
            do throws(Errno) {
                let wanted = names
                let found = try catalog.glance { database throws(Errno) in try self.walk(wanted, database) }
                guard let link = found.link(following: following),
                    let next = try? target(of: link.item, at: link.index, names)
                else { return found.place }
                names = next
            } catch {
                throw ClaimFailure(error, path: path)
            }
        }
        throw ClaimFailure(Errno(ELOOP), path: path)
    }

    /// The same, where names of directories that were never listed are asked for.
    ///
    /// A link out of the account is an item of its own, unless `mustFollow`: then it is `EXDEV`.
    func placeAskingSource(
        at path: RemotePath,
        following: Bool,
        mustFollow: Bool
    ) async throws(ClaimFailure) -> CatalogPlace {
        var names = path.names
        var asked: Set<ItemID> = []
        var links = 0
        while true {
            do throws(Errno) {
                let wanted = names
                let found = try catalog.glance { database throws(Errno) in try self.walk(wanted, database) }
                if let (parent, name) = found.unlisted, asked.insert(parent).inserted {
                    let caller = Caller(thread: 0, user: configuration.user, group: configuration.group)
                    do throws(Errno) {
                        if case .later(let pending) = try lookup(parent, name.bytes, caller) {
                            _ = try await pending.value()
                        }
                    } catch .noSuchEntry {
                        // The source has no such name: it may be one to be made.
                    }
                    continue
                }
                guard let link = found.link(following: following || mustFollow) else { return found.place }
                links += 1
                guard links < Self.longestChain else { throw Errno(ELOOP) }
                do throws(Errno) {
                    names = try target(of: link.item, at: link.index, names)
                } catch .crossDevice {
                    if mustFollow { throw .crossDevice }
                    return found.place
                }
            } catch {
                throw ClaimFailure(error, path: path)
            }
        }
    }

    /// What a symbolic link leads to, as a commit leaves it; throws `EXDEV` where that is outside of the account.
    func place(behind path: RemotePath, _ database: Database) throws(Errno) -> CatalogPlace {
        var names = path.names
        for _ in 0..<Self.longestChain {
            let found = try walk(names, database)
            guard let link = found.link(following: true) else { return found.place }
            guard let text = try database.existingItem(link.item).target else { throw .invalidArgument }
            names = try target(text, in: names[..<link.index]) + names[(link.index + 1)...]
        }
        throw Errno(ELOOP)
    }

    /// The other names of an item, which are names of the same bytes.
    func otherNames(of place: CatalogPlace) throws(ClaimFailure) -> [CatalogPlace] {
        guard place.hasOtherNames, let item = place.item else { return [] }
        do throws(Errno) {
            return try catalog.glance { database throws(Errno) in
                var others: [CatalogPlace] = []
                for entry in try database.entries(of: item) where entry.id != place.entry {
                    guard let steps = try self.steps(parent: entry.parent, name: entry.name, item: item, database)
                    else {
                        continue
                    }
                    var other = place
                    other.steps = steps
                    other.entry = entry.id
                    other.document = entry.document
                    others.append(other)
                }
                return others
            }
        } catch {
            throw ClaimFailure(error, path: place.path)
        }
    }

    /// Whoever uses the same bytes by another name excludes the others all the same.
    func addOtherNames(_ items: inout [WantedItem], _ places: inout [CatalogPlace]) throws(ClaimFailure) {
        for (place, item) in zip(places, items) where place.hasOtherNames && !item.use.takesAll {
            for other in try otherNames(of: place) where !places.contains(where: { $0.entry == other.entry }) {
                items.append(WantedItem(path: other.steps, use: item.use.ofOtherName))
                places.append(other)
            }
        }
    }

    /// Looks once more for items that somebody is about to claim: their names may have become links, or got company.
    func lookAgain(_ items: inout [WantedItem], _ places: inout [CatalogPlace]) {
        for index in places.indices {
            let following = !items[index].use.takesAll
            guard let place = try? place(at: places[index].path, following: following) else { continue }
            places[index] = place
            items[index].path = place.steps
        }
        try? addOtherNames(&items, &places)
    }

    private static let longestChain = 40

    /// The names that the path has beyond a link on it.
    private func target(of link: ItemID, at index: Int, _ names: [FileName]) throws(Errno) -> [FileName] {
        try target(try readLink(link), in: names[..<index]) + names[(index + 1)...]
    }

    /// The names that the text of a symbolic link leads to; `EXDEV` where that is outside of the account.
    private func target(_ text: [UInt8], in directory: ArraySlice<FileName>) throws(Errno) -> [FileName] {
        var target = text
        var names = Array(directory)
        if target.first == 0x2F {
            let root = Array(configuration.mountpoint.utf8)
            guard target.starts(with: root), target.count == root.count || target[root.count] == 0x2F else {
                throw .crossDevice
            }
            target.removeFirst(root.count)
            names = []
        }
        for part in target.split(separator: 0x2F) {
            switch Array(part) {
            case [0x2E]: continue
            case [0x2E, 0x2E]:
                guard names.popLast() != nil else { throw .crossDevice }
            case let name: names.append(FileName(unchecked: name))
            }
        }
        return names
    }

    private struct Walk: Sendable {
        var place: CatalogPlace
        /// A name that may be there, in a directory that was never listed.
        var unlisted: (ItemID, FileName)?
        /// A symbolic link where a directory should be, and the place of its name.
        var link: (item: ItemID, index: Int)?

        /// The link that is to be followed.
        func link(following: Bool) -> (item: ItemID, index: Int)? {
            if let link { return link }
            guard following, place.kind == .symbolicLink, let item = place.item else { return nil }
            return (item, place.steps.count - 1)
        }
    }

    private func walk(_ names: [FileName], _ database: Database) throws(Errno) -> Walk {
        var walk = Walk(place: CatalogPlace(steps: [], entry: 0, item: .root, kind: .directory))
        for (index, name) in names.enumerated() {
            guard let parent = walk.place.item, walk.place.kind == .directory,
                let found = try found(name, in: parent, database)
            else {
                if let parent = walk.place.item, walk.place.kind == .directory, try !isListed(parent, database) {
                    walk.unlisted = (parent, name)
                }
                if let item = walk.place.item, walk.place.kind == .symbolicLink { walk.link = (item, index - 1) }
                walk.place.steps += names[index...].map { PathStep(name: $0) }
                walk.place.entry = nil
                walk.place.item = nil
                walk.place.kind = nil
                return walk
            }
            let isPackage = found.kind == .directory ? try database.isPackage(name, found.item) : false
            walk.place.steps.append(PathStep(name: name, isPackage: isPackage))
            walk.place.entry = found.entry
            walk.place.item = found.item
            walk.place.document = found.document
            walk.place.kind = found.kind
            walk.place.isWhole = found.isWhole
            walk.place.hasOtherNames = found.kind == .file && found.links > 1
        }
        return walk
    }

    private struct Found: Sendable {
        var entry: Int64
        var item: ItemID
        var document: DocumentID
        var kind: ItemKind
        var isWhole: Bool
        var links: Int64
    }

    /// One look for each name: every claim comes here twice.
    private func found(_ name: FileName, in parent: ItemID, _ database: Database) throws(Errno) -> Found? {
        try database.first(
            """
            SELECT e.id, i.id, e.document, i.kind, i.state, i.nlink FROM entries e JOIN items i ON i.id = e.item
            WHERE e.parent = ? AND e.name = ?
            """,
            .item(parent),
            .blob(name.bytes),
            read: { row in
                Found(
                    entry: row.int(0),
                    item: row.item(1),
                    document: row.document(2),
                    kind: ItemKind(rawValue: UInt8(truncatingIfNeeded: row.int(3))) ?? .file,
                    isWhole: Residency(rawValue: row.int(4)) == .whole,
                    links: row.int(5)
                )
            }
        )
    }

    private func isListed(_ directory: ItemID, _ database: Database) throws(Errno) -> Bool {
        try database.existingItem(directory).residency == .whole
    }

    /// What has a name in a directory, or may get it; nil where that is not in the tree.
    func place(_ parent: ItemID, _ name: [UInt8], _ database: Database) throws(Errno) -> CatalogPlace? {
        let entry = try database.entry(parent, name)
        guard let steps = try steps(parent: parent, name: name, item: entry?.item ?? ItemID(0), database) else {
            return nil
        }
        return CatalogPlace(steps: steps, entry: entry?.id, item: entry?.item)
    }

    /// The last step of an entry's path.
    func step(name: [UInt8], item: ItemID, _ database: Database) throws(Errno) -> PathStep {
        let isDirectory = try database.item(item)?.kind == .directory
        let name = FileName(unchecked: name)
        return PathStep(name: name, isPackage: isDirectory ? try database.isPackage(name, item) : false)
    }

    /// The steps of an entry's path; nil for one that is not in the tree.
    func steps(parent: ItemID, name: [UInt8], item: ItemID, _ database: Database) throws(Errno) -> [PathStep]? {
        var steps = [try step(name: name, item: item, database)]
        var current = parent
        while current != .root {
            guard let entry = try database.entry(ofDirectory: current), steps.count < 4096 else { return nil }
            let name = FileName(unchecked: entry.name)
            steps.append(PathStep(name: name, isPackage: try database.isPackage(name, current)))
            current = entry.parent
        }
        return steps.reversed()
    }
}
