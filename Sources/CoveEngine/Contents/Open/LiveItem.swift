internal import CoveCore
internal import Synchronization

/// One item in use: its descriptor, and the part of its row that changes with its bytes.
final class LiveItem: Sendable {
    /// What the lock guards; the content columns of the row are true here before they are in the catalog.
    struct State {
        /// The row as last read or saved, and changes not yet saved; nil until first needed.
        var row: ItemRow?
        /// What is here of a partial item.
        var ranges = RangeSet()
        /// The content file, or -1.
        var descriptor: Int32 = -1
        /// True while size or dates are newer than the catalog's.
        var hasUnsavedContent = false
        /// True while the disk is known to have lost bytes that only this device had; what is open then is about to be cut.
        var isLost = false
        /// True while ranges are newer than the catalog's.
        var hasUnsavedRanges = false
        /// True once the journal knows that bytes changed after the last snapshot.
        var isMarked = false
        /// What it held before the kernel could write to it by itself, until that is seen to have happened.
        var kept: KeptBytes?
        /// False while bytes came in that no close has followed: they are no content that a person had.
        var isSettled = true
        /// Writes that have left the lock and not come back.
        var writesInFlight = 0
        /// Monotonic nanoseconds of the last write.
        var lastWrite = MonotonicTime.distantPast
        /// Monotonic nanoseconds of when it was last opened for writing.
        var lastWriteOpen = MonotonicTime.distantPast
        /// The content file when last looked at, while programs may write to it past the daemon.
        var seen: ContentStamp?
        /// The upload that streams from the content file now.
        var snapshot: SnapshotToken?
        /// Fetches and those who wait for them.
        var fetching = Fetching()

        /// True for what a recovery left without a version; it is found by listing its folder again only.
        var isStandIn: Bool { row?.version?.bytes.isEmpty ?? false }

        /// What is known of its bytes; nil before the row is read.
        var bytes: FetchPlan.Bytes? {
            row.map { FetchPlan.Bytes(size: $0.size, here: ranges, isWhole: $0.residency == .whole) }
        }
    }

    let id: ItemID
    let state: EngineMutex<State>
    /// Its record in the ledger while it is open: nobody writes to one that has been given back.
    let record = EngineMutex<LedgerRecord?>(.liveRecord, nil)

    /// An item that was just made has a row that no other thread can read yet.
    init(id: ItemID, made row: ItemRow? = nil) {
        self.id = id
        var first = State()
        first.row = row
        // Its journal row is made with it.
        first.isMarked = row != nil
        state = EngineMutex(.item, first)
    }

    /// Puts what is not saved where it outlives the daemon; under the item's lock.
    func noteUnsaved(_ state: borrowing State) {
        let (row, seen) = (state.hasUnsavedContent ? state.row : nil, state.seen)
        record.withLock { record in
            if let row { record?.note(row) } else { record?.noteSaved() }
            // After what it was found to be: a death between the two only makes the next daemon look again.
            record?.note(seen: seen)
        }
    }

    deinit {
        // Nobody else has it any more: the lock is free, whatever this thread holds.
        let descriptor = state.withLockIfAvailable { $0.descriptor } ?? -1
        if descriptor >= 0 { System.close(descriptor) }
    }
}

/// Whether a snapshot still stands; guarded by its item's lock.
final class SnapshotToken: Sendable {
    private let aborted = Atomic<Bool>(false)

    /// Ends the snapshot: a byte of it is about to change.
    func abort() { aborted.store(true, ordering: .releasing) }

    var isAborted: Bool { aborted.load(ordering: .acquiring) }
}
