extension CoordinationInterface {
    /// What a claim is for.
    public enum IntentKind: String, Codable, Sendable {
        /// The contents are read.
        case reading
        /// The item is changed, made, moved or deleted.
        case writing
    }

    /// The options of a reading, by the names they have on the wire; the bits are those of the field.
    public enum ReadingOption: String, Codable, Sendable, CaseIterable {
        /// Presenters are not asked to save.
        case withoutChanges
        /// The claim is on what a symbolic link points at.
        case resolvesSymbolicLink
        /// Nothing is fetched.
        case immediatelyAvailableMetadataOnly
        /// The reader gets a snapshot, and the claim ends once it is made.
        case forUploading
    }

    /// The options of a writing, of which it has at most one.
    public enum WritingOption: String, Codable, Sendable, CaseIterable {
        /// The item will be deleted.
        case forDeleting
        /// The item will be moved or renamed.
        case forMoving
        /// Presenters are asked to save before.
        case forMerging
        /// Another item will take its place.
        case forReplacing
        /// Only metadata that has nothing to do with the contents will change.
        case contentIndependentMetadataOnly
    }

    /// What a presenter, or a session, is told or asked.
    public enum MessageKind: String, Codable, Sendable, CaseIterable {
        /// Let a reader in, and reply when it may.
        case relinquishToReader
        /// Let a writer in, and reply when it may.
        case relinquishToWriter
        /// The reader or writer that was let in is done.
        case reacquire
        /// Save what is unsaved.
        case saveChanges
        /// The item will be deleted.
        case accommodateDeletion
        /// An item inside will be deleted.
        case accommodateSubitemDeletion
        /// The item's local bytes are to go.
        case accommodateEviction
        /// The item is elsewhere now.
        case didMove
        /// The item has changed.
        case didChange
        /// What the cloud knows of the item has changed.
        case didChangeAttributes
        /// An item was made inside.
        case subitemDidAppear
        /// An item inside, or moved out or in, is elsewhere now.
        case subitemDidMove
        /// An item inside has changed.
        case subitemDidChange
        /// The item has a new version.
        case didGainVersion
        /// A version of the item is gone.
        case didLoseVersion
        /// A conflict of the item is dealt with.
        case didResolveVersion
        /// An item inside has a new version.
        case subitemDidGainVersion
        /// A version of an item inside is gone.
        case subitemDidLoseVersion
        /// A conflict of an item inside is dealt with.
        case subitemDidResolveVersion
        /// To a session: is it alive?
        case ping
        /// To a session: it did not answer, and others got the claim.
        case claimLost

        /// True where a claim waits for the reply.
        public var wantsReply: Bool {
            switch self {
            case .relinquishToReader, .relinquishToWriter, .saveChanges, .accommodateDeletion,
                .accommodateSubitemDeletion, .accommodateEviction, .ping:
                true
            case .reacquire, .didMove, .didChange, .didChangeAttributes, .subitemDidAppear, .subitemDidMove,
                .subitemDidChange, .didGainVersion, .didLoseVersion, .didResolveVersion, .subitemDidGainVersion,
                .subitemDidLoseVersion, .subitemDidResolveVersion, .claimLost:
                false
            }
        }
    }
}
