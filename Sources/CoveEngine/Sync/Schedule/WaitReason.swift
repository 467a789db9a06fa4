/// Why a row of the queue is not sent now, as a person is told it.
enum WaitReason: CaseIterable, Sendable {
    /// Nothing is sent at all.
    case readOnly, diskFailed, notPolled, throttled
    /// As much is on its way as the source bears.
    case transfers
    case onItsWay
    case settling
    /// A program writes to it, which is known before it is chosen, or found out when it is to be sent.
    case openForWriting, openOrClaimed
    case beingChanged
    /// What would be overwritten or deleted at the source is the only copy of what a program reads.
    case stillRead
    /// A file that may be the same document under the same name is not finished.
    case successor
    case databaseLog
    /// Its folder is not at the source: it waits to be sent itself, or nobody sends it.
    case folder, lostFolder
    /// A folder is to be deleted that is not empty at the source.
    case contents
    /// So much is to be deleted that a person is asked.
    case approval
    case otherChange
    case ring
    /// Another operation that is under way changes its path or its name.
    case blocked
    /// A directory may be elsewhere at the source; of what was deleted, or of what is to be sent.
    case deletedSought, sought
    case retry
    /// What the catalog has of it is damaged.
    case unreadable
    case unknown

    /// A part of a sentence that says it.
    var text: String {
        switch self {
        case .readOnly: "the account is mounted read-only: without --read-only it is sent"
        case .diskFailed: "the disk of the state can't be written to; `cove doctor` says what to do"
        case .notPolled: "what has changed at the source is looked at first, and the source has not told all of it"
        case .throttled: "the source is busy and asks for patience"
        case .transfers: "as much is on its way as the source bears at a time"
        case .onItsWay: "it is on its way, and the source has not taken it yet"
        case .settling: "it was changed a moment ago, and is sent once it rests"
        case .openForWriting: "a program has it open for writing"
        case .openOrClaimed: "a program has it open for writing, or claims it"
        case .beingChanged: "it is being changed, here or at the source"
        case .stillRead: "a program still reads its bytes, which are only at the source"
        case .successor: "a program is writing the file that takes its place"
        case .databaseLog: "the log of a database beside it is in use"
        case .folder: "its folder is not at the source yet"
        case .lostFolder: "its folder is not at the source and does not wait to be sent"
        case .contents: "what is in it at the source goes first"
        case .approval: "so many deletions wait for `cove sync --accept-local-deletions`"
        case .otherChange: "another change goes first"
        case .ring: "changes wait for each other"
        case .blocked: "it waits for another change, which is on its way"
        case .deletedSought: "what was deleted before is looked for at the source"
        case .sought: "it is looked for at the source"
        case .retry: "it is tried again soon"
        case .unreadable: "what is known of it can't be read: `cove doctor` says more"
        case .unknown: "it could go, and does not: `cove unmount` and `cove mount` may help"
        }
    }

    /// True for what a program or a person has so, or what is told otherwise, as by the row of a folder: it may last.
    var isOrdinary: Bool {
        switch self {
        case .readOnly, .diskFailed, .transfers, .settling, .openForWriting, .openOrClaimed, .stillRead, .successor,
            .databaseLog, .folder, .approval:
            true
        case .notPolled, .throttled, .onItsWay, .beingChanged, .lostFolder, .contents, .otherChange, .ring,
            .blocked, .deletedSought, .sought, .retry, .unreadable, .unknown:
            false
        }
    }
}
