internal import CoveCore

/// What is asked of the whole mount.
extension Engine {
    /// The cloud's room where it is known, else the disk's.
    public func fileSystemStatus() -> FileSystemStatus {
        let disk = contents.store.freeSpace() ?? .empty
        let quota = syncEngine?.knownQuota
        let total = quota?.total ?? disk.total
        let available = min(quota?.available ?? disk.available, disk.available)
        let block: Int64 = 4096
        return FileSystemStatus(
            blockSize: UInt64(block),
            totalBlocks: UInt64(max(0, total / block)),
            freeBlocks: UInt64(max(0, available / block)),
            availableBlocks: UInt64(max(0, available / block)),
            files: UInt64(Int32.max),
            freeFiles: UInt64(Int32.max) - 1,
            maximumNameLength: UInt64(FileName.maximumLength)
        )
    }
}
