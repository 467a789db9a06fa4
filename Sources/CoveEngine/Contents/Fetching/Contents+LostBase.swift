internal import CLinux
internal import CoveCore
internal import Glibc
internal import Synchronization

/// Files that were changed here while a part of them was only at the provider, where it is no more.
extension Contents {
    /// False for a file of which no byte is here: cutting it left nothing of its own.
    func hasOwnBytes(_ row: ItemRow, _ database: Database) throws(Errno) -> Bool {
        switch row.residency {
        case .whole: true
        case .dataless: false
        case .partial: try !database.ranges(of: row.id).isEmpty && store.hasBytes(row.id)
        }
    }

    /// How many bytes of a file are gone with its base; nil when nothing is here that a program wrote or read.
    func bytesWithoutBase(_ id: ItemID) throws(Errno) -> Int64? {
        try live.use(id) { item throws(Errno) in
            try item.state.withLock { state throws(Errno) -> Int64? in
                let row = try load(id, &state)
                guard row.kind == .file, row.residency != .whole else { return 0 }
                guard !state.ranges.isEmpty, store.hasBytes(id) else { return nil }
                let gaps = state.ranges.missing(in: 0..<row.size)
                return gaps.reduce(0) { $0.saturatingAdd($1.upperBound - $1.lowerBound) }
            }
        }
    }

    /// Ends the wait for the rest of a changed file: what is here is all of it, and zeros are where bytes are gone.
    func endWithoutBase(_ id: ItemID) throws(Errno) {
        try live.use(id) { item throws(Errno) in
            try item.state.withLock { state throws(Errno) in
                let row = try load(id, &state)
                guard row.kind == .file, row.residency != .whole else { return }
                // Nothing is left of it: whoever comes next finds that out.
                guard !state.ranges.isEmpty, store.hasBytes(id) else { return }
                let gaps = state.ranges.missing(in: 0..<row.size)
                try mark(id, &state)
                let descriptor = try descriptor(id, &state)
                try disk.writing("the rest of a file") { () throws(Errno) in
                    try System.ftruncate(descriptor, row.size)
                    for gap in gaps { try clear(gap, of: descriptor) }
                }
                noteContentChange(item, &state) { changed in
                    changed.residency = .whole
                    changed.modificationTime = row.modificationTime
                }
                state.ranges = RangeSet()
                state.fetching.plan.wantsAll = false
                answerWaiters(&state)
                try commitContent(item, &state)
            }
        }
    }

    /// What a crash left of dropped bytes is not shown.
    private func clear(_ range: Range<Int64>, of descriptor: Int32) throws(Errno) {
        let mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
        let length = range.upperBound - range.lowerBound
        do throws(Errno) {
            try System.fallocate(descriptor, mode: mode, offset: range.lowerBound, length: length)
        } catch {
            guard error == .notSupported else { throw error }
            let zeros = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 16)
            defer { zeros.deallocate() }
            zeros.initializeMemory(as: UInt8.self, repeating: 0)
            var position = range.lowerBound
            while position < range.upperBound {
                let count = Int(min(Int64(zeros.count), range.upperBound - position))
                try System.pwriteAll(descriptor, UnsafeRawBufferPointer(rebasing: zeros[..<count]), position)
                position += Int64(count)
            }
        }
    }
}
