internal import CoveCore

extension FileCoordinator {
    /// How an item is to be read; the bits are those of NSFileCoordinator.
    public struct ReadingOptions: OptionSet, Sendable, Hashable {
        /// The bits.
        public let rawValue: UInt
        /// Takes bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }

        /// Presenters are not asked to save what is unsaved.
        public static let withoutChanges = ReadingOptions(rawValue: 1)
        /// The accessor gets the URL of what a symbolic link points at; the claim is on that in any case.
        public static let resolvesSymbolicLink = ReadingOptions(rawValue: 2)
        /// Only what is known of the item without its contents is read: nothing is fetched.
        public static let immediatelyAvailableMetadataOnly = ReadingOptions(rawValue: 4)
        /// The reader gets a snapshot (of a directory: one zip file), and the claim ends once that is made.
        public static let forUploading = ReadingOptions(rawValue: 8)

        /// The options as the daemon knows them.
        var wire: [CoordinationInterface.ReadingOption] {
            CoordinationInterface.ReadingOption.allCases.filter { contains(Self.bit($0)) }
        }

        private static func bit(_ option: CoordinationInterface.ReadingOption) -> ReadingOptions {
            switch option {
            case .withoutChanges: .withoutChanges
            case .resolvesSymbolicLink: .resolvesSymbolicLink
            case .immediatelyAvailableMetadataOnly: .immediatelyAvailableMetadataOnly
            case .forUploading: .forUploading
            }
        }
    }

    /// What a writer is about to do; one at most, none for an ordinary change.
    ///
    /// The bits are those of NSFileCoordinator.
    public struct WritingOptions: OptionSet, Sendable, Hashable {
        /// The bits.
        public let rawValue: UInt
        /// Takes bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }

        /// The item will be deleted: nobody uses what is inside, either.
        public static let forDeleting = WritingOptions(rawValue: 1)
        /// The item will be moved or renamed.
        public static let forMoving = WritingOptions(rawValue: 2)
        /// Presenters save what is unsaved before.
        public static let forMerging = WritingOptions(rawValue: 4)
        /// Another item will take its place, or there is none yet.
        ///
        /// Not for saving the same document.
        public static let forReplacing = WritingOptions(rawValue: 8)
        /// Only metadata that has nothing to do with the contents changes, such as a tag: nothing is fetched.
        public static let contentIndependentMetadataOnly = WritingOptions(rawValue: 16)

        /// The options as the daemon knows them.
        var wire: [CoordinationInterface.WritingOption] {
            CoordinationInterface.WritingOption.allCases.filter { contains(Self.bit($0)) }
        }

        private static func bit(_ option: CoordinationInterface.WritingOption) -> WritingOptions {
            switch option {
            case .forDeleting: .forDeleting
            case .forMoving: .forMoving
            case .forMerging: .forMerging
            case .forReplacing: .forReplacing
            case .contentIndependentMetadataOnly: .contentIndependentMetadataOnly
            }
        }
    }
}
