internal import CSQLite
internal import CoveCore
internal import Glibc

/// Telling queries that go on which rows a commit has changed.
extension Database {
    /// Has SQLite tell of each row of a file's state that is changed, so that no change is forgotten, whoever makes it.
    func watch(for touches: Touches) {
        self.touches = touches
        sqlite3_update_hook(
            handle,
            { context, _, _, table, row in
                guard let context, let table else { return }
                Unmanaged<Database>.fromOpaque(context).takeUnretainedValue().note(row, of: table)
            },
            Unmanaged.passUnretained(self).toOpaque()
        )
    }

    private func note(_ row: Int64, of table: UnsafePointer<CChar>) {
        guard touches?.isFollowed == true else { return }
        if strcmp(table, "items") == 0 {
            touched.items.insert(ItemID(UInt64(bitPattern: row)))
        } else if strcmp(table, "entries") == 0 || strcmp(table, "journal") == 0 {
            touched.entries.insert(row)
        }
    }

    /// An item shows something that a commit has changed in no row of these tables.
    func touchItem(_ id: ItemID) { if touches?.isFollowed == true { touched.items.insert(id) } }

    /// All that is below an item shows something that a commit has changed in the item.
    func touchTree(_ id: ItemID) { if touches?.isFollowed == true { touched.trees.insert(id) } }

    /// When a side of a conflict comes or goes, or has another name or document, the other one shows it.
    func touchConflicts(of entry: Int64) throws(Errno) {
        guard touches?.isFollowed == true else { return }
        let document = try first("SELECT document FROM entries WHERE id = ?", .int(entry)) { $0.document(0) }
        guard let document else { return }
        for conflict in try conflicts(of: document) { touched.documents.formUnion([conflict.copy, conflict.document]) }
    }

    /// What has just been committed is told.
    func tellTouched() {
        guard let touches, touches.isFollowed else { return }
        for change in changes where change.kind == .moved || change.kind == .removed {
            touched.trees.insert(change.item)
        }
        for note in versionNotes {
            switch note.subject {
            case .kept(let version): touched.documents.insert(version.document)
            case .conflict(let conflict): touched.documents.formUnion([conflict.document, conflict.copy])
            }
        }
        touches.add(touched)
    }
}
