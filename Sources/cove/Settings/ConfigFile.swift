internal import CoveCore
internal import FoundationEssentials
internal import Glibc

/// `$XDG_CONFIG_HOME/cove/config.json5`: what a user wants of all accounts, or of one.
struct ConfigFile: Sendable, Equatable {
    /// What can be said of all accounts and of each.
    struct Section: Sendable, Equatable, Encodable {
        var ignore: [String]?
        var noMaterialize: [String]?
        var cacheSize: String?
        var thumbnails: Bool?
        var fileManagers: [String]?
    }

    /// Programs that look at every file without anyone having asked: indexers and thumbnailers.
    static let indexers = [
        "tracker-extract", "tracker-extract-3", "tracker-miner-fs", "tracker-miner-fs-3", "localsearch",
        "localsearch-3", "localsearch-extractor-3", "baloo_file", "baloo_file_extractor", "tumblerd",
        "gnome-thumbnail-font", "gdk-pixbuf-thumbnailer", "evince-thumbnailer", "totem-video-thumbnailer",
        "ffmpegthumbnailer", "gnome-desktop-thumbnailer", "thumbnail.so", "updatedb", "updatedb.plocate",
        "updatedb.mlocate", "mlocate", "recollindex",
    ]

    /// Programs that show people pictures of the files in a folder: their listings wait a moment for these.
    static let fileManagers = [
        "thunar", "Thunar", "nautilus", "nemo", "caja", "pcmanfm", "pcmanfm-qt", "dolphin", "krusader", "konqueror",
        "doublecmd", "spacefm", "io.elementary.files", "dde-file-manager", "xdg-desktop-portal-gtk",
        "xdg-desktop-portal-gnome", "xdg-desktop-portal-kde", "kio_file.so",
    ]

    var everywhere = Section()
    var accounts: [String: Section] = [:]

    /// The section that holds for one account; what it says for itself replaces what holds everywhere, globs add up.
    func section(for account: String) -> Section {
        guard let own = accounts[account] else { return everywhere }
        return Section(
            ignore: (everywhere.ignore ?? []) + (own.ignore ?? []),
            noMaterialize: own.noMaterialize ?? everywhere.noMaterialize,
            cacheSize: own.cacheSize ?? everywhere.cacheSize,
            thumbnails: own.thumbnails ?? everywhere.thumbnails,
            fileManagers: own.fileManagers ?? everywhere.fileManagers
        )
    }

    /// Where the file is looked for.
    static var path: String { BaseDirectories.configuration + "/cove/config.json5" }

    /// Reads the file; without one everything has its default.
    static func read(_ path: String = ConfigFile.path) throws(Failure) -> ConfigFile {
        guard access(path, F_OK) == 0 else { return ConfigFile() }
        let text: [UInt8]
        do throws(Errno) { text = try readAll(path) } catch {
            throw Failure(path, "\(error)", "make it readable, or remove it")
        }
        return try parse(text, path: path)
    }

    /// Reads the file's text.
    static func parse(_ text: [UInt8], path: String) throws(Failure) -> ConfigFile {
        let decoder = JSONDecoder()
        decoder.allowsJSON5 = true
        do {
            return try decoder.decode(ConfigFile.self, from: Data(text))
        } catch let error as DecodingError {
            if case .dataCorrupted(let context) = error, context.codingPath.isEmpty {
                let detail = context.underlyingError.map { "\($0)" } ?? context.debugDescription
                throw Failure(path, "this is not JSON5: \(detail)", "correct it, or remove it")
            }
            throw Failure(path, JSONError(error).description, "correct it, or remove it")
        } catch {
            throw Failure(path, "\(error)", "correct it, or remove it")
        }
    }

    private static func readAll(_ path: String) throws(Errno) -> [UInt8] {
        // It may lie elsewhere, behind a link, but is not waited for.
        let descriptor = try System.open(path, O_RDONLY | O_NONBLOCK)
        defer { System.close(descriptor) }
        let status = try System.fstat(descriptor)
        guard status.st_mode & S_IFMT == S_IFREG else { throw .invalidArgument }
        let size = Int(status.st_size)
        guard size <= 1 << 20 else { throw .fileTooLarge }
        var text = [UInt8](repeating: 0, count: size)
        let count = try text.withUnsafeMutableBytes { buffer in
            Result<Int, Errno> { () throws(Errno) in try System.pread(descriptor, buffer, 0) }
        }.get()
        text.removeSubrange(count...)
        return text
    }
}

extension ConfigFile: Decodable {
    fileprivate static let keys = ["ignore", "noMaterialize", "cacheSize", "thumbnails", "fileManagers"]

    init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: AnyKey.self)
        try members.refuseOthers(than: Self.keys + ["accounts"])
        everywhere = try Section(from: decoder, mayHold: Self.keys + ["accounts"])
        accounts = try members.decodeIfPresent([String: Section].self, forKey: AnyKey("accounts")) ?? [:]
    }
}

extension ConfigFile.Section: Decodable {
    init(from decoder: any Decoder) throws {
        try self.init(from: decoder, mayHold: ConfigFile.keys)
    }

    fileprivate init(from decoder: any Decoder, mayHold keys: [String]) throws {
        let members = try decoder.container(keyedBy: AnyKey.self)
        try members.refuseOthers(than: keys)
        ignore = try members.decodeIfPresent([String].self, forKey: AnyKey("ignore"))
        noMaterialize = try members.decodeIfPresent([String].self, forKey: AnyKey("noMaterialize"))
        cacheSize = try members.decodeIfPresent(String.self, forKey: AnyKey("cacheSize"))
        thumbnails = try members.decodeIfPresent(Bool.self, forKey: AnyKey("thumbnails"))
        fileManagers = try members.decodeIfPresent([String].self, forKey: AnyKey("fileManagers"))
        if let cacheSize, CacheSize(cacheSize) == nil {
            throw members.corrupted("cacheSize", "must be like \"20G\" or \"10%\"")
        }
    }
}

/// Any member's name.
private struct AnyKey: CodingKey {
    var stringValue: String
    var intValue: Int? { nil }
    init(_ name: String) { stringValue = name }
    init?(stringValue: String) { self.stringValue = stringValue }
    init?(intValue: Int) { nil }
}

extension KeyedDecodingContainer where Key == AnyKey {
    /// A misspelt member would do nothing, silently.
    fileprivate func refuseOthers(than known: [String]) throws {
        guard let unknown = allKeys.first(where: { !known.contains($0.stringValue) }) else { return }
        throw corrupted(unknown.stringValue, "is unknown; known are \(known.joined(separator: ", "))")
    }

    fileprivate func corrupted(_ name: String, _ what: String) -> DecodingError {
        .dataCorrupted(.init(codingPath: codingPath + [AnyKey(name)], debugDescription: what))
    }
}
