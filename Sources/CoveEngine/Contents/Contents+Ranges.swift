internal import CLinux
internal import CoveCore
internal import Glibc
internal import Synchronization

/// Parts of files: reserved, freed, and copied without the program.
extension Contents {
    /// Reserves or frees a part of a file; see fallocate(2) for keep-size, punch-hole and zero-range.
    func allocate(_ id: ItemID, mode: Int32, offset: Int64, length: Int64) throws(Errno) {
        try requireWritable()
        let keepsSize = mode & FALLOC_FL_KEEP_SIZE != 0
        let punches = mode & FALLOC_FL_PUNCH_HOLE != 0
        let zeroes = mode & FALLOC_FL_ZERO_RANGE != 0
        guard mode & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE) == 0,
            !punches || keepsSize, !(punches && zeroes)
        else { throw .notSupported }
        guard offset >= 0, length > 0 else { throw .invalidArgument }
        guard offset <= Contents.maximumFileSize - length else { throw .fileTooLarge }
        let item = live.retain(id)
        defer { live.release(id) }
        try item.state.withLock { state throws(Errno) in
            let row = try loadBytes(id, &state)
            guard row.kind == .file else { throw Errno(ENODEV) }
            try disk.requireSound()
            let extends = !keepsSize && offset + length > row.size
            let changes = extends || (punches || zeroes) && offset < row.size
            // No byte changes, and where not all are here, their room is not taken before they are.
            if !changes, row.residency != .whole { return }
            // What a program asks for in vain says nothing of the disk.
            let missing = punches ? 0 : missingRoom(state, upTo: offset + length, atMost: length)
            guard missing == 0 || disk.hasRoom(for: missing) else { throw .noSpace }
            guard changes else {
                let descriptor = try descriptor(id, &state)
                return try System.fallocate(descriptor, mode: mode, offset: offset, length: length)
            }
            try mark(id, &state)
            let descriptor = try descriptor(id, &state)
            try System.fallocate(descriptor, mode: mode, offset: offset, length: length)
            if extends { try resize(item, &state, to: offset + length, clearsPrivilegesBy: nil) }
            guard punches || zeroes else { return }
            noteContentChange(item, &state) { _ in }
            // By growing it may have become whole.
            if let now = state.row, now.residency != .whole {
                // A hole at the end leaves the content file as short as it is, which is where bytes that are here would end.
                if Int64(try System.fstat(descriptor).st_size) < now.size { try System.ftruncate(descriptor, now.size) }
                let range = min(offset, now.size)..<min(offset + length, now.size)
                let added = noteLocalBytes(item, &state, range)
                try commitContent(item, &state, added: added)
                completeBase(item, &state)
            }
        }
    }

    /// How much of a part of a file that ends at an offset has no room on the disk yet.
    ///
    /// Which blocks a file has is not told, only how many.
    private func missingRoom(_ state: borrowing LiveItem.State, upTo end: Int64, atMost length: Int64) -> Int64 {
        guard state.descriptor >= 0, let status = try? System.fstat(state.descriptor) else { return length }
        return min(length, max(0, max(end, Int64(status.st_size)) - Int64(status.st_blocks) * 512))
    }

    /// What one call copies at most: it can't be ended, and takes room for all of it at first.
    static let copiedAtOnce = 64 << 20

    /// Copies bytes between two files without sending them through the program; short where there are no more, or as many as
    /// are copied at once, or what comes next can't be copied.
    ///
    /// `EOPNOTSUPP` when the source's bytes are not here: the kernel then reads and writes them.
    func copyRange(
        from source: ItemID,
        at sourceOffset: Int64,
        to target: ItemID,
        at targetOffset: Int64,
        count: Int
    ) throws(Errno) -> Int {
        try requireWritable()
        guard source != target else { throw .notSupported }
        guard sourceOffset >= 0 else { throw .invalidArgument }
        let count = min(count, Self.copiedAtOnce)
        let (descriptor, available) = try live.use(source) { item throws(Errno) in
            try item.state.withLock { state throws(Errno) -> (Int32, Int64) in
                let row = try loadBytes(source, &state)
                guard row.kind == .file, row.residency == .whole else { throw .notSupported }
                let end = min(row.size, sourceOffset.addingReportingOverflow(Int64(count)).partialValue)
                // A descriptor of its own: the item may be evicted while its bytes are copied.
                guard end > sourceOffset else { return (-1, 0) }
                return (dup(try self.descriptor(source, &state)), end - sourceOffset)
            }
        }
        guard available > 0 else { return 0 }
        defer { System.close(descriptor) }
        return try write(target, offset: targetOffset, count: Int(available), clearsPrivileges: false) {
            output throws(Errno) in
            var copied: Int64 = 0
            while copied < available {
                let step: Int
                do throws(Errno) {
                    step = try System.copyFileRange(
                        from: descriptor,
                        at: sourceOffset + copied,
                        to: output,
                        at: targetOffset + copied,
                        count: Int(available - copied)
                    )
                } catch {
                    // What is copied counts, else it would lie behind the end of the file; the next call meets the error.
                    if copied > 0 { break }
                    throw error
                }
                if step == 0 { break }
                copied += Int64(step)
            }
            return Int(copied)
        }
    }
}
