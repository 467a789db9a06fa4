extension Document {
    /// How a document is; the bits are those of UIDocument.
    public struct State: OptionSet, Sendable, Hashable {
        /// The bits.
        public let rawValue: UInt
        /// Takes bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }

        /// Open, to be edited, without conflict and error.
        public static let normal: State = []
        /// Not open: its properties may mean nothing.
        public static let closed = State(rawValue: 1)
        /// There are other sides of a conflict that nobody has dealt with.
        public static let inConflict = State(rawValue: 2)
        /// The last save or revert failed.
        public static let savingError = State(rawValue: 4)
        /// It must not be edited just now.
        public static let editingDisabled = State(rawValue: 8)
        /// It is being loaded or saved.
        public static let progressAvailable = State(rawValue: 16)
    }

    /// What a save does.
    public enum SaveOperation: Int, Sendable {
        /// Makes a file, maybe at another place, which the document then has.
        case forCreating = 0
        /// Replaces the contents of the document's file.
        case forOverwriting = 1
    }

    /// What happened to a document that is edited.
    public enum ChangeKind: Int, Sendable {
        /// An edit.
        case done = 0
        /// An edit was taken back.
        case undone = 1
        /// An edit that was taken back was done again.
        case redone = 2
        /// All was saved, or loaded anew.
        case cleared = 3
    }

    /// How a document was at one time.
    public struct ChangeToken: Sendable, Equatable {
        let state: Int
    }
}
