internal import CoveCore
internal import Synchronization

/// Having the provider keep pictures for other devices.
extension Thumbnails {
    /// How many are given or dropped in one round of the clock.
    private static let most = 64

    /// The provider has what is here of a document now, and has got its bytes just now.
    func noteSent(_ entry: EntryRow, isNew: Bool, hasPicture: Bool) {
        let capabilities = provider.capabilities
        guard capabilities.keepsThumbnails else { return }
        if hasPicture {
            want(entry.document, for: .shared)
        } else if isNew, !capabilities.makesThumbnails, configuration.makesThumbnails {
            // Which programs there are is read from files.
            contentQueue.async { [self] in if canMake(entry.name) { want(entry.document, for: .shared) } }
        }
    }

    /// Gives the provider a picture of the version that it has; another time where it does not take it now.
    func share(_ picture: Picture, _ row: ThumbnailRow, _ subject: Subject) async {
        guard mayShare, let remote = subject.remote, let version = subject.entry.remoteVersion else { return }
        do throws(ProviderError) {
            counters.providerRequests.add(1, ordering: .relaxed)
            try await provider.setThumbnail(picture.bytes(texts: [:]), of: remote, version: version)
            counters.thumbnailsSent.add(1, ordering: .relaxed)
        } catch {
            log.info("\(subject.path): its thumbnail is not at the source: \(error)")
            if !error.refusesForGood { return noteSharingFailed() }
        }
        try? await onQueue { [self] () throws(Errno) in
            try catalog.write { database throws(Errno) in
                guard var known = try database.thumbnail(row.document), self.file(known) == self.file(row) else {
                    // It was dropped meanwhile, and nobody knew that the provider has it.
                    if try database.entry(document: row.document) == nil {
                        try database.dropThumbnail(at: remote.path, version)
                    }
                    return
                }
                if let old = known.place, old != remote.path, let version = known.version {
                    try database.dropThumbnail(at: old, version)
                }
                (known.place, known.version, known.isShared) = (remote.path, version, true)
                try database.store(known, isChecked: false)
            }
        }
    }

    /// Goes on with what the provider has not taken or dropped yet.
    func shareMore() throws(Errno) {
        let (unshared, dropped) = try catalog.read { database throws(Errno) in
            (try database.unsharedThumbnails(limit: Self.most), try database.droppedThumbnails(limit: Self.most))
        }
        for document in unshared { want(document, for: .shared) }
        if !dropped.isEmpty { Task { await drop(dropped) } }
    }

    private func drop(_ pictures: [(place: RemotePath, version: ContentVersion)]) async {
        for (place, version) in pictures where mayShare {
            do throws(ProviderError) {
                counters.providerRequests.add(1, ordering: .relaxed)
                try await provider.setThumbnail(nil, of: RemoteReference(id: nil, path: place), version: version)
            } catch {
                if !error.refusesForGood, error != .noSuchItem { return noteSharingFailed() }
            }
            try? await onQueue { [self] () throws(Errno) in
                try catalog.write { database throws(Errno) in try database.forgetDroppedThumbnail(at: place) }
            }
        }
    }
}

extension ProviderError {
    /// True where asking again is of no use.
    fileprivate var refusesForGood: Bool {
        switch self {
        case .unsupported, .notPermitted: true
        default: false
        }
    }
}
