internal import CoveCore

/// Where devices leave word for each other: one hidden file in the root.
enum NewsFile {
    /// Its name.
    static let name = FileName(unchecked: Array(".cove-news".utf8))
    /// Its place.
    static let path = RemotePath([name])

    /// What a source has where nobody has left word, or all of it was erased.
    static var absent: News { News(NewsBoard(), version: ContentVersion("absent")) }

    /// What a source has given for it.
    static func read(_ bytes: [UInt8], tag: String?) -> News {
        // One that can't be read may be half written.
        guard let board = NewsBoard(parsing: bytes) else { return News(NewsBoard(), version: nil) }
        return News(board, version: tag.map { ContentVersion($0) })
    }

    /// The header that has it sent only where it is another one than a version.
    static func condition(_ version: ContentVersion?) -> [(name: String, value: String)] {
        guard let version, version != absent.version else { return [] }
        return [("If-None-Match", String(decoding: version.bytes, as: UTF8.self))]
    }
}
