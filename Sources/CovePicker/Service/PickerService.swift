public import CoveCore

/// What the picker's faces ask: where documents are, what is in a folder, and to carry out what a person chose.
///
/// Every call may block and is made on a thread of its own, several at a time; none from Swift's cooperative pool.
public protocol PickerService: Sendable {
    /// What the picker is for.
    var request: PickerRequest { get }

    /// The places that are offered: the shared drive, and each container that its owner offers.
    func roots() throws(PickerFailure) -> [PickerRoot]

    /// Lists a folder of a root, and hands what it finds to the body, part by part, in no order.
    ///
    /// Nothing is downloaded for it. Ends early, with `PickerFailure.interrupted`, once the interruption comes.
    func list(
        _ folder: [UInt8],
        interruption: Interruption,
        _ body: ([PickerEntry]) -> Void
    ) throws(PickerFailure)

    /// The PNG file of a document's picture; nil where it has none.
    func thumbnail(_ path: [UInt8]) throws(PickerFailure) -> [UInt8]?

    /// Carries out a choice.
    ///
    /// A failure has changed nothing, and another choice may follow. Ends early, with `PickerFailure.interrupted`, once the
    /// interruption comes.
    func choose(
        _ selection: PickerSelection,
        interruption: Interruption
    ) throws(PickerFailure) -> PickerOutcome

    /// The person has left without a choice; nothing may have changed.
    func cancel()
}

/// What a picked document is for.
public enum PickerMode: String, Sendable, CaseIterable {
    /// The program gets a copy of its own.
    case `import`
    /// The program works on the document itself.
    case open
    /// A copy of the program's file goes to a folder.
    case export
    /// The program's file itself goes to a folder.
    case move

    /// True where a folder and a name are chosen instead of a document.
    public var choosesFolder: Bool { self == .export || self == .move }
}

/// What a program asks the picker for.
public struct PickerRequest: Sendable {
    /// The program, by its application id.
    public var app: String
    /// What is to be done.
    public var mode: PickerMode
    /// Which documents can be chosen, for `import` and `open`.
    public var filter: TypeFilter
    /// The absolute path of the file that goes to a folder, for `export` and `move`.
    public var file: [UInt8]?

    /// Makes a request.
    public init(app: String, mode: PickerMode, filter: TypeFilter, file: [UInt8]? = nil) {
        self.app = app
        self.mode = mode
        self.filter = filter
        self.file = file
    }

    /// How long the end of a face waits for a choice that was given up to take away what it has made.
    static let patienceAtEnd = TimeSpan.seconds(2)

    /// The name that the file has where no other is given.
    public var fileName: String {
        guard let file else { return "" }
        return String(decoding: file.split(separator: UInt8(ascii: "/")).last ?? [], as: UTF8.self)
    }
}

/// A place where documents are looked for.
public struct PickerRoot: Sendable, Equatable {
    /// What people call it.
    public var name: String
    /// Its absolute path in the mount.
    public var path: [UInt8]
    /// What programs call it: a container's identifier, or the account's name.
    public var identifier: String
    /// What people should know before they go there: that it does not answer; nil for nothing.
    public var note: String?

    /// Names a place.
    public init(name: String, path: [UInt8], identifier: String, note: String? = nil) {
        self.name = name
        self.path = path
        self.identifier = identifier
        self.note = note
    }
}

/// One item of a folder.
public struct PickerEntry: Sendable, Equatable {
    /// What an item is, as far as the picker is concerned.
    public enum Kind: String, Sendable {
        /// A regular file.
        case file
        /// A directory to go into.
        case folder
        /// A directory that people see as one file.
        case package
        /// Neither.
        case other
    }

    /// Where an item's bytes are.
    public enum State: String, Sendable {
        /// Not on this device.
        case dataless
        /// On their way to this device.
        case downloading
        /// On this device.
        case local
        /// Changed here and not yet at the source.
        case uploading
        /// The last transfer failed.
        case error
    }

    /// The name's bytes.
    public var name: [UInt8]
    /// What it is.
    public var kind: Kind
    /// Size in bytes; 0 for a directory.
    public var size: Int64
    /// Seconds since 1970 of the last change.
    public var modificationTime: Double
    /// The MIME type.
    public var type: String
    /// Where the bytes are.
    public var state: State
    /// True where it can be chosen, by the types that the program names.
    public var isSelectable: Bool

    /// Makes an entry.
    public init(
        name: [UInt8],
        kind: Kind,
        size: Int64,
        modificationTime: Double,
        type: String,
        state: State,
        isSelectable: Bool
    ) {
        self.name = name
        self.kind = kind
        self.size = size
        self.modificationTime = modificationTime
        self.type = type
        self.state = state
        self.isSelectable = isSelectable
    }

    /// The uniform type identifier.
    public var uniformType: String {
        kind == .package ? "com.apple.package" : UniformType.identifier(ofMIME: type)
    }

    /// The name on one line, without control characters.
    public var shownName: String { String(decoding: name, as: UTF8.self).escapingControls }
}

/// What a person chose.
public struct PickerSelection: Sendable, Equatable {
    /// The absolute path of the document; for `export` and `move`, of the folder.
    public var path: [UInt8]
    /// For `export` and `move`, the name that was given; nil for the file's own, or one like it that is free.
    public var name: [UInt8]?

    /// Makes a selection.
    public init(path: [UInt8], name: [UInt8]? = nil) {
        self.path = path
        self.name = name
    }
}

/// What came of a choice.
public struct PickerOutcome: Sendable, Equatable {
    /// The absolute path that the program gets.
    public var path: [UInt8]
    /// What is told beside it with `--json`.
    public var members: [String: JSONValue]

    /// Makes an outcome.
    public init(path: [UInt8], members: [String: JSONValue] = [:]) {
        self.path = path
        self.members = members
    }
}

/// Why something could not be done, in words for people.
public struct PickerFailure: Error, Sendable, Equatable {
    /// What it is about; nil where there is nothing to name.
    public var subject: String?
    /// What happened.
    public var what: String
    /// What to do about it.
    public var remedy: String?
    /// What a system call would have failed with; nil for other reasons.
    public var errno: Errno?

    /// Says what happened.
    public init(_ subject: String?, _ what: String, _ remedy: String? = nil, errno: Errno? = nil) {
        self.subject = subject
        self.what = what
        self.remedy = remedy
        self.errno = errno
    }

    /// The wait was given up.
    public static let interrupted = PickerFailure(nil, "it was given up", errno: .interrupted)

    /// One line for a person, its subject first.
    public var line: String { (subject.map { "\($0): " } ?? "") + what + (remedy.map { "; \($0)" } ?? "") }
}
