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
            let row = try load(id, &state)
            guard row.kind == .file else { throw Errno(ENODEV) }
            // What a program asks for in vain says nothing of the disk.
            try disk.requireSound()
            guard punches || disk.hasRoom(for: length) else { throw .noSpace }
            let extends = !keepsSize && offset + length > row.size
            guard extends || (punches || zeroes) && offset < row.size else {
                // No byte changes, and where not all are here, their room is not taken before they are.
                guard row.residency == .whole else { return }
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

    /// Copies bytes between two files without sending them through the program; short only at the source's end.
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
        let (descriptor, available) = try live.use(source) { item throws(Errno) in
            try item.state.withLock { state throws(Errno) -> (Int32, Int64) in
                let row = try load(source, &state)
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
                let step = try System.copyFileRange(
                    from: descriptor,
                    at: sourceOffset + copied,
                    to: output,
                    at: targetOffset + copied,
                    count: Int(available - copied)
                )
                if step == 0 { break }
                copied += Int64(step)
            }
            return Int(copied)
        }
    }
}
