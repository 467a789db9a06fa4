public import CoveCore
internal import Glibc
internal import Synchronization

/// What is asked of files: their bytes.
extension Engine {
    /// Drops local bytes of a document, or of all below a directory until one refuses; returns how many.
    public func evict(_ path: RemotePath) throws(EvictionError) -> Int64 { try contents.evict(path) }

    /// Opens an item and counts a handle; cutting it with `O_TRUNC` fetches nothing.
    public func open(_ id: ItemID, flags: Int32, _ caller: Caller) throws(Errno) -> Outcome<Void> {
        try access.admit(caller, id, flags & (O_ACCMODE | O_TRUNC) == O_RDONLY ? .reading : .writing)
        context.note(.claim, id, caller)
        return try contents.open(id, flags: flags, caller)
    }

    /// Finds bytes to read, or waits for exactly the missing ones.
    public func read(
        _ id: ItemID,
        offset: Int64,
        count: Int,
        thread: Int32 = 0
    ) throws(Errno) -> Outcome<ReadResult> { try contents.read(id, offset: offset, count: count, thread: thread) }

    /// Writes bytes through the body, which is called once with the content file's descriptor.
    public func write(
        _ id: ItemID,
        offset: Int64,
        count: Int,
        clearsPrivileges: Bool,
        _ body: (Int32) throws(Errno) -> Int
    ) throws(Errno) -> Int {
        try contents.write(id, offset: offset, count: count, clearsPrivileges: clearsPrivileges, body)
    }

    /// Commits size, dates and a journal row: what close(2) promises.
    public func flush(_ id: ItemID) throws(Errno) {
        try contents.flush(id)
        access.noteClosed(id)
    }

    /// Makes bytes and row durable.
    public func fsync(_ id: ItemID, dataOnly: Bool) throws(Errno) { try contents.fsync(id, dataOnly: dataOnly) }

    /// Commits what a handle that is about to be released left.
    public func finish(_ id: ItemID, flags: Int32) { contents.finish(id, flags: flags) }

    /// Counts a handle out, after the kernel has its answer; an item without a name goes with its last handle.
    public func release(_ id: ItemID, flags: Int32) {
        context.note(.close, id)
        contents.release(id, flags: flags)
    }

    /// True where nothing may be changed.
    public var isReadOnly: Bool { context.configuration.isReadOnly }

    /// From now on the kernel dates what programs write, as it does with its writeback cache.
    public func leaveDatesToKernel() { context.kernelKeepsDates.store(true, ordering: .relaxed) }

    /// From now on the kernel may read and write content files by itself.
    public func passThrough(by files: any BackingFiles) { contents.passThrough(by: files) }

    /// Remembers, for `cove doctor`, why the kernel may not, though a person has asked for it.
    public func doWithoutPassthrough(_ reason: String) { contents.doWithoutPassthrough(reason) }

    /// Why the disk of the state can't have it; nil when it can.
    public var passthroughObstacle: String? { contents.passthroughObstacle }

    /// The number by which the kernel is to read and write an open item by itself; nil for the normal way.
    public func backingNumber(of id: ItemID) -> UInt32? { contents.backingNumber(of: id) }

    /// Reserves or frees a part of a file; see fallocate(2) for keep-size, punch-hole and zero-range.
    public func allocate(_ id: ItemID, mode: Int32, offset: Int64, length: Int64) throws(Errno) {
        try contents.allocate(id, mode: mode, offset: offset, length: length)
    }

    /// Copies bytes between two files without sending them through the program; short only at the source's end.
    public func copyRange(
        from source: ItemID,
        at sourceOffset: Int64,
        to target: ItemID,
        at targetOffset: Int64,
        count: Int
    ) throws(Errno) -> Int {
        try contents.copyRange(from: source, at: sourceOffset, to: target, at: targetOffset, count: count)
    }
}
