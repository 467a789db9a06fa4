internal import CoveCore
internal import Glibc
internal import Synchronization

/// The hidden tree of versions: found by name, listed where one asks for it, and never written to.
///
/// Nothing of it may be kept by the kernel but a version's bytes, which never change.
extension History {
    /// Finds a name; nil where there is none.
    func lookupHidden(_ parent: HiddenNode, _ name: [UInt8]) throws(Errno) -> ItemAttributes? {
        switch parent {
        case .top: return name == HiddenNode.versionsName ? try hiddenAttributes(of: .versions) : nil
        case .versions:
            guard let document = DocumentID(String(decoding: name, as: UTF8.self)) else { return nil }
            let entry = try catalog.glance { database throws(Errno) in try database.entry(document: document) }
            return try entry.map { entry throws(Errno) in try hiddenAttributes(of: .document(entry.id)) }
        case .document(let entry):
            guard let row = Int64(String(decoding: name, as: UTF8.self)), "\(row)".utf8.elementsEqual(name) else {
                return nil
            }
            return try catalog.glance { database throws(Errno) in
                guard let document = try database.entry(id: entry)?.document,
                    let version = try database.version(row), version.document == document, version.item != nil
                else { return nil }
                return self.attributes(of: version)
            }
        case .version, .reference: throw .notDirectory
        }
    }

    /// What stat(2) says of a node; `ESTALE` for a version that is gone.
    func hiddenAttributes(of node: HiddenNode) throws(Errno) -> ItemAttributes {
        guard case .version(let row) = node else { return directory(node) }
        let version = try catalog.glance { database throws(Errno) in try database.version(row) }
        guard let version, version.item != nil else { throw .stale }
        return attributes(of: version)
    }

    private func directory(_ node: HiddenNode) -> ItemAttributes {
        ItemAttributes(
            id: node.id,
            kind: .directory,
            permissions: 0o555,
            user: configuration.user,
            group: configuration.group,
            size: 0,
            linkCount: 1,
            device: 0,
            blocks: 0,
            accessTime: .epoch,
            modificationTime: .epoch,
            changeTime: .epoch
        )
    }

    private func attributes(of version: VersionRow) -> ItemAttributes {
        ItemAttributes(
            id: HiddenNode.version(version.id).id,
            kind: .file,
            permissions: 0o444,
            user: configuration.user,
            group: configuration.group,
            size: version.size,
            linkCount: 1,
            device: 0,
            blocks: version.size / 512 + 1,
            accessTime: version.modificationTime,
            modificationTime: version.modificationTime,
            changeTime: version.replaced
        )
    }

    /// Calls the body for each name after a cookie until it returns false; cookies 1 and 2 are `.` and `..`.
    func readHidden(
        _ node: HiddenNode,
        after cookie: UInt64,
        _ body: (borrowing DirectoryEntry) -> Bool
    ) throws(Errno) {
        for (number, name) in [[UInt8](".".utf8), Array("..".utf8)].enumerated() where cookie <= number {
            let entry = DirectoryEntry(name: name, cookie: UInt64(number) + 1, attributes: directory(node))
            guard body(entry) else { return }
        }
        let after = Int64(clamping: cookie < 2 ? 0 : cookie - 2)
        try catalog.read { database throws(Errno) in
            switch node {
            case .top:
                guard after < 1 else { return }
                _ = body(
                    DirectoryEntry(name: HiddenNode.versionsName, cookie: 3, attributes: self.directory(.versions))
                )
            case .versions:
                // A document by the row of its entry, which grows with each that is made.
                try database.each(
                    """
                    SELECT e.id, e.document FROM entries e WHERE e.id > ?
                        AND EXISTS (SELECT 1 FROM versions v WHERE v.document = e.document AND v.item IS NOT NULL)
                    ORDER BY e.id
                    """,
                    .int(after)
                ) { row in
                    let document = HiddenNode.document(row.int(0))
                    let name = Array("\(row.document(1))".utf8)
                    let cookie = UInt64(clamping: row.int(0)) + 2
                    return body(DirectoryEntry(name: name, cookie: cookie, attributes: self.directory(document)))
                }
            case .document(let entry):
                guard let document = try database.entry(id: entry)?.document else { throw .stale }
                for version in try database.versions(of: document).reversed()
                where version.id > after && version.item != nil {
                    let cookie = UInt64(clamping: version.id) + 2
                    let found = DirectoryEntry(
                        name: Array("\(version.id)".utf8),
                        cookie: cookie,
                        attributes: self.attributes(of: version)
                    )
                    guard body(found) else { return }
                }
            case .version, .reference: throw .notDirectory
            }
        }
    }

    /// A version may be opened to be read; `ESTALE` when it is gone, `EROFS` for a writer.
    func openHidden(_ node: HiddenNode, flags: Int32) throws(Errno) {
        guard case .version = node else { throw .isDirectory }
        guard flags & O_ACCMODE == O_RDONLY, flags & O_TRUNC == 0 else { throw .readOnly }
        _ = try hiddenAttributes(of: node)
    }

    /// Reads bytes of a version; `ESTALE` when it is gone.
    ///
    /// The item that has them may be changed at any time, and its bytes be put aside before: the look at who has them and the
    /// reading are one step for whoever changes them.
    func readHidden(_ node: HiddenNode, offset: Int64, into buffer: UnsafeMutableRawBufferPointer) throws(Errno)
        -> Int
    {
        guard case .version(let row) = node else { throw .isDirectory }
        while true {
            let holder = try catalog.glance { database throws(Errno) in try database.version(row)?.item }
            guard let holder else { throw .stale }
            let count = try contents.live.use(holder) { item throws(Errno) in
                try item.state.withLock { state throws(Errno) -> Int? in
                    let current = try self.catalog.glance { database throws(Errno) in try database.version(row) }
                    guard let current else { throw .stale }
                    guard current.item == holder else { return nil }
                    let left = max(0, current.size - max(0, offset))
                    let part = UnsafeMutableRawBufferPointer(rebasing: buffer.prefix(Int(clamping: left)))
                    if part.isEmpty { return 0 }
                    return try System.pread(try self.contents.descriptor(holder, &state), part, offset)
                }
            }
            if let count { return count }
        }
    }
}
