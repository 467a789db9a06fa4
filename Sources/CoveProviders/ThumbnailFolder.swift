internal import CoveCore

/// Where a source that has no pictures of its own keeps those of its documents: a hidden folder, which all devices share.
///
/// A document's picture has a name that its path gives it, and says inside of which version it is: what is there for another
/// version is no picture of this one, and the next one takes its place.
enum ThumbnailFolder {
    /// The folder's name in the root.
    static let name = FileName(unchecked: Array(".cove-thumbnails".utf8))
    private static let versionKey = "Cove::Version"

    /// Where the pictures are of what a directory holds.
    static func folder(of directory: RemotePath) -> RemotePath { RemotePath([name, mark(of: directory.bytes)]) }

    /// Where the picture of a file is.
    static func place(of item: RemotePath) -> RemotePath { folder(of: item.parent).appending(fileName(of: item.name)) }

    /// Of some files of one directory those whose picture has one of the names.
    static func files(of names: [FileName], among present: Set<[UInt8]>) -> Set<FileName> {
        Set(names.filter { present.contains(fileName(of: $0).bytes) })
    }

    /// True for the name of a picture's file, also of one that a death has left half written.
    static func isPicture(_ name: [UInt8]) -> Bool {
        let isMark = name.prefix(40).allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }
        return name.count == 44 && isMark && name.suffix(4).elementsEqual(".png".utf8)
            || ScratchName(parsing: name)?.kind == .upload
    }

    private static func fileName(of name: FileName?) -> FileName {
        FileName(unchecked: mark(of: name?.bytes ?? []).bytes + Array(".png".utf8))
    }

    private static func mark(of bytes: [UInt8]) -> FileName {
        FileName(unchecked: Array(Digest.hash(bytes, .sha256).hexadecimal.utf8.prefix(40)))
    }

    /// What is stored for a version.
    static func seal(_ picture: [UInt8], _ version: ContentVersion) throws(ProviderError) -> [UInt8] {
        guard let picture = Picture(picture) else { throw .unsupported("a picture that is no PNG of 1024 by 1024") }
        let sealed = picture.bytes(texts: [versionKey: version.bytes.hexadecimal])
        guard sealed.count <= Picture.greatestSize else { throw .unsupported("a picture that is too long a file") }
        return sealed
    }

    /// The picture of a version in what is stored; nil when it is of another version, or anything else.
    static func open(_ stored: [UInt8], _ version: ContentVersion) -> [UInt8]? {
        guard let picture = Picture(stored), picture.texts[versionKey] == version.bytes.hexadecimal else { return nil }
        return picture.bytes(texts: [:])
    }
}
