internal import CoveCore
internal import Synchronization

/// Having the provider keep pictures for other devices.
extension Thumbnails {
    /// How many are given or dropped in one round of the clock.
    private static let most = 64
    /// So many wait to be made before more are taken up.
    private static let mostMaking = 16

    /// What a commit tells that has the provider's answer to new bytes: a picture of them is to be made for other devices.
    ///
    /// Which programs there are is known by then, or is found out later.
    func isWanted(_ entry: EntryRow) -> Bool {
        guard configuration.makesThumbnails, canShare, !provider.capabilities.makesThumbnails else { return false }
        return !FileName(unchecked: entry.name).isReserved
    }

    /// The provider has what is here of a document now.
    func noteSent(_ entry: EntryRow) { forgetAbsence(of: entry.document) }

    /// Gives the provider a picture of the version that it has; another time where it does not take it now.
    func share(_ picture: Picture, _ row: ThumbnailRow) async {
        guard mayShare(row.document),
            let subject = (try? await onQueue { [self] () throws(Errno) in try self.subject(row.document) }) ?? nil,
            subject.valid?.picture == row.picture, let remote = subject.remote,
            let version = subject.entry.remoteVersion, beginWork(at: remote.path)
        else { return }
        defer { endWork(at: remote.path) }
        do throws(ProviderError) {
            // What is to be dropped there is replaced.
            try await onContentQueue { [self] () throws(Errno) in
                try catalog.write { database throws(Errno) in try database.forgetDroppedThumbnail(at: remote.path) }
            }
            counters.providerRequests.add(1, ordering: .relaxed)
            try await provider.setThumbnail(picture.bytes(texts: [:]), of: remote, version: version)
            counters.thumbnailsSent.add(1, ordering: .relaxed)
        } catch {
            log.info("\(subject.path): its thumbnail is not at the source: \(error)")
            if error.concernsAll { return noteSharingFailed() }
            guard error.isFinal || noteRefused(row.document) else { return }
            return await noteShared(row, at: nil, nil)
        }
        await noteShared(row, at: remote.path, version)
    }

    /// The provider has a picture, or will not have it.
    private func noteShared(_ row: ThumbnailRow, at place: RemotePath?, _ version: ContentVersion?) async {
        try? await onQueue { [self] () throws(Errno) in
            try catalog.write { database throws(Errno) in
                guard var known = try database.thumbnail(row.document), known.picture == row.picture else {
                    // It was taken away or replaced meanwhile, when nobody knew that the provider has it.
                    if let place, let version { try database.dropThumbnail(at: place, version) }
                    return
                }
                let (old, oldVersion) = (known.place, known.version)
                known.isShared = true
                if let place { (known.place, known.version) = (place, version) }
                try database.store(known, isChecked: false)
                if let place, let old, let oldVersion, old != place {
                    try database.dropThumbnail(at: old, oldVersion)
                }
            }
        }
    }

    /// Goes on with what the provider has not taken or dropped yet, and with what is to be made for it.
    func shareMore() throws(Errno) {
        let (unshared, dropped, wanted) = try catalog.read { database throws(Errno) in
            (
                try database.unsharedThumbnails(limit: Self.most), try database.droppedThumbnails(limit: Self.most),
                try database.wantedThumbnails(limit: Self.mostMaking)
            )
        }
        for document in unshared where mayShare(document) { wantShared(document) }
        if !dropped.isEmpty { dropping { [self] in await drop(dropped) } }
        guard making.count < Self.mostMaking else { return }
        for document in wanted {
            let name = try catalog.read { database throws(Errno) in try database.entry(document: document)?.name }
            if let name, program(forName: name) != nil {
                wantShared(document)
            } else {
                try catalog.write { database throws(Errno) in try database.endWantingThumbnail(document) }
            }
        }
    }

    private func drop(_ pictures: [(place: RemotePath, version: ContentVersion)]) async {
        for (place, version) in pictures {
            guard mayShare(), beginWork(at: place) else { continue }
            defer { endWork(at: place) }
            let isNeeded = try? await onQueue { [self] () throws(Errno) in
                try catalog.read { database throws(Errno) in try database.hasThumbnail(at: place, version) }
            }
            do throws(ProviderError) {
                if isNeeded == false {
                    counters.providerRequests.add(1, ordering: .relaxed)
                    let item = RemoteReference(id: nil, path: place)
                    try await provider.setThumbnail(nil, of: item, version: version)
                }
            } catch {
                if error.concernsAll { return noteSharingFailed() }
                if !error.isFinal { continue }
            }
            try? await onQueue { [self] () throws(Errno) in
                try catalog.write { database throws(Errno) in try database.forgetDroppedThumbnail(at: place) }
            }
        }
    }
}
