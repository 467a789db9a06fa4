/// A uniform type identifier, as programs of other systems name types, and the MIME types that it stands for.
public struct UniformType: Sendable, Equatable {
    /// What an item has to be to conform to the identifier.
    public enum Meaning: Sendable, Equatable {
        /// A file of one of the MIME types or patterns, or of a type that shared-mime-info has as a subclass of one.
        case files([String])
        /// A file of one of the MIME types themselves: what is packed like an archive, as a document is, is no archive.
        case exactly([String])
        /// Any file.
        case anyFile
        /// Any file, and any directory that people see as one.
        case anyDocument
        /// A directory that people see as one file.
        case package
        /// A directory.
        case folder
        /// Whatever there is.
        case anything
    }

    /// The identifier, such as `public.png`.
    public let identifier: String
    /// What conforms to it.
    public let meaning: Meaning

    /// The type of that identifier, in whatever case it is written; nil for one that is not known.
    public static func named(_ identifier: String) -> UniformType? { byName[identifier.lowercased()] }

    private static let byName = Dictionary(
        known.map { ($0.identifier.lowercased(), $0) },
        uniquingKeysWith: { first, _ in first }
    )

    /// The identifier that tells most of a MIME type: of the type itself, or else of what it is a subclass of.
    public static func identifier(ofMIME type: String, in types: ContentTypes = .ofMachine) -> String {
        let type = types.canonical(type)
        if type == "inode/directory" { return "public.folder" }
        if type.hasPrefix("inode/") { return "public.item" }
        if let found = byType[type] { return found }
        // A document that is packed as a zip file is no archive for people.
        for parent in types.tree(type).dropFirst() where !archives.contains(parent) {
            if let found = byType[parent], parent != "text/plain" || type.hasPrefix("text/") { return found }
        }
        return byType[type.prefix { $0 != "/" } + "/*"] ?? "public.data"
    }

    private static let byType: [String: String] = {
        var result: [String: String] = [:]
        for type in known {
            guard case .files(let patterns) = type.meaning else { continue }
            for pattern in patterns where result[pattern] == nil { result[pattern] = type.identifier }
        }
        for type in known {
            guard case .exactly(let names) = type.meaning else { continue }
            for name in names where result[name] == nil { result[name] = type.identifier }
        }
        return result
    }()
}

extension UniformType {
    private static let archives: Set<String> = [
        "application/zip", "application/x-tar", "application/gzip", "application/x-bzip", "application/x-xz",
        "application/zstd", "application/x-7z-compressed", "application/vnd.rar", "application/x-cpio",
        "application/x-compressed-tar", "application/x-bzip-compressed-tar", "application/x-xz-compressed-tar",
        "application/x-zstd-compressed-tar", "application/x-archive", "application/x-apple-diskimage",
    ]

    /// The identifiers that are understood, the more exact ones of two for the same MIME type first.
    public static let known: [UniformType] = [
        one("public.plain-text", "text/plain"), one("public.utf8-plain-text", "text/plain"),
        one("public.utf16-plain-text", "text/plain"), one("public.rtf", "application/rtf", "text/rtf"),
        one("public.html", "text/html", "application/xhtml+xml"), one("public.xml", "application/xml", "text/xml"),
        one("public.json", "application/json"), one("public.comma-separated-values-text", "text/csv"),
        one("public.tab-separated-values-text", "text/tab-separated-values"),
        one("net.daringfireball.markdown", "text/markdown"), one("public.vcard", "text/vcard"),
        one("com.apple.ical.ics", "text/calendar"), one("public.text", "text/*"),
        one("public.png", "image/png"), one("public.jpeg", "image/jpeg"), one("public.tiff", "image/tiff"),
        one("com.compuserve.gif", "image/gif"), one("com.microsoft.bmp", "image/bmp"),
        one("org.webmproject.webp", "image/webp"), one("public.heic", "image/heif"),
        one("public.svg-image", "image/svg+xml"),
        one("public.image", "image/*"), one("com.adobe.pdf", "application/pdf"),
        one("public.mp3", "audio/mpeg"), one("public.mpeg-4-audio", "audio/mp4"),
        one("com.microsoft.waveform-audio", "audio/x-wav"), one("org.xiph.flac", "audio/flac"),
        one("public.audio", "audio/*"), one("public.mpeg-4", "video/mp4"),
        one("com.apple.quicktime-movie", "video/quicktime"), one("public.mpeg", "video/mpeg"),
        one("public.movie", "video/*"), one("public.video", "video/*"),
        one("public.audiovisual-content", "audio/*", "video/*"), one("public.font", "font/*"),
        one("com.microsoft.word.doc", "application/msword"), one("com.microsoft.excel.xls", "application/vnd.ms-excel"),
        one("com.microsoft.powerpoint.ppt", "application/vnd.ms-powerpoint"),
        one("org.openxmlformats.wordprocessingml.document", office + "wordprocessingml.document"),
        one("org.openxmlformats.spreadsheetml.sheet", office + "spreadsheetml.sheet"),
        one("org.openxmlformats.presentationml.presentation", office + "presentationml.presentation"),
        one("org.oasis-open.opendocument.text", "application/vnd.oasis.opendocument.text"),
        one("org.oasis-open.opendocument.spreadsheet", "application/vnd.oasis.opendocument.spreadsheet"),
        one("org.oasis-open.opendocument.presentation", "application/vnd.oasis.opendocument.presentation"),
        one("org.idpf.epub-container", "application/epub+zip"),
        UniformType(identifier: "public.zip-archive", meaning: .exactly(["application/zip"])),
        UniformType(identifier: "public.tar-archive", meaning: .exactly(["application/x-tar"])),
        UniformType(identifier: "org.gnu.gnu-zip-archive", meaning: .exactly(["application/gzip"])),
        UniformType(identifier: "public.archive", meaning: .exactly(archives.sorted())),
        UniformType(identifier: "public.data", meaning: .anyFile),
        UniformType(identifier: "public.content", meaning: .anyDocument),
        UniformType(identifier: "public.composite-content", meaning: .anyDocument),
        UniformType(identifier: "com.apple.package", meaning: .package),
        UniformType(identifier: "com.apple.bundle", meaning: .package),
        UniformType(identifier: "public.folder", meaning: .folder),
        UniformType(identifier: "public.directory", meaning: .folder),
        UniformType(identifier: "public.item", meaning: .anything),
    ]

    private static let office = "application/vnd.openxmlformats-officedocument."

    private static func one(_ identifier: String, _ types: String...) -> UniformType {
        UniformType(identifier: identifier, meaning: .files(types))
    }
}
