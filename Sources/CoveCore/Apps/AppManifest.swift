/// What an app says of itself and of its containers: the keys of an Info.plist and of its entitlements, in one object.
///
/// Nothing in it is believed beyond what the account allows: a container that another app owns stays that app's.
public struct AppManifest: Sendable, Equatable {
    /// What a manifest says of one container.
    public struct Container: Sendable, Equatable {
        /// `NSUbiquitousContainerIsDocumentScopePublic`: other apps may be offered its documents.
        public var isPublic: Bool
        /// `NSUbiquitousContainerName`: what people see; nil where the identifier has to do.
        public var name: String?
        /// `NSUbiquitousContainerSupportedFolderLevels`: how many levels of folders it shows.
        public var folderLevels: FolderLevels

        /// Describes a container.
        public init(isPublic: Bool = false, name: String? = nil, folderLevels: FolderLevels = .any) {
            self.isPublic = isPublic
            self.name = name
            self.folderLevels = folderLevels
        }
    }

    /// How many levels of folders a container shows in its documents.
    public enum FolderLevels: String, Codable, Sendable {
        /// No folders.
        case none = "None"
        /// Folders, but none in them.
        case one = "One"
        /// Folders in folders.
        case any = "Any"

        /// How many levels that are; nil where there is no end.
        public var count: Int? {
            switch self {
            case .none: 0
            case .one: 1
            case .any: nil
            }
        }
    }

    /// `CFBundleIdentifier`.
    public var identifier: AppIdentifier
    /// `CFBundleName`: what people see; nil where the identifier has to do.
    public var name: String?
    /// `CFBundleVersion` or `BundleVersion`: what else has changed is heeded only where this has.
    public var version: String
    /// The containers of the app, its own one first.
    public var containers: [AppIdentifier]
    /// What it says of containers.
    public var descriptions: [AppIdentifier: Container]

    /// `CoveExecutables`: the files, by their absolute paths, whose programs are the app's on this device; nil where it says nothing.
    public var executables: [String]?
    /// `CoveSystemdUnits`: the units whose programs are the app's on this device; nil where it says nothing.
    public var units: [String]?

    /// The most bytes that a manifest may have.
    public static let greatestSize = 256 << 10
    private static let mostContainers = 64
    private static let mostPrograms = 32
    private static let mostNameBytes = 128

    /// Describes an app.
    public init(
        identifier: AppIdentifier,
        name: String? = nil,
        version: String = "1",
        containers: [AppIdentifier] = [],
        descriptions: [AppIdentifier: Container] = [:]
    ) {
        self.identifier = identifier
        self.name = name
        self.version = version
        self.containers = containers
        self.descriptions = descriptions
    }

    /// Reads a manifest; `identifier` is who it must be of, where that is known.
    public init(_ value: JSONValue, of identifier: AppIdentifier? = nil) throws(ManifestError) {
        guard case .object(let members) = value else { throw ManifestError("it is no object") }
        var found = identifier
        if let text = try Self.text(members, ["CFBundleIdentifier", "BundleIdentifier"]) {
            guard let named = AppIdentifier(text) else { throw ManifestError("CFBundleIdentifier is no identifier") }
            if let identifier, identifier != named { throw ManifestError("it is of \(named), not of \(identifier)") }
            found = named
        }
        guard let found else { throw ManifestError("it has no CFBundleIdentifier") }
        self.identifier = found
        name = try Self.label(members, "CFBundleName")
        version = try Self.text(members, ["CFBundleVersion", "BundleVersion"]) ?? "1"
        guard version.utf8.count <= Self.mostNameBytes else { throw ManifestError("CFBundleVersion is too long") }
        containers = []
        for key in Self.listKeys {
            guard let value = members[key] else { continue }
            guard case .array(let list) = value else { throw ManifestError("\(key) is no list") }
            for member in list {
                guard let text = member.text, let container = AppIdentifier(text) else {
                    throw ManifestError("\(key) has what is no identifier")
                }
                if !containers.contains(container) { containers.append(container) }
            }
        }
        descriptions = [:]
        if let value = members["NSUbiquitousContainers"] {
            guard case .object(let list) = value else { throw ManifestError("NSUbiquitousContainers is no dictionary") }
            for (key, value) in list.sorted(by: { $0.key < $1.key }) {
                guard let container = AppIdentifier(key) else { throw ManifestError("\(key) is no identifier") }
                guard case .object(let keys) = value else { throw ManifestError("\(key) is no dictionary") }
                descriptions[container] = try Self.container(keys)
                if !containers.contains(container) { containers.append(container) }
            }
        }
        guard containers.count <= Self.mostContainers else { throw ManifestError("it has too many containers") }
        executables = try Self.programs(members, "CoveExecutables") { path in
            path.hasPrefix("/") && path.utf8.count < 4096 && !path.utf8.contains(0) ? nil : "no absolute path"
        }
        units = try Self.programs(members, "CoveSystemdUnits", SystemdUnit.problem)
        // The key's former place: it holds for all of the app's containers.
        if try Self.truth(members, Self.publicKey) == true {
            for container in containers { descriptions[container, default: Container()].isPublic = true }
            isPublicThroughout = true
        }
    }

    /// True where the key stands outside of any container, and so holds for those that the app is given later.
    public var isPublicThroughout = false

    /// What the manifest says of a container.
    public func description(of container: AppIdentifier) -> Container {
        descriptions[container] ?? Container(isPublic: isPublicThroughout)
    }

    private static let publicKey = "NSUbiquitousContainerIsDocumentScopePublic"
    private static let listKeys = [
        "com.apple.developer.ubiquity-container-identifiers", "com.apple.developer.icloud-container-identifiers",
    ]

    /// A list of what the app's programs are known by.
    private static func programs(
        _ members: [String: JSONValue],
        _ key: String,
        _ problem: (String) -> String?
    ) throws(ManifestError) -> [String]? {
        guard let value = members[key] else { return nil }
        guard case .array(let list) = value, list.count <= mostPrograms else {
            throw ManifestError("\(key) is no list of at most \(mostPrograms)")
        }
        var programs: [String] = []
        for member in list {
            guard let text = member.text else { throw ManifestError("\(key) has what is no text") }
            if let problem = problem(text) { throw ManifestError("\(key) has \(problem)") }
            if !programs.contains(text) { programs.append(text) }
        }
        return programs
    }

    private static func container(_ keys: [String: JSONValue]) throws(ManifestError) -> Container {
        var container = Container(
            isPublic: try truth(keys, publicKey) ?? false,
            name: try label(keys, "NSUbiquitousContainerName")
        )
        if let text = try text(keys, "NSUbiquitousContainerSupportedFolderLevels") {
            guard let levels = FolderLevels(rawValue: text) else {
                throw ManifestError("NSUbiquitousContainerSupportedFolderLevels is not None, One or Any")
            }
            container.folderLevels = levels
        }
        return container
    }

    private static func text(_ members: [String: JSONValue], _ key: String) throws(ManifestError) -> String? {
        switch members[key] {
        case nil, .null: return nil
        case .string(let text): return text
        case .integer(let number): return String(number)
        case .double(let number): return String(number)
        default: throw ManifestError("\(key) is no text")
        }
    }

    /// The value of the first of some keys that is there.
    private static func text(_ members: [String: JSONValue], _ keys: [String]) throws(ManifestError) -> String? {
        for key in keys { if let text = try text(members, key) { return text } }
        return nil
    }

    /// A name that people see, and a folder may have.
    private static func label(_ members: [String: JSONValue], _ key: String) throws(ManifestError) -> String? {
        guard let label = try text(members, key) else { return nil }
        if let problem = problem(withName: label) { throw ManifestError("\(key): \(problem)") }
        return label
    }

    /// What keeps a text from being a container's name in the tree; nil where nothing does.
    public static func problem(withName name: String) -> String? {
        if let problem = FileName.problem(with: Array(name.utf8)) { return problem }
        if name.utf8.count > mostNameBytes { return "a name over \(mostNameBytes) bytes" }
        if name.hasPrefix(".") { return "a name that begins with a dot" }
        if name.utf8.elementsEqual(DriveFolder.name.bytes) { return "the name \"\(name)\"" }
        if name.unicodeScalars.contains(where: { $0.value < 0x20 || (0x7F...0x9F).contains($0.value) }) {
            return "a name with control characters"
        }
        return nil
    }

    private static func truth(_ members: [String: JSONValue], _ key: String) throws(ManifestError) -> Bool? {
        switch members[key] {
        case nil, .null: return nil
        case .bool(let truth): return truth
        case .integer(0): return false
        case .integer(1): return true
        case .string(let text) where ["YES", "true"].contains(text): return true
        case .string(let text) where ["NO", "false"].contains(text): return false
        default: throw ManifestError("\(key) is not true or false")
        }
    }
}

/// What is wrong with a manifest, in a few words.
public struct ManifestError: Error, Sendable, Equatable, CustomStringConvertible {
    /// What is wrong.
    public let description: String
    /// Describes an error.
    public init(_ description: String) { self.description = description }
}
