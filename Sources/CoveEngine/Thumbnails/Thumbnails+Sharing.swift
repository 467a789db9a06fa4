internal import CoveCore
internal import Synchronization

/// Having the provider keep pictures for other devices.
extension Thumbnails {
    /// How many are given or dropped in one round of the clock.
    private static let most = 64
    /// So many wait to be made before more are taken up.
    private static let mostMaking = 16
    /// So many wishes are looked at in one round.
    private static let mostLooks = 1000
    /// With more pictures that the provider has not got no other ones are made for it.
    private static let mostUnshared: Int64 = 256

    /// What a commit tells that has the provider's answer to new bytes: a picture of them is to be made for other devices.
    ///
    /// Which programs there are is known by then, or is found out later.
    func isWanted(_ entry: EntryRow) -> Bool {
        guard configuration.makesThumbnails, canShare, !provider.capabilities.makesThumbnails else { return false }
        return !FileName(unchecked: entry.name).isReserved
    }

    /// The provider has what is here of a document now.
    func noteSent(_ entry: EntryRow) { forgetAbsence(of: entry.document) }

    /// Has the provider given a document's picture, in its turn.
    func addShare(_ document: DocumentID) {
        sharing.add(document, ThumbnailQueue.Job()) { [self] document, _ in await share(document) }
    }

    /// Gives the provider a document's picture of the version that it has; another time where it does not take it now.
    private func share(_ document: DocumentID) async {
        guard mayShare(document),
            let subject = (try? await onQueue { [self] () throws(Errno) in try self.subject(document) }) ?? nil,
            let row = subject.valid, !row.isShared, let remote = subject.remote,
            let version = subject.entry.remoteVersion
        else { return }
        // What the provider makes by itself, other devices have from there.
        if row.origin != .program, provider.capabilities.makesThumbnails {
            return await noteShared(row, at: remote.path, version)
        }
        guard let picture = await read(row) else {
            // Its file is gone.
            try? await onQueue { [self] () throws(Errno) in try remove(row) }
            return
        }
        guard beginWork(at: remote.path) else { return }
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
            if error.concernsAll { noteSharingFailed() }
            // A source may have no room for this one alone.
            if case .insufficientQuota = error {} else if error.concernsAll { return }
            guard error.isFinal || noteRefused(document) else { return }
            // It is as if it were there: nobody asks again before the document changes.
        }
        await noteShared(row, at: remote.path, version)
    }

    /// The provider has a picture, or is not to be asked again to take it for this version.
    private func noteShared(_ row: ThumbnailRow, at place: RemotePath, _ version: ContentVersion) async {
        try? await onQueue { [self] () throws(Errno) in
            try catalog.write { database throws(Errno) in
                guard var known = try database.thumbnail(row.document), known.picture == row.picture else {
                    // It was taken away or replaced meanwhile, when nobody knew that the provider has it.
                    return try database.dropThumbnail(at: place, version)
                }
                let (old, oldVersion) = (known.place, known.version)
                (known.isShared, known.place, known.version) = (true, place, version)
                try database.store(known, isChecked: false)
                if let old, let oldVersion, old != place { try database.dropThumbnail(at: old, oldVersion) }
            }
        }
    }

    /// Goes on with what the provider has not taken or dropped yet, and with what is to be made for it; false where nothing is.
    func shareMore() throws(Errno) -> Bool {
        let isWaiting = try catalog.read { database throws(Errno) in try database.hasThumbnailsToShare() }
        guard isWaiting, sync?.mayFetch == true else { return isWaiting }
        guard canShare else {
            // It says so only once it is connected.
            try catalog.write { database throws(Errno) in try database.endSharingThumbnails() }
            return false
        }
        guard mayShare() else { return true }
        let (unshared, dropped, count) = try catalog.read { database throws(Errno) in
            (
                try database.unsharedThumbnails(limit: Self.most), try database.droppedThumbnails(limit: Self.most),
                try database.unsharedThumbnailCount()
            )
        }
        for document in unshared where mayShare(document) { addShare(document) }
        if !dropped.isEmpty { dropping { [self] in await drop(dropped) } }
        if count < Self.mostUnshared, making.count < Self.mostMaking { try makeMore() }
        return true
    }

    /// Takes up documents of which the provider is to have a picture.
    private func makeMore() throws(Errno) {
        let wanted = try catalog.read { database throws(Errno) in try database.wantedThumbnails(limit: Self.mostLooks) }
        let useless = wanted.filter { wish in wish.name.map { !hasProgram(forName: $0) } ?? true }
        if !useless.isEmpty {
            try catalog.write { database throws(Errno) in
                for wish in useless { try database.endWantingThumbnail(wish.document) }
            }
        }
        let useful = wanted.lazy.filter { [self] wish in wish.name.map { program(forName: $0) != nil } ?? false }
        for wish in useful.prefix(Self.mostMaking) { wantShared(wish.document) }
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
                // Others may go when it is asked again.
                if !error.isFinal, error != .noSuchItem { return noteSharingFailed() }
            }
            try? await onQueue { [self] () throws(Errno) in
                try catalog.write { database throws(Errno) in try database.endDroppingThumbnail(at: place, version) }
            }
        }
    }
}
