public import CoveCore

/// Pictures of documents, as programs ask for them.
extension Engine {
    /// The control socket, beside which images are handed over.
    public var socketPath: String { configuration.socketPath }

    /// The program of this machine that makes pictures of files of a MIME type; nil where there is none.
    public static func thumbnailer(ofType type: String) -> String? {
        Thumbnailers.ofMachine().program(for: [type])?.name
    }

    /// The PNG file that has a document's picture, until the document changes; nil where there is none.
    ///
    /// It may come from the provider, and be made of the bytes that are here; none are fetched for it.
    public func thumbnail(at path: RemotePath) async throws(Errno) -> String? {
        let document = try await document(at: path)
        guard await thumbnails.picture(of: document, limit: configuration.stallLimit) != nil else { return nil }
        return try await onQueue { [self] () throws(Errno) in
            try thumbnails.subject(document)?.valid.map { thumbnails.file($0) }
        }
    }

    /// Gives a document a picture, an image file that shows what it holds now; nil takes it away.
    ///
    /// Other devices get it where the provider keeps some. Throws `EINVAL` for what is no image that can be read.
    public func setThumbnail(at path: RemotePath, _ image: [UInt8]?) async throws(Errno) {
        try requireWritable()
        let document = try await document(at: path)
        guard let image else { return try await thumbnails.takeAway(document) }
        guard let picture = await thumbnails.usable(image, isGiven: true) else { throw .invalidArgument }
        try await thumbnails.give(picture, to: document)
    }

    private func document(at path: RemotePath) async throws(Errno) -> DocumentID {
        try await onQueue { [self] () throws(Errno) in
            try catalog.read { database throws(Errno) in
                guard let entry = try named(path, database) else {
                    throw path.isRoot ? .isDirectory : .noSuchEntry
                }
                guard try database.existingItem(entry.item).kind == .file else { throw .isDirectory }
                return entry.document
            }
        }
    }

    /// Has a file manager's listing wait a moment for the pictures of what is in a directory.
    func withPictures(_ outcome: Outcome<Void>, of directory: ItemID) -> Outcome<Void> {
        switch outcome {
        case .now:
            return thumbnails.show(directory).map { .later($0) } ?? outcome
        case .later(let listing):
            let both = Pending<Void>()
            both.onCancel { listing.cancel() }
            listing.whenDone { [thumbnails] result in
                guard case .success = result, let pictures = thumbnails.show(directory) else {
                    both.fulfill(result)
                    return
                }
                both.onCancel { pictures.cancel() }
                pictures.whenDone { both.fulfill($0) }
            }
            return .later(both)
        }
    }
}
